/* SPDX-License-Identifier: Apache-2.0 */
/* What a call must have left: results against the serial reference, and its records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "conformance/slot.h"
#include "conformance/values.h"
#include "harness/rank.h"

/* ---- results --------------------------------------------------------------------------------- */

static int64_t digest_of(const struct buffer *buffer)
{
    uint64_t digest = 0, word;
    size_t i = 0;

    for (; i + sizeof word <= buffer->bytes; i += sizeof word) {
        memcpy(&word, buffer->data + i, sizeof word);
        digest = random_mix(digest ^ word);
    }
    for (; i < buffer->bytes; i++)
        digest = random_mix(digest ^ buffer->data[i]);
    return (int64_t)digest;
}

static void check_all_reduce(struct slot *slot)
{
    char words[256];

    if (!values_check_reduced(&slot->call, slot->out[0].data, words, sizeof words))
        slot_fail(slot, words);
    if (slot->in.memory &&
        !values_check_copy(&slot->call, run.rank, slot->in.data, words, sizeof words))
        slot_fail(slot, "the input was written");
    slot->digest = digest_of(&slot->out[0]);
}

static void check_broadcast(struct slot *slot)
{
    char words[256];

    if (!values_check_copy(&slot->call, slot->call.root, slot->out[0].data, words, sizeof words))
        slot_fail(slot, words);
}

/* The others' memory is theirs, also where they gave an output. */
static void check_reduce(struct slot *slot)
{
    const struct buffer *in = slot->in.memory ? &slot->in : &slot->out[0];
    const bool root = run.rank == slot->call.root;
    char words[256];

    if (root && !values_check_reduced(&slot->call, slot->out[0].data, words, sizeof words))
        slot_fail(slot, words);
    if ((!root || slot->in.memory) &&
        !values_check_copy(&slot->call, run.rank, in->data, words, sizeof words))
        slot_fail(slot, "the input was written");
}

/* What `from` has for `to`, at block `block` of the buffer. */
static void check_block(struct slot *slot, const struct buffer *buffer, int block, int from, int to,
                        const char *objection)
{
    const struct conformance_call of_block = values_of_block(&slot->call, from, to);
    char words[256];

    if (!values_check_copy(&of_block, from, buffer_block(buffer, slot, block), words, sizeof words))
        slot_fail(slot, objection ? objection : words);
}

static void check_gather(struct slot *slot)
{
    if (slot->in.memory)
        check_block(slot, &slot->in, 0, run.rank, 0, "the input was written");
    if (slot->call.operation == OPERATION_GATHER && run.rank != slot->call.root)
        return;
    for (int i = 0; i < run.size; i++)
        check_block(slot, &slot->out[0], i, i, 0, NULL);
}

static void check_scatter(struct slot *slot)
{
    const struct buffer *out = slot->outs ? &slot->out[0] : &slot->in;
    const int block = slot->outs ? 0 : run.rank;
    const struct conformance_call mine = values_of_block(&slot->call, 0, run.rank);
    char words[256];

    if (slot->call.operation == OPERATION_SCATTER)
        check_block(slot, out, block, slot->call.root, run.rank, NULL);
    else if (!values_check_reduced(&mine, buffer_block(out, slot, block), words, sizeof words))
        slot_fail(slot, words);
    for (int i = 0; i < run.size; i++)
        if (slot->outs || i != run.rank)
            check_block(slot, &slot->in, i, run.rank, i, "the input was written");
}

static void check_all_to_all(struct slot *slot)
{
    for (int i = 0; i < run.size; i++)
        check_block(slot, &slot->out[0], i, i, run.rank, NULL);
}

static void check_messages(struct slot *slot)
{
    bool seen[MEMBERS_MAX] = {false};
    char words[256];
    int received = 0;

    if (slot->in.memory &&
        !values_check_copy(&slot->call, run.rank, slot->in.data, words, sizeof words))
        slot_fail(slot, "what was sent was written");
    for (int p = 0; p < slot->part_count && received < slot->outs; p++) {
        const int source = slot->parts[p].source;
        const int left = (run.rank + run.size - 1) % run.size;

        if (!slot->parts[p].is_receive)
            continue;
        if (source < 0 || source >= run.size || seen[source] || source == run.rank ||
            (slot->call.operation != OPERATION_ANY_SOURCE && source != left)) {
            slot_fail(slot, "a message came from a wrong rank");
            return;
        }
        seen[source] = true;
        if (!values_check_copy(&slot->call, source, slot->out[received++].data, words,
                               sizeof words))
            slot_fail(slot, words);
    }
}

