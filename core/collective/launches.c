/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls of a batch the engine for devices launches as one: those that follow each other, if it can do that.
 *
 * Engines want the same launches on all members. So each call but the last of a launch has CALL_WITH_NEXT, by which
 * members compare them, and what decides is the same on all of them. A call that needs the result of an earlier one begins
 * another launch. Members find that by their own addresses, so only operations join in which each member has both sides:
 * of a reduce, gather or scatter a root may see what the others do not.
 */
#include <stdlib.h>

#include "base/error.h"
#include "collective/batch.h"
#include "device/device.h"
#include "provider/native.h"

/* NCCL's manual names a limit of 2,048 operations; a call may be several of them. */
enum { LAUNCH_CALLS_MAX = 512 };

/* What a call uses on this member. */
struct uses {
    struct device_span reads, writes, back; /* back: tensors that the operation has stand-ins of */
};

static struct device_span side(const struct tutti_group *group, const struct blocks *blocks,
                               bool has_blocks, const uint64_t *sizes, uint64_t bytes)
{
    const uint32_t count = has_blocks ? (uint32_t)group->size : 1;
    struct device_span all = {0, 0};

    for (uint32_t i = 0; i < count; i++)
        all = device_span_join(all, device_span_of(block_at(blocks, i), sizes ? sizes[i] : bytes));
    return all;
}

static struct uses uses_of(const struct tutti_group *group, const struct collective *c)
{
    const uint8_t operation = c->fields.operation;
    const bool uneven = c->fields.flags & CALL_UNEVEN;
    struct uses uses = {.reads = side(group, operation == OPERATION_BROADCAST ? &c->out : &c->in,
                                      operation_takes_blocks(operation),
                                      uneven ? c->sizes.in : NULL, c->bytes),
                        .writes = side(group, &c->out, operation_gives_blocks(operation),
                                       uneven ? c->sizes.out : NULL, c->bytes)};

    for (const struct packed *packed = c->packed.first; packed; packed = packed->next)
        uses.back = device_span_join(uses.back, device_pack_writes(packed));
    return uses;
}

static bool overlap(struct device_span a, struct device_span b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* Whether the later of the two needs the result of the earlier one, or writes what that one uses. */
static bool depends(const struct uses *later, const struct uses *earlier)
{
    return overlap(earlier->writes, later->reads) || overlap(earlier->back, later->reads) ||
           overlap(earlier->writes, later->writes) || overlap(earlier->back, later->writes) ||
           overlap(earlier->writes, later->back) || overlap(earlier->back, later->back) ||
           overlap(earlier->reads, later->writes) || overlap(earlier->reads, later->back);
}

struct launch {
    struct uses each[LAUNCH_CALLS_MAX];
    uint32_t count;
    struct device_span all;
};

static bool joins(const struct launch *launch, const struct uses *uses, struct device_span reach)
{
    if (launch->count == LAUNCH_CALLS_MAX)
        return false;
    if (!overlap(launch->all, reach)) /* as of tensors that were allocated one after the other */
        return true;
    for (uint32_t i = 0; i < launch->count; i++)
        if (depends(uses, &launch->each[i]))
            return false;
    return true;
}

static bool may_join(const struct tutti_group *group, const struct call_fields *fields)
{
    return fields->operation != OPERATION_REDUCE && fields->operation != OPERATION_GATHER &&
           fields->operation != OPERATION_SCATTER && native_may_join(group, fields);
}

/* Messages between calls make no difference. */
static struct kept_call *next_collective(struct kept_call *kept)
{
    while (kept && kept->is_message)
        kept = kept->next;
    return kept;
}

static void mark(const struct tutti_group *group, struct kept_call *first, struct launch *launch)
{
    struct collective *before = NULL; /* the last call of the launch */

    for (struct kept_call *kept = next_collective(first); kept;
         kept = next_collective(kept->next)) {
        struct collective *c = &kept->collective;

        c->with_next = false;
        if (c->packed.by_kernels || !may_join(group, &c->fields)) {
            before = NULL;
            continue;
        }
        const struct uses uses = uses_of(group, c);
        const struct device_span reach =
            device_span_join(device_span_join(uses.reads, uses.writes), uses.back);
        if (before && joins(launch, &uses, reach)) {
            before->with_next = true;
        } else {
            launch->count = 0;
            launch->all = (struct device_span){0, 0};
        }
        launch->each[launch->count++] = uses;
        launch->all = device_span_join(launch->all, reach);
        before = c;
    }
}

tutti_status launches_mark(const struct tutti_group *group, struct kept_call *first)
{
    if (!group->ways.device_native)
        return TUTTI_OK;
    struct launch *launch = malloc(sizeof *launch);
    if (!launch)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a batch");
    mark(group, first, launch);
    free(launch);
    return TUTTI_OK;
}
