/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce, composed: mapped memory inside the hosts, messages between them, with several leaders
 * (leaders.h).
 *
 * Leader i of a host reduces part i of a segment over its local peers, then the leaders i of all hosts
 * reduce that part by messages to the one on the root's host, and those hand their parts to the
 * root. Every host sends a vector, whatever its members are.
 * Cost: two hand-overs inside, and the message algorithm on bytes / leaders.
 */
#include "algorithm/leaders.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const bool root = layout->rank == req->root;
    const bool on_roots_host = layout->host == layout->host_of[req->root];
    const struct place scratch = schedule_scratch(sched, root ? 0 : leaders_part_bytes(req));

    for (uint64_t k = 0; k < leaders_segments(req); k++) {
        struct leaders_segment segment = leaders_segment(sched, req, k);
        const struct place to = root ? place_after(req->out, segment.part.offset) : scratch;

        leaders_reduce(sched, &segment, to);
        leaders_between_hosts(sched, &segment, OPERATION_REDUCE, to, req->finish);
        if (on_roots_host)
            leaders_hand_out(sched, &segment, to, layout->local_of[req->root]);
    }
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    struct cost c = leaders_cost(layout, bytes, OPERATION_REDUCE);

    c.mapped_bytes += bytes / (uint64_t)layout->leaders;
    return c;
}

ALGORITHM(reduce_composed, REDUCE, COMPOSED, .flags = ALGORITHM_ROUNDS_ON_THE_WAY, .emit = emit,
          .cost = cost);