static const tutti_record *find_record(const tutti_record *records, uint32_t count,
                                       const struct part *part)
{
    for (uint32_t i = 0; i < count; i++) {
        const bool is_message =
            !strcmp(records[i].operation, "send") || !strcmp(records[i].operation, "recv");

        if (is_message != part->is_collective && records[i].sequence == part->sequence)
            return &records[i];
    }
    return NULL;
}

/* All blocks of an uneven call that every member knows. */
static uint64_t shared_count(const struct slot *slot)
{
    const bool takes = space_takes_blocks(slot->call.operation);
    uint64_t count = 0;

    if (takes == space_gives_blocks(slot->call.operation) || slot->call.root >= 0)
        return 0;
    for (int i = 0; i < run.size; i++)
        count += sequence_block(&slot->call, takes ? 0 : i, takes ? i : 0);
    return count;
}

/* A list of tensors that are of one size, as it happens, is even. */
static bool is_uneven(const struct slot *slot)
{
    const unsigned operation = slot->call.operation;
    const bool takes = space_takes_blocks(operation);

    if (!slot->call.uneven)
        return false;
    if (!slot_is_list(slot) || operation == OPERATION_ALL_TO_ALL)
        return true;
    for (int i = 1; i < run.size; i++)
        if (sequence_block(&slot->call, takes ? 0 : i, takes ? i : 0) !=
            sequence_block(&slot->call, 0, 0))
            return true;
    return false;
}

static bool is_of_op(const struct conformance_call *call, const tutti_record *record)
{
    if (!space_reduces(call->operation))
        return record->op == -1;
    if (space_is_own(call->op_level))
        return record->op > TUTTI_PREMUL_SUM;
    return record->op == (space_is_premul(call->op_level) ? TUTTI_PREMUL_SUM : call->op);
}

/* Elements of the call's, as the record has them. */
static uint64_t recorded_count(const struct slot *slot, bool uneven)
{
    return uneven ? shared_count(slot) : sequence_block(&slot->call, run.rank, run.rank);
}

/* An engine took the tensors where they lay; of those without bytes nobody took anything. */
static bool is_direct(const struct slot *slot, const tutti_record *record)
{
    return !strcmp(record->provider, "nccl") ||
           (slot->call.devices == DEVICES_ALIKE && !(record->flags & TUTTI_RECORD_STAGED));
}

/* What the record says beside. Pinned memory without a stream is used as it lies. */
static uint32_t flags_of(const struct slot *slot, const tutti_record *record, bool uneven)
{
    bool is_staged = slot->in.on_device || (slot->stream && slot_has_stream(slot));

    for (int i = 0; i < slot->outs; i++)
        is_staged = is_staged || slot->out[i].on_device;
    is_staged = is_staged && !is_direct(slot, record);
    return (uneven ? TUTTI_RECORD_UNEVEN : 0) | (is_staged ? TUTTI_RECORD_STAGED : 0);
}

/* Means of floats without the range for a sum take the algorithms of the fixed order, which see all
 * operands at once. */
static bool averages_in_one_step(const struct conformance_call *call)
{
    return space_reduces(call->operation) && call->op == TUTTI_AVG &&
           !space_is_premul(call->op_level) &&
           (call->dtype == TUTTI_F16 || call->dtype == TUTTI_F8E4M3FN ||
            call->dtype == TUTTI_F8E5M2);
}

/* The place of the table whose rows the call has. A program's own operations are the host's. */
static const char *place_of(const struct conformance_call *call)
{
    const bool is_own = space_reduces(call->operation) && space_is_own(call->op_level);

    return call->devices == DEVICES_ALIKE && (is_own || !sequence_is_on_devices(call)) ? "shm"
                                                                                       : run.where;
}

