/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include "group/group.h"

tutti_status group_open_device(struct tutti_group *group, int32_t type, int local_rank,
                               struct device **ret_device)
{
    const struct device_choice *choice = &group->device_choice;
    struct device *device = atomic_load(&group->device);
    void *none = NULL;

    if (!device) {
        const tutti_status status =
            device_open(type, choice->type == type ? choice->number : -1, local_rank, &device);
        if (status)
            return status;
        atomic_store(&group->device, device);
        (void)atomic_compare_exchange_strong(&group->context->engine.device, &none, device);
    }
    *ret_device = device;
    return TUTTI_OK;
}
