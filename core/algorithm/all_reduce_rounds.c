/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, in rounds: each member copies its vector to its part; the last one, and those that wait
 * on other CPUs, reduce pieces of all parts in rank order; and all copy the result. A vector longer than
 * a part takes several rounds.
 * Cost: a hand-over for each part, 2 * bytes copied, n * bytes reduced, shared by as many members as run at once;
 * wins where ranks outnumber CPUs, as long as a second switch to every member costs more than parts save.
 */
#include "algorithm/parts.h"
#include "algorithm/rounds.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct place part = {.kind = PLACE_PART}, result = {.kind = PLACE_RESULT};

    for (uint64_t i = 0; i < pieces_in(req->bytes, ROUND_CHUNK_MAX); i++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, ROUND_CHUNK_MAX, i);

        schedule_copy(sched, part, place_after(req->in, piece.offset), piece.bytes);
        schedule_round(sched, piece.bytes);
        schedule_copy(sched, place_after(req->out, piece.offset), result, piece.bytes);
    }
}

static bool fits(const struct thresholds *thresholds, int members, uint64_t bytes)
{
    const uint64_t n = (uint64_t)members, least = ROUNDS_MEMBERS_MIN;

    return pieces_in(bytes * least * least, n * n) <= thresholds->bytes[THRESHOLD_ROUNDS_MAX];
}

COST(.hand_overs = pieces_in(bytes, ROUND_CHUNK_MAX), .mapped_bytes = 2 * bytes + n * bytes,
     .reduced_bytes = (n - 1) * bytes)
ALGORITHM(all_reduce_rounds, ALL_REDUCE, MAPPED, .flags = ALGORITHM_SHARES_CPUS,
          .most = THRESHOLD_ROUNDS_MAX, .members = {ROUNDS_MEMBERS_MIN, 0}, .fits = fits,
          .emit = emit, .cost = cost);
