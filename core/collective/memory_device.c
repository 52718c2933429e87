/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory of devices. All members learn of all whether the device and the range will do. Then each gets its
 * own (provider/device_memory.c), and all learn whether they have, so it is there on all members or on none. An engine
 * may want that in one call either all members' tensors lie in such memory or none of them.
 *
 * To end a registration, no operation of the engine may use it: the engine may wait in the driver for what is on
 * streams, and an abort, which lets these go on, would have to wait for it. So freeing is refused while calls of the
 * group are queued or on streams, and once some are in graphs, whose launches nobody tells. It is refused while a
 * stream waits for a word of ours, too: the driver would block this thread, which may be the one that completes the
 * work. A word that is taken at the same moment may still hold up the driver, until its work is complete.
 */
#include "collective/memory.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "group/groups.h"
#include "progress/progress.h"
#include "provider/device_memory.h"
#include "provider/native.h"

/* Without an engine for devices such memory is refused with that of other drivers, unless there is nobody else. */
bool memory_is_on_device(const struct tutti_group *group, const void *address, uint64_t bytes)
{
    return (group->ways.device_native || group->size == 1) && device_knowing(address, bytes);
}

/* ---- a member's own part ---- */

static tutti_status find_device(struct tutti_group *group, const tutti_device *where,
                                struct device **ret_device)
{
    if (where && device_type_of(where->type) != where->type)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "memory of device type %d cannot be allocated: use 1, host memory, or 2, "
                         "memory of a GPU",
                         where->type);
    tutti_status status = where ? device_look_for(where->type, where->id) : TUTTI_OK;
    if (!status)
        status = group_open_device(group, where ? where->type : TUTTI_DEVICE_CUDA,
                                   group->origin.local_rank, ret_device);
    if (status || !where || device_number(*ret_device) == where->id)
        return status;
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "device %d of type %d is not that of group %s on this rank, which is %s: say "
                     "which one by TUTTI_DEVICE, or by device in tutti_init_options",
                     where->id, where->type, group->name, device_name(*ret_device));
}

static bool overlap(const struct tutti_memory *a, const struct tutti_memory *b)
{
    const struct device_span x = device_span_of(a->address, a->asked),
                             y = device_span_of(b->address, b->asked);

    return x.begin < y.end && y.begin < x.end;
}

static const struct tutti_memory *find_overlap(const struct tutti_group *group,
                                               const struct tutti_memory *memory)
{
    const struct tutti_memory *other = group->memories.on_device;

    while (other && (other == memory || !overlap(other, memory)))
        other = other->next;
    return other;
}

static tutti_status check_new(struct tutti_group *group, const struct tutti_memory *memory)
{
    tutti_status status = device_check_range(memory->device, memory->address, memory->asked);

    engine_take(&group->context->engine);
    const struct tutti_memory *other = find_overlap(group, memory);
    if (!status && other)
        status =
            error_set(TUTTI_ERR_INVALID_ARGUMENT,
                      "%llu bytes at %p overlap memory of group %s that is registered already: "
                      "%llu bytes at %p",
                      (unsigned long long)memory->asked, memory->address, group->name,
                      (unsigned long long)other->asked, other->address);
    engine_release(&group->context->engine);
    return status;
}

/* What can be told without the engine. */
static tutti_status begin(struct tutti_group *group, const tutti_device *where,
                          struct tutti_memory *memory)
{
    struct progress_engine *engine = &group->context->engine;

    engine_take(engine);
    memory->number = ++group->memories.made;
    engine_release(engine);
    tutti_status status = find_device(group, where, &memory->device);
    return status || !memory->address ? status : check_new(group, memory);
}

static tutti_status make(struct tutti_group *group, struct tutti_memory *memory)
{
    const tutti_status status = device_memory_make(memory);

    if (status)
        return status;
    engine_take(&group->context->engine);
    memory->next = group->memories.on_device;
    group->memories.on_device = memory;
    engine_release(&group->context->engine);
    return TUTTI_OK;
}

/* ---- freeing ---- */

/* A group that has registered memory which this one has allocated; NULL: none has. */
static const struct tutti_group *find_user(const struct tutti_memory *memory)
{
    const struct tutti_group *group = groups_first(memory->group->context);

    while (group && (group == memory->group || !find_overlap(group, memory)))
        group = groups_next(group);
    return group;
}

/* Whether the engine for devices is to do a call that waits for its turn. */
static bool has_queued(const struct tutti_group *group)
{
    const struct call *call = group->calls.queue.first;

    while (call && !(call->announce.fields.flags & CALL_DIRECT))
        call = call->next;
    return call;
}

