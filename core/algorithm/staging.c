/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/staging.h"

void staging_put(struct schedule *sched, struct place from, struct chunk chunk, struct part piece)
{
    staging_claim(sched, WORD_IN_USED, chunk);
    schedule_copy(sched, place_staged_in(sched->self, chunk, 0), place_after(from, piece.offset),
                  piece.bytes);
    staging_post(sched, WORD_IN_READY, chunk);
}

struct staging staging_of(struct schedule *sched, const struct request *req, uint64_t bytes,
                          uint64_t each)
{
    const uint64_t others = (uint64_t)sched->local_size - 1;
    const uint64_t apart = each ? 0 : staging_piece_bytes(sched, others, bytes);
    struct staging s = {.req = req, .whole = {0, bytes}, .each = each + apart, .apart = apart};

    s.chunks = (uint32_t)pieces_in(bytes, s.each);
    s.first = schedule_chunks(sched, s.chunks, each ? min_u64(each, bytes) : apart * others);
    return s;
}

void staging_goes_one_way(struct schedule *sched, const struct staging *s)
{
    const uint64_t pages = (uint64_t)s->chunks * s->first.pages;

    if (sched->local_size <= MAPPED_LOCAL_FEW && pages > mapped_lap_pages(sched->local_size))
        sched->one_way = true;
}

void staging_goes_both_ways(struct schedule *sched, struct staging *s)
{
    const uint64_t bytes = s->apart ? s->apart : min_u64(s->each, s->whole.bytes);

    if (sched->local_size != 2 || s->first.page)
        return;
    s->first.pages = (uint32_t)pieces_in(bytes, MAPPED_PAGE);
    const uint64_t pages = (uint64_t)s->chunks * s->first.pages;

    sched->swap_pages = MAPPED_SWAP_PAGES_MIN;
    while (sched->swap_pages < pages && sched->swap_pages < MAPPED_HALF_PAGES)
        sched->swap_pages *= 2;
    sched->pages = s->first.page + (uint32_t)round_up(pages, sched->swap_pages);
}

static void call(struct schedule *sched, const struct staging *s, staging_fn fn, uint32_t turn)
{
    fn(sched, s, chunk_after(s->first, turn), piece_of(s->whole, s->each, turn));
}

void staging_each(struct schedule *sched, const struct staging *s, staging_fn fn)
{
    for (uint32_t turn = 0; turn < s->chunks; turn++)
        call(sched, s, fn, turn);
}

void staging_pipeline(struct schedule *sched, const struct staging *s, staging_fn give,
                      staging_fn take, staging_fn collect)
{
    for (uint32_t turn = 0; turn < s->chunks + 2; turn++) {
        if (turn < s->chunks)
            call(sched, s, give, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn >= 1 && turn - 1 < s->chunks)
            call(sched, s, take, turn - 1);
        if (turn >= 2 && collect)
            call(sched, s, collect, turn - 2);
    }
}

void staging_used(struct schedule *sched, const struct staging *s, enum mapped_word used,
                  struct chunk chunk)
{
    if (staging_end(chunk) < chunk_after(s->first, s->chunks).page)
        staging_post(sched, used, chunk);
}

void staging_give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                  struct part piece)
{
    staging_put(sched, s->req->in, chunk, piece);
}

void staging_give_blocks(struct schedule *sched, const struct staging *s, struct chunk chunk,
                         struct part piece)
{
    const int self = sched->self;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int i = 1; i < sched->local_size; i++) {
        const int local_peer = (self + i) % sched->local_size;

        schedule_copy(sched, place_staged_in(self, chunk, staging_part(s->apart, self, local_peer)),
                      place_after(local_block(s->req, s->req->in, local_peer), piece.offset),
                      piece.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
}

void staging_take_blocks(struct schedule *sched, const struct staging *s, struct chunk chunk,
                         struct part piece)
{
    for (int i = 1; i < sched->local_size; i++) {
        const int local_peer = (sched->self + i) % sched->local_size;
        const uint32_t at = staging_part(s->apart, local_peer, sched->self);

        staging_await(sched, local_peer, WORD_IN_READY, chunk);
        schedule_copy(sched,
                      place_after(local_block(s->req, s->req->out, local_peer), piece.offset),
                      place_staged_in(local_peer, chunk, at), piece.bytes);
    }
    staging_used(sched, s, WORD_IN_USED, chunk);
}

void staging_take_roots(struct schedule *sched, const struct staging *s, struct chunk chunk,
                        struct part piece)
{
    const int root = s->req->root;
    const uint32_t at = staging_part(s->apart, root, sched->self);

    staging_await(sched, root, WORD_IN_READY, chunk);
    schedule_copy(sched, place_after(s->req->out, piece.offset), place_staged_in(root, chunk, at),
                  piece.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
}

void staging_reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                    struct part piece, struct place to, struct place own)
{
    const int self = sched->self;
    /* An owner below me has left out a part below mine, one above me has not. */
    const uint32_t before = self > 0 ? staging_part(s->apart, self - 1, self) : 0;
    const uint32_t after =
        self + 1 < sched->local_size ? staging_part(s->apart, self + 1, self) : 0;

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_local(sched, to, place_after(own, piece.offset), chunk, before, after,
                          piece.bytes);
    staging_used(sched, s, WORD_IN_USED, chunk);
    if (s->req->finish)
        schedule_finish(sched, to, piece.bytes);
}

/* ---- reductions of which each member does its n-th ---- */

/* Of another member's part in a chunk; may be empty. */
static struct part piece_in(const struct schedule *sched, const struct staging *s, int part,
                            struct chunk chunk)
{
    return piece_of(part_of(s->req->bytes, sched->local_size, part), s->each,
                    (chunk.page - s->first.page) / s->first.pages);
}

struct staging staged_parts_of(struct schedule *sched, const struct request *req)
{
    const uint64_t longest = part_of(req->bytes, sched->local_size, 0).bytes;
    struct staging s = staging_of(sched, req, longest, 0);

    s.whole = part_of(req->bytes, sched->local_size, sched->self);
    return s;
}

void staged_parts_give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                       struct part piece)
{
    (void)piece;
    staging_claim(sched, WORD_IN_USED, chunk);
    for (int i = 1; i < sched->local_size; i++) {
        const int part = (sched->self + i) % sched->local_size;
        const struct part p = piece_in(sched, s, part, chunk);

        schedule_copy(
            sched, place_staged_in(sched->self, chunk, staging_part(s->apart, sched->self, part)),
            place_after(s->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
}

void staged_parts_collect(struct schedule *sched, const struct staging *s, struct chunk chunk,
                          struct part piece)
{
    (void)piece;
    for (int i = 1; i < sched->local_size; i++) {
        const int part = (sched->self + i) % sched->local_size;
        const struct part p = piece_in(sched, s, part, chunk);

        if (!p.bytes)
            continue;
        staging_await(sched, part, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(s->req->out, p.offset), place_staged_out(part, chunk, 0),
                      p.bytes);
    }
    staging_used(sched, s, WORD_OUT_USED, chunk);
}
