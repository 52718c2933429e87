/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, recursive halving, near first: partners at distance 1, 2, 4, … keep those blocks of what
 * they shared whose owners are on their side, and give the others away. If the members are no power of two,
 * some work for two (fold.h) and give one of two blocks back.
 * Cost: log2(n) * alpha + (n-1) * bytes * (beta + gamma) and a copy of all blocks; wins for short blocks,
 * as the direct algorithm sends n-1 messages.
 * Invariant: before the step at distance d, a member of the core holds the reduction over the d members of its
 * aligned block for the owners that have its own number in all bits below d. The lower members are always
 * the first operand.
 */
#include "algorithm/fold.h"
#include "algorithm/parts.h"

/* Members that are no power of two: so many of them would take blocks as long as the others do. By the model halving
 * wins up to 1.3 KiB with 12 members and 4 KiB with 24; with 6 on 2 CPUs up to 4 KiB. */
enum { FOLDED_MEMBERS_FULL = 96 };

/* The blocks, packed by their owners' numbers in the core with the bits reversed: what a step divides lies in
 * two halves. */
struct packed {
    struct fold fold;
    struct place blocks;
    uint64_t bytes; /* of a block */
};

static int reversed(int index, int core)
{
    int result = 0;

    for (int bit = 1; bit < core; bit *= 2)
        result = 2 * result + !!(index & bit);
    return result;
}

static int blocks_of(const struct fold *fold, int index)
{
    return index < fold->extra ? 2 : 1;
}

/* Slots [first, last): each has the block or the two blocks of one member of the core. */
static struct part between(const struct packed *p, int first, int last)
{
    uint64_t before = 0, count = 0;

    for (int slot = 0; slot < last; slot++)
        *(slot < first ? &before : &count) +=
            (uint64_t)blocks_of(&p->fold, reversed(slot, p->fold.core));
    return (struct part){before * p->bytes, count * p->bytes};
}

/* Packs all blocks, and joins the core. */
static struct packed pack(struct schedule *sched, const struct request *req)
{
    const uint64_t all = (uint64_t)sched->size * req->bytes;
    struct packed p = {.fold = {.core = fold_core(sched->size)},
                       .blocks = schedule_scratch(sched, all),
                       .bytes = req->bytes};
    const struct request folded = {.in = p.blocks, .out = p.blocks, .bytes = all};
    struct place to = p.blocks;

    p.fold.extra = sched->size - p.fold.core;
    for (int slot = 0; slot < p.fold.core; slot++) {
        const int index = reversed(slot, p.fold.core), owner = fold_rank(&p.fold, index);

        for (int block = owner - blocks_of(&p.fold, index) + 1; block <= owner; block++) {
            schedule_copy(sched, to, place_in_block(block, 0), req->bytes);
            to = place_after(to, req->bytes);
        }
    }
    p.fold = fold_in(sched, &folded);
    return p;
}

static void give_and_reduce(struct schedule *sched, const struct packed *p, int distance,
                            struct part keep, struct part give)
{
    const uint64_t mark = sched->scratch_used;
    const struct place theirs = schedule_scratch(sched, keep.bytes);
    const struct place mine = place_after(p->blocks, keep.offset);
    const int partner = p->fold.index ^ distance, peer = fold_rank(&p->fold, partner);

    schedule_recv(sched, peer, theirs, keep.bytes);
    schedule_send(sched, peer, place_after(p->blocks, give.offset), give.bytes);
    schedule_fence(sched);
    if (partner < p->fold.index)
        schedule_reduce(sched, mine, theirs, mine, keep.bytes);
    else
        schedule_reduce(sched, mine, mine, theirs, keep.bytes);
    sched->scratch_used = mark;
}

/* Returns where the sum of my own slot is. */
static struct part core_steps(struct schedule *sched, const struct packed *p)
{
    int first = 0, last = p->fold.core;

    for (int distance = 1; distance < p->fold.core; distance *= 2) {
        const int middle = (first + last) / 2;
        const bool upper = p->fold.index & distance;
        const struct part low = between(p, first, middle), high = between(p, middle, last);

        give_and_reduce(sched, p, distance, upper ? high : low, upper ? low : high);
        *(upper ? &first : &last) = middle;
    }
    return between(p, first, last);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct packed p = pack(sched, req);

    if (p.fold.index < 0) {
        schedule_recv(sched, sched->rank + 1, req->out, req->bytes);
        schedule_fence(sched);
        return;
    }
    const struct part mine = core_steps(sched, &p);
    const struct place sum = place_after(p.blocks, mine.offset);

    if (req->finish)
        schedule_finish(sched, sum, mine.bytes);
    if (blocks_of(&p.fold, p.fold.index) > 1)
        schedule_send(sched, sched->rank - 1, sum, req->bytes);
    schedule_copy(sched, req->out, place_after(sum, mine.bytes - req->bytes), req->bytes);
    schedule_fence(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = (uint64_t)layout->size, core = (uint64_t)fold_core(layout->size);
    const uint64_t folds = core < n, given = (n - 1) * bytes;

    return (struct cost){.messages = log2_ceil(core) + 2 * folds,
                         .message_bytes = given + folds * (n + 1) * bytes,
                         .mapped_bytes = (n + 1) * bytes,
                         .reduced_bytes = given + folds * n * bytes};
}

/* Where members fold, all blocks travel once more. */
static bool fits(const struct thresholds *thresholds, int members, uint64_t bytes)
{
    const uint64_t most = thresholds->bytes[THRESHOLD_REDUCE_SCATTER_HALVING_MAX];

    return bytes <=
           (fold_core(members) == members
                ? most
                : most / FOLDED_MEMBERS_FULL * min_u64((uint64_t)members, FOLDED_MEMBERS_FULL));
}

ALGORITHM(reduce_scatter_halving, REDUCE_SCATTER, MESSAGES,
          .flags = ALGORITHM_ROUNDS_ON_THE_WAY | ALGORITHM_NEEDS_EQUAL_BLOCKS,
          .members = {.least = HALVING_MEMBERS_MIN}, .least_crowded = CROWDED_MEMBERS_MIN,
          .most = THRESHOLD_REDUCE_SCATTER_HALVING_MAX, .fits = fits, .emit = emit, .cost = cost);
