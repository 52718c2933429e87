/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the public API over the plugin, by four ranks that meet in a file. The core sends
 * many kinds of messages: what it does with the transport is the transport's hardest test.
 */
#include "check/check_join.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { LARGEST = RANK_FLOATS, WORKS = 64, KILL_AFTER = 50, NOTICE_MS = 2000, LATE_US = 20000 };

static const int64_t counts[] = {0, 1, 7, 1000, 16385, 65537, LARGEST};

static void expect_values(const struct rank *rank, const char *what, int from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (rank->out[i] != rank_value(from, i))
            check_fails("rank %d: %s of %lld floats: element %lld is %g instead of %g", rank->rank,
                        what, (long long)count, (long long)i, (double)rank->out[i],
                        (double)rank_value(from, i));
}

/* ---- collectives ----------------------------------------------------------------------------- */

void check_rank_all_reduce(const struct check_member *member)
{
    struct rank rank = rank_join(member);
    int64_t shape[2];

    for (size_t k = 0; k < G_N_ELEMENTS(counts); k++) {
        const int64_t count = counts[k];
        const tutti_tensor in = rank_floats(rank.in, &shape[0], count);
        const tutti_tensor out = rank_floats(rank.out, &shape[1], count);

        check_doing("in all_reduce of %lld floats", (long long)count);
        rank_fill(rank.in, rank.rank, count);
        rank_expect_ok(&rank, tutti_all_reduce_into(rank.world, &in, &out, TUTTI_SUM, NULL, NULL),
                       "tutti_all_reduce_into");
        for (int64_t i = 0; i < count; i++) {
            float sum = 0;

            for (int r = 0; r < rank.size; r++)
                sum += rank_value(r, i);
            if (rank.out[i] != sum)
                check_fails("rank %d: all_reduce of %lld floats: element %lld is %g instead of %g",
                            rank.rank, (long long)count, (long long)i, (double)rank.out[i],
                            (double)sum);
        }
    }
    rank_leave(&rank);
}

void check_rank_broadcast(const struct check_member *member)
{
    struct rank rank = rank_join(member);
    int64_t shape;

    for (size_t k = 0; k < G_N_ELEMENTS(counts); k++)
        for (int root = 0; root < rank.size; root++) {
            const int64_t count = counts[k];
            const tutti_tensor tensor = rank_floats(rank.out, &shape, count);

            check_doing("in broadcast of %lld floats from rank %d", (long long)count, root);
            rank_fill(rank.out, rank.rank, count);
            rank_expect_ok(&rank, tutti_broadcast(rank.world, &tensor, root, NULL, NULL),
                           "tutti_broadcast");
            expect_values(&rank, "broadcast", root, count);
        }
    rank_leave(&rank);
}

/* No member leaves a barrier before the last one has entered it; all read one clock. */
static void expect_waits_for(const struct rank *rank, int late)
{
    gint64 times[2]; /* when this rank entered and left */
    uint64_t bytes;

    check_doing("in a barrier that rank %d enters late", late);
    check_meet();
    if (rank->rank == late)
        g_usleep(LATE_US);
    times[0] = g_get_monotonic_time();
    rank_expect_ok(rank, tutti_barrier(rank->world, NULL, NULL), "tutti_barrier");
    times[1] = g_get_monotonic_time();
    check_give(times, sizeof times);
    check_meet();
    const gint64 *last = (const gint64 *)(const void *)check_take(late, &bytes);
    if (times[1] < last[0])
        check_fails("rank %d left a barrier %lld us before rank %d entered it", rank->rank,
                    (long long)(last[0] - times[1]), late);
}

void check_rank_barrier(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    check_doing("in barriers");
    for (int i = 0; i < 200; i++)
        rank_expect_ok(&rank, tutti_barrier(rank.world, NULL, NULL), "tutti_barrier");
    for (int late = 0; late < rank.size; late++)
        expect_waits_for(&rank, late);
    check_doing("in a monitored barrier");
    rank_expect_ok(&rank, tutti_monitored_barrier(rank.world, NULL, NULL),
                   "tutti_monitored_barrier");
    rank_leave(&rank);
}

/* ---- collectives of blocks: each member has one, or one for each member ----------------------- */

/* One call of the operation, from rank->in to rank->out. */
typedef tutti_status block_call(const struct rank *rank, const tutti_tensor *in,
                                const tutti_tensor *out, int root);
/* The result at element `i` of rank->out, with blocks of `count`. */
typedef float block_result(const struct rank *rank, int root, int64_t count, int64_t i);

static tutti_status call_reduce(const struct rank *rank, const tutti_tensor *in,
                                const tutti_tensor *out, int root)
{
    return tutti_reduce_into(rank->world, in, out, TUTTI_SUM, root, NULL, NULL);
}

static float reduced(const struct rank *rank, int root, int64_t count, int64_t i)
{
    (void)root;
    (void)count;
    return rank_sum(rank, i);
}

