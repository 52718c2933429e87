/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, composed: mapped memory inside the hosts, messages between them, with several leaders
 * (leaders.h).
 *
 * Leader i of a host reduces part i of a segment over its mates, then the leaders i of all hosts
 * reduce that part by messages to the one on the root's host, and those hand their parts to the
 * root. Every host sends a vector, whatever its members are.
 * Cost: two hand-overs inside, and the message algorithm on bytes / leaders.
 */
#include "algorithm/leaders.h"

static void between_hosts(struct schedule *sched, const struct led *led, struct place to)
{
    const struct request *whole = led->req;
    const struct request req = {.in = led->mine,
                                .out = to,
                                .bytes = led->part.bytes,
                                .root = whole->layout->host_of[whole->root],
                                .finish = whole->finish};

    if (!req.bytes)
        return;
    leaders_enter(sched, led);
    reduce_by_messages(whole->thresholds, whole->layout->hosts, req.bytes)->emit(sched, &req);
    leaders_leave(sched, led);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const bool root = layout->rank == req->root;
    const bool on_roots_host = layout->host == layout->host_of[req->root];
    const uint64_t mark = sched->scratch_used;
    const struct place scratch = schedule_scratch(sched, root ? 0 : leaders_part_bytes(req));

    for (uint64_t k = 0; k < leaders_segments(req); k++) {
        struct led led = leaders_segment(sched, req, k);
        const struct place to = root ? place_after(req->out, led.part.offset) : scratch;

        leaders_reduce(sched, &led, to);
        between_hosts(sched, &led, to);
        if (on_roots_host)
            leaders_hand_out(sched, &led, to, layout->local_of[req->root]);
    }
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t leaders = layout->leaders;
    const uint64_t part = bytes / (uint64_t)layout->leaders;
    struct layout between = {.size = layout->hosts};
    struct cost c =
        reduce_by_messages(&thresholds_default, layout->hosts, part)->cost(&between, part);

    c.message_bytes *= leaders; /* they share the host's network */
    c.hand_overs += 2 + 2 * pieces_in(bytes, MAPPED_SLOT_BYTES);
    c.mapped_bytes += 2 * bytes + bytes / leaders;
    c.reduced_bytes += bytes / leaders * (layout_fullest(layout) - 1);
    return c;
}

const struct algorithm reduce_composed_algorithm = {
    "reduce_composed", OPERATION_REDUCE, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
