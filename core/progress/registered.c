/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on tensors in registered memory: whether a call's tensors are in such memory, and what its line
 * then shows. Where members outnumber CPUs, the root of a scatter with long blocks needs no such memory: its
 * line shows an address of its process (schedule/peer_reads.h).
 *
 * Each operation has tensors that others have to reach (needed()). Where all members' lines decide, a member
 * whose tensors are elsewhere takes the ordinary schedule at once, and its line tells the others. Where
 * everything depends on the root's tensor, the root's line decides, which the others have to wait for
 * anyway.
 */
#include "progress/progress.h"

enum { NEEDS_IN = 1, NEEDS_OUT = 2 };

/*
 * Bytes of a block of a scatter from which on peers read it in the root's own memory. 8 ranks on 2 CPUs: blocks of
 * 64 KiB take as long as through the windows, of 256 KiB 0.34 ms instead of 0.9, of 4 MiB 7.7 instead of 15. Other
 * operations do not gain: broadcast and all_to_all take as long, all_gather 1.7 times as long, since there
 * each window is filled once and read by many, or every member copies all the time.
 */
enum { READ_BYTES_MIN = 128 * 1024 };

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
        const uintptr_t base = memory ? (uintptr_t)memory->base : 0;
        const uintptr_t at = bytes ? (uintptr_t)where->each[i] : base;

        table[i] = (struct mapped_block){at - base, bytes};
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
    run->references =
        call->references.in.memory || call->references.out.memory ? &call->references : NULL;
    run->decider = decider_of(call);
}

/* ---- memory of the process ---- */

bool registered_may_read(struct tutti_group *group, const struct call_fields *fields,
                         uint64_t bytes)
{
    return fields->operation == OPERATION_SCATTER && bytes >= READ_BYTES_MIN &&
           !(fields->flags & CALL_UNEVEN) && group->ways.has_mapped &&
           !group->ways.mapped.reads.never && group->needs.crowded;
}

/* Whether the kernel can read all blocks, which it cannot in a device's memory. */
static bool is_readable(const struct call *call)
{
    for (uint32_t i = 0; i < (uint32_t)call->group->size; i++)
        if (!peer_reads_can(block_at(&call->in, i), call->bytes))
            return false;
    return true;
}

/* The root shows where its blocks are in its own memory. */
static void refer_to_own_blocks(struct call *call)
{
    if (!is_readable(call))
        return;
    call->references.in =
        (struct mapped_reference){.memory = MAPPED_OWN_MEMORY,
                                  .shape = call->in.each ? SHAPE_TABLE : SHAPE_ROW,
                                  .offset = (uintptr_t)call->in.base,
                                  .stride = call->in.stride};
    call->registered = call->shows_own = true;
}

tutti_status registered_refer(struct tutti_group *group, struct call *call)
{
    const int needs = needed(group, &call->plan->fields);
    tutti_status status = group_plan_registered(group, call->plan);

    if (status || !call->plan->registered)
        return status;
    call->references = (struct mapped_references){0};
    call->shows_own = false;
    call->memory_of[0] = needs & NEEDS_IN ? refer_in(group, call) : NULL;
    call->memory_of[1] = needs & NEEDS_OUT ? refer_out(group, call) : NULL;
    call->registered =
        (call->memory_of[0] || !(needs & NEEDS_IN)) && (call->memory_of[1] || !(needs & NEEDS_OUT));
    if (call->memory_of[1] == call->memory_of[0])
        call->memory_of[1] = NULL; /* one user */
    for (int i = 0; call->registered && i < 2; i++)
        if (call->memory_of[i])
            call->memory_of[i]->users++;
    /* Asked on every member, also where this call shows nothing: each must have found it out. */
    if (registered_may_read(group, &call->plan->fields, call->bytes) &&
        peer_reads_work(&group->ways.mapped) && !call->registered) {
        call->references = (struct mapped_references){0};
        refer_to_own_blocks(call);
    }
    return TUTTI_OK;
}

void registered_release(struct call *call, tutti_status status)
{
    if (status && call->shows_own)
        peer_reads_revoke(&call->group->ways.mapped);
    for (int i = 0; i < 2; i++)
        if (call->memory_of[i])
            call->memory_of[i]->users--;
}