static tutti_status call_gather(const struct rank *rank, const tutti_tensor *in,
                                const tutti_tensor *out, int root)
{
    return tutti_gather(rank->world, in, out, root, NULL, NULL);
}

static tutti_status call_all_gather(const struct rank *rank, const tutti_tensor *in,
                                    const tutti_tensor *out, int root)
{
    (void)root;
    return tutti_all_gather(rank->world, in, out, NULL, NULL);
}

static float gathered(const struct rank *rank, int root, int64_t count, int64_t i)
{
    (void)rank;
    (void)root;
    return rank_value((int)(i / count), i % count);
}

static tutti_status call_scatter(const struct rank *rank, const tutti_tensor *in,
                                 const tutti_tensor *out, int root)
{
    return tutti_scatter(rank->world, in, out, root, NULL, NULL);
}

static float scattered(const struct rank *rank, int root, int64_t count, int64_t i)
{
    return rank_value(root, rank->rank * count + i);
}

static tutti_status call_reduce_scatter(const struct rank *rank, const tutti_tensor *in,
                                        const tutti_tensor *out, int root)
{
    (void)root;
    return tutti_reduce_scatter(rank->world, in, out, TUTTI_SUM, NULL, NULL);
}

static float reduce_scattered(const struct rank *rank, int root, int64_t count, int64_t i)
{
    (void)root;
    return rank_sum(rank, rank->rank * count + i);
}

static tutti_status call_all_to_all(const struct rank *rank, const tutti_tensor *in,
                                    const tutti_tensor *out, int root)
{
    (void)root;
    return tutti_all_to_all(rank->world, in, out, NULL, NULL);
}

static float exchanged(const struct rank *rank, int root, int64_t count, int64_t i)
{
    (void)root;
    return rank_value((int)(i / count), rank->rank * count + i % count);
}

static const struct block_operation {
    const char *name;
    block_call *call;
    block_result *result;
    bool many_in, many_out; /* a block for each member */
    bool at_root;           /* nobody else has a result */
} block_operations[] = {
    {"reduce", call_reduce, reduced, false, false, true},
    {"gather", call_gather, gathered, false, true, true},
    {"all_gather", call_all_gather, gathered, false, true, false},
    {"scatter", call_scatter, scattered, true, false, false},
    {"reduce_scatter", call_reduce_scatter, reduce_scattered, true, false, false},
    {"all_to_all", call_all_to_all, exchanged, true, true, false},
};

static void try_blocks(struct rank *rank, const struct block_operation *operation, int64_t count,
                       int root)
{
    const int64_t in_count = operation->many_in ? count * rank->size : count;
    const int64_t out_count = operation->many_out ? count * rank->size : count;
    int64_t shape[2];
    const tutti_tensor in = rank_floats(rank->in, &shape[0], in_count);
    const tutti_tensor out = rank_floats(rank->out, &shape[1], out_count);

    check_doing("in %s of blocks of %lld floats, root %d", operation->name, (long long)count, root);
    rank_fill(rank->in, rank->rank, in_count);
    rank_expect_ok(rank, operation->call(rank, &in, &out, root), operation->name);
    for (int64_t i = 0; (!operation->at_root || rank->rank == root) && i < out_count; i++) {
        const float right = operation->result(rank, root, count, i);

        if (rank->out[i] != right)
            check_fails("rank %d: %s of blocks of %lld floats, root %d: element %lld is %g instead "
                        "of %g",
                        rank->rank, operation->name, (long long)count, root, (long long)i,
                        (double)rank->out[i], (double)right);
    }
}

