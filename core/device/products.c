/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a tensor on a device, on the stream of a call. One factor goes with the kernel. Of many a copy in pinned
 * memory is read by the kernel, and given back with an event behind it: the program may free them at once.
 */
#include <string.h>

#include "device/device_inside.h"

static tutti_status multiply_by_each(struct device *device, const struct device_products *what)
{
    const uint64_t bytes = what->count * tutti_dtype_size(what->dtype);
    const tutti_device_ops *ops = device_ops(device);
    struct pinned *pinned = NULL;
    tutti_status status = pinned_take(device, bytes, &pinned);

    if (status)
        return status;
    memcpy(pinned->memory, what->factors, bytes);
    const tutti_device_reduction product = {.struct_size = sizeof product,
                                            .dtype = what->dtype,
                                            .op = TUTTI_PRODUCT,
                                            .dst = what->dst,
                                            .first = what->src,
                                            .rest = pinned->memory,
                                            .stride = bytes,
                                            .count = what->count,
                                            .operands = 2};
    status = ops->reduce(device->accelerator, what->stream, &product);
    const tutti_status recorded = ops->event_record(pinned->event, what->stream);
    pinned_give(device, pinned, true);
    return status ? status : recorded;
}

tutti_status device_multiply(struct device *device, const struct device_products *what)
{
    if (!what->count)
        return TUTTI_OK;
    if (!what->one_factor)
        return multiply_by_each(device, what);
    return device_ops(device)->scale(device->accelerator, what->stream, what->dtype, what->dst,
                                     what->src, what->count, what->factors, 0);
}
