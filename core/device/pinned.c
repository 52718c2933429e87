/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of pinned memory of a device. Making some takes the driver a millisecond and more, and may wait for what is
 * on streams, so memory is kept for later calls, in classes of sizes.
 *
 * A call may end while its stream has not come to the copy yet: it failed, or the copy back is only on the stream.
 * So memory is given back with an event, and taken again when that has passed. Only the thread that takes memory frees
 * what there is too much of, since freeing blocks. It does so only while no stream waits for a word of ours: drivers do
 * not free pinned memory before all such waits are over, and this thread may be the one that ends them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "device/device_inside.h"

static uint64_t class_bytes(int size_class)
{
    return UINT64_C(1) << (PINNED_SMALLEST + size_class);
}

static int class_of(uint64_t bytes)
{
    int size_class = 0;

    while (size_class < PINNED_CLASSES && class_bytes(size_class) < bytes)
        size_class++;
    return size_class;
}

/* Under the device's lock, here and below. */
static void put_idle(struct device *device, struct pinned *pinned)
{
    pinned->next = device->idle[pinned->size_class];
    device->idle[pinned->size_class] = pinned;
    device->idle_bytes += class_bytes(pinned->size_class);
}

/* Makes idle what streams no longer use. A device that has failed says so of each event: its memory is not used
 * again. */
static void collect(struct device *device)
{
    struct pinned **at = &device->pending;

    while (*at) {
        struct pinned *pinned = *at;

        if (device_ops(device)->event_query(pinned->event)) {
            at = &pinned->next;
            continue;
        }
        *at = pinned->next;
        put_idle(device, pinned);
    }
    device->last_pending = at;
}

static struct pinned *take_idle(struct device *device, int size_class)
{
    LOCK_SCOPE(&device->lock);
    if (device->pending)
        collect(device);
    struct pinned *pinned = device->idle[size_class];
    if (pinned) {
        device->idle[size_class] = pinned->next;
        device->idle_bytes -= class_bytes(size_class);
    }
    return pinned;
}

static void free_pinned(struct device *device, struct pinned *pinned)
{
    device_ops(device)->event_free(pinned->event);
    device_ops(device)->release(device->accelerator, TUTTI_MEMORY_PINNED, pinned->memory);
    free(pinned);
}

/* The largest of what is more than may be idle. */
static struct pinned *take_surplus(struct device *device, uint64_t most)
{
    LOCK_SCOPE(&device->lock);
    for (int i = PINNED_CLASSES - 1; device->idle_bytes > most && !device->words_taken && i >= 0;
         i--) {
        struct pinned *pinned = device->idle[i];

        if (!pinned)
            continue;
        device->idle[i] = pinned->next;
        device->idle_bytes -= class_bytes(i);
        return pinned;
    }
    return NULL;
}

static void trim_to(struct device *device, uint64_t most)
{
    struct pinned *pinned;

    while ((pinned = take_surplus(device, most)))
        free_pinned(device, pinned);
}

void pinned_trim(struct device *device)
{
    trim_to(device, PINNED_IDLE_BYTES);
}

static tutti_status make(struct device *device, int size_class, struct pinned **ret_pinned)
{
    AUTOFREE struct pinned *pinned = calloc(1, sizeof *pinned);

    if (!pinned)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a tensor of %s", device->name);
    pinned->size_class = size_class;
    tutti_status status = device_ops(device)->event_create(device->accelerator, &pinned->event);
    if (status)
        return status;
    status = device_ops(device)->allocate(device->accelerator, TUTTI_MEMORY_PINNED,
                                          class_bytes(size_class), &pinned->memory);
    if (status == TUTTI_ERR_NO_MEMORY) { /* what is idle may be in the way */
        trim_to(device, 0);
        status = device_ops(device)->allocate(device->accelerator, TUTTI_MEMORY_PINNED,
                                              class_bytes(size_class), &pinned->memory);
    }
    if (status) {
        device_ops(device)->event_free(pinned->event);
        return status;
    }
    *ret_pinned = TAKE(pinned);
    return TUTTI_OK;
}

tutti_status pinned_take(struct device *device, uint64_t bytes, struct pinned **ret_pinned)
{
    const int size_class = class_of(bytes);

    if (size_class == PINNED_CLASSES)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "a tensor of %s has %" PRIu64
                         " bytes, for which there is no pinned memory",
                         device->name, bytes);
    struct pinned *pinned = take_idle(device, size_class);
    if (pinned) {
        *ret_pinned = pinned;
        return TUTTI_OK;
    }
    pinned_trim(device);
    return make(device, size_class, ret_pinned);
}

void pinned_give(struct device *device, struct pinned *pinned, bool used)
{
    LOCK_SCOPE(&device->lock);
    if (!used) {
        put_idle(device, pinned);
        return;
    }
    pinned->next = NULL;
    *device->last_pending = pinned;
    device->last_pending = &pinned->next;
}
