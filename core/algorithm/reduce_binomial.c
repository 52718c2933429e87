/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, binomial tree: each member reduces what its children hand it, and hands the result to its
 * parent. Cost: log2(n) * (alpha for each piece + bytes * (beta + gamma)); wins for short vectors, and for
 * long ones where members outnumber their CPUs. A long vector goes in pieces, so that a piece is reduced
 * while the next one arrives, and the scratch is of two pieces for each child and two for the sums.
 * Invariant: the results of a member and of those below it in the tree, [v, v + d), are reduced in the order
 * of their distance; while piece k is reduced, k+1 arrives in the other half of the scratch, and k-1 leaves.
 */
#include "algorithm/binomial.h"
#include "algorithm/exchange.h"

enum { PIECES_MAX = 64, CHILDREN_MAX = 32 };

struct tree {
    struct part vector;
    uint64_t each;  /* bytes of a piece */
    uint64_t count; /* of pieces: one at least, so that all meet */
    uint64_t slot;  /* bytes of a piece in scratch */
    int v, children;
    struct half {
        struct place theirs, sum;
        uint32_t tickets[CHILDREN_MAX], sent;
    } halves[2];
};

static int child(const struct schedule *sched, const struct request *req, const struct tree *tree,
                 int index)
{
    return binomial_rank(sched, req, tree->v + (INT64_C(1) << index));
}

/* Both sides cut by the same rule. */
static struct tree tree_of(struct schedule *sched, const struct request *req)
{
    struct tree tree = {.vector = {0, req->bytes},
                        .each = exchange_piece_bytes(sched, req->bytes, PIECES_MAX),
                        .v = binomial_index(sched, req)};

    tree.count = max_u64(1, pieces_in(req->bytes, tree.each));
    tree.slot = min_u64(tree.each, round_up(req->bytes, PART_ALIGN));
    for (int64_t d = 1; d < sched->size && !(tree.v & d) && tree.v + d < sched->size; d *= 2)
        tree.children++;
    for (uint64_t i = 0; i < min_u64(2, tree.count); i++) {
        tree.halves[i].theirs = schedule_scratch(sched, (uint64_t)tree.children * tree.slot);
        if (tree.v && tree.children)
            tree.halves[i].sum = schedule_scratch(sched, tree.slot);
    }
    return tree;
}

static void receive(struct schedule *sched, const struct request *req, struct tree *tree,
                    uint64_t k)
{
    const uint64_t bytes = piece_of(tree->vector, tree->each, k).bytes;
    struct half *half = &tree->halves[k % 2];

    for (int i = 0; i < tree->children; i++)
        half->tickets[i] =
            schedule_recv(sched, child(sched, req, tree, i),
                          place_after(half->theirs, (uint64_t)i * tree->slot), bytes);
}

/* Returns where the result of the piece is. */
static struct place reduce(struct schedule *sched, const struct request *req, struct tree *tree,
                           uint64_t k)
{
    const struct part piece = piece_of(tree->vector, tree->each, k);
    struct half *half = &tree->halves[k % 2];
    const struct place to = tree->v ? half->sum : place_after(req->out, piece.offset);
    struct place mine = place_after(req->in, piece.offset);

    for (int i = 0; i < tree->children; i++) {
        schedule_fence_ticket(sched, half->tickets[i]);
        schedule_reduce(sched, to, mine, place_after(half->theirs, (uint64_t)i * tree->slot),
                        piece.bytes);
        mine = to;
    }
    return mine;
}

static void emit(struct schedule *sched, const struct request *req)
{
    struct tree tree = tree_of(sched, req);
    const int parent = /* of all but the root */
        binomial_rank(sched, req, tree.v - binomial_distance(sched, tree.v));

    receive(sched, req, &tree, 0);
    for (uint64_t k = 0; k < tree.count; k++) {
        const uint64_t bytes = piece_of(tree.vector, tree.each, k).bytes;
        struct half *half = &tree.halves[k % 2];

        if (k + 1 < tree.count)
            receive(sched, req, &tree, k + 1);
        if (tree.v && tree.children && k >= 2)
            schedule_fence_ticket(sched, half->sent);
        const struct place result = reduce(sched, req, &tree, k);
        if (tree.v)
            half->sent = schedule_send(sched, parent, result, bytes);
        else if (req->finish)
            schedule_finish(sched, result, bytes);
    }
    schedule_fence(sched);
}

COST(.messages = log2_ceil(n), .message_bytes = log2_ceil(n) * bytes,
     .reduced_bytes = log2_ceil(n) * bytes)
ALGORITHM(reduce_binomial, REDUCE, MESSAGES, .flags = ALGORITHM_ROUNDS_ON_THE_WAY, .emit = emit,
          .cost = cost);
