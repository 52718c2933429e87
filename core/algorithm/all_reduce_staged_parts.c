/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, staged in parts (halves for two members): each member reduces its n-th of the vector
 * for all and publishes it in its out-slot, from where all copy it. Cost: two hand-overs and a
 * pipeline of chunks, about 3 (n-1)/n * bytes copied, (n-1)/n reduced.
 */
#include "algorithm/staged_parts.h"

#include "algorithm/staging.h"

static void reduce(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;
    const struct part p = staged_parts_piece(sched, s, sched->self, turn);
    const struct place to = place_after(s->req->out, p.offset);

    staged_parts_reduce(sched, s, turn, to);
    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(sched->self, chunk, 0), to, p.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct staged_parts s = staged_parts_of(sched, req);

    return staged_parts_emit(sched, &s, reduce, staged_parts_collect);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size, share = bytes - bytes / n;
    const uint64_t chunks = pieces_in(share, MAPPED_SLOT_BYTES);

    return (struct cost){
        .hand_overs = 1 + chunks, .mapped_bytes = 2 * share + bytes / n, .reduced_bytes = share};
}

const struct algorithm all_reduce_staged_parts_algorithm = {
    "all_reduce_staged_parts", OPERATION_ALL_REDUCE, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
