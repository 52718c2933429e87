/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of an engine for devices has a mark, so marks are kept for the next calls: to make and free an event are calls
 * of the driver. Those that wait for an event wait for its last record before they began, so another one does them no
 * harm. Devices stay open until the process ends, and their marks with them.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "device/device_inside.h"

enum { IDLE_MARKS = 1024 };

struct device_mark {
    struct device_mark *next; /* of the idle ones */
    struct device *device;
    tutti_device_event *event;
    uint32_t users;
};

static struct device_mark *take_idle(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    struct device_mark *mark = device->marks;

    if (mark) {
        device->marks = mark->next;
        device->idle_marks--;
    }
    return mark;
}

static tutti_status make(struct device *device, struct device_mark **ret_mark)
{
    struct device_mark *mark = calloc(1, sizeof *mark);

    if (!mark)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an event of %s", device->name);
    mark->device = device;
    const tutti_status status = device_ops(device)->event_create(device->accelerator, &mark->event);
    if (status)
        free(mark);
    else
        *ret_mark = mark;
    return status;
}

tutti_status device_mark(struct device *device, void *stream, struct device_mark **ret_mark)
{
    struct device_mark *mark = take_idle(device);
    tutti_status status = mark ? TUTTI_OK : make(device, &mark);

    if (status)
        return status;
    mark->users = 1;
    status = device_ops(device)->event_record(mark->event, stream);
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

static bool keep(struct device_mark *mark)
{
    struct device *device = mark->device;

    LOCK_SCOPE(&device->lock);
    if (device->idle_marks == IDLE_MARKS)
        return false;
    mark->next = device->marks;
    device->marks = mark;
    device->idle_marks++;
    return true;
}

struct device_mark *device_mark_share(struct device_mark *mark)
{
    mark->users++;
    return mark;
}

void device_mark_free(struct device_mark *mark)
{
    if (!mark || --mark->users || keep(mark))
        return;
    device_ops(mark->device)->event_free(mark->event);
    free(mark);
}
