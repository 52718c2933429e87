/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast, composed: in segments, the root sends to one member of every other host, and that
 * member (the root on its own host) hands it to its local peers through mapped memory while the next
 * segment is on its way. Cost: the message algorithm over the hosts, and broadcast_mapped for the
 * last segment.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

enum { SEGMENT_BYTES = 1 << 20 };

/* The member that speaks for a host: the root, or the host's first. */
static int speaker_of(const struct layout *layout, int host, int root)
{
    return layout->host_of[root] == host ? root : layout_ranks(layout, host)[0];
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const int speaker = speaker_of(layout, layout->host, req->root);
    const uint64_t segments = req->bytes ? pieces_in(req->bytes, SEGMENT_BYTES) : 1;
    int *speakers = schedule_table(sched, (uint32_t)layout->hosts);

    if (!speakers)
        return;
    for (int host = 0; host < layout->hosts; host++)
        speakers[host] = speaker_of(layout, host, req->root);
    for (uint64_t k = 0; k < segments; k++) {
        const struct part piece = piece_of((struct part){0, req->bytes}, SEGMENT_BYTES, k);
        const struct place at = place_after(req->out, piece.offset);
        const struct request outer = {
            .out = at, .bytes = piece.bytes, .root = layout->host_of[req->root]};
        const struct request inner = {
            .out = at, .bytes = piece.bytes, .root = layout->local_of[speaker]};

        if (speaker == layout->rank) {
            schedule_view(sched, layout->host, layout->hosts, speakers);
            algorithm_emit(algorithm_by_messages(sched->thresholds, OPERATION_BROADCAST,
                                                 layout->hosts, piece.bytes),
                           sched, &outer);
            schedule_view(sched, layout->rank, layout->size, NULL);
        }
        if (sched->local_size > 1)
            algorithm_emit(&broadcast_mapped_algorithm, sched, &inner);
    }
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t last = min_u64(bytes, SEGMENT_BYTES);
    const uint64_t segments = bytes ? pieces_in(bytes, SEGMENT_BYTES) : 1;
    struct layout between = {.size = layout->hosts, .thresholds = layout->thresholds};
    struct cost c =
        algorithm_by_messages(layout->thresholds, OPERATION_BROADCAST, layout->hosts, last)
            ->cost(&between, last);
    const struct cost inside = broadcast_mapped_algorithm.cost(layout, last);

    c.messages *= segments;
    c.at_once *= segments;
    c.message_bytes *= segments;
    c.hand_overs = inside.hand_overs;
    c.mapped_bytes = inside.mapped_bytes;
    return c;
}

ALGORITHM(broadcast_composed, BROADCAST, COMPOSED, .emit = emit, .cost = cost);
