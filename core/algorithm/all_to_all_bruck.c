/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, Bruck: a block that has to go i members up goes there in steps of the powers of two in i,
 * together with all others that take the same step. Any number of members. Cost: log2(n) * (alpha + n/2
 * * bytes * (beta + two copies)); wins for very short blocks, as each travels log2(n)/2 times.
 * Invariant: before distance d, slot i of member r is on its way from member r - i % d to i members
 * above that one: it is one of r's own input if i has no bit below d, and is final once i has none
 * from d on.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

struct bruck {
    const struct request *req;
    struct place slots, out, in; /* blocks on their way; of one step, packed */
};

static struct place slot(const struct bruck *b, struct place first, int index)
{
    return place_after(first, (uint64_t)index * b->req->bytes);
}

/* Packs the slots that take the step of distance `d`; returns how many. */
static int pack(struct schedule *sched, const struct bruck *b, int64_t d)
{
    const int n = sched->size;
    int count = 0;

    for (int i = 1; i < n; i++) {
        if (!(i & d))
            continue;
        const bool own = !(i & (d - 1));

        schedule_copy(sched, slot(b, b->out, count++),
                      own ? place_in_block((sched->rank + i) % n, 0) : slot(b, b->slots, i),
                      b->req->bytes);
    }
    return count;
}

static void unpack(struct schedule *sched, const struct bruck *b, int64_t d)
{
    const int n = sched->size;
    int count = 0;

    for (int i = 1; i < n; i++) {
        if (!(i & d))
            continue;
        const bool last = i < 2 * d;

        schedule_copy(sched,
                      last ? place_out_block((sched->rank - i + n) % n, 0) : slot(b, b->slots, i),
                      slot(b, b->in, count++), b->req->bytes);
    }
}

static void emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank;
    const uint64_t each = (uint64_t)n * req->bytes;
    const struct bruck b = {req, schedule_scratch(sched, each), schedule_scratch(sched, each),
                            schedule_scratch(sched, each)};

    for (int64_t d = 1; d < n; d *= 2) {
        const uint64_t bytes = (uint64_t)pack(sched, &b, d) * req->bytes;

        schedule_recv(sched, (int)((r - d + n) % n), b.in, bytes);
        schedule_send(sched, (int)((r + d) % n), b.out, bytes);
        schedule_fence(sched);
        unpack(sched, &b, d);
    }
    schedule_copy(sched, place_out_block(r, 0), place_in_block(r, 0), req->bytes);
}

COST(.messages = log2_ceil(n), .message_bytes = log2_ceil(n) * (n * bytes / 2),
     .mapped_bytes = 2 * log2_ceil(n) * (n * bytes / 2))
ALGORITHM(all_to_all_bruck, ALL_TO_ALL, MESSAGES, .flags = ALGORITHM_NEEDS_EQUAL_BLOCKS,
          .members = {.least = BRUCK_MEMBERS_MIN}, .most = THRESHOLD_ALL_TO_ALL_BRUCK_MAX,
          .emit = emit, .cost = cost);
