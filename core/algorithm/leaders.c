/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/leaders.h"

#include "algorithm/staging.h"

static struct part part_in(const struct led *led, int leader)
{
    struct part part = part_of(led->whole.bytes, led->req->layout->leaders, leader);

    part.offset += led->whole.offset;
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

struct led leaders_segment(struct schedule *sched, const struct request *req, uint64_t index)
{
    const uint64_t leaders = (uint64_t)req->layout->leaders;
    struct led led = {.req = req,
                      .whole = piece_of((struct part){0, req->bytes}, segment_bytes(req), index),
                      .shared = sched->mates > 1,
                      .leader = sched->self < req->layout->leaders,
                      .each = MAPPED_SLOT_BYTES / leaders / PART_ALIGN * PART_ALIGN};

    if (led.leader)
        led.part = part_in(&led, sched->self);
    if (led.shared)
        led.chunks = (uint32_t)pieces_in(part_in(&led, 0).bytes, led.each);
    led.first = schedule_chunks(sched, led.chunks);
    led.mine = place_after(req->in, led.part.offset);
    return led;
}

static void copy_in(struct schedule *sched, const struct led *led, uint32_t turn)
{
    const uint32_t chunk = led->first + turn;

    staging_claim(sched, WORD_IN_USED, chunk);
    for (int leader = 0; leader < led->req->layout->leaders; leader++) {
        const struct part p = piece_of(part_in(led, leader), led->each, turn);

        if (leader != sched->self)
            schedule_copy(sched, place_staged_in(sched->self, chunk, (uint64_t)leader * led->each),
                          place_after(led->req->in, p.offset), p.bytes);
    }
    staging_post(sched, WORD_IN_READY, chunk);
    if (!led->leader)
        staging_post(sched, WORD_IN_USED, chunk);
}

static void reduce(struct schedule *sched, const struct led *led, struct place to, uint32_t turn)
{
    const uint32_t chunk = led->first + turn, at = (uint32_t)sched->self * (uint32_t)led->each;
    const struct part p = piece_of(led->part, led->each, turn);

    staging_await_all(sched, WORD_IN_READY, chunk);
    schedule_reduce_mates(sched, place_after(to, p.offset - led->part.offset),
                          place_after(led->req->in, p.offset), chunk, at, at, p.bytes);
    staging_post(sched, WORD_IN_USED, chunk);
}

void leaders_reduce(struct schedule *sched, struct led *led, struct place to)
{
    if (!led->shared)
        return;
    for (uint32_t turn = 0; turn < led->chunks + 1; turn++) {
        if (turn < led->chunks)
            copy_in(sched, led, turn);
        if (turn == 0)
            schedule_meet_all(sched); /* after the copy, which needs nobody */
        if (turn > 0 && led->leader)
            reduce(sched, led, to, turn - 1);
    }
    led->mine = to;
}

void leaders_enter(struct schedule *sched, const struct led *led)
{
    const struct layout *layout = led->req->layout;

    schedule_view(sched, layout->host, layout->hosts, layout->peers + sched->self * layout->hosts);
}

void leaders_leave(struct schedule *sched, const struct led *led)
{
    schedule_view(sched, led->req->layout->rank, led->req->layout->size, NULL);
}

static void publish(struct schedule *sched, const struct led *led, struct place from, uint32_t turn)
{
    const uint32_t chunk = led->first + turn;
    const struct part p = piece_of(led->part, led->each, turn);

    staging_claim(sched, WORD_OUT_USED, chunk);
    schedule_copy(sched, place_staged_out(sched->self, chunk, 0),
                  place_after(from, p.offset - led->part.offset), p.bytes);
    staging_post(sched, WORD_OUT_READY, chunk);
}

static void copy_out(struct schedule *sched, const struct led *led, uint32_t turn)
{
    const uint32_t chunk = led->first + turn;

    for (int leader = 0; leader < led->req->layout->leaders; leader++) {
        const struct part p = piece_of(part_in(led, leader), led->each, turn);

        if (leader == sched->self || !p.bytes)
            continue;
        staging_await(sched, leader, WORD_OUT_READY, chunk);
        schedule_copy(sched, place_after(led->req->out, p.offset),
                      place_staged_out(leader, chunk, 0), p.bytes);
    }
    staging_post(sched, WORD_OUT_USED, chunk);
}

void leaders_hand_out(struct schedule *sched, const struct led *led, struct place from, int to)
{
    const bool gives = led->leader && sched->self != to, takes = to < 0 || sched->self == to;

    if (!led->shared)
        return;
    if (!takes)
        staging_abstain(sched, WORD_OUT_USED, led->first, led->chunks);
    for (uint32_t turn = 0; turn < led->chunks + 1; turn++) {
        if (turn < led->chunks && gives)
            publish(sched, led, from, turn);
        if (turn > 0 && takes)
            copy_out(sched, led, turn - 1);
    }
}
