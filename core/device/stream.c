/* SPDX-License-Identifier: Apache-2.0 */
/* To free a stream may wait for what is on others, so streams are kept until the process ends, as devices are. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "device/device_inside.h"

struct idle_stream {
    struct idle_stream *next;
    void *stream;
};

static struct idle_stream *take_idle(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    struct idle_stream *idle = device->streams;

    if (idle)
        device->streams = idle->next;
    return idle;
}

static bool has_idle(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    return device->streams != NULL;
}

tutti_status device_stream_prepare(struct device *device)
{
    void *stream = NULL;

    if (has_idle(device))
        return TUTTI_OK;
    const tutti_status status = device_ops(device)->stream_create(device->accelerator, &stream);
    if (!status)
        device_stream_give(device, stream);
    return status;
}

tutti_status device_stream_take(struct device *device, void **ret_stream)
{
    AUTOFREE struct idle_stream *idle = take_idle(device);

    if (!idle)
        return device_ops(device)->stream_create(device->accelerator, ret_stream);
    *ret_stream = idle->stream;
    return TUTTI_OK;
}

void device_stream_give(struct device *device, void *stream)
{
    struct idle_stream *idle = malloc(sizeof *idle);

    if (!idle)
        return; /* it stays open, and unused */
    idle->stream = stream;
    LOCK_SCOPE(&device->lock);
    idle->next = device->streams;
    device->streams = idle;
}
