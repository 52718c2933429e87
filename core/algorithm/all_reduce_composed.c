/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, composed: mapped memory inside the hosts, messages between them, with several
 * leaders (leaders.h).
 *
 * Leader i of a host reduces part i of a segment over its mates, then the leaders i of all hosts do
 * an all_reduce of that part by messages, then each publishes its part to its mates.
 * Cost: two hand-overs inside, and the message algorithm on bytes / leaders.
 */
#include "algorithm/leaders.h"

static void between_hosts(struct schedule *sched, const struct led *led, struct place to)
{
    const struct request *whole = led->req;
    const struct request req = {.in = led->mine, .out = to, .bytes = led->part.bytes};
    const int hosts = whole->layout->hosts;

    if (!led->part.bytes)
        return;
    leaders_enter(sched, led);
    all_reduce_by_messages(whole->thresholds, hosts, req.bytes)->emit(sched, &req);
    leaders_leave(sched, led);
    if (whole->finish)
        schedule_finish(sched, to, req.bytes);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    for (uint64_t k = 0; k < leaders_segments(req); k++) {
        struct led led = leaders_segment(sched, req, k);
        const struct place to = place_after(req->out, led.part.offset);

        leaders_reduce(sched, &led, to);
        between_hosts(sched, &led, to);
        leaders_hand_out(sched, &led, to, -1);
    }
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t leaders = layout->leaders;
    struct layout between = {.size = layout->hosts};
    struct cost c =
        all_reduce_by_messages(&thresholds_default, layout->hosts, bytes / (uint64_t)leaders)
            ->cost(&between, bytes / (uint64_t)leaders);

    c.message_bytes *= leaders; /* they share the host's network */
    if (layout->size > layout->hosts) {
        c.hand_overs += 2 + 2 * pieces_in(bytes, MAPPED_SLOT_BYTES);
        c.mapped_bytes += 2 * bytes + 2 * bytes / leaders;
        c.reduced_bytes += bytes / leaders * (layout_fullest(layout) - 1);
    }
    return c;
}

const struct algorithm all_reduce_composed_algorithm = {
    "all_reduce_composed", OPERATION_ALL_REDUCE, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
