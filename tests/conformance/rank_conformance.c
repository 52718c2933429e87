/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank of the conformance test: makes the calls of a sequence, in batches. Within a batch
 * asynchronous calls stay in flight while others are made; then all are waited for in an order of
 * this rank's own. Each result is compared with the serial reference, the memory around every
 * tensor and inputs must be untouched, and the recorder must say that each call was served as the
 * table foretells. One more all_reduce per batch compares the bits of all members' results, and
 * carries rank 0's word whether there is time for another batch.
 *
 * Environment: TUTTI_TEST_SEED, _MODE (of enum mode), _MASK (numbers of members), _WHERE (place of
 * the table), _TABLE (its path), _MS (how long random calls follow the listed ones), _BATCH (only
 * that one), _HOSTS (a letter per rank, or none), _AGAIN (what to type to run the case again, for messages).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "conformance/sequence.h"
#include "conformance/served.h"
#include "conformance/values.h"
#include "harness/rank.h"

enum {
    GUARD = 64, /* bytes on both sides of a tensor */
    LINE = 64,
    GUARD_BYTE = 0xa5,
    PARTS_MAX = MEMBERS_MAX, /* tensors, and calls, of one case on one rank */
    RECORDS = BATCH * PARTS_MAX,
    TIMEOUT_MS = 60000,
    FAILURES_MAX = 8
};

struct buffer {
    unsigned char *memory, *data;
    size_t bytes, room;
    int64_t shape;
    tutti_tensor tensor;
};

/* One call in flight, or done. */
struct part {
    bool is_collective;
    uint64_t sequence; /* as the recorder counts */
    tutti_work *work;
    int32_t source;
};

struct slot {
    struct conformance_call call;
    struct local_facts facts;
    struct buffer in, out[PARTS_MAX]; /* `in` may be absent */
    int outs;
    struct part parts[PARTS_MAX + 1];
    int part_count;
    int64_t digest;
};

struct run {
    tutti_group *world;
    int rank, size;
    struct sequence sequence;
    struct served_table table;
    const char *where, *hosts, *again;
    int64_t until_ns;
    uint64_t collectives, messages; /* calls made, as the recorder counts them */
    uint64_t state;                 /* of this rank's own choices */
    int failures;
};

static struct slot slots[BATCH];
static struct run run;

/* ---- words ----------------------------------------------------------------------------------- */

static void fail(const struct slot *slot, const char *why)
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

/* A group that has failed has nothing more to say. */
static void must(const struct slot *slot, tutti_status status, const char *what)
{
    char words[1024];

    if (!status)
        return;
    snprintf(words, sizeof words, "%s is %s: %s", what, tutti_status_name(status),
             tutti_last_error());
    fail(slot, words);
    rank_end();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void buffer_make(struct buffer *buffer, const struct slot *slot)
{
    const size_t offset = slot->facts.offset;

    buffer->bytes = (size_t)slot->call.count * slot->call.element;
    buffer->room = (GUARD + offset + buffer->bytes + GUARD + LINE - 1) / LINE * LINE;
    buffer->memory = aligned_alloc(LINE, buffer->room);
    require(buffer->memory != NULL);
    memset(buffer->memory, GUARD_BYTE, GUARD + offset);
    memset(buffer->memory + GUARD + offset + buffer->bytes, GUARD_BYTE,
           buffer->room - GUARD - offset - buffer->bytes);
    buffer->data = buffer->memory + GUARD + offset;
    buffer->tensor =
        tutti_tensor_1d(buffer->data, slot->call.dtype, &buffer->shape, (int64_t)slot->call.count);
    if (slot->facts.by_offset) {
        buffer->tensor.data = buffer->memory + GUARD;
        buffer->tensor.byte_offset = offset;
    }
}

static bool is_guard(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != GUARD_BYTE)
            return false;
    return true;
}

