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
 * that one), _HOSTS (a letter per rank, or none), _AGAIN (what to type to run the case again, for messages),
 * _DEVICES (1: some tensors are on a GPU; 2: all of a call or none).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "conformance/slot.h"
#include "conformance/values.h"
#include "harness/rank.h"

static struct slot slots[BATCH];
struct run run;

/* ---- waiting --------------------------------------------------------------------------------- */

/* Either way of learning that a work is complete. */
static void finish_part(struct slot *slot, struct part *part)
{
    int32_t done = 0;

    slot_wait_on_stream(slot, part);
    if (random_below(&run.state, 4) == 0)
        slot_must(slot, tutti_work_test(part->work, &done), "a work's test");
    if (!done)
        slot_must(slot, tutti_work_wait(part->work, 0), "a work");
    if (!part->is_collective)
        part->source = tutti_work_source(part->work);
    tutti_work_free(part->work);
    part->work = NULL;
}

static void finish_batches(const struct slot *slot)
{
    for (int i = 0; i < run.batch_count; i++) {
        slot_must(slot, tutti_work_wait(run.batches[i], 0), "a batch's work");
        tutti_work_free(run.batches[i]);
    }
    run.batch_count = 0;
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
    finish_batches(&slots[0]);
    while (n) {
        const unsigned i = random_below(&run.state, n);

        finish_part(pending[i].slot, pending[i].part);
        pending[i] = pending[--n];
    }
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
    slot_must(&slots[0], tutti_all_reduce(run.world, &tensor, TUTTI_MIN, NULL, NULL),
              "the comparison after the batch");
    run.collectives++;
    for (int i = 0; i < count; i++)
        if (votes[2 * i] != ~votes[2 * i + 1])
            slot_fail(&slots[i], "members have different bits");
    return votes[2 * BATCH];
}

/* Returns whether there is time left. */
static bool run_batch(uint64_t batch, int count)
{
    static tutti_record records[RECORDS];
    uint32_t recorded;

    for (int i = 0; i < count; i++)
        slot_begin(&slots[i], batch * BATCH + (uint64_t)i);
    slot_end_batch(&slots[count - 1]);
    wait_in_any_order(count);
    slot_must(&slots[0],
              tutti_recorder_read(run.world, records, sizeof records[0], RECORDS, &recorded),
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

/* ---- the user's own operations ---------------------------------------------------------------- */

static void commuting(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                      void *user)
{
    (void)user;
    values_combine(true, dst, a, b, (size_t)count * ((dtype >> 8 & 0xff) / 8));
}

static void not_commuting(void *dst, const void *a, const void *b, uint64_t count,
                          tutti_dtype dtype, void *user)
{
    (void)user;
    values_combine(false, dst, a, b, (size_t)count * ((dtype >> 8 & 0xff) / 8));
}

static void make_own_ops(void)
{
    require_ok(tutti_reduce_op_create("commuting", commuting, TUTTI_REDUCE_OP_COMMUTATIVE, NULL,
                                      &run.own[0]));
    require_ok(tutti_reduce_op_create("not commuting", not_commuting, 0, NULL, &run.own[1]));
}

RANK_CASE(conformance)
{
    tutti_init_options options = {.struct_size = sizeof options, .timeout_ms = TIMEOUT_MS};
    const char *only = getenv("TUTTI_TEST_BATCH");

    run.rank = rank;
    run.size = size;
    run.where = getenv("TUTTI_TEST_WHERE");
    run.hosts = getenv("TUTTI_TEST_HOSTS");
    run.again = getenv("TUTTI_TEST_AGAIN");
    require(run.where && run.hosts && run.again && getenv("TUTTI_TEST_TABLE"));
    if (*getenv("TUTTI_TEST_TABLE"))
        require(served_load(getenv("TUTTI_TEST_TABLE"), &run.table));
    sequence_open(&run.sequence, number("TUTTI_TEST_SEED"), (enum mode)number("TUTTI_TEST_MODE"),
                  size, (unsigned)number("TUTTI_TEST_MASK"));
    run.sequence.reproducible = number("TUTTI_REPRODUCIBLE");
    run.sequence.devices = (enum devices)number("TUTTI_TEST_DEVICES");
    if (run.sequence.devices)
        options.device = devices_open();
    run.state = random_mix(run.sequence.seed + (uint64_t)rank);
    make_own_ops();
    run.world = rank_init(&options);
    buffers_open();
    run.until_ns = rank_now_ns() + (int64_t)number("TUTTI_TEST_MS") * 1000000;
    if (only) {
        const uint64_t batch = strtoull(only, NULL, 10);

        run_batch(batch, BATCH);
        rank_value("first", "%" PRIu64, batch * BATCH);
        rank_value("calls", "%d", BATCH);
    } else {
        run_batches();
    }
    check_ok(tutti_barrier(run.world, NULL, NULL));
    buffers_close();
    check_ok(tutti_group_destroy(run.world));
    tutti_reduce_op_free(run.own[0]);
    tutti_reduce_op_free(run.own[1]);
    sequence_close(&run.sequence);
    served_free(&run.table);
}
