/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, scatter then all-gather: the root's vector is cut into n parts, which go down a
 * binomial tree; then the parts go round a ring. The root, which has them all, receives none. Cost:
 * (log2(n) + n-1) * alpha + 2 (n-1)/n * bytes * beta; wins for long vectors. Invariant of the ring,
 * counted from the root: before step s, member v holds the parts v, v-1, … v-s (mod n).
 */
#include "algorithm/binomial.h"

static struct part between(const struct schedule *sched, const struct request *req, int64_t first,
                           int64_t last)
{
    const int64_t n = sched->size;

    return parts_between(req->bytes, sched->size, (int)first, (int)(last < n ? last : n));
}

/* Afterwards member v holds the parts [v, v + 2^k), 2^k being its subtree. */
static void scatter(struct schedule *sched, const struct request *req, int v)
{
    const int n = sched->size;
    int64_t distance = binomial_distance(sched, v);

    if (v) {
        const struct part mine = between(sched, req, v, v + distance);

        if (mine.bytes)
            schedule_recv(sched, binomial_rank(sched, req, v - distance),
                          place_after(req->out, mine.offset), mine.bytes);
        schedule_fence(sched);
    }
    for (distance /= 2; distance >= 1; distance /= 2) {
        if (v + distance >= n)
            continue;
        const struct part theirs = between(sched, req, v + distance, v + 2 * distance);

        if (theirs.bytes)
            schedule_send(sched, binomial_rank(sched, req, v + distance),
                          place_after(req->out, theirs.offset), theirs.bytes);
    }
    schedule_fence(sched);
}

static void all_gather(struct schedule *sched, const struct request *req, int v)
{
    const int n = sched->size;
    const int right = binomial_rank(sched, req, v + 1), left = binomial_rank(sched, req, v + n - 1);

    for (int step = 0; step < n - 1; step++) {
        const struct part have = part_of(req->bytes, n, (v - step + n) % n);
        const struct part want = part_of(req->bytes, n, (v - step - 1 + n) % n);

        if (want.bytes && v != 0)
            schedule_recv(sched, left, place_after(req->out, want.offset), want.bytes);
        if (have.bytes && v != n - 1)
            schedule_send(sched, right, place_after(req->out, have.offset), have.bytes);
        schedule_fence(sched);
    }
}

static void emit(struct schedule *sched, const struct request *req)
{
    const int v = binomial_index(sched, req);

    scatter(sched, req, v);
    all_gather(sched, req, v);
}

COST(.messages = log2_ceil(n) + n - 1, .message_bytes = 2 * (bytes - bytes / n))
ALGORITHM(broadcast_scatter_all_gather, BROADCAST, MESSAGES, .members = {.least = 3},
          .least = THRESHOLD_BROADCAST_SCATTER_MIN, .emit = emit, .cost = cost);
