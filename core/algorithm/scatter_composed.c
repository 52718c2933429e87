/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter, composed: the root hands its mates their blocks through mapped memory. To each other host
 * short blocks go in one message, as a message costs more than a copy, and its first member hands
 * them out in the same way; a long block goes straight to its member.
 * Cost: short: a hand-over, a message to each host, each block copied twice more; long: n-1 messages
 * less those to mates. Every block crosses once in either.
 */
#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"

/* The blocks of another host; `scratch`: where those that go together are put. */
static void send(struct schedule *sched, const struct request *req, int host, struct place scratch)
{
    const int *ranks = layout_ranks(req->layout, host);
    const int mates = layout_mates(req->layout, host);
    const bool pack = blocks_together(req->thresholds, req->bytes);

    for (int i = 0; i < mates; i++) {
        const struct place block = place_in_block(ranks[i], 0);

        if (pack)
            schedule_copy(sched, place_after(scratch, (uint64_t)i * req->bytes), block, req->bytes);
        else
            schedule_send(sched, ranks[i], block, req->bytes);
    }
    if (pack)
        schedule_send(sched, ranks[0], scratch, (uint64_t)mates * req->bytes);
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
        const int host = host_after(layout, step);
        const uint64_t first = (uint64_t)layout->host_first[host];

        send(sched, req, host, place_after(scratch, first * req->bytes));
    }
    if (sched->mates > 1)
        scatter_mapped_algorithm.emit(sched, &inner);
    else
        schedule_copy(sched, req->out, place_in_block(layout->rank, 0), req->bytes);
    schedule_fence(sched);
}

static void elsewhere(struct schedule *sched, const struct request *req)
{
    const bool pack = blocks_together(req->thresholds, req->bytes) && sched->mates > 1;
    struct request inner = {.out = req->out, .bytes = req->bytes};

    if (!pack) {
        schedule_recv(sched, req->root, req->out, req->bytes);
    } else if (sched->self == 0) {
        const uint64_t bytes = (uint64_t)sched->mates * req->bytes;

        inner.in = schedule_scratch(sched, bytes);
        schedule_recv(sched, req->root, inner.in, bytes);
    }
    schedule_fence(sched);
    if (pack)
        scatter_mapped_algorithm.emit(sched, &inner);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const uint64_t mark = sched->scratch_used;
    const struct request inner = {
        .out = req->out, .bytes = req->bytes, .root = layout->local_of[req->root]};

    if (layout->rank == req->root)
        at_root(sched, req);
    else if (layout->host == layout->host_of[req->root])
        scatter_mapped_algorithm.emit(sched, &inner);
    else
        elsewhere(sched, req);
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const bool pack = blocks_together(&thresholds_default, bytes);
    const double away = layout->size - layout->leaders, b = (double)bytes;

    return (struct cost){.messages = 1,
                         .at_once = (pack ? layout->hosts - 1 : away) - 1,
                         .message_bytes = away * b,
                         .hand_overs = 1 + (pack ? 1 : 0),
                         .mapped_bytes = layout_fullest(layout) * b + (pack ? away * b : 0)};
}

const struct algorithm scatter_composed_algorithm = {
    "scatter_composed", OPERATION_SCATTER, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
