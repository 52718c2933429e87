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

/* The bytes of block `index` of a side that has one for each member. */
static uint64_t block_bytes(const struct call *call, const uint64_t *sizes, uint32_t index)
{
    return sizes ? sizes[index] : call->bytes;
}

/* The registered memory in which all of a side lies; NULL: there is none. */
static struct tutti_memory *memory_of_blocks(struct tutti_group *group, const struct call *call,
                                             const struct blocks *where, const uint64_t *sizes)
{
    struct tutti_memory *memory = NULL;

    if (!where->each)
        return memories_find(group, where->base, call->bytes * (uint64_t)group->size);
    for (uint32_t i = 0; i < (uint32_t)group->size; i++) {
        const uint64_t bytes = block_bytes(call, sizes, i);

        if (!bytes)
            continue;
        if (!memory)
            memory = memories_find(group, where->each[i], bytes);
        if (!memory || !memory_holds(memory, where->each[i], bytes))
            return NULL;
    }
    return memory;
}

static struct mapped_reference reference_to(const struct tutti_memory *memory, const void *at)
{
    return (struct mapped_reference){
        .memory = memory->number, .offset = (uint64_t)((const unsigned char *)at - memory->base)};
}

static struct tutti_memory *refer_to_vector(struct tutti_group *group, const void *at,
                                            uint64_t bytes, struct mapped_reference *ret_reference)
{
    struct tutti_memory *memory = memories_find(group, at, bytes);

    if (memory)
        *ret_reference = reference_to(memory, at);
    return memory;
}

static struct tutti_memory *refer_to_blocks(struct tutti_group *group, const struct call *call,
                                            const struct blocks *where, const uint64_t *sizes,
                                            struct mapped_reference *ret_reference)
{
    struct tutti_memory *memory = memory_of_blocks(group, call, where, sizes);

    if (!memory)
        return NULL;
    *ret_reference = reference_to(memory, where->each ? memory->base : where->base);
    ret_reference->shape = where->each ? SHAPE_TABLE : SHAPE_ROW;
    ret_reference->stride = where->stride;
    return memory;
}

static struct tutti_memory *refer_in(struct tutti_group *group, struct call *call)
{
    const struct plan_entry *plan = call->plan;

    if (operation_takes_blocks(plan->fields.operation))
        return refer_to_blocks(group, call, &call->in, plan->sizes.in, &call->references.in);
    return refer_to_vector(group, call->in.base,
                           plan->fields.flags & CALL_UNEVEN ? plan->sizes.own : call->bytes,
                           &call->references.in);
}

static struct tutti_memory *refer_out(struct tutti_group *group, struct call *call)
{
    if (operation_gives_blocks(call->plan->fields.operation))
        return refer_to_blocks(group, call, &call->out, call->plan->sizes.out,
                               &call->references.out);
    return refer_to_vector(group, call->out.base, call->bytes, &call->references.out);
}

static void lay_out(const struct call *call)
{
    const struct mapped *mapped = &call->group->ways.mapped;
    const bool in = call->references.in.shape == SHAPE_TABLE;
    const struct blocks *where = in ? &call->in : &call->out;
    const uint64_t *sizes = in ? call->plan->sizes.in : call->plan->sizes.out;
    const struct tutti_memory *memory = call->memory_of[in ? 0 : 1];
    struct mapped_block *table = mapped->areas[mapped->self]->blocks;

    if (!in && call->references.out.shape != SHAPE_TABLE)
        return;
    for (uint32_t i = 0; i < (uint32_t)mapped->local_size; i++) {
        const uint64_t bytes = block_bytes(call, sizes, i);
        const unsigned char *at = bytes ? where->each[i] : memory->base;

        table[i] = (struct mapped_block){(uint64_t)(at - memory->base), bytes};
    }
}

/* The local peer whose line decides whether the call works in registered memory; -1: all do. */
static int decider_of(const struct call *call)
{
    const struct call_fields *fields = &call->plan->fields;

    return fields->operation == OPERATION_BROADCAST || fields->operation == OPERATION_SCATTER
               ? call->group->layout.local_of[fields->root]
               : -1;
}

void registered_offer(const struct call *call, struct run_call *run)
{
    lay_out(call);
    run->registered = &call->plan->registered_schedule;
    run->references = call->memory_of[0] || call->memory_of[1] ? &call->references : NULL;
    run->decider = decider_of(call);
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
    call->registered =
        (call->memory_of[0] || !(needs & NEEDS_IN)) && (call->memory_of[1] || !(needs & NEEDS_OUT));
    if (call->memory_of[1] == call->memory_of[0])
        call->memory_of[1] = NULL; /* one user */
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
