/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/error.h"
#include "device/device_inside.h"

struct device_mark {
    struct device *device;
    tutti_device_event *event;
};

tutti_status device_mark(struct device *device, void *stream, struct device_mark **ret_mark)
{
    const tutti_device_ops *ops = device_ops(device);
    struct device_mark *mark = calloc(1, sizeof *mark);

    if (!mark)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an event of %s", device->name);
    mark->device = device;
    tutti_status status = ops->event_create(device->accelerator, &mark->event);
    if (!status)
        status = ops->event_record(mark->event, stream);
    if (status) {
        device_mark_free(mark);
        return status;
    }
    *ret_mark = mark;
    return TUTTI_OK;
}

tutti_status device_mark_passed(const struct device_mark *mark)
{
    return device_ops(mark->device)->event_query(mark->event);
}

tutti_status device_mark_wait(const struct device_mark *mark, void *stream)
{
    return device_ops(mark->device)->event_wait(mark->event, mark->device->accelerator, stream);
}

void device_mark_free(struct device_mark *mark)
{
    if (!mark)
        return;
    device_ops(mark->device)->event_free(mark->event);
    free(mark);
}
