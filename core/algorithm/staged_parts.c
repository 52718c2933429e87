/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/staged_parts.h"

#include "algorithm/staging.h"

struct part staged_parts_piece(const struct schedule *sched, const struct staged_parts *s, int part,
                               uint32_t turn)
{
    return piece_of(part_of(s->req->bytes, sched->mates, part), s->each, turn);
}

static void copy_in(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int i = 1; i < sched->mates; i++) {
        const int part = (sched->self + i) % sched->mates;
        const struct part p = staged_parts_piece(sched, s, part, turn);

        schedule_copy(sched,
                      place_staged_in(sched->self, chunk, staging_part(s->each, sched->self, part)),
                      place_after(s->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
}

void staged_parts_reduce(struct schedule *sched, const struct staged_parts *s, uint32_t turn,
                         struct place to)
{
    const uint32_t chunk = s->first + turn;
    const int self = sched->self;
    const struct part p = staged_parts_piece(sched, s, self, turn);

    staging_await_all(sched, WORD_IN_READY, chunk);
    /* An owner below me has left out a part below mine, one above me has not. */
    schedule_reduce_mates(sched, to, place_after(s->req->in, p.offset), chunk,
                          self > 0 ? staging_part(s->each, self - 1, self) : 0,
                          self + 1 < sched->mates ? staging_part(s->each, self + 1, self) : 0,
                          p.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
    if (s->req->finish)
        schedule_finish(sched, to, p.bytes);
}

void staged_parts_collect(struct schedule *sched, const struct staged_parts *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    for (int i = 1; i < sched->mates; i++) {
        const int part = (sched->self + i) % sched->mates;
        const struct part p = staged_parts_piece(sched, s, part, turn);

        if (!p.bytes)
            continue;
        staging_await(sched, part, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(s->req->out, p.offset), place_staged_out(part, chunk, 0),
                      p.bytes);
    }
    if (turn + 1 < s->chunks)
        staging_post(sched, WORD_OUT_USED, chunk);
}

struct staged_parts staged_parts_of(struct schedule *sched, const struct request *req)
{
    const uint64_t longest = part_of(req->bytes, sched->mates, 0).bytes;
    struct staged_parts s = {.req = req, .each = staging_part_bytes(sched->mates)};

    s.chunks = (uint32_t)pieces_in(longest, s.each);
    s.first = schedule_chunks(sched, s.chunks);
    return s;
}

tutti_status staged_parts_emit(struct schedule *sched, const struct staged_parts *s,
                               staged_parts_fn reduce, staged_parts_fn take)
{
    for (uint32_t turn = 0; turn < s->chunks + 2; turn++) {
        if (turn < s->chunks)
            copy_in(sched, s, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn >= 1 && turn - 1 < s->chunks)
            reduce(sched, s, turn - 1);
        if (turn >= 2 && take)
            take(sched, s, turn - 2);
    }
    return schedule_status(sched);
}
