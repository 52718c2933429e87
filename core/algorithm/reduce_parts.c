/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, in parts: each member reduces its n-th of the vector for all, in rank order, and sends it
 * to the root; in segments, so that the scratch stays small. Cost: 2 (n-1) * alpha + 2 (n-1)/n *
 * bytes * beta + (n-1)/n * bytes * gamma; wins for long vectors.
 * Invariant: the results of a segment are on their way while the next segment is exchanged, so the
 * scratch of two segments is in use.
 */
#include "algorithm/algorithm.h"
#include "algorithm/direct.h"
#include "algorithm/parts.h"

struct segment {
    struct part whole; /* of the vector */
    struct place scratch;
    uint64_t each; /* of a slot of the scratch */
};

static struct part part_in(const struct schedule *sched, const struct segment *s, int rank)
{
    struct part part = part_of(s->whole.bytes, sched->size, rank);

    part.offset += s->whole.offset;
    return part;
}

/* Everybody gets the operands of its part. */
static void exchange(struct schedule *sched, const struct request *req, const struct segment *s)
{
    const struct part mine = part_in(sched, s, sched->rank);

    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step), to = direct_to(sched, step);
        const struct part theirs = part_in(sched, s, to);

        if (mine.bytes)
            schedule_recv(sched, from, direct_slot(sched, s->scratch, s->each, from), mine.bytes);
        if (theirs.bytes)
            schedule_send(sched, to, place_after(req->in, theirs.offset), theirs.bytes);
    }
    schedule_fence(sched);
}

static void collect(struct schedule *sched, const struct request *req, const struct segment *s)
{
    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step);
        const struct part theirs = part_in(sched, s, from);

        if (theirs.bytes)
            schedule_recv(sched, from, place_after(req->out, theirs.offset), theirs.bytes);
    }
}

static void run_segment(struct schedule *sched, const struct request *req, const struct segment *s)
{
    const struct part mine = part_in(sched, s, sched->rank);
    const bool root = sched->rank == req->root;
    /* One slot more than there are others: the result, on its way to the root. */
    const struct place to = root ? place_after(req->out, mine.offset)
                                 : place_after(s->scratch, (uint64_t)(sched->size - 1) * s->each);

    exchange(sched, req, s);
    if (root)
        collect(sched, req, s);
    direct_reduce(sched, to, place_after(req->in, mine.offset), s->scratch, s->each, mine.bytes);
    if (req->finish)
        schedule_finish(sched, to, mine.bytes);
    if (!root && mine.bytes)
        schedule_send(sched, req->root, to, mine.bytes);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t longest = (uint64_t)DIRECT_SEGMENT_BYTES * (uint64_t)sched->size;
    const uint64_t mark = sched->scratch_used;
    struct segment s[2] = {{.each = part_of(min_u64(req->bytes, longest), sched->size, 0).bytes}};

    s[1].each = s[0].each;
    for (int i = 0; i < 2; i++)
        s[i].scratch = schedule_scratch(sched, (uint64_t)sched->size * s[i].each);
    for (uint64_t k = 0; k < pieces_in(req->bytes, longest); k++) {
        s[k % 2].whole = piece_of((struct part){0, req->bytes}, longest, k);
        run_segment(sched, req, &s[k % 2]);
    }
    schedule_fence(sched);
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const double n = layout->size, share = (n - 1) / n * (double)bytes;

    return (struct cost){
        .messages = 2 * (n - 1), .message_bytes = 2 * share, .reduced_bytes = share};
}

const struct algorithm reduce_parts_algorithm = {
    "reduce_parts", OPERATION_REDUCE, ALGORITHM_MESSAGES, emit, cost, NULL, NULL};
