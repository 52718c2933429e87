/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, staged in parts (halves for two members): each member reduces its n-th of the vector
 * for all. Three stages run one chunk apart: copy the others' parts to my in-slot; reduce my part
 * from everybody's in-slots and publish it in my out-slot; copy the others' results out. Cost: two
 * hand-overs and a pipeline of chunks, about 3 (n-1)/n * bytes copied, (n-1)/n reduced. Invariant:
 * in turn k the slots hold chunk k going in, k-1 being reduced, k-2 going out.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

struct staged_parts {
    const struct request *req;
    uint64_t each; /* bytes of one piece: n-1 of them fill an in-slot */
    uint32_t first, chunks;
};

static struct part piece(const struct staged_parts *s, int mates, int part, uint32_t turn)
{
    return piece_of(part_of(s->req->bytes, mates, part), s->each, turn);
}

static void copy_in(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int i = 1; i < sched->mates; i++) {
        const int part = (sched->self + i) % sched->mates;
        const struct part p = piece(s, sched->mates, part, turn);

        schedule_copy(sched,
                      place_staged_in(sched->self, chunk, staging_part(s->each, sched->self, part)),
                      place_after(s->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
}

static void reduce(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;
    const int self = sched->self;
    const struct part p = piece(s, sched->mates, self, turn);
    const struct place to = place_after(s->req->out, p.offset);

    staging_await_all(sched, WORD_IN_READY, chunk);
    /* An owner below me has left out a part below mine, one above me has not. */
    schedule_reduce_mates(sched, to, place_after(s->req->in, p.offset), chunk,
                          self > 0 ? staging_part(s->each, self - 1, self) : 0,
                          self + 1 < sched->mates ? staging_part(s->each, self + 1, self) : 0,
                          p.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
    if (s->req->finish)
        schedule_finish(sched, to, p.bytes);
    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(self, chunk, 0), to, p.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void copy_out(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    for (int i = 1; i < sched->mates; i++) {
        const int part = (sched->self + i) % sched->mates;
        const struct part p = piece(s, sched->mates, part, turn);

        if (!p.bytes)
            continue;
        staging_await(sched, part, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(s->req->out, p.offset), place_staged_out(part, chunk, 0),
                      p.bytes);
    }
    if (turn + 1 < s->chunks) /* the runner posts the last one */
        staging_post(sched, WORD_OUT_USED, chunk);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const uint64_t longest = part_of(req->bytes, sched->mates, 0).bytes;
    struct staged_parts s = {.req = req};

    s.each = staging_part_bytes(sched->mates);
    s.chunks = (uint32_t)pieces_in(longest, s.each);
    s.first = schedule_chunks(sched, s.chunks);
    for (uint32_t turn = 0; turn < s.chunks + 2; turn++) {
        if (turn < s.chunks)
            copy_in(sched, &s, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn >= 1 && turn - 1 < s.chunks)
            reduce(sched, &s, turn - 1);
        if (turn >= 2)
            copy_out(sched, &s, turn - 2);
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const double n = layout->size, share = (n - 1) / n * (double)bytes;
    const double chunks = (double)pieces_in((uint64_t)share, MAPPED_SLOT_BYTES);

    return (struct cost){.hand_overs = 1 + chunks,
                         .mapped_bytes = 2 * share + (double)bytes / n,
                         .reduced_bytes = share};
}

const struct algorithm all_reduce_staged_parts_algorithm = {
    "all_reduce_staged_parts", OPERATION_ALL_REDUCE, ALGORITHM_MAPPED, emit, cost, NULL, NULL};