/* NCCL moves long messages where both sides lie on GPUs; the table tells how all others go. */
static bool is_moved(const char *where, const tutti_record *record)
{
    return strstr(where, "nccl") && !strcmp(record->provider, "nccl") &&
           !strcmp(record->algorithm, "message") && record->bytes >= 65536 &&
           !(record->flags & TUTTI_RECORD_STAGED);
}

static void check_record(struct slot *slot, const struct part *part, const tutti_record *record)
{
    const struct conformance_call *call = &slot->call;
    const bool uneven = is_uneven(slot);
    const uint64_t own = sequence_block(call, run.rank, run.rank);
    const char *objection, *name = space_operations[call->operation], *where = place_of(call);
    char words[256], operation[32];

    if (call->operation == OPERATION_ALL_REDUCE_INTO)
        name = "all_reduce";
    if (!record) {
        slot_fail(slot, "the recorder has no record of it");
        return;
    }
    /* The stream may have passed it, and nobody has looked yet. */
    if ((record->state != 2 && !(is_direct(slot, record) && record->state == 1)) ||
        record->bytes != own * call->element)
        slot_fail(slot, "its record is not of a call that is done, with its bytes");
    if (!part->is_collective &&
        record->flags != (flags_of(slot, record, false) | TUTTI_RECORD_MESSAGE))
        slot_fail(slot, "its record tells another place of its tensors");
    if (!part->is_collective && (record->peer < 0 || record->peer >= run.size)) {
        slot_fail(slot, "its record names no peer");
        return;
    }
    if (part->is_collective &&
        (strcmp(record->operation, name) || record->count != recorded_count(slot, uneven) ||
         !is_of_op(call, record) || record->peer != call->root ||
         record->flags != flags_of(slot, record, uneven) ||
         record->dtype != (space_is_barrier(call->operation) ? 0 : call->dtype)))
        slot_fail(slot, "its record is of another call");
    const char *how = "";
    if (call->ordered || call->op_level == OP_NOT_COMMUTING || averages_in_one_step(call))
        how = "_fixed";
    else if (space_reduces(call->operation) && !served_by_engine(where, call->dtype, call->op))
        how = "_core";
    if (part->is_collective)
        snprintf(operation, sizeof operation, "%s%s%s", name, uneven ? "_v" : "", how);
    else
        snprintf(
            operation, sizeof operation, "%s",
            served_message(run.hosts, !strcmp(record->operation, "send"), run.rank, record->peer));
    if (!part->is_collective && is_moved(where, record))
        return;
    objection = served_objection(&run.table, where, run.size, operation,
                                 uneven ? record->count * call->element : record->bytes,
                                 slot_registered(slot), record, words, sizeof words);
    if (objection)
        slot_fail(slot, objection);
}

/* What a receive of a batch does not tell, the recorder does. */
static void take_source(struct part *part, const tutti_record *record)
{
    if (part->is_receive && part->source < 0 && record)
        part->source = record->peer;
}

void slot_end(struct slot *slot, const tutti_record *records, uint32_t count)
{
    static void (*const checks[OPERATIONS])(struct slot *) = {
        [OPERATION_ALL_REDUCE] = check_all_reduce,  [OPERATION_ALL_REDUCE_INTO] = check_all_reduce,
        [OPERATION_BROADCAST] = check_broadcast,    [OPERATION_SEND_RECV] = check_messages,
        [OPERATION_ISEND_IRECV] = check_messages,   [OPERATION_ANY_SOURCE] = check_messages,
        [OPERATION_REDUCE] = check_reduce,          [OPERATION_ALL_GATHER] = check_gather,
        [OPERATION_GATHER] = check_gather,          [OPERATION_SCATTER] = check_scatter,
        [OPERATION_REDUCE_SCATTER] = check_scatter, [OPERATION_ALL_TO_ALL] = check_all_to_all,
    };

    for (int p = 0; p < slot->part_count; p++)
        take_source(&slot->parts[p], find_record(records, count, &slot->parts[p]));
    slot_download(slot);
    if (checks[slot->call.operation])
        checks[slot->call.operation](slot);
    for (int p = 0; p < slot->part_count; p++)
        check_record(slot, &slot->parts[p], find_record(records, count, &slot->parts[p]));
    buffer_check_and_free(&slot->in, slot);
    for (int i = 0; i < slot->outs; i++)
        buffer_check_and_free(&slot->out[i], slot);
}
