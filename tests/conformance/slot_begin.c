/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with guarded memory around them, and the calls that are made with them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "conformance/slot.h"
#include "conformance/values.h"
#include "harness/rank.h"

/* ---- words ----------------------------------------------------------------------------------- */

void slot_fail(const struct slot *slot, const char *why)
{
    char words[256];

    sequence_words(&slot->call, words, sizeof words);
    rank_check(RANK_PLACE, false,
               "%s: %s; this rank: %s, offset %zu; again: TUTTI_CONFORMANCE_SEED=%" PRIu64
               " TUTTI_CONFORMANCE_ONLY=%s:%d:%" PRIu64 " %s",
               words, why, slot->facts.async ? "asynchronous" : "blocking", slot->facts.offset,
               run.sequence.seed, run.where, run.size, slot->call.number / BATCH, run.again);
    if (++run.failures >= FAILURES_MAX)
        rank_end();
}

void slot_must(const struct slot *slot, tutti_status status, const char *what)
{
    char words[1024];

    if (!status)
        return;
    snprintf(words, sizeof words, "%s is %s: %s", what, tutti_status_name(status),
             tutti_last_error());
    slot_fail(slot, words);
    rank_end();
}

enum {
    GUARD = 64, /* bytes on both sides of a tensor */
    LINE = 64,
    GUARD_BYTE = 0xa5
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void buffer_make_blocks(struct buffer *buffer, const struct slot *slot, int blocks)
{
    const size_t offset = slot->facts.offset;

    const uint64_t count = slot->call.count * (uint64_t)blocks;

    buffer->bytes = (size_t)count * slot->call.element;
    buffer->room = (GUARD + offset + buffer->bytes + GUARD + LINE - 1) / LINE * LINE;
    buffer->memory = aligned_alloc(LINE, buffer->room);
    require(buffer->memory != NULL);
    memset(buffer->memory, GUARD_BYTE, GUARD + offset);
    memset(buffer->memory + GUARD + offset + buffer->bytes, GUARD_BYTE,
           buffer->room - GUARD - offset - buffer->bytes);
    buffer->data = buffer->memory + GUARD + offset;
    buffer->tensor =
        tutti_tensor_1d(buffer->data, slot->call.dtype, &buffer->shape, (int64_t)count);
    if (slot->facts.by_offset) {
        buffer->tensor.data = buffer->memory + GUARD;
        buffer->tensor.byte_offset = offset;
    }
}

static void buffer_make(struct buffer *buffer, const struct slot *slot)
{
    buffer_make_blocks(buffer, slot, 1);
}

static bool is_guard(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != GUARD_BYTE)
            return false;
    return true;
}

