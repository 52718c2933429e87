/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, ring: a reduce-scatter and an all-gather, each of n-1 steps between neighbours.
 * Cost: 2 (n-1) * alpha + 2 (n-1)/n * bytes * beta + (n-1)/n * bytes * gamma; wins for long vectors
 * where the members are no power of two: by the model it beats halving-doubling from 16 KiB at 3,
 * 128 KiB at 6, 1 MiB at 12 and 8 MiB at 24 members, which is the cube. Parts travel in pieces: a
 * piece goes on to the right as soon as it is reduced, while the next one arrives. Invariant: before
 * step s of the first half, member r has reduced part r-s over the members r-s … r; before step s of
 * the second, it holds the result of the parts r+1, r, … r+1-s (mod n).
 */
#include "algorithm/algorithm.h"
#include "algorithm/exchange.h"
#include "algorithm/fold.h"
#include "algorithm/parts.h"

static struct part ring_part(const struct schedule *sched, const struct request *req, int index)
{
    const int n = sched->size;

    return part_of(req->bytes, n, (index % n + n) % n);
}

static struct exchange receive(struct schedule *sched, const struct request *req, struct place base,
                               int index)
{
    const int left = (sched->rank - 1 + sched->size) % sched->size;

    return exchange_recv(sched, left, base, ring_part(sched, req, index).bytes);
}

static void reduce_scatter(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank, right = (r + 1) % n;
    const struct part first = ring_part(sched, req, r);
    const struct place halves[2] = {schedule_scratch(sched, part_of(req->bytes, n, 0).bytes),
                                    schedule_scratch(sched, part_of(req->bytes, n, 0).bytes)};
    struct exchange now = receive(sched, req, halves[0], r - 1), next = {0};

    exchange_send(sched, right, place_after(req->in, first.offset), first.bytes);
    for (int step = 0; step < n - 1; step++) {
        const struct part part = ring_part(sched, req, r - step - 1);
        const struct place theirs = halves[step % 2];

        if (step + 1 < n - 1)
            next = receive(sched, req, halves[(step + 1) % 2], r - step - 2);
        for (uint64_t i = 0; i < now.count; i++) {
            const struct part piece = exchange_piece(&now, part.bytes, i);
            const struct place to = place_after(req->out, part.offset + piece.offset);

            schedule_fence_ticket(sched, now.tickets[i]);
            schedule_reduce(sched, to, place_after(theirs, piece.offset),
                            place_after(req->in, part.offset + piece.offset), piece.bytes);
            if (step + 1 < n - 1)
                schedule_send(sched, right, to, piece.bytes);
        }
        now = next;
    }
    schedule_fence(sched); /* what was sent is overwritten in the second half */
}

static void all_gather(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank, right = (r + 1) % n;
    const struct part first = ring_part(sched, req, r + 1);
    struct part part = ring_part(sched, req, r);
    struct exchange now = receive(sched, req, place_after(req->out, part.offset), r), next = {0};

    exchange_send(sched, right, place_after(req->out, first.offset), first.bytes);
    for (int step = 0; step < n - 1; step++) {
        const struct part coming = ring_part(sched, req, r - step - 1);

        if (step + 1 < n - 1)
            next = receive(sched, req, place_after(req->out, coming.offset), r - step - 1);
        for (uint64_t i = 0; i < now.count; i++) {
            const struct part piece = exchange_piece(&now, part.bytes, i);

            schedule_fence_ticket(sched, now.tickets[i]);
            if (step + 1 < n - 1)
                schedule_send(sched, right, place_after(req->out, part.offset + piece.offset),
                              piece.bytes);
        }
        now = next;
        part = coming;
    }
    schedule_fence(sched);
}

/* Above the threshold times (n / 3)^3, in whole numbers. */
static bool fits(const struct thresholds *thresholds, int members, uint64_t bytes)
{
    const uint64_t n = (uint64_t)members;

    return fold_core(members) != members &&
           pieces_in(27 * bytes, n * n * n) > thresholds->bytes[THRESHOLD_RING_MIN];
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct part own = ring_part(sched, req, sched->rank + 1);

    reduce_scatter(sched, req);
    if (req->finish)
        schedule_finish(sched, place_after(req->out, own.offset), own.bytes);
    all_gather(sched, req);
}

COST(.messages = 2 * (n - 1), .message_bytes = 2 * (bytes - bytes / n),
     .reduced_bytes = bytes - bytes / n)
ALGORITHM(all_reduce_ring, ALL_REDUCE, MESSAGES, .flags = ALGORITHM_ROUNDS_ON_THE_WAY,
          .least = THRESHOLD_RING_MIN, .fits = fits, .emit = emit, .cost = cost);
