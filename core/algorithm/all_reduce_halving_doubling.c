/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, recursive halving then doubling, near first: partners at distance 1, 2, 4, … keep one
 * half of what they shared and give the other away; then the same steps backwards hand the results
 * round. The large pieces travel between neighbours: on a network that narrows with distance the
 * other order is several times slower.
 * Cost: 2 log2(n) * alpha + 2 (n-1)/n * bytes * beta + (n-1)/n * bytes * gamma.
 * Invariant: before the step at distance d, a member holds the reduction over the d members of its
 * aligned block for the parts [first, last) of n, which no other of them holds.
 */
#include "algorithm/exchange.h"
#include "algorithm/fold.h"
#include "algorithm/parts.h"

/* Parts of the vector, one a member of the core. */
struct window {
    int first, last;
};

static struct window half_of(struct window w, bool upper)
{
    const int middle = (w.first + w.last) / 2;

    return upper ? (struct window){middle, w.last} : (struct window){w.first, middle};
}

static void give_and_reduce(struct schedule *sched, const struct request *req,
                            const struct fold *fold, int partner, struct part keep,
                            struct part give)
{
    const uint64_t mark = sched->scratch_used;
    const struct place theirs = schedule_scratch(sched, keep.bytes);
    const struct place mine = place_after(fold->mine, keep.offset);
    const struct place to = place_after(req->out, keep.offset);
    const int peer = fold_rank(fold, partner);
    const struct exchange e = exchange_recv(sched, peer, theirs, keep.bytes);

    exchange_send(sched, peer, place_after(fold->mine, give.offset), give.bytes);
    for (uint64_t i = 0; i < e.count; i++) {
        const struct part piece = exchange_piece(&e, keep.bytes, i);
        const struct place a = place_after(mine, piece.offset);
        const struct place b = place_after(theirs, piece.offset);

        schedule_fence_ticket(sched, e.tickets[i]);
        if (partner < fold->index)
            schedule_reduce(sched, place_after(to, piece.offset), b, a, piece.bytes);
        else
            schedule_reduce(sched, place_after(to, piece.offset), a, b, piece.bytes);
    }
    schedule_fence(sched); /* what I gave is overwritten on the way back */
    sched->scratch_used = mark;
}

static struct part bytes_of(const struct request *req, const struct fold *fold, struct window w)
{
    return parts_between(req->bytes, fold->core, w.first, w.last);
}

static void core_steps(struct schedule *sched, const struct request *req, struct fold *fold)
{
    struct window windows[32], w = {0, fold->core};
    int depth = 0, distance;

    for (distance = 1; distance < fold->core; distance *= 2) {
        const bool upper = fold->index & distance;

        windows[depth++] = w;
        give_and_reduce(sched, req, fold, fold->index ^ distance,
                        bytes_of(req, fold, half_of(w, upper)),
                        bytes_of(req, fold, half_of(w, !upper)));
        w = half_of(w, upper);
        fold->mine = req->out;
    }
    if (req->finish)
        schedule_finish(sched, place_after(req->out, bytes_of(req, fold, w).offset),
                        bytes_of(req, fold, w).bytes);
    while (depth > 0) {
        distance /= 2;
        const bool upper = fold->index & distance;
        const struct part have = bytes_of(req, fold, w);
        const struct part want = bytes_of(req, fold, half_of(windows[--depth], !upper));
        const int peer = fold_rank(fold, fold->index ^ distance);

        if (want.bytes)
            schedule_recv(sched, peer, place_after(req->out, want.offset), want.bytes);
        if (have.bytes)
            schedule_send(sched, peer, place_after(req->out, have.offset), have.bytes);
        schedule_fence(sched);
        w = windows[depth];
    }
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct fold fold = fold_in(sched, req);

    if (fold.index >= 0)
        core_steps(sched, req, &fold);
    fold_out(sched, req, &fold);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const int core = fold_core(layout->size);
    const uint64_t folds = core < layout->size, share = bytes - bytes / (uint64_t)core;

    return (struct cost){.messages = 2 * log2_ceil(core) + 2 * folds,
                         .message_bytes = 2 * share + 2 * folds * bytes,
                         .reduced_bytes = share + folds * bytes};
}

ALGORITHM(all_reduce_halving_doubling, ALL_REDUCE, MESSAGES, .flags = ALGORITHM_ROUNDS_ON_THE_WAY,
          .emit = emit, .cost = cost);