void buffer_check_and_free(struct buffer *buffer, const struct slot *slot)
{
    const unsigned char *end = buffer->data + buffer->bytes;

    if (!buffer->memory)
        return;
    if (!is_guard(buffer->memory, (size_t)(buffer->data - buffer->memory)) ||
        !is_guard(end, (size_t)(buffer->memory + buffer->room - end)))
        slot_fail(slot, "memory beside a tensor was written");
    free(buffer->memory);
    buffer->memory = NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

unsigned char *slot_block(const struct slot *slot, const struct buffer *buffer, int block)
{
    return buffer->data + (size_t)block * (size_t)slot->call.count * slot->call.element;
}

/* The blocks of a buffer as a list of tensors. */
struct block_list {
    int64_t shapes[MEMBERS_MAX];
    tutti_tensor tensors[MEMBERS_MAX];
    const tutti_tensor *list[MEMBERS_MAX];
};

static const tutti_tensor *const *list_blocks(const struct slot *slot, const struct buffer *buffer,
                                              struct block_list *blocks)
{
    for (int i = 0; i < run.size; i++) {
        blocks->tensors[i] = tutti_tensor_1d(slot_block(slot, buffer, i), slot->call.dtype,
                                             &blocks->shapes[i], (int64_t)slot->call.count);
        blocks->list[i] = &blocks->tensors[i];
    }
    return blocks->list;
}

/* My own block of the other side, for a call in place. */
static tutti_tensor own_block(const struct slot *slot, const struct buffer *buffer, int64_t *shape)
{
    return tutti_tensor_1d(slot_block(slot, buffer, run.rank), slot->call.dtype, shape,
                           (int64_t)slot->call.count);
}

static void fill_blocks(const struct slot *slot, const struct buffer *buffer)
{
    for (int i = 0; i < run.size; i++) {
        const struct conformance_call of_block = values_of_block(&slot->call, i);

        values_fill(&of_block, run.rank, slot_block(slot, buffer, i));
    }
}

static struct buffer *next_out(struct slot *slot)
{
    struct buffer *buffer = &slot->out[slot->outs++];

    buffer_make(buffer, slot);
    return buffer;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct part *next_part(struct slot *slot, bool is_collective)
{
    struct part *part = &slot->parts[slot->part_count++];

    *part = (struct part){.is_collective = is_collective,
                          .sequence = is_collective ? ++run.collectives : ++run.messages,
                          .source = -1};
    return part;
}

static void call_all_reduce(struct slot *slot)
{
    const bool into = slot->call.operation == OPERATION_ALL_REDUCE_INTO ||
                      (slot->call.mixed && slot->facts.other_place);
    const bool apart = into && slot->facts.other_place;
    struct buffer *out = next_out(slot), *in = out;
    struct part *part = next_part(slot, true);
    tutti_work **work = slot->facts.async ? &part->work : NULL;

    if (apart) {
        in = &slot->in;
        buffer_make(in, slot);
        memset(out->data, 0, out->bytes);
    }
    values_fill(&slot->call, run.rank, in->data);
    slot_must(slot,
              into ? tutti_all_reduce_into(run.world, &in->tensor, &out->tensor, slot->call.op,
                                           NULL, work)
                   : tutti_all_reduce(run.world, &out->tensor, slot->call.op, NULL, work),
              "the call");
}

static void call_broadcast(struct slot *slot)
{
    struct buffer *out = next_out(slot);
    struct part *part = next_part(slot, true);

    if (run.rank == slot->call.root)
        values_fill(&slot->call, run.rank, out->data);
    else
        memset(out->data, 0, out->bytes);
    slot_must(slot,
              tutti_broadcast(run.world, &out->tensor, slot->call.root, NULL,
                              slot->facts.async ? &part->work : NULL),
              "the call");
}

static void call_barrier(struct slot *slot)
{
    struct part *part = next_part(slot, true);

    slot_must(slot, tutti_barrier(run.world, NULL, slot->facts.async ? &part->work : NULL),
              "the call");
}

static void send(struct slot *slot, int to, uint64_t tag)
{
    struct part *part = next_part(slot, false);

    if (!slot->in.memory) {
        buffer_make(&slot->in, slot);
        values_fill(&slot->call, run.rank, slot->in.data);
    }
    if (slot->facts.async)
        slot_must(slot, tutti_isend(run.world, &slot->in.tensor, to, tag, NULL, &part->work),
                  "isend");
    else
        slot_must(slot, tutti_send(run.world, &slot->in.tensor, to, tag, NULL), "send");
}

static void receive(struct slot *slot, int from, uint64_t tag)
{
    struct buffer *out = next_out(slot);
    struct part *part = next_part(slot, false);

    memset(out->data, 0, out->bytes);
    if (slot->facts.async)
        slot_must(slot, tutti_irecv(run.world, &out->tensor, from, tag, NULL, &part->work),
                  "irecv");
    else
        slot_must(slot, tutti_recv(run.world, &out->tensor, from, tag, NULL, &part->source),
                  "recv");
}

/* The root sends first and everybody else receives first, so that no circle of blocking calls
 * closes. Few tags: messages of several calls in flight must match in their order. */
static void call_ring(struct slot *slot)
{
    const int right = (run.rank + 1) % run.size, left = (run.rank + run.size - 1) % run.size;
    const uint64_t tag = slot->call.number % 2;

    if (run.rank == slot->call.root)
        send(slot, right, tag);
    receive(slot, left, tag);
    if (run.rank != slot->call.root)
        send(slot, right, tag);
}

static void call_any_source(struct slot *slot)
{
    const uint64_t tag = 2 + slot->call.number;

    if (run.rank != slot->call.root) {
        send(slot, slot->call.root, tag);
        return;
    }
    for (int i = 1; i < run.size; i++)
        receive(slot, TUTTI_ANY_SOURCE, tag);
}

static void call_reduce(struct slot *slot)
{
    const bool apart = slot->facts.other_place;
    struct buffer *out = next_out(slot), *in = out;
    struct part *part = next_part(slot, true);
    tutti_work **work = slot->facts.async ? &part->work : NULL;

    if (apart) {
        in = &slot->in;
        buffer_make(in, slot);
        memset(out->data, 0, out->bytes);
    }
    values_fill(&slot->call, run.rank, in->data);
    slot_must(
        slot,
        apart ? tutti_reduce_into(run.world, &in->tensor, &out->tensor, slot->call.op,
                                  slot->call.root, NULL, work)
              : tutti_reduce(run.world, &out->tensor, slot->call.op, slot->call.root, NULL, work),
        "the call");
}

/* My vector to one of the output's blocks, of which it may be one. */
static void call_gather(struct slot *slot)
{
    const struct conformance_call *call = &slot->call;
    struct buffer *out = &slot->out[slot->outs++];
    struct part *part = next_part(slot, true);
    tutti_work **work = slot->facts.async ? &part->work : NULL;
    struct block_list blocks;
    tutti_tensor in;
    int64_t shape;

    buffer_make_blocks(out, slot, run.size);
    memset(out->data, 0, out->bytes);
    if (slot->facts.other_place) {
        buffer_make(&slot->in, slot);
        in = slot->in.tensor;
        values_fill(call, run.rank, slot->in.data);
    } else {
        in = own_block(slot, out, &shape);
        values_fill(call, run.rank, slot_block(slot, out, run.rank));
    }
    const tutti_tensor *const *list = list_blocks(slot, out, &blocks);

    if (call->operation == OPERATION_ALL_GATHER)
        slot_must(slot,
                  slot->facts.list ? tutti_all_gather_list(run.world, &in, list, NULL, work)
                                   : tutti_all_gather(run.world, &in, &out->tensor, NULL, work),
                  "the call");
    else
        slot_must(slot,
                  slot->facts.list
                      ? tutti_gather_list(run.world, &in, list, call->root, NULL, work)
                      : tutti_gather(run.world, &in, &out->tensor, call->root, NULL, work),
                  "the call");
}

/* One of the input's blocks to my vector, which may be one of them. */
static void call_scatter(struct slot *slot)
{
    const struct conformance_call *call = &slot->call;
    struct part *part = next_part(slot, true);
    tutti_work **work = slot->facts.async ? &part->work : NULL;
    struct block_list blocks;
    tutti_tensor out;
    int64_t shape;

    buffer_make_blocks(&slot->in, slot, run.size);
    fill_blocks(slot, &slot->in);
    if (slot->facts.other_place) {
        struct buffer *apart = next_out(slot);

        memset(apart->data, 0, apart->bytes);
        out = apart->tensor;
    } else {
        out = own_block(slot, &slot->in, &shape);
    }
    const tutti_tensor *const *list = list_blocks(slot, &slot->in, &blocks);
    const tutti_tensor *in = &slot->in.tensor;

    if (call->operation == OPERATION_SCATTER)
        slot_must(slot,
                  slot->facts.list
                      ? tutti_scatter_list(run.world, list, &out, call->root, NULL, work)
                      : tutti_scatter(run.world, in, &out, call->root, NULL, work),
                  "the call");
    else
        slot_must(slot,
                  slot->facts.list
                      ? tutti_reduce_scatter_list(run.world, list, &out, call->op, NULL, work)
                      : tutti_reduce_scatter(run.world, in, &out, call->op, NULL, work),
                  "the call");
}

/* Lists are a form of their own here: other members could not know that sizes are equal. */
static void call_all_to_all(struct slot *slot)
{
    const bool list = slot->call.key & 1;
    struct buffer *out = &slot->out[slot->outs++], *in = out;
    struct part *part = next_part(slot, true);
    tutti_work **work = slot->facts.async ? &part->work : NULL;
    struct block_list ins, outs;

    buffer_make_blocks(out, slot, run.size);
    if (slot->facts.other_place) {
        in = &slot->in;
        buffer_make_blocks(in, slot, run.size);
        memset(out->data, 0, out->bytes);
    }
    fill_blocks(slot, in);
    slot_must(slot,
              list ? tutti_all_to_all_list(run.world, list_blocks(slot, in, &ins),
                                           list_blocks(slot, out, &outs), NULL, work)
                   : tutti_all_to_all(run.world, &in->tensor, &out->tensor, NULL, work),
              "the call");
}

static void call_monitored_barrier(struct slot *slot)
{
    struct part *part = next_part(slot, true);

    slot_must(slot,
              tutti_monitored_barrier(run.world, NULL, slot->facts.async ? &part->work : NULL),
              "the call");
}

void slot_begin(struct slot *slot, uint64_t number)
{
    static void (*const calls[OPERATIONS])(struct slot *) = {
        [OPERATION_ALL_REDUCE] = call_all_reduce,
        [OPERATION_ALL_REDUCE_INTO] = call_all_reduce,
        [OPERATION_BROADCAST] = call_broadcast,
        [OPERATION_BARRIER] = call_barrier,
        [OPERATION_SEND_RECV] = call_ring,
        [OPERATION_ISEND_IRECV] = call_ring,
        [OPERATION_ANY_SOURCE] = call_any_source,
        [OPERATION_REDUCE] = call_reduce,
        [OPERATION_ALL_GATHER] = call_gather,
        [OPERATION_GATHER] = call_gather,
        [OPERATION_SCATTER] = call_scatter,
        [OPERATION_REDUCE_SCATTER] = call_scatter,
        [OPERATION_ALL_TO_ALL] = call_all_to_all,
        [OPERATION_MONITORED_BARRIER] = call_monitored_barrier,
    };

    *slot = (struct slot){.call = sequence_call(&run.sequence, number)};
    slot->facts = sequence_local(&slot->call, run.rank);
    calls[slot->call.operation](slot);
}
