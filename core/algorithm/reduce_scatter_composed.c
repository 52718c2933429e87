/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, composed: every host sends one partial result for each block that belongs to
 * another host.
 *
 * A block is reduced over the members of a host by its owner's counterpart there (counterparts.h),
 * which sends the result to the owner; the owner reduces those of all hosts in their order. Blocks
 * go in segments, so that the scratch stays small, and in a segment host by host, as crossing.h
 * says. Cost: hosts-1 messages; (m-1)/m * n blocks copied, and as many read and reduced, by each of
 * the m members of a host. Invariant: while segment k is reduced over the hosts, k+1 is on its way
 * into the other half of what is kept for those that come.
 */
#include "algorithm/crossing.h"
#include "algorithm/direct.h"

struct partials {
    struct crossing crossing; /* of mine for other hosts; its segment is that under way */
    struct place come[2];     /* of other hosts for me */
    int *counterparts;        /* mine, on each host */
};

/* The piece, over my host; with a block's last piece its result leaves. */
static void reduce(struct schedule *sched, const struct crossing *crossing, const struct taking *t)
{
    const struct place partial =
        t->own ? place_after(crossing->req->out, t->whole.offset) : t->leave;

    schedule_reduce_local(sched, place_after(partial, t->piece.offset - t->whole.offset),
                          place_in_block(t->block, t->piece.offset), t->chunk, t->at, t->at,
                          t->piece.bytes);
    if (!t->own && t->last)
        schedule_send(sched, t->block, partial, t->whole.bytes);
}

/* A member alone on its host has nothing to reduce there. */
static void send_all(struct schedule *sched, const struct crossing *crossing)
{
    const struct layout *layout = crossing->req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_after(layout, step);

        for (int i = 0; i < layout_host_size(layout, host); i++) {
            const int block = layout_ranks(layout, host)[i];
            const struct part whole = crossing_whole(crossing, block);

            if (whole.bytes)
                schedule_send(sched, block, place_in_block(block, whole.offset), whole.bytes);
        }
    }
}

/* Starts the exchange of the segment; when the fence after it is through, come[segment % 2] has the
 * other hosts' results for me, and the output mine. */
static void exchange(struct schedule *sched, const struct partials *p)
{
    const struct crossing *crossing = &p->crossing;
    const struct layout *layout = crossing->req->layout;
    const struct part whole = crossing_whole(crossing, layout->rank);

    schedule_view(sched, layout->host, layout->hosts, p->counterparts);
    for (int step = 1; step < layout->hosts && whole.bytes; step++) {
        const int host = direct_from(sched, step);

        schedule_recv(sched, host,
                      direct_slot(sched, p->come[crossing->segment % 2], crossing->slot, host),
                      whole.bytes);
    }
    schedule_view(sched, layout->rank, layout->size, NULL);
    if (sched->local_size > 1)
        crossing_emit(sched, crossing);
    else
        send_all(sched, crossing);
}

/* Over the hosts: `whole` of my block, whose other operands are in `come`. */
static void reduce_all(struct schedule *sched, const struct partials *p, struct part whole,
                       struct place come)
{
    const struct request *req = p->crossing.req;
    const struct layout *layout = req->layout;
    const struct place to = place_after(req->out, whole.offset);

    schedule_view(sched, layout->host, layout->hosts, NULL);
    schedule_reduce_all(sched, to,
                        sched->local_size > 1 ? to : place_in_block(layout->rank, whole.offset),
                        come, (uint32_t)p->crossing.slot, whole.bytes);
    schedule_view(sched, layout->rank, layout->size, NULL);
    if (req->finish)
        schedule_finish(sched, to, whole.bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const uint64_t longest = longest_in_block(req, layout->size);
    const uint64_t segments = pieces_in(longest, DIRECT_SEGMENT_BYTES);
    struct partials p = {
        .crossing = {.req = req,
                     .most = DIRECT_SEGMENT_BYTES,
                     .take = reduce,
                     .slot = round_up(min_u64(longest, DIRECT_SEGMENT_BYTES), PART_ALIGN)},
        .counterparts = schedule_table(sched, (uint32_t)layout->hosts)};

    if (!p.counterparts)
        return;
    for (int host = 0; host < layout->hosts; host++)
        p.counterparts[host] = counterpart_of(layout, layout->rank, host);
    for (int i = 0; i < 2; i++)
        p.come[i] = schedule_scratch(sched, (uint64_t)(layout->hosts - 1) * p.crossing.slot);
    p.crossing.leave = schedule_scratch(
        sched, sched->local_size > 1 ? crossing_rows(layout) * p.crossing.slot : 0);
    exchange(sched, &p);
    for (uint64_t k = 0; k < segments; k++) {
        const struct part whole = crossing_whole(&p.crossing, layout->rank);

        schedule_fence(sched);
        p.crossing.segment = k + 1;
        if (k + 1 < segments)
            exchange(sched, &p);
        reduce_all(sched, &p, whole, p.come[k % 2]);
    }
}

COST(.messages = 1, .at_once = counterpart_messages(layout),
     .message_bytes = counterpart_traffic(layout) * bytes,
     .hand_overs = crossing_hand_overs(layout, bytes),
     .mapped_bytes = 2 * (n - n / (uint64_t)layout_fullest(layout)) * bytes,
     .reduced_bytes = ((n - n / (uint64_t)layout_fullest(layout)) + (uint64_t)layout->hosts - 1) *
                      bytes)
ALGORITHM(reduce_scatter_composed, REDUCE_SCATTER, COMPOSED, .flags = ALGORITHM_ROUNDS_ON_THE_WAY,
          .emit = emit, .cost = cost);
