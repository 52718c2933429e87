/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_to_all, composed: what is for mates goes through mapped memory, and to another host each member
 * sends either its own blocks, or the blocks of all mates at once.
 *
 * Short blocks meet inside the host first (crossing.h): a block's owner has a counterpart among the
 * sender's mates, who gets all that the host has for that owner and sends it there in one message. So
 * all members of a host send and receive at once, hosts-1 messages each where hosts are alike, in the
 * place of n-m. By the model three more copies of a block cost less than the part of a message that
 * they save below 6 KiB for two mates, and 12 KiB for many; a longer one goes straight to its place.
 * Cost: short: hosts hand-overs, hosts-1 messages, each block copied four times; long: n-m messages.
 * Every block crosses once in either.
 */
#include "algorithm/crossing.h"

static void send_each(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_after(layout, step), *ranks = layout_ranks(layout, host);

        for (int i = 0; i < layout_mates(layout, host); i++)
            schedule_send(sched, ranks[i], place_in_block(ranks[i], 0), req->bytes);
    }
}

static void receive_each(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_before(layout, step), *ranks = layout_ranks(layout, host);

        for (int i = 0; i < layout_mates(layout, host); i++)
            schedule_recv(sched, ranks[i], place_out_block(ranks[i], 0), req->bytes);
    }
}

/* What a host's members have for me comes from my counterpart there. */
static void receive(struct schedule *sched, const struct request *req, struct place come)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_before(layout, step), mates = layout_mates(layout, host);

        schedule_recv(sched, counterpart_of(layout, layout->rank, host),
                      place_after(come, (uint64_t)layout->host_first[host] * req->bytes),
                      (uint64_t)mates * req->bytes);
    }
}

/* From all mates: my blocks to their places, those of another host's member together, to be sent. */
static void take(struct schedule *sched, const struct crossing *crossing, const struct taking *t)
{
    const struct request *req = crossing->req;
    const int *mates = layout_ranks(req->layout, req->layout->host);

    for (int mate = 0; mate < sched->mates; mate++) {
        const struct place to = t->own ? place_out_block(mates[mate], 0)
                                       : place_after(t->leave, (uint64_t)mate * req->bytes);
        const struct place from = mate == sched->self ? place_in_block(t->block, t->piece.offset)
                                                      : place_staged_in(mate, t->chunk, t->at);

        schedule_copy(sched, place_after(to, t->piece.offset), from, t->piece.bytes);
    }
    if (!t->own && t->last)
        schedule_send(sched, t->block, t->leave, crossing->slot);
}

static void together(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const struct place come = schedule_scratch(sched, (uint64_t)layout->size * req->bytes);
    struct crossing crossing = {
        .req = req, .most = req->bytes, .take = take, .slot = (uint64_t)sched->mates * req->bytes};

    crossing.leave = schedule_scratch(sched, crossing_rows(layout) * crossing.slot);
    receive(sched, req, come);
    if (sched->mates > 1)
        crossing_emit(sched, &crossing);
    else
        send_each(sched, req);
    schedule_fence(sched);
    for (int i = 0; i < layout->size; i++)
        if (layout->host_of[layout->by_host[i]] != layout->host)
            schedule_copy(sched, place_out_block(layout->by_host[i], 0),
                          place_after(come, (uint64_t)i * req->bytes), req->bytes);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const uint64_t mark = sched->scratch_used;
    const bool pack = blocks_together(req->thresholds, req->bytes);
    const struct request inner = {.in = req->in,
                                  .out = req->out,
                                  .bytes = req->bytes,
                                  .mate_blocks = layout_ranks(layout, layout->host)};

    if (pack) {
        together(sched, req);
    } else {
        receive_each(sched, req);
        send_each(sched, req);
    }
    if (sched->mates == 1)
        schedule_copy(sched, place_out_block(layout->rank, 0), place_in_block(layout->rank, 0),
                      req->bytes);
    else if (!pack)
        all_to_all_mapped_algorithm.emit(sched, &inner);
    schedule_fence(sched);
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

/* Blocks that the busiest host sends, and receives. */
static uint64_t traffic(const struct layout *layout)
{
    uint64_t most = 0;

    for (int host = 0; host < layout->hosts; host++) {
        const uint64_t mates = layout_mates(layout, host);

        most = max_u64(most, mates * (layout->size - mates));
    }
    return most;
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t n = layout->size, mates = layout_fullest(layout), away = n - layout->leaders;
    const struct layout host = {.size = layout_fullest(layout)};
    const struct cost inside = all_to_all_mapped_algorithm.cost(&host, bytes);

    if (blocks_together(&thresholds_default, bytes))
        return (struct cost){.messages = 1,
                             .at_once = counterpart_messages(layout),
                             .message_bytes = traffic(layout) * bytes,
                             .hand_overs = crossing_hand_overs(layout, bytes),
                             .mapped_bytes = (2 * (n - n / mates) + n) * bytes};
    return (struct cost){.messages = 1,
                         .at_once = 2 * (away - 1),
                         .message_bytes = traffic(layout) * bytes,
                         .hand_overs = inside.hand_overs,
                         .mapped_bytes = 2 * (mates - 1) * bytes};
}

const struct algorithm all_to_all_composed_algorithm = {
    "all_to_all_composed", OPERATION_ALL_TO_ALL, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
