/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of pinned memory of a device. Making some takes the driver a millisecond and more, and may wait for what is
 * on streams, so memory is kept for later calls, in classes of sizes.
 *
 * A call may end while its stream has not come to the copy yet: it failed, or the copy back is only on the stream.
 * So memory is given back with an event, and taken again when that has passed. Only the thread that takes memory frees
 * what there is too much of, since freeing blocks. It does so only while no stream waits for a word of ours: drivers do
 * not free pinned memory before all such waits are over, and this thread may be the one that ends them.
 *
 * What is not idle has a bound, since pinned memory is the host's own and is never swapped. Memory that reaches it is
 * not given; the caller waits, and may not. The smallest class is always given: it serves events, too.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
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

tutti_status pinned_most(uint64_t *ret_bytes)
{
    enum { HOST_SHARE = 4, MIB_MAX = 1 << 30 };
    const char *variable = getenv("TUTTI_PINNED_MIB");
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t mib = 0;

    if (!variable || !*variable) {
        *ret_bytes =
            pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / HOST_SHARE : UINT64_MAX;
        return TUTTI_OK;
    }
    if (!text_number(variable, 1, MIB_MAX, &mib))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_PINNED_MIB=%.*s: use a number of MiB, 1 to %d",
                         TEXT_CUT(variable, 64), MIB_MAX);
    *ret_bytes = (uint64_t)mib << 20;
    return TUTTI_OK;
}

/* Under the device's lock, here and below. */
static void put_idle(struct device *device, struct pinned *pinned)
{
    pinned->next = device->idle[pinned->size_class];
    device->idle[pinned->size_class] = pinned;
    device->idle_bytes += class_bytes(pinned->size_class);
    device->used_bytes -= class_bytes(pinned->size_class);
}

/* Makes idle what streams no longer use. A device that has failed says so of each event, and the words are the
 * thread's error: its memory is not used again. */
static tutti_status collect(struct device *device)
{
    struct pinned **at = &device->pending;
    tutti_status failed = TUTTI_OK;

    while (*at) {
        struct pinned *pinned = *at;
        const tutti_status status = device_ops(device)->event_query(pinned->event);

        if (status) {
            failed = status == TUTTI_ERR_NOT_READY ? failed : status;
            at = &pinned->next;
            continue;
        }
        *at = pinned->next;
        put_idle(device, pinned);
    }
    device->last_pending = at;
    return failed;
}

/* Counts memory of the class as used, and takes it if there is some; NULL: it is to be made. */
static tutti_status take_idle(struct device *device, int size_class, struct pinned **ret_pinned)
{
    const uint64_t bytes = class_bytes(size_class);
    LOCK_SCOPE(&device->lock);

    const tutti_status failed = device->pending ? collect(device) : TUTTI_OK;
    if (failed)
        return failed; /* nobody gives the rest back */
    if (size_class && (device->used_bytes > device->most_bytes ||
                       bytes > device->most_bytes - device->used_bytes))
        return TUTTI_ERR_NOT_READY;
    device->used_bytes += bytes;
    *ret_pinned = device->idle[size_class];
    if (*ret_pinned) {
        device->idle[size_class] = (*ret_pinned)->next;
        device->idle_bytes -= bytes;
    }
    return TUTTI_OK;
}

static void uncount(struct device *device, int size_class)
{
    LOCK_SCOPE(&device->lock);
    device->used_bytes -= class_bytes(size_class);
}

static void free_pinned(struct device *device, struct pinned *pinned)
{
    for (int i = 0; i < PIECES_MAX && pinned->piece_events[i]; i++)
        device_ops(device)->event_free(pinned->piece_events[i]);
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

static tutti_status make(struct device *device, int size_class, bool may_trim,
                         struct pinned **ret_pinned)
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
    if (status == TUTTI_ERR_NO_MEMORY && may_trim) { /* what is idle may be in the way */
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

static tutti_status take(struct device *device, uint64_t bytes, bool may_trim,
                         struct pinned **ret_pinned)
{
    const int size_class = class_of(bytes);

    if (size_class == PINNED_CLASSES)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "a tensor of %s has %" PRIu64
                         " bytes, for which there is no pinned memory",
                         device->name, bytes);
    if (size_class && class_bytes(size_class) > device->most_bytes)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "a tensor of %s with %" PRIu64 " bytes takes %" PRIu64
                         " MiB of pinned memory, more than calls may use: "
                         "TUTTI_PINNED_MIB raises that, or make the call for parts of the tensor",
                         device->name, bytes, class_bytes(size_class) >> 20);
    struct pinned *pinned = NULL;
    tutti_status status = take_idle(device, size_class, &pinned);
    if (!status && !pinned) {
        if (may_trim)
            pinned_trim(device);
        status = make(device, size_class, may_trim, &pinned);
        if (status)
            uncount(device, size_class);
    }
    if (!status)
        *ret_pinned = pinned;
    return status;
}

tutti_status pinned_take(struct device *device, uint64_t bytes, struct pinned **ret_pinned)
{
    return take(device, bytes, true, ret_pinned);
}

tutti_status pinned_take_more(struct device *device, uint64_t bytes, struct pinned **ret_pinned)
{
    return take(device, bytes, false, ret_pinned);
}

tutti_status pinned_piece_events(struct device *device, struct pinned *pinned, uint32_t count)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < count && !status; i++)
        if (!pinned->piece_events[i])
            status =
                device_ops(device)->event_create(device->accelerator, &pinned->piece_events[i]);
    return status;
}

bool device_returns_pinned(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    return device->pending;
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
