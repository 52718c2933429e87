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

static void check_gather(struct slot *slot)
{
    char words[256];

    if (slot->in.memory &&
        !values_check_copy(&slot->call, run.rank, slot->in.data, words, sizeof words))
        slot_fail(slot, "the input was written");
    if (slot->call.operation == OPERATION_GATHER && run.rank != slot->call.root)
        return;
    for (int i = 0; i < run.size; i++)
        if (!values_check_copy(&slot->call, i, slot_block(slot, &slot->out[0], i), words,
                               sizeof words))
            slot_fail(slot, words);
}

static void check_scatter(struct slot *slot)
{
    const struct conformance_call mine = values_of_block(&slot->call, run.rank);
    const void *got = slot->outs ? slot->out[0].data : slot_block(slot, &slot->in, run.rank);
    char words[256];

    if (slot->call.operation == OPERATION_SCATTER
            ? !values_check_copy(&mine, slot->call.root, got, words, sizeof words)
            : !values_check_reduced(&mine, got, words, sizeof words))
        slot_fail(slot, words);
    for (int i = 0; i < run.size; i++) {
        const struct conformance_call of_block = values_of_block(&slot->call, i);

        if ((slot->outs || i != run.rank) &&
            !values_check_copy(&of_block, run.rank, slot_block(slot, &slot->in, i), words,
                               sizeof words))
            slot_fail(slot, "the input was written");
    }
}

static void check_all_to_all(struct slot *slot)
{
    const struct conformance_call mine = values_of_block(&slot->call, run.rank);
    char words[256];

    for (int i = 0; i < run.size; i++)
        if (!values_check_copy(&mine, i, slot_block(slot, &slot->out[0], i), words, sizeof words))
            slot_fail(slot, words);
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

        if (source < 0)
            continue; /* a send */
        if (source >= run.size || seen[source] || source == run.rank ||
            (slot->call.operation != OPERATION_ANY_SOURCE && source != left)) {
            slot_fail(slot, "a message came from a wrong rank");
            return;
        }
        seen[source] = true;
        if (!values_check_copy(&slot->call, source, slot->out[received++].data, words,
                               sizeof words))
            slot_fail(slot, words);
    }
    if (received != slot->outs)
        slot_fail(slot, "a receive names no source");
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

static void check_record(struct slot *slot, const struct part *part, const tutti_record *record)
{
    const struct conformance_call *call = &slot->call;
    const char *objection, *operation, *name = space_operations[call->operation];
    const bool list = call->operation == OPERATION_ALL_TO_ALL && call->key & 1;
    char words[256];

    if (call->operation == OPERATION_ALL_REDUCE_INTO)
        name = "all_reduce";

    if (!record) {
        slot_fail(slot, "the recorder has no record of it");
        return;
    }
    if (record->state != 2 || record->bytes != call->count * call->element)
        slot_fail(slot, "its record is not of a call that is done, with its bytes");
    if (!part->is_collective && (record->peer < 0 || record->peer >= run.size)) {
        slot_fail(slot, "its record names no peer");
        return;
    }
    if (part->is_collective &&
        (strcmp(record->operation, name) || record->count != (list ? 0 : call->count) ||
         record->op != call->op || record->peer != call->root ||
         record->dtype != (space_is_barrier(call->operation) ? 0 : call->dtype)))
        slot_fail(slot, "its record is of another call");
    operation =
        list ? "all_to_all_v"
        : part->is_collective
            ? record->operation
            : served_message(run.hosts, !strcmp(record->operation, "send"), run.rank, record->peer);
    objection =
        served_objection(&run.table, run.where, run.size, operation, record, words, sizeof words);
    if (objection)
        slot_fail(slot, objection);
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

    if (checks[slot->call.operation])
        checks[slot->call.operation](slot);
    for (int p = 0; p < slot->part_count; p++)
        check_record(slot, &slot->parts[p], find_record(records, count, &slot->parts[p]));
    buffer_check_and_free(&slot->in, slot);
    for (int i = 0; i < slot->outs; i++)
        buffer_check_and_free(&slot->out[i], slot);
}