static void buffer_check_and_free(struct buffer *buffer, const struct slot *slot)
{
    const unsigned char *end = buffer->data + buffer->bytes;

    if (!buffer->memory)
        return;
    if (!is_guard(buffer->memory, (size_t)(buffer->data - buffer->memory)) ||
        !is_guard(end, (size_t)(buffer->memory + buffer->room - end)))
        fail(slot, "memory beside a tensor was written");
    free(buffer->memory);
    buffer->memory = NULL;
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
    must(slot,
         into ? tutti_all_reduce_into(run.world, &in->tensor, &out->tensor, slot->call.op, NULL,
                                      work)
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
    must(slot,
         tutti_broadcast(run.world, &out->tensor, slot->call.root, NULL,
                         slot->facts.async ? &part->work : NULL),
         "the call");
}

static void call_barrier(struct slot *slot)
{
    struct part *part = next_part(slot, true);

    must(slot, tutti_barrier(run.world, NULL, slot->facts.async ? &part->work : NULL), "the call");
}

static void send(struct slot *slot, int to, uint64_t tag)
{
    struct part *part = next_part(slot, false);

    if (!slot->in.memory) {
        buffer_make(&slot->in, slot);
        values_fill(&slot->call, run.rank, slot->in.data);
    }
    if (slot->facts.async)
        must(slot, tutti_isend(run.world, &slot->in.tensor, to, tag, NULL, &part->work), "isend");
    else
        must(slot, tutti_send(run.world, &slot->in.tensor, to, tag, NULL), "send");
}

static void receive(struct slot *slot, int from, uint64_t tag)
{
    struct buffer *out = next_out(slot);
    struct part *part = next_part(slot, false);

    memset(out->data, 0, out->bytes);
    if (slot->facts.async)
        must(slot, tutti_irecv(run.world, &out->tensor, from, tag, NULL, &part->work), "irecv");
    else
        must(slot, tutti_recv(run.world, &out->tensor, from, tag, NULL, &part->source), "recv");
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

static void slot_begin(struct slot *slot, uint64_t number)
{
    static void (*const calls[OPERATIONS])(struct slot *) = {
        call_all_reduce, call_all_reduce, call_broadcast, call_barrier,
        call_ring,       call_ring,       call_any_source};

    *slot = (struct slot){.call = sequence_call(&run.sequence, number)};
    slot->facts = sequence_local(&slot->call, run.rank);
    calls[slot->call.operation](slot);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Either way of learning that a work is complete. */
static void finish_part(struct slot *slot, struct part *part)
{
    int32_t done = 0;

    if (random_below(&run.state, 4) == 0)
        must(slot, tutti_work_test(part->work, &done), "a work's test");
    if (!done)
        must(slot, tutti_work_wait(part->work, 0), "a work");
    if (!part->is_collective)
        part->source = tutti_work_source(part->work);
    tutti_work_free(part->work);
    part->work = NULL;
}

static void wait_in_any_order(int count)
{
    struct {
        struct slot *slot;
        struct part *part;
    } pending[BATCH * (PARTS_MAX + 1)];
    unsigned n = 0;

    for (int s = 0; s < count; s++)
        for (int p = 0; p < slots[s].part_count; p++)
            if (slots[s].parts[p].work) {
                pending[n].slot = &slots[s];
                pending[n++].part = &slots[s].parts[p];
            }
    while (n) {
        const unsigned i = random_below(&run.state, n);

        finish_part(pending[i].slot, pending[i].part);
        pending[i] = pending[--n];
    }
}

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
        fail(slot, words);
    if (slot->in.memory &&
        !values_check_copy(&slot->call, run.rank, slot->in.data, words, sizeof words))
        fail(slot, "the input was written");
    slot->digest = digest_of(&slot->out[0]);
}

static void check_broadcast(struct slot *slot)
{
    char words[256];

    if (!values_check_copy(&slot->call, slot->call.root, slot->out[0].data, words, sizeof words))
        fail(slot, words);
}

static void check_messages(struct slot *slot)
{
    bool seen[MEMBERS_MAX] = {false};
    char words[256];
    int received = 0;

    if (slot->in.memory &&
        !values_check_copy(&slot->call, run.rank, slot->in.data, words, sizeof words))
        fail(slot, "what was sent was written");
    for (int p = 0; p < slot->part_count && received < slot->outs; p++) {
        const int source = slot->parts[p].source;
        const int left = (run.rank + run.size - 1) % run.size;

        if (source < 0)
            continue; /* a send */
        if (source >= run.size || seen[source] || source == run.rank ||
            (slot->call.operation != OPERATION_ANY_SOURCE && source != left)) {
            fail(slot, "a message came from a wrong rank");
            return;
        }
        seen[source] = true;
        if (!values_check_copy(&slot->call, source, slot->out[received++].data, words,
                               sizeof words))
            fail(slot, words);
    }
    if (received != slot->outs)
        fail(slot, "a receive names no source");
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
    static const char *const names[] = {"all_reduce", "all_reduce", "broadcast", "barrier"};
    const struct conformance_call *call = &slot->call;
    const char *objection, *operation;
    char words[256];

    if (!record) {
        fail(slot, "the recorder has no record of it");
        return;
    }
    if (record->state != 2 || record->bytes != call->count * call->element)
        fail(slot, "its record is not of a call that is done, with its bytes");
    if (!part->is_collective && (record->peer < 0 || record->peer >= run.size)) {
        fail(slot, "its record names no peer");
        return;
    }
    if (part->is_collective &&
        (strcmp(record->operation, names[call->operation]) || record->count != call->count ||
         record->op != call->op || record->peer != call->root ||
         record->dtype != (call->operation == OPERATION_BARRIER ? 0 : call->dtype)))
        fail(slot, "its record is of another call");
    operation = part->is_collective ? record->operation
                                    : served_message(run.hosts, !strcmp(record->operation, "send"),
                                                     run.rank, record->peer);
    objection =
        served_objection(&run.table, run.where, run.size, operation, record, words, sizeof words);
    if (objection)
        fail(slot, objection);
}

static void slot_end(struct slot *slot, const tutti_record *records, uint32_t count)
{
    if (slot->call.operation <= OPERATION_ALL_REDUCE_INTO)
        check_all_reduce(slot);
    else if (slot->call.operation == OPERATION_BROADCAST)
        check_broadcast(slot);
    else if (slot->call.operation != OPERATION_BARRIER)
        check_messages(slot);
    for (int p = 0; p < slot->part_count; p++)
        check_record(slot, &slot->parts[p], find_record(records, count, &slot->parts[p]));
    buffer_check_and_free(&slot->in, slot);
    for (int i = 0; i < slot->outs; i++)
        buffer_check_and_free(&slot->out[i], slot);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Whether rank 0 has time left. Each digest goes with its complement: when the least of both
 * belong together, all members' were the same. */
static bool compare_members(int count)
{
    int64_t votes[2 * BATCH + 1] = {0}, shape;
    tutti_tensor tensor = tutti_tensor_1d(votes, TUTTI_I64, &shape, 2 * BATCH + 1);

    for (int i = 0; i < count; i++) {
        votes[2 * i] = slots[i].digest;
        votes[2 * i + 1] = ~slots[i].digest;
    }
    votes[2 * BATCH] = run.rank == 0 ? rank_now_ns() < run.until_ns : 1;
    must(&slots[0], tutti_all_reduce(run.world, &tensor, TUTTI_MIN, NULL, NULL),
         "the comparison after the batch");
    run.collectives++;
    for (int i = 0; i < count; i++)
        if (votes[2 * i] != ~votes[2 * i + 1])
            fail(&slots[i], "members have different bits");
    return votes[2 * BATCH];
}

/* Returns whether there is time left. */
static bool run_batch(uint64_t batch, int count)
{
    static tutti_record records[RECORDS];
    uint32_t recorded;

    for (int i = 0; i < count; i++)
        slot_begin(&slots[i], batch * BATCH + (uint64_t)i);
    wait_in_any_order(count);
    must(&slots[0], tutti_recorder_read(run.world, records, sizeof records[0], RECORDS, &recorded),
         "reading the recorder");
    for (int i = 0; i < count; i++)
        slot_end(&slots[i], records, recorded);
    return compare_members(count);
}

static void run_batches(void)
{
    const uint64_t listed = run.sequence.count, whole = listed / BATCH * BATCH;
    uint64_t batch = 0;
    bool in_time = true;

    if (run.sequence.mode != MODE_PAIRS) { /* the product and nothing else */
        for (; batch * BATCH < whole; batch++)
            run_batch(batch, BATCH);
        if (whole < listed)
            run_batch(batch, (int)(listed - whole));
        rank_value("calls", "%" PRIu64, listed);
        return;
    }
    for (; in_time || batch * BATCH < listed; batch++)
        in_time = run_batch(batch, BATCH);
    rank_value("calls", "%" PRIu64, batch * BATCH);
}

static uint64_t number(const char *name)
{
    const char *value = getenv(name);

    return value ? strtoull(value, NULL, 10) : 0;
}

RANK_CASE(conformance)
{
    const tutti_init_options options = {.struct_size = sizeof options, .timeout_ms = TIMEOUT_MS};
    const char *only = getenv("TUTTI_TEST_BATCH");

    run.rank = rank;
    run.size = size;
    run.where = getenv("TUTTI_TEST_WHERE");
    run.hosts = getenv("TUTTI_TEST_HOSTS");
    run.again = getenv("TUTTI_TEST_AGAIN");
    require(run.where && run.hosts && run.again && getenv("TUTTI_TEST_TABLE"));
    require(served_load(getenv("TUTTI_TEST_TABLE"), &run.table));
    sequence_open(&run.sequence, number("TUTTI_TEST_SEED"), (enum mode)number("TUTTI_TEST_MODE"),
                  size, (unsigned)number("TUTTI_TEST_MASK"));
    run.state = random_mix(run.sequence.seed + (uint64_t)rank);
    run.world = rank_init(&options);
    run.until_ns = rank_now_ns() + (int64_t)number("TUTTI_TEST_MS") * 1000000;
    if (only) {
        run_batch(strtoull(only, NULL, 10), BATCH);
        rank_value("calls", "0");
    } else {
        run_batches();
    }
    check_ok(tutti_barrier(run.world, NULL, NULL));
    check_ok(tutti_group_destroy(run.world));
    sequence_close(&run.sequence);
    served_free(&run.table);
}