/* Whether something of the group may be on streams of its device, or comes there, while no operation begins. */
static bool has_operations(struct tutti_group *group)
{
    (void)issued_move(group);
    return has_queued(group) || group->calls.issued || group->ways.device_native->launched ||
           group->calls.moving.under_way || group->calls.returning.first;
}

static tutti_status check_idle(struct tutti_group *group, const struct tutti_memory *memory)
{
    const struct tutti_group *user = find_user(memory);

    if (user && memory->is_allocated)
        return error_set(TUTTI_ERR_BUSY,
                         "the memory is registered with group %s, too: free that first",
                         user->name);
    if ((memory->of_engine || memory->is_allocated) && device_streams_wait(memory->device))
        return error_set(TUTTI_ERR_BUSY,
                         "a stream waits for a work (tutti_work_wait_stream()), and the driver "
                         "frees no memory until none does");
    if (!memory->of_engine || control_verdict_status(group->control))
        return TUTTI_OK;
    if (group->calls.has_captured)
        return error_set(TUTTI_ERR_BUSY,
                         "calls of group %s were captured into graphs, which may use the memory: "
                         "tutti_group_destroy() frees it",
                         group->name);
    if (has_operations(group))
        return error_set(TUTTI_ERR_BUSY,
                         "calls of group %s on its device are not complete: wait for their works, "
                         "and synchronize with their streams",
                         group->name);
    return TUTTI_OK;
}

/* Its address may be another's as soon as it is free. With the progress lock. */
static void take_out(struct tutti_group *group, const struct tutti_memory *memory)
{
    struct tutti_memory **link = &group->memories.on_device;

    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
}

/* Nothing was done unless it is OK. */
static tutti_status end(struct tutti_memory *memory)
{
    struct tutti_group *group = memory->group;
    struct native *n = memory->of_engine ? group->ways.device_native : NULL;
    tutti_status status = n ? native_lend(group, n) : TUTTI_OK;

    if (status)
        return status;
    engine_take(&group->context->engine);
    status = check_idle(group, memory);
    if (!status)
        take_out(group, memory);
    engine_release(&group->context->engine);
    if (!status)
        device_memory_end(memory);
    if (n)
        native_return(group, n);
    return status;
}

tutti_status memory_free_on_device(struct tutti_memory *memory)
{
    const tutti_status status = end(memory);

    if (!status)
        free(memory);
    return status;
}

/* ---- making ---- */

/* Moves all groups until nothing uses the memory, for the group's time-out. Graphs may use it until the group ends. */
static tutti_status end_when_idle(struct tutti_group *group, struct tutti_memory *memory)
{
    const int64_t until_ns = clock_deadline_ms(group->timeout_ms);
    tutti_status status;

    while ((status = end(memory)) == TUTTI_ERR_BUSY && !group->calls.has_captured &&
           clock_now_ns() < until_ns)
        engine_wait_ns(&group->context->engine, CLOCK_NS_PER_MS);
    return status;
}

/* Other members have none. What cannot be given back ends with the group, and the message names it. Returns `status`,
 * with its message. */
static tutti_status undo(struct tutti_group *group, struct tutti_memory *memory,
                         tutti_status status)
{
    struct kept_error cause;

    error_init(&cause);
    error_keep(&cause);
    const bool stays = end_when_idle(group, memory);
    error_give(status, &cause);
    error_forget(&cause);
    if (stays)
        error_prefix("%llu bytes at %p stay with group %s until it is destroyed, as calls may use "
                     "them",
                     (unsigned long long)memory->asked, memory->address, group->name);
    else
        free(memory);
    return status;
}

/* `own`: what this member's part came to. */
static tutti_status agree(const char *function, struct tutti_group *group,
                          const struct tutti_memory *memory, enum memory_kind kind,
                          tutti_status own)
{
    AUTOFREE struct piece *pieces = calloc((size_t)group->size, sizeof *pieces);
    const struct piece piece = {
        .status = (uint64_t)own, .kind = kind, .number = memory->number, .bytes = memory->asked};

    return memory_compare(function, group, &piece, pieces);
}

tutti_status memory_make_on_device(const char *function, struct tutti_group *group,
                                   const tutti_device *where, void *address, uint64_t bytes,
                                   struct tutti_memory *memory)
{
    memory->address = address;
    memory->asked = bytes;
    tutti_status own = begin(group, where, memory);
    tutti_status status = agree(function, group, memory, MEMORY_OF_DEVICE, own);
    if (!status) {
        own = make(group, memory);
        status = agree(function, group, memory,
                       memory->of_engine ? MEMORY_KNOWN_TO_ENGINE : MEMORY_UNKNOWN_TO_ENGINE, own);
        if (status && !own)
            return undo(group, memory, status);
    }
    if (status)
        free(memory);
    return status;
}
