/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, composed: the root's mates hand it their blocks through mapped memory. On the other hosts
 * the first member collects short blocks in the same way and sends them in one message, as a message
 * costs more than a copy; a long block goes straight from its member to its place at the root.
 * Cost: short: a hand-over, a message from each host, each block copied twice more; long: n-1
 * messages less those of mates. Every block crosses once in either.
 */
#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"

/* The blocks of a host of the root's others; `scratch`: where those that come together are put. */
static void receive(struct schedule *sched, const struct request *req, int host,
                    struct place scratch)
{
    const int *ranks = layout_ranks(req->layout, host);
    const int mates = layout_mates(req->layout, host);

    if (blocks_together(req->thresholds, req->bytes)) {
        schedule_recv(sched, ranks[0], scratch, (uint64_t)mates * req->bytes);
        return;
    }
    for (int i = 0; i < mates; i++)
        schedule_recv(sched, ranks[i], place_out_block(ranks[i], 0), req->bytes);
}

static void at_root(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const bool pack = blocks_together(req->thresholds, req->bytes);
    const struct place scratch =
        schedule_scratch(sched, pack ? (uint64_t)layout->size * req->bytes : 0);
    const struct request inner = {.in = req->in,
                                  .out = req->out,
                                  .bytes = req->bytes,
                                  .root = layout->local,
                                  .mate_blocks = layout_ranks(layout, layout->host)};

    for (int step = 1; step < layout->hosts; step++) {
        const int host = host_before(layout, step);
        const uint64_t first = (uint64_t)layout->host_first[host];

        receive(sched, req, host, place_after(scratch, first * req->bytes));
    }
    if (sched->mates > 1)
        gather_mapped_algorithm.emit(sched, &inner);
    else
        schedule_copy(sched, place_out_block(layout->rank, 0), req->in, req->bytes);
    schedule_fence(sched);
    for (int i = 0; i < layout->size && pack; i++)
        if (layout->host_of[layout->by_host[i]] != layout->host)
            schedule_copy(sched, place_out_block(layout->by_host[i], 0),
                          place_after(scratch, (uint64_t)i * req->bytes), req->bytes);
}

static void elsewhere(struct schedule *sched, const struct request *req)
{
    const bool pack = blocks_together(req->thresholds, req->bytes) && sched->mates > 1;
    const uint64_t mates = pack ? (uint64_t)sched->mates : 1;
    struct request inner = {.in = req->in, .out = req->in, .bytes = req->bytes};

    if (pack) {
        inner.out = schedule_scratch(sched, sched->self ? 0 : mates * req->bytes);
        gather_mapped_algorithm.emit(sched, &inner);
    }
    if (!pack || sched->self == 0)
        schedule_send(sched, req->root, inner.out, mates * req->bytes);
    schedule_fence(sched);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const uint64_t mark = sched->scratch_used;
    const struct request inner = {
        .in = req->in, .bytes = req->bytes, .root = layout->local_of[req->root]};

    if (layout->rank == req->root)
        at_root(sched, req);
    else if (layout->host == layout->host_of[req->root])
        gather_mapped_algorithm.emit(sched, &inner);
    else
        elsewhere(sched, req);
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const bool pack = blocks_together(&thresholds_default, bytes);
    const double away = layout->size - layout->leaders, b = (double)bytes;
    const struct cost inside = gather_mapped_algorithm.cost(layout, bytes);

    return (struct cost){.messages = 1,
                         .at_once = (pack ? layout->hosts - 1 : away) - 1,
                         .message_bytes = away * b,
                         .hand_overs = inside.hand_overs,
                         .mapped_bytes = layout_fullest(layout) * b + (pack ? away * b : 0)};
}

const struct algorithm gather_composed_algorithm = {
    "gather_composed", OPERATION_GATHER, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
