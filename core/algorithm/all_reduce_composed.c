/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce, composed: mapped memory inside the hosts, messages between them, with several
 * leaders (leaders.h).
 *
 * Leader i of a host reduces part i of a segment over its local peers, then the leaders i of all hosts do
 * an all_reduce of that part by messages, then each publishes its part to its local peers.
 * Cost: two hand-overs inside, and the message algorithm on bytes / leaders.
 */
#include "algorithm/leaders.h"

static void emit(struct schedule *sched, const struct request *req)
{
    for (uint64_t k = 0; k < leaders_segments(req); k++) {
        struct leaders_segment segment = leaders_segment(sched, req, k);
        const struct place to = place_after(req->out, segment.part.offset);

        leaders_reduce(sched, &segment, to);
        leaders_between_hosts(sched, &segment, OPERATION_ALL_REDUCE, to, false);
        if (req->finish)
            schedule_finish(sched, to, segment.part.bytes);
        leaders_hand_out(sched, &segment, to, -1);
    }
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    struct cost c = leaders_cost(layout, bytes, OPERATION_ALL_REDUCE);

    c.mapped_bytes += 2 * bytes / (uint64_t)layout->leaders;
    return c;
}

ALGORITHM(all_reduce_composed, ALL_REDUCE, COMPOSED, .flags = ALGORITHM_ROUNDS_ON_THE_WAY,
          .emit = emit, .cost = cost);