void check_rank_blocks(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    for (size_t o = 0; o < G_N_ELEMENTS(block_operations); o++)
        for (size_t k = 0; k < G_N_ELEMENTS(counts); k++)
            try_blocks(&rank, &block_operations[o], counts[k] / rank.size, (int)k % rank.size);
    rank_leave(&rank);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* To the right and from the left, at once; on two ranks, to each other. */
static void pass_around(struct rank *rank, int64_t count)
{
    const int right = (rank->rank + 1) % rank->size;
    const int left = (rank->rank + rank->size - 1) % rank->size;
    int64_t shape[2];
    const tutti_tensor out = rank_floats(rank->in, &shape[0], count);
    const tutti_tensor in = rank_floats(rank->out, &shape[1], count);
    tutti_work *work;

    check_doing("passing %lld floats around", (long long)count);
    rank_fill(rank->in, rank->rank, count);
    rank_expect_ok(rank, tutti_isend(rank->world, &out, right, 1, NULL, &work), "tutti_isend");
    rank_expect_ok(rank, tutti_recv(rank->world, &in, left, 1, NULL, NULL), "tutti_recv");
    rank_expect_ok(rank, tutti_work_wait(work, 0), "tutti_work_wait");
    tutti_work_free(work);
    expect_values(rank, "a message", left, count);
}

/* Everybody to rank 0, which takes them as they come, the second tag before the first. */
static void gather_by_hand(struct rank *rank)
{
    int64_t shape;
    const tutti_tensor tensor = rank_floats(rank->out, &shape, 100);

    check_doing("sending to a receive from any source");
    for (int i = 0; rank->rank && i < 2; i++) {
        rank_fill(rank->out, rank->rank + i, 100);
        rank_expect_ok(rank, tutti_send(rank->world, &tensor, 0, 5 + (uint64_t)i, NULL),
                       "tutti_send");
    }
    for (int i = 1; !rank->rank && i >= 0; i--)
        for (int k = 1; k < rank->size; k++) {
            int32_t source = -1;

            rank_expect_ok(
                rank,
                tutti_recv(rank->world, &tensor, TUTTI_ANY_SOURCE, 5 + (uint64_t)i, NULL, &source),
                "tutti_recv");
            expect_values(rank, "a message from any source", source + i, 100);
        }
}

void check_rank_messages(const struct check_member *member)
{
    struct rank rank = rank_join(member);

    for (size_t k = 0; k < G_N_ELEMENTS(counts); k++)
        pass_around(&rank, counts[k]);
    gather_by_hand(&rank);
    rank_expect_ok(&rank, tutti_barrier(rank.world, NULL, NULL), "tutti_barrier");
    rank_leave(&rank);
}

/* ---- many at once, and groups ---------------------------------------------------------------- */

void check_rank_works(const struct check_member *member)
{
    static float values[WORKS];
    static int64_t shapes[WORKS];
    struct rank rank = rank_join(member);
    tutti_work *works[WORKS];
    const float sum = (float)(rank.size * (rank.size - 1)) / 2;

    check_doing("starting %d all_reduces", WORKS);
    for (int i = 0; i < WORKS; i++) {
        values[i] = (float)rank.rank;
        const tutti_tensor tensor = rank_floats(&values[i], &shapes[i], 1);
        rank_expect_ok(&rank, tutti_all_reduce(rank.world, &tensor, TUTTI_SUM, NULL, &works[i]),
                       "tutti_all_reduce");
    }
    for (int i = WORKS - 1; i >= 0; i--) {
        check_doing("waiting for all_reduce %d of %d", i, WORKS);
        rank_expect_ok(&rank, tutti_work_wait(works[i], 0), "tutti_work_wait");
        tutti_work_free(works[i]);
        if (values[i] != sum)
            check_fails("rank %d: all_reduce %d of %d in flight is %g instead of %g", rank.rank, i,
                        WORKS, (double)values[i], (double)sum);
    }
    rank_leave(&rank);
}

void check_rank_groups(const struct check_member *member)
{
    struct rank rank = rank_join(member);
    tutti_group *half;
    int64_t shape;
    const tutti_tensor tensor = rank_floats(rank.out, &shape, 1000);

    check_doing("splitting the group in two");
    rank_expect_ok(&rank, tutti_group_split(rank.world, rank.rank % 2, rank.rank, NULL, &half),
                   "tutti_group_split");
    for (int i = 0; i < 20; i++) {
        check_doing("broadcasting in a part of the group");
        rank_fill(rank.out, rank.rank, 1000);
        rank_expect_ok(&rank, tutti_broadcast(half, &tensor, 0, NULL, NULL), "tutti_broadcast");
        expect_values(&rank, "broadcast in a part of the group", rank.rank % 2, 1000);
    }
    rank_expect_ok(&rank, tutti_group_destroy(half), "tutti_group_destroy");
    rank_leave(&rank);
}

/* ---- failure --------------------------------------------------------------------------------- */

void check_rank_killed(const struct check_member *member)
{
    struct rank rank = rank_join(member);
    int64_t shape;
    const tutti_tensor tensor = rank_floats(rank.out, &shape, LARGEST);
    tutti_status status = TUTTI_OK;
    gint64 last = 0;
    uint64_t waited = 0;

    check_doing("calling all_reduce while one rank is killed");
    for (int i = 0; !status; i++) {
        if (rank.rank == 1 && i == KILL_AFTER) {
            check_dies();
            kill(getpid(), SIGKILL);
        }
        waited = check_waited_ns(getpid());
        last = g_get_monotonic_time();
        status = tutti_all_reduce(rank.world, &tensor, TUTTI_MAX, NULL, NULL);
    }
    const gint64 ms = (g_get_monotonic_time() - last) / 1000;
    waited = check_waited_ns(getpid()) - waited;
    if (status != TUTTI_ERR_PEER_LOST)
        check_fails("rank 1 was killed, and all_reduce on rank %d says %s: %s", rank.rank,
                    tutti_status_name(status), tutti_last_error());
    if (ms - (gint64)(waited / 1000000) > NOTICE_MS)
        check_fails("rank 1 was killed, and all_reduce on rank %d returned after %lld ms",
                    rank.rank, (long long)ms);
    memset(rank.out, 0, LARGEST * sizeof *rank.out); /* it is ours again */
    check_doing("leaving the group");
    tutti_group_destroy(rank.world);
}
