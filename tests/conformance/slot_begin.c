/* SPDX-License-Identifier: Apache-2.0 */
/* The calls. */
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
    static const char *const ways[WAYS] = {"blocking", "asynchronous", "in a batch"};
    char words[256];

    sequence_words(&slot->call, words, sizeof words);
    rank_check(RANK_PLACE, false,
               "%s: %s; this rank: %s, offset %zu, in %s, out in %s; again: "
               "TUTTI_CONFORMANCE_SEED=%" PRIu64 " TUTTI_CONFORMANCE_ONLY=%s:%d:%" PRIu64 " %s",
               words, why, ways[slot->facts.way], slot->facts.offset,
               sequence_memories[slot->facts.in], sequence_memories[slot->facts.out],
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

/* ---- inputs ---------------------------------------------------------------------------------- */

static void fill_blocks(const struct slot *slot, const struct buffer *buffer)
{
    for (int i = 0; i < run.size; i++) {
        const struct conformance_call of_block = values_of_block(&slot->call, run.rank, i);

        values_fill(&of_block, run.rank, buffer_block(buffer, slot, i));
    }
}

static void fill_vector(const struct slot *slot, void *to)
{
    const struct conformance_call of_block = values_of_block(&slot->call, run.rank, 0);

    values_fill(&of_block, run.rank, to);
}

/* This rank's vector: what it has for the others, or what they have for it. */
static struct buffer *next_out(struct slot *slot)
{
    struct buffer *buffer = &slot->out[slot->outs++];

    buffer_make(buffer, slot, 0, run.rank);
    return buffer;
}

/* ---- operations made at run time ------------------------------------------------------------- */

/* As many factors as the input has elements, block after block. */
static int64_t fill_each_factor(const struct slot *slot, unsigned char *to)
{
    const bool blocks = space_takes_blocks(slot->call.operation);
    int64_t count = 0;

    for (int i = 0; i < (blocks ? run.size : 1); i++) {
        struct conformance_call of_block = slot->call;

        if (blocks)
            of_block = values_of_block(&slot->call, run.rank, i);
        if (to)
            values_fill_factors(&of_block, run.rank, to + (size_t)count * slot->call.element);
        count += (int64_t)of_block.count;
    }
    return count;
}

static tutti_reduce_op premul_op(const struct slot *slot)
{
    struct conformance_call one = slot->call;
    int64_t count = slot->call.op_level == OP_PREMUL_EACH ? fill_each_factor(slot, NULL) : 1, shape;
    tutti_reduce_op op = -1;

    if (count == 0) /* an empty factor is none */
        count = 1;
    unsigned char *factors = malloc((size_t)count * slot->call.element);
    require(factors != NULL);
    one.count = 1;
    values_fill_factors(&one, run.rank, factors);
    if (slot->call.op_level == OP_PREMUL_EACH)
        fill_each_factor(slot, factors);
    tutti_tensor factor = tutti_tensor_1d(factors, slot->call.dtype, &shape, count);

    slot_place_factor(slot, &factor);
    slot_must(slot, tutti_reduce_op_premul(&factor, &op), "the factor");
    slot_free_factor(&factor);
    free(factors);
    return op;
}

static tutti_reduce_op take_op(const struct slot *slot)
{
    if (space_is_premul(slot->call.op_level))
        return premul_op(slot);
    return space_is_own(slot->call.op_level) ? run.own[slot->call.op_level - OP_COMMUTING]
                                             : slot->call.op;
}

/* The call has what it needs. */
static void give_op(const struct slot *slot, tutti_reduce_op op)
{
    if (space_is_premul(slot->call.op_level))
        tutti_reduce_op_free(op);
}

/* The order of a reduction, and the stream; and half of the asynchronous calls are said to be waited for next, which
 * members need not agree on. */
static const tutti_options *options_of(struct slot *slot)
{
    const bool next =
        slot->facts.way == WAY_ASYNC && (slot->call.number + (uint64_t)run.rank) % 2 == 1;
    uint32_t flags = next ? TUTTI_WAITS_NEXT : 0;

    if (slot->call.row.level[FACTOR_ORDER] == ORDER_FIXED)
        flags |= TUTTI_FIXED_ORDER;
    slot->options = (tutti_options){.struct_size = sizeof slot->options,
                                    .flags = flags,
                                    .stream = slot_has_stream(slot) ? slot->stream : NULL};
    return flags || slot->options.stream ? &slot->options : NULL;
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

/* Where the call is to put its work: NULL, it has none. */
static tutti_work **work_of(const struct slot *slot, struct part *part)
{
    return slot->facts.way == WAY_ASYNC ? &part->work : NULL;
}

static void call_all_reduce(struct slot *slot)
{
    const bool into = slot->call.operation == OPERATION_ALL_REDUCE_INTO ||
                      (slot->call.mixed && slot->facts.other_place);
    const bool apart = into && slot->facts.other_place;
    struct buffer *out = next_out(slot), *in = out;
    struct part *part = next_part(slot, true);
    tutti_work **work = work_of(slot, part);

    if (apart) {
        in = &slot->in;
        buffer_make(in, slot, 0, 0);
        buffer_clear(out, slot);
    }
    values_fill(&slot->call, run.rank, in->data);
    const tutti_reduce_op op = take_op(slot);

    slot_upload(slot);
    slot_must(slot,
              into ? tutti_all_reduce_into(run.world, &in->tensor, &out->tensor, op,
                                           options_of(slot), work)
                   : tutti_all_reduce(run.world, &out->tensor, op, options_of(slot), work),
              "the call");
    give_op(slot, op);
}

static void call_broadcast(struct slot *slot)
{
    struct buffer *out = next_out(slot);
    struct part *part = next_part(slot, true);

    if (run.rank == slot->call.root)
        values_fill(&slot->call, run.rank, out->data);
    else
        buffer_clear(out, slot);
    slot_upload(slot);
    slot_must(slot,
              tutti_broadcast(run.world, &out->tensor, slot->call.root, options_of(slot),
                              work_of(slot, part)),
              "the call");
}

static void call_barrier(struct slot *slot)
{
    struct part *part = next_part(slot, true);

    slot_must(slot, tutti_barrier(run.world, options_of(slot), work_of(slot, part)), "the call");
}

static void send(struct slot *slot, int to, uint64_t tag)
{
    struct part *part = next_part(slot, false);

    if (!slot->in.memory) {
        buffer_make(&slot->in, slot, 0, 0);
        values_fill(&slot->call, run.rank, slot->in.data);
        slot_upload(slot);
    }
    if (slot->facts.way == WAY_ASYNC)
        slot_must(slot,
                  tutti_isend(run.world, &slot->in.tensor, to, tag, options_of(slot), &part->work),
                  "isend");
    else
        slot_must(slot, tutti_send(run.world, &slot->in.tensor, to, tag, options_of(slot)), "send");
}

static void receive(struct slot *slot, int from, uint64_t tag)
{
    struct buffer *out = next_out(slot);
    struct part *part = next_part(slot, false);

    part->is_receive = true;
    buffer_clear(out, slot);
    slot_upload(slot);
    if (slot->facts.way == WAY_ASYNC)
        slot_must(slot,
                  tutti_irecv(run.world, &out->tensor, from, tag, options_of(slot), &part->work),
                  "irecv");
    else
        slot_must(slot,
                  tutti_recv(run.world, &out->tensor, from, tag, options_of(slot),
                             run.batch_open ? NULL : &part->source),
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
    tutti_work **work = work_of(slot, part);

    if (apart) {
        in = &slot->in;
        buffer_make(in, slot, 0, 0);
        buffer_clear(out, slot);
    }
    values_fill(&slot->call, run.rank, in->data);
    const tutti_reduce_op op = take_op(slot);

    slot_upload(slot);
    slot_must(
        slot,
        apart ? tutti_reduce_into(run.world, &in->tensor, &out->tensor, op, slot->call.root,
                                  options_of(slot), work)
              : tutti_reduce(run.world, &out->tensor, op, slot->call.root, options_of(slot), work),
        "the call");
    give_op(slot, op);
}

/* ---- calls with blocks ----------------------------------------------------------------------- */

/*
 * Each in its form: one tensor of even blocks, a list of tensors, one with counts. Even ones a member
 * may give as a list by itself; lists of different sizes are another form, and for all to give where
 * all know the sizes.
 */
bool slot_is_list(const struct slot *slot)
{
    const unsigned operation = slot->call.operation;

    if (!slot->call.uneven)
        return slot->facts.list && operation != OPERATION_ALL_TO_ALL;
    if (operation == OPERATION_ALL_GATHER || operation == OPERATION_REDUCE_SCATTER)
        return slot->call.whole_key & 2;
    return slot->facts.list && operation == OPERATION_ALL_TO_ALL;
}

static tutti_status all_gather(struct slot *slot, const tutti_tensor *in, struct buffer *out,
                               tutti_work **work)
{
    struct block_list blocks;

    if (slot_is_list(slot))
        return tutti_all_gather_list(run.world, in, buffer_list(out, slot, &blocks),
                                     options_of(slot), work);
    if (slot->call.uneven)
        return tutti_all_gather_v(run.world, in, &out->tensor, out->counts,
                                  buffer_offsets(out, slot), options_of(slot), work);
    return tutti_all_gather(run.world, in, &out->tensor, options_of(slot), work);
}

static tutti_status gather(struct slot *slot, const tutti_tensor *in, struct buffer *out,
                           tutti_work **work)
{
    struct block_list blocks;

    if (slot_is_list(slot))
        return tutti_gather_list(run.world, in, buffer_list(out, slot, &blocks), slot->call.root,
                                 options_of(slot), work);
    if (slot->call.uneven)
        return tutti_gather_v(run.world, in, &out->tensor, out->counts, buffer_offsets(out, slot),
                              slot->call.root, options_of(slot), work);
    return tutti_gather(run.world, in, &out->tensor, slot->call.root, options_of(slot), work);
}

static tutti_status scatter(struct slot *slot, struct buffer *in, const tutti_tensor *out,
                            tutti_work **work)
{
    struct block_list blocks;

    if (slot_is_list(slot))
        return tutti_scatter_list(run.world, buffer_list(in, slot, &blocks), out, slot->call.root,
                                  options_of(slot), work);
    if (slot->call.uneven)
        return tutti_scatter_v(run.world, &in->tensor, in->counts, buffer_offsets(in, slot), out,
                               slot->call.root, options_of(slot), work);
    return tutti_scatter(run.world, &in->tensor, out, slot->call.root, options_of(slot), work);
}

static tutti_status reduce_scatter(struct slot *slot, struct buffer *in, const tutti_tensor *out,
                                   tutti_work **work)
{
    const tutti_options *options = options_of(slot);
    const tutti_reduce_op op = take_op(slot);
    struct block_list blocks;
    tutti_status status;

    if (slot_is_list(slot))
        status = tutti_reduce_scatter_list(run.world, buffer_list(in, slot, &blocks), out, op,
                                           options, work);
    else if (slot->call.uneven)
        status = tutti_reduce_scatter_v(run.world, &in->tensor, in->counts,
                                        buffer_offsets(in, slot), out, op, options, work);
    else
        status = tutti_reduce_scatter(run.world, &in->tensor, out, op, options, work);
    give_op(slot, op);
    return status;
}

/* My vector to one of the output's blocks, of which it may be one. */
static void call_gather(struct slot *slot)
{
    struct buffer *out = &slot->out[slot->outs++];
    struct part *part = next_part(slot, true);
    tutti_tensor in;

    buffer_make_blocks(out, slot, false);
    buffer_clear(out, slot);
    if (slot->facts.other_place) {
        buffer_make(&slot->in, slot, run.rank, 0);
        in = slot->in.tensor;
        fill_vector(slot, slot->in.data);
    } else {
        in = buffer_block_tensor(out, slot, run.rank);
        fill_vector(slot, buffer_block(out, slot, run.rank));
    }
    slot_upload(slot);
    slot_must(slot,
              slot->call.operation == OPERATION_ALL_GATHER
                  ? all_gather(slot, &in, out, work_of(slot, part))
                  : gather(slot, &in, out, work_of(slot, part)),
              "the call");
}

/* One of the input's blocks to my vector, which may be one of them. */
static void call_scatter(struct slot *slot)
{
    struct part *part = next_part(slot, true);
    tutti_tensor out;

    buffer_make_blocks(&slot->in, slot, true);
    fill_blocks(slot, &slot->in);
    if (slot->facts.other_place) {
        struct buffer *apart = next_out(slot);

        buffer_clear(apart, slot);
        out = apart->tensor;
    } else {
        out = buffer_block_tensor(&slot->in, slot, run.rank);
    }
    slot_upload(slot);
    slot_must(slot,
              slot->call.operation == OPERATION_SCATTER
                  ? scatter(slot, &slot->in, &out, work_of(slot, part))
                  : reduce_scatter(slot, &slot->in, &out, work_of(slot, part)),
              "the call");
}

static void call_all_to_all(struct slot *slot)
{
    struct buffer *out = &slot->out[slot->outs++], *in = out;
    struct part *part = next_part(slot, true);
    tutti_work **work = work_of(slot, part);
    struct block_list ins, outs;

    buffer_make_blocks(out, slot, false);
    if (slot->facts.other_place) {
        in = &slot->in;
        buffer_make_blocks(in, slot, true);
        buffer_clear(out, slot);
    }
    fill_blocks(slot, in);
    slot_upload(slot);
    slot_must(slot,
              !slot->call.uneven
                  ? tutti_all_to_all(run.world, &in->tensor, &out->tensor, options_of(slot), work)
              : slot_is_list(slot)
                  ? tutti_all_to_all_list(run.world, buffer_list(in, slot, &ins),
                                          buffer_list(out, slot, &outs), options_of(slot), work)
                  : tutti_all_to_all_v(run.world, &in->tensor, in->counts, buffer_offsets(in, slot),
                                       &out->tensor, out->counts, buffer_offsets(out, slot),
                                       options_of(slot), work),
              "the call");
}

static void call_monitored_barrier(struct slot *slot)
{
    struct part *part = next_part(slot, true);

    slot_must(slot, tutti_monitored_barrier(run.world, options_of(slot), work_of(slot, part)),
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
    if (slot->call.devices)
        slot->stream = run.streams[random_below(&run.state, STREAMS - 1)];
    if (slot->facts.way != WAY_BATCH) {
        slot_end_batch(slot);
    } else if (!run.batch_open) {
        slot_must(slot, tutti_batch_begin(run.world), "the batch");
        run.batch_open = true;
    }
    calls[slot->call.operation](slot);
}

/* Half of the batches block at their end. */
void slot_end_batch(const struct slot *slot)
{
    tutti_work **work = random_below(&run.state, 2) ? &run.batches[run.batch_count] : NULL;

    if (!run.batch_open)
        return;
    run.batch_open = false;
    slot_must(slot, tutti_batch_end(run.world, work), "the batch's end");
    run.batch_count += work != NULL;
}
