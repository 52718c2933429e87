/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, composed: what is for local peers goes through mapped memory, and to another host each member
 * sends either its own blocks, or the blocks of all local peers at once.
 *
 * Short blocks are collected inside the host first (crossing.h). The owner of a block has a
 * counterpart among the sender's local peers. The counterpart gets all that the host has for that
 * owner and sends it in one message. So all members of a host send and receive at once: hosts-1
 * messages each where all hosts have equally many members, instead of n-m. By the model three more
 * copies of a block cost less than the part of a message that they save below 6 KiB for two local
 * peers, and 12 KiB for many; a longer one goes straight to its place. Cost: short: hosts
 * hand-overs, hosts-1 messages, each block copied four times; long: n-m messages. Every block
 * crosses once in either.
 */
#include "algorithm/crossing.h"

/* Sends, or receives, the blocks of all members on other hosts by themselves. */
static void cross_each(struct schedule *sched, const struct request *req, bool receives)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = receives ? host_before(layout, step) : host_after(layout, step);
        const int *ranks = layout_ranks(layout, host);

        for (int i = 0; i < layout_host_size(layout, host); i++)
            if (receives)
                schedule_recv(sched, ranks[i], place_out_block(ranks[i], 0), req->bytes);
            else
                schedule_send(sched, ranks[i], place_in_block(ranks[i], 0), req->bytes);
    }
}

/* Receives the blocks that a host's members have for me from my counterpart there. */
static void receive(struct schedule *sched, const struct request *req, struct place come)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_before(layout, step), members = layout_host_size(layout, host);

        schedule_recv(sched, counterpart_of(layout, layout->rank, host),
                      place_after(come, (uint64_t)layout->host_first[host] * req->bytes),
                      (uint64_t)members * req->bytes);
    }
}

/* From all local peers: my blocks to their places, those of another host's member together, to be sent. */
static void take(struct schedule *sched, const struct crossing *crossing, const struct taking *t)
{
    const struct request *req = crossing->req;
    const int *members = layout_ranks(req->layout, req->layout->host);

    for (int local_peer = 0; local_peer < sched->local_size; local_peer++) {
        const struct place to = t->own ? place_out_block(members[local_peer], 0)
                                       : place_after(t->leave, (uint64_t)local_peer * req->bytes);
        const struct place from = local_peer == sched->self
                                      ? place_in_block(t->block, t->piece.offset)
                                      : place_staged_in(local_peer, t->chunk, t->at);

        schedule_copy(sched, place_after(to, t->piece.offset), from, t->piece.bytes);
    }
    if (!t->own && t->last)
        schedule_send(sched, t->block, t->leave, crossing->slot);
}

static void together(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const struct place come = schedule_scratch(sched, (uint64_t)layout->size * req->bytes);
    struct crossing crossing = {.req = req,
                                .most = req->bytes,
                                .take = take,
                                .slot = (uint64_t)sched->local_size * req->bytes};

    crossing.leave = schedule_scratch(sched, crossing_rows(layout) * crossing.slot);
    receive(sched, req, come);
    if (sched->local_size > 1)
        crossing_emit(sched, &crossing);
    else
        cross_each(sched, req, false);
    schedule_fence(sched);
    for (int i = 0; i < layout->size; i++)
        if (layout->host_of[layout->by_host[i]] != layout->host)
            schedule_copy(sched, place_out_block(layout->by_host[i], 0),
                          place_after(come, (uint64_t)i * req->bytes), req->bytes);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const bool pack = blocks_together(req->bytes);
    const struct request inner = {.in = req->in,
                                  .out = req->out,
                                  .bytes = req->bytes,
                                  .local_blocks = layout_ranks(layout, layout->host)};

    if (pack) {
        together(sched, req);
    } else {
        cross_each(sched, req, true);
        cross_each(sched, req, false);
    }
    if (sched->local_size == 1)
        schedule_copy(sched, place_out_block(layout->rank, 0), place_in_block(layout->rank, 0),
                      req->bytes);
    else if (!pack)
        algorithm_emit(&all_to_all_mapped_algorithm, sched, &inner);
    schedule_fence(sched);
}

/* Blocks that the busiest host sends, and receives. */
static uint64_t traffic(const struct layout *layout)
{
    uint64_t most = 0;

    for (int host = 0; host < layout->hosts; host++) {
        const uint64_t members = layout_host_size(layout, host);

        most = max_u64(most, members * (layout->size - members));
    }
    return most;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size, members = layout_fullest(layout), away = n - layout->leaders;
    const struct layout host = {.size = layout_fullest(layout), .thresholds = layout->thresholds};
    const struct cost inside = all_to_all_mapped_algorithm.cost(&host, bytes);

    if (blocks_together(bytes))
        return (struct cost){.messages = 1,
                             .at_once = counterpart_messages(layout),
                             .message_bytes = traffic(layout) * bytes,
                             .hand_overs = crossing_hand_overs(layout, bytes),
                             .mapped_bytes = (2 * (n - n / members) + n) * bytes};
    return (struct cost){.messages = 1,
                         .at_once = 2 * (away - 1),
                         .message_bytes = traffic(layout) * bytes,
                         .hand_overs = inside.hand_overs,
                         .mapped_bytes = 2 * (members - 1) * bytes};
}

ALGORITHM(all_to_all_composed, ALL_TO_ALL, COMPOSED, .emit = emit, .cost = cost);
