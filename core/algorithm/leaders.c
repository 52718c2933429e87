/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/leaders.h"

#include "algorithm/staging.h"

static struct part part_in(const struct leaders_segment *segment, int leader)
{
    struct part part = part_of(segment->whole.bytes, segment->req->layout->leaders, leader);

    part.offset += segment->whole.offset;
    return part;
}

static uint64_t segment_bytes(const struct request *req)
{
    return (uint64_t)req->layout->leaders * LEADERS_PART_BYTES;
}

uint64_t leaders_segments(const struct request *req)
{
    return pieces_in(req->bytes, segment_bytes(req));
}

uint64_t leaders_part_bytes(const struct request *req)
{
    return part_of(min_u64(req->bytes, segment_bytes(req)), req->layout->leaders, 0).bytes;
}

struct leaders_segment leaders_segment(struct schedule *sched, const struct request *req,
                                       uint64_t index)
{
    const uint64_t leaders = (uint64_t)req->layout->leaders;
    struct leaders_segment segment = {
        .req = req,
        .whole = piece_of((struct part){0, req->bytes}, segment_bytes(req), index),
        .shared = sched->local_size > 1,
        .leader = sched->self < req->layout->leaders};
    const uint64_t longest = part_in(&segment, 0).bytes;

    segment.each = staging_piece_bytes(sched, leaders, longest);
    if (segment.leader)
        segment.part = part_in(&segment, sched->self);
    if (segment.shared)
        segment.chunks = (uint32_t)pieces_in(longest, segment.each);
    segment.first = schedule_chunks(sched, segment.chunks, leaders * segment.each);
    segment.mine = place_after(req->in, segment.part.offset);
    return segment;
}

static void copy_in(struct schedule *sched, const struct leaders_segment *segment, uint32_t turn)
{
    const struct chunk chunk = chunk_after(segment->first, turn);

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int leader = 0; leader < segment->req->layout->leaders; leader++) {
        const struct part p = piece_of(part_in(segment, leader), segment->each, turn);

        if (leader != sched->self)
            schedule_copy(sched,
                          place_staged_in(sched->self, chunk, (uint64_t)leader * segment->each),
                          place_after(segment->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
    if (!segment->leader)
        staging_post(sched, WORD_IN_USED, chunk);
}

static void reduce(struct schedule *sched, const struct leaders_segment *segment, struct place to,
                   uint32_t turn)
{
    const struct chunk chunk = chunk_after(segment->first, turn);
    const uint32_t at = (uint32_t)sched->self * (uint32_t)segment->each;
    const struct part p = piece_of(segment->part, segment->each, turn);

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_local(sched, place_after(to, p.offset - segment->part.offset),
                          place_after(segment->req->in, p.offset), chunk, at, at, p.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
}

void leaders_reduce(struct schedule *sched, struct leaders_segment *segment, struct place to)
{
    if (!segment->shared)
        return;
    for (uint32_t turn = 0; turn < segment->chunks + 1; turn++) {
        if (turn < segment->chunks)
            copy_in(sched, segment, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn > 0 && segment->leader)
            reduce(sched, segment, to, turn - 1);
    }
    segment->mine = to;
}

void leaders_between_hosts(struct schedule *sched, const struct leaders_segment *segment,
                           enum operation operation, struct place to, bool finish)
{
    const struct layout *layout = segment->req->layout;
    const struct request req = {
        .in = segment->mine,
        .out = to,
        .bytes = segment->part.bytes,
        .root = operation == OPERATION_REDUCE ? layout->host_of[segment->req->root] : -1,
        .finish = finish};

    if (!req.bytes)
        return;
    schedule_view(sched, layout->host, layout->hosts, layout->peers + sched->self * layout->hosts);
    algorithm_emit(algorithm_by_messages(sched->thresholds, operation, layout->hosts, req.bytes),
                   sched, &req);
    schedule_view(sched, layout->rank, layout->size, NULL);
}

static void publish(struct schedule *sched, const struct leaders_segment *segment,
                    struct place from, uint32_t turn)
{
    const struct chunk chunk = chunk_after(segment->first, turn);
    const struct part p = piece_of(segment->part, segment->each, turn);

    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(sched->self, chunk, 0),
                  place_after(from, p.offset - segment->part.offset), p.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void copy_out(struct schedule *sched, const struct leaders_segment *segment, uint32_t turn)
{
    const struct chunk chunk = chunk_after(segment->first, turn);

    for (int leader = 0; leader < segment->req->layout->leaders; leader++) {
        const struct part p = piece_of(part_in(segment, leader), segment->each, turn);

        if (leader == sched->self || !p.bytes)
            continue;
        staging_await(sched, leader, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(segment->req->out, p.offset),
                      place_staged_out(leader, chunk, 0), p.bytes);
    }
    staging_post(sched, WORD_OUT_USED, chunk);
}

void leaders_hand_out(struct schedule *sched, const struct leaders_segment *segment,
                      struct place from, int to)
{
    const bool gives = segment->leader && sched->self != to, takes = to < 0 || sched->self == to;

    if (!segment->shared)
        return;
    if (!takes)
        staging_abstain(sched, WORD_OUT_USED, segment->first, segment->chunks);
    for (uint32_t turn = 0; turn < segment->chunks + 1; turn++) {
        if (turn < segment->chunks && gives)
            publish(sched, segment, from, turn);
        if (turn > 0 && takes)
            copy_out(sched, segment, turn - 1);
    }
}

struct cost leaders_cost(const struct layout *layout, uint64_t bytes, enum operation operation)
{
    const uint64_t leaders = layout->leaders, part = bytes / leaders;
    const struct layout between = {.size = layout->hosts, .thresholds = layout->thresholds};
    struct cost c = algorithm_by_messages(layout->thresholds, operation, layout->hosts, part)
                        ->cost(&between, part);

    c.message_bytes *= leaders; /* they share the host's network */
    c.hand_overs += 2 + 2 * pieces_in(bytes, MAPPED_CHUNK_MAX);
    c.mapped_bytes += 2 * bytes;
    c.reduced_bytes += part * (layout_fullest(layout) - 1);
    return c;
}
