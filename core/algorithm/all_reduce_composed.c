/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, composed: mapped memory inside the hosts, messages between them, with several
 * leaders.
 *
 * Every host has the same number of leaders (the members of the smallest host). The vector goes in
 * segments; leader i of a host reduces part i of the segment over its mates, then the leaders i of
 * all hosts do an all_reduce of that part by messages, then each publishes its part to its mates.
 * So all leaders of a host use the network at once and nothing is sent twice. Members beyond the
 * leaders give and take through them. A host of one member takes part in the middle step alone.
 * Cost: two hand-overs inside, and the message algorithm on bytes / leaders.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"
#include "algorithm/staging.h"

/* A leader's part of one segment: long enough that alpha is small beside it, short enough that
 * scratch stays small. */
enum { SEGMENT_PART_BYTES = 1 << 20 };

struct segment {
    const struct request *req;
    int leaders;
    struct part whole; /* in the vector */
    uint64_t each;     /* bytes of a leader's piece of a chunk */
    uint32_t chunks;
    uint32_t first; /* chunk on the way in; the same slots' other side serves the way out */
};

static bool is_leader(const struct schedule *sched, const struct segment *s)
{
    return sched->self < s->leaders;
}

static struct part part_in(const struct segment *s, int leader)
{
    struct part part = part_of(s->whole.bytes, s->leaders, leader);

    part.offset += s->whole.offset;
    return part;
}

static void copy_in(struct schedule *sched, const struct segment *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int leader = 0; leader < s->leaders; leader++) {
        const struct part p = piece_of(part_in(s, leader), s->each, turn);

        if (leader != sched->self)
            schedule_copy(sched, place_staged_in(sched->self, chunk, (uint64_t)leader * s->each),
                          place_after(s->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
    if (!is_leader(sched, s))
        staging_post(sched, WORD_IN_USED, chunk);
}

static void reduce(struct schedule *sched, const struct segment *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn, at = (uint32_t)sched->self * (uint32_t)s->each;
    const struct part p = piece_of(part_in(s, sched->self), s->each, turn);

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_mates(sched, place_after(s->req->out, p.offset),
                          place_after(s->req->in, p.offset), chunk, at, at, p.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
}

static void between_hosts(struct schedule *sched, const struct segment *s)
{
    const struct layout *layout = s->req->layout;
    const struct part part = part_in(s, sched->self);
    const struct place at = place_after(s->req->out, part.offset);
    const struct request req = {.in = at, .out = at, .bytes = part.bytes};

    if (layout->hosts == 1 || !part.bytes)
        return;
    schedule_view(sched, layout->host, layout->hosts, layout->peers + sched->self * layout->hosts);
    all_reduce_by_messages(s->req->thresholds, layout->hosts, part.bytes)->emit(sched, &req);
    schedule_view(sched, layout->rank, layout->size, NULL);
}

static void publish(struct schedule *sched, const struct segment *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;
    const struct part p = piece_of(part_in(s, sched->self), s->each, turn);

    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(sched->self, chunk, 0),
                  place_after(s->req->out, p.offset), p.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void copy_out(struct schedule *sched, const struct segment *s, uint32_t turn)
{
    const uint32_t chunk = s->first + turn;

    for (int leader = 0; leader < s->leaders; leader++) {
        const struct part p = piece_of(part_in(s, leader), s->each, turn);

        if (leader == sched->self || !p.bytes)
            continue;
        staging_await(sched, leader, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(s->req->out, p.offset), place_staged_out(leader, chunk, 0),
                      p.bytes);
    }
    staging_post(sched, WORD_OUT_USED, chunk);
}

static void take_part(struct schedule *sched, struct segment *s)
{
    const bool leader = is_leader(sched, s), shared = sched->mates > 1;

    s->chunks = shared ? (uint32_t)pieces_in(part_in(s, 0).bytes, s->each) : 0;
    s->first = schedule_chunks(sched, s->chunks);
    if (!shared)
        schedule_copy(sched, place_after(s->req->out, s->whole.offset),
                      place_after(s->req->in, s->whole.offset), s->whole.bytes);
    for (uint32_t turn = 0; turn < s->chunks + 1 && shared; turn++) {
        if (turn < s->chunks)
            copy_in(sched, s, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn > 0 && leader)
            reduce(sched, s, turn - 1);
    }
    if (leader)
        between_hosts(sched, s);
    if (leader && s->req->finish)
        schedule_finish(sched, place_after(s->req->out, part_in(s, sched->self).offset),
                        part_in(s, sched->self).bytes);
    for (uint32_t turn = 0; turn < s->chunks + 1 && shared; turn++) {
        if (turn < s->chunks && leader)
            publish(sched, s, turn);
        if (turn > 0)
            copy_out(sched, s, turn - 1);
    }
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const int leaders = req->layout->leaders;
    const uint64_t segment = (uint64_t)leaders * SEGMENT_PART_BYTES;
    struct segment s = {.req = req, .leaders = leaders};

    s.each = MAPPED_SLOT_BYTES / (uint64_t)leaders / PART_ALIGN * PART_ALIGN;
    for (uint64_t k = 0; k < pieces_in(req->bytes, segment); k++) {
        s.whole = piece_of((struct part){0, req->bytes}, segment, k);
        take_part(sched, &s);
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const double b = (double)bytes, leaders = layout->leaders;
    struct layout between = {.size = layout->hosts};
    struct cost c =
        all_reduce_by_messages(&thresholds_default, layout->hosts, bytes / (uint64_t)leaders)
            ->cost(&between, bytes / (uint64_t)leaders);

    c.message_bytes *= leaders; /* they share the host's network */
    if (layout->size > layout->hosts) {
        c.hand_overs += 2 + 2 * (double)pieces_in(bytes, MAPPED_SLOT_BYTES);
        c.mapped_bytes += 2 * b + 2 * b / leaders;
        c.reduced_bytes += b / leaders * (layout_mates(layout, 0) - 1);
    }
    return c;
}

const struct algorithm all_reduce_composed_algorithm = {
    "all_reduce_composed", OPERATION_ALL_REDUCE, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
