/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/segments.h"

#include "algorithm/direct.h"

struct part segment_part(const struct schedule *sched, const struct segment *s, int rank)
{
    struct part part = part_of(s->whole.bytes, sched->size, rank);

    part.offset += s->whole.offset;
    return part;
}

void segment_exchange(struct schedule *sched, const struct request *req, const struct segment *s)
{
    const struct part mine = segment_part(sched, s, sched->rank);
    const bool first = s->whole.offset == 0;

    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step), to = direct_to(sched, step);
        const struct part theirs = segment_part(sched, s, to);

        if (mine.bytes || first)
            schedule_recv(sched, from, direct_slot(sched, s->scratch, s->each, from), mine.bytes);
        if (theirs.bytes || first)
            schedule_send(sched, to, place_after(req->in, theirs.offset), theirs.bytes);
    }
    schedule_fence(sched);
}

void segment_reduce(struct schedule *sched, const struct request *req, const struct segment *s,
                    struct place to)
{
    const struct part mine = segment_part(sched, s, sched->rank);

    schedule_reduce_all(sched, to, place_after(req->in, mine.offset), s->scratch, (uint32_t)s->each,
                        mine.bytes);
    if (req->finish)
        schedule_finish(sched, to, mine.bytes);
}

void segment_collect(struct schedule *sched, const struct request *req, const struct segment *s)
{
    for (int step = 1; step < sched->size; step++) {
        const int from = direct_from(sched, step);
        const struct part theirs = segment_part(sched, s, from);

        if (theirs.bytes)
            schedule_recv(sched, from, place_after(req->out, theirs.offset), theirs.bytes);
    }
}

void segments_emit(struct schedule *sched, const struct request *req,
                   void (*run)(struct schedule *sched, const struct request *req,
                               const struct segment *s))
{
    const uint64_t longest = (uint64_t)DIRECT_SEGMENT_BYTES * (uint64_t)sched->size;
    struct segment s[2] = {{.each = part_of(min_u64(req->bytes, longest), sched->size, 0).bytes}};

    s[1].each = s[0].each;
    for (int i = 0; i < 2; i++)
        s[i].scratch = schedule_scratch(sched, (uint64_t)sched->size * s[i].each);
    for (uint64_t k = 0; k < pieces_in(req->bytes, longest); k++) {
        s[k % 2].whole = piece_of((struct part){0, req->bytes}, longest, k);
        run(sched, req, &s[k % 2]);
    }
    schedule_fence(sched);
}
