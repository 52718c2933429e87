/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on tensors in registered memory: whether a call's tensors are in such memory, and what its line
 * then shows.
 *
 * Each operation has tensors that others have to reach (needed()). Where all members' lines decide, a member
 * whose tensors are elsewhere takes the ordinary schedule at once, and its line tells the others. Where
 * everything depends on the root's tensor, the root's line decides, which the others have to wait for
 * anyway.
 */
#include "progress/progress.h"

enum { NEEDS_IN = 1, NEEDS_OUT = 2 };

/* The tensors of this member that others read or write. */
static int needed(const struct tutti_group *group, const struct call_fields *fields)
{
    const bool is_root = group->rank == fields->root;

    switch (fields->operation) {
    case OPERATION_ALL_REDUCE:
        return NEEDS_IN | NEEDS_OUT;
    case OPERATION_REDUCE:
        return is_root ? NEEDS_IN | NEEDS_OUT : NEEDS_IN;
    case OPERATION_BROADCAST:
        return is_root ? NEEDS_OUT : 0;
    case OPERATION_SCATTER:
        return is_root ? NEEDS_IN : 0;
    case OPERATION_GATHER:
        return is_root ? NEEDS_OUT : NEEDS_IN;
    default:
        return NEEDS_IN;
    }
}

int registered_decider(const struct call *call)
{
    const struct call_fields *fields = &call->plan->fields;

    return fields->operation == OPERATION_BROADCAST || fields->operation == OPERATION_SCATTER
               ? call->group->layout.local_of[fields->root]
               : -1;
}

/* The bytes of `blocks` blocks, which must lie one behind the other; 0: they do not. `sizes`: NULL: each has
 * `each` bytes. */
static uint64_t bytes_in_a_row(const struct blocks *where, uint32_t blocks, const uint64_t *sizes,
                               uint64_t each)
{
    const char *at = block_at(where, 0);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < blocks; i++) {
        if (where->each && block_at(where, i) != at + bytes)
            return 0;
        bytes += sizes ? sizes[i] : each;
    }
    return bytes;
}

/* Sets the reference, when all of the side lies in memory that the local peers see. */
static struct tutti_memory *refer(struct tutti_group *group, const struct blocks *where,
                                  uint64_t bytes, struct mapped_reference *ret_reference)
{
    const unsigned char *at = block_at(where, 0);
    struct tutti_memory *memory = bytes ? memories_find(group, at, bytes) : NULL;

    if (memory)
        *ret_reference = (struct mapped_reference){.memory = memory->number,
                                                   .offset = (uint64_t)(at - memory->base)};
    return memory;
}

static struct tutti_memory *refer_in(struct tutti_group *group, struct call *call)
{
    const struct plan_entry *plan = call->plan;
    const struct call_sizes *sizes = &plan->sizes;
    const uint32_t blocks =
        operation_takes_blocks(plan->fields.operation) ? (uint32_t)group->size : 1;
    const uint64_t each = plan->fields.flags & CALL_UNEVEN ? sizes->own : call->bytes;

    return refer(group, &call->in,
                 bytes_in_a_row(&call->in, blocks, blocks > 1 ? sizes->in : NULL, each),
                 &call->references.in);
}

static struct tutti_memory *refer_out(struct tutti_group *group, struct call *call)
{
    const uint32_t blocks =
        operation_gives_blocks(call->plan->fields.operation) ? (uint32_t)group->size : 1;

    return refer(group, &call->out, bytes_in_a_row(&call->out, blocks, NULL, call->bytes),
                 &call->references.out);
}

tutti_status registered_refer(struct tutti_group *group, struct call *call)
{
    const int needs = needed(group, &call->plan->fields);
    tutti_status status = group_plan_registered(group, call->plan);

    if (status || !call->plan->registered)
        return status;
    call->references = (struct mapped_references){0};
    call->memory_of[0] = needs & NEEDS_IN ? refer_in(group, call) : NULL;
    call->memory_of[1] = needs & NEEDS_OUT ? refer_out(group, call) : NULL;
    call->registered = (call->memory_of[0] || !(needs & NEEDS_IN)) &&
                       (call->memory_of[1] || !(needs & NEEDS_OUT));
    for (int i = 0; call->registered && i < 2; i++)
        if (call->memory_of[i])
            call->memory_of[i]->users++;
    return TUTTI_OK;
}

void registered_release(struct call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->memory_of[i])
            call->memory_of[i]->users--;
}
