/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's memory as engines want it: blocks one behind the other, no overlap that they need not
 * know. What lies otherwise (lists, offsets) gets a stand-in in the call's own memory.
 */
#include <string.h>

#include "base/error.h"
#include "provider/native.h"

_Static_assert((int)TUTTI_COLLECTIVE_ALL_REDUCE == OPERATION_ALL_REDUCE &&
                   (int)TUTTI_COLLECTIVE_BROADCAST == OPERATION_BROADCAST &&
                   (int)TUTTI_COLLECTIVE_BARRIER == OPERATION_BARRIER &&
                   (int)TUTTI_COLLECTIVE_REDUCE == OPERATION_REDUCE &&
                   (int)TUTTI_COLLECTIVE_ALL_GATHER == OPERATION_ALL_GATHER &&
                   (int)TUTTI_COLLECTIVE_GATHER == OPERATION_GATHER &&
                   (int)TUTTI_COLLECTIVE_SCATTER == OPERATION_SCATTER &&
                   (int)TUTTI_COLLECTIVE_REDUCE_SCATTER == OPERATION_REDUCE_SCATTER &&
                   (int)TUTTI_COLLECTIVE_ALL_TO_ALL == OPERATION_ALL_TO_ALL,
               "the ABI numbers operations as the core does");

/* One side of a call. */
struct part {
    const struct blocks *blocks;
    bool there;           /* this member has it */
    uint32_t count;       /* of blocks; 1: a vector */
    const uint64_t *size; /* bytes of each block, uneven; NULL: `bytes` each */
    uint64_t bytes;
};

static uint64_t size_of(const struct part *part, uint32_t block)
{
    return part->size ? part->size[block] : part->bytes;
}

static uint64_t total_of(const struct part *part)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < part->count; i++)
        sum += size_of(part, i);
    return sum;
}

static bool in_a_row(const struct part *part)
{
    return blocks_are_in_a_row(part->blocks, part->size, part->bytes, part->count);
}

static const struct blocks *input_of(const struct call *call)
{
    return call->announce.fields.operation == OPERATION_BROADCAST ? &call->out : &call->in;
}

static struct part input_part(const struct tutti_group *group, const struct call *call)
{
    const bool blocks = operation_takes_blocks(call->announce.fields.operation);

    return (struct part){.blocks = input_of(call),
                         .there = group_gives(group, &call->announce.fields),
                         .count = blocks ? (uint32_t)group->size : 1,
                         .size = blocks ? call->plan->sizes.in : NULL,
                         .bytes = call->bytes};
}

static struct part output_part(const struct tutti_group *group, const struct call *call)
{
    const bool blocks = operation_gives_blocks(call->announce.fields.operation);

    return (struct part){.blocks = &call->out,
                         .there = group_gets(group, &call->announce.fields),
                         .count = blocks ? (uint32_t)group->size : 1,
                         .size = blocks ? call->plan->sizes.out : NULL,
                         .bytes = call->bytes};
}

static tutti_status no_memory(uint64_t bytes)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %llu contiguous bytes",
                     (unsigned long long)bytes);
}

/* Elements of each block, where the sizes differ. */
static tutti_status take_counts(struct call *call, const struct part *part, uint64_t element,
                                const uint64_t **ret_counts)
{
    if (!part->there || !part->size)
        return TUTTI_OK;
    uint64_t *counts = chain_allocate(&call->memory, part->count * sizeof *counts);
    if (!counts)
        return no_memory(part->count * sizeof *counts);
    for (uint32_t i = 0; i < part->count; i++)
        counts[i] = part->size[i] / element;
    *ret_counts = counts;
    return TUTTI_OK;
}

static tutti_status lay_out_input(struct call *call, const struct part *part, const void **ret_in)
{
    const uint64_t total = total_of(part);

    if (call->plan->engine.device_type || in_a_row(part)) {
        *ret_in = block_at(part->blocks, 0);
        return TUTTI_OK;
    }
    char *at = chain_allocate(&call->memory, total);
    if (!at)
        return no_memory(total);
    *ret_in = at;
    for (uint32_t i = 0; i < part->count; i++) {
        if (size_of(part, i))
            memcpy(at, block_at(part->blocks, i), size_of(part, i));
        at += size_of(part, i);
    }
    return TUTTI_OK;
}

/* A reduce_scatter in place: engines may use the output before the input has been read. */
static bool is_in_the_way(const struct call *call, const struct part *in, const struct part *out)
{
    if (call->announce.fields.operation != OPERATION_REDUCE_SCATTER)
        return false;
    const char *at = block_at(out->blocks, 0);
    for (uint32_t i = 0; i < in->count; i++) {
        const char *block = block_at(in->blocks, i);

        if (at < block + size_of(in, i) && block < at + total_of(out))
            return true;
    }
    return false;
}

static tutti_status lay_out_output(struct call *call, const struct part *in, const struct part *out,
                                   struct native_memory *memory)
{
    const uint64_t total = total_of(out);

    if (memory->what.device_type || (in_a_row(out) && !is_in_the_way(call, in, out))) {
        memory->what.out = block_at(out->blocks, 0);
        return TUTTI_OK;
    }
    memory->what.out = memory->out_stand_in = chain_allocate(&call->memory, total);
    memory->out_size = out->size;
    memory->out_blocks = out->count;
    memory->block_bytes = out->bytes;
    return memory->out_stand_in ? TUTTI_OK : no_memory(total);
}

/* Vectors lie as they are: the short way, which small calls feel. */
static void lay_out_vectors(const struct tutti_group *group, const struct call *call,
                            tutti_collective *what)
{
    what->own_count = what->count;
    if (group_gives(group, &call->announce.fields))
        what->in = block_at(input_of(call), 0);
    if (group_gets(group, &call->announce.fields))
        what->out = block_at(&call->out, 0);
}

static tutti_status lay_out_blocks(const struct tutti_group *group, struct call *call,
                                   struct native_memory *memory)
{
    const struct part in = input_part(group, call), out = output_part(group, call);
    const uint64_t element = memory->what.element_bytes;

    memory->what.own_count = call->bytes / element;
    tutti_status status = take_counts(call, &in, element, &memory->what.in_counts);
    if (!status)
        status = take_counts(call, &out, element, &memory->what.out_counts);
    if (!status && in.there)
        status = lay_out_input(call, &in, &memory->what.in);
    if (!status && out.there)
        status = lay_out_output(call, &in, &out, memory);
    return status;
}

tutti_status native_memory_lay_out(struct tutti_group *group, struct call *call,
                                   struct native_memory *ret_memory)
{
    const struct call_fields *fields = &call->announce.fields;

    ret_memory->what = call->plan->engine;
    ret_memory->what.sequence = call->announce.sequence;
    ret_memory->call = call;
    ret_memory->out_stand_in = NULL;
    if (operation_takes_blocks(fields->operation) || operation_gives_blocks(fields->operation))
        return lay_out_blocks(group, call, ret_memory);
    lay_out_vectors(group, call, &ret_memory->what);
    return TUTTI_OK;
}

void native_memory_give_back(const struct native_memory *memory)
{
    const char *at = memory->out_stand_in;

    for (uint32_t i = 0; at && i < memory->out_blocks; i++) {
        const uint64_t bytes = memory->out_size ? memory->out_size[i] : memory->block_bytes;

        if (bytes)
            memcpy(block_at(&memory->call->out, i), at, bytes);
        at += bytes;
    }
}
