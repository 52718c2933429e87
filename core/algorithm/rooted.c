/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/rooted.h"

#include "algorithm/counterparts.h"

static const struct algorithm *inside_of(bool to_root)
{
    return to_root ? &gather_mapped_algorithm : &scatter_mapped_algorithm;
}

/* At the root, or at `peer` == root; the blocks go to the root or come from there. */
static void cross(struct schedule *sched, const struct request *req, bool to_root, int peer,
                  struct place at, uint64_t bytes)
{
    if (to_root == (peer == req->root))
        schedule_send(sched, peer, at, bytes);
    else
        schedule_recv(sched, peer, at, bytes);
}

/* The block of a member at the root. */
static struct place block_of(bool to_root, int rank)
{
    return to_root ? place_out_block(rank, 0) : place_in_block(rank, 0);
}

/* At the root: between a host's blocks and `packed`, where they lie one after another. */
static void copy_blocks(struct schedule *sched, const struct request *req, bool to_root, int host,
                        struct place packed)
{
    const int *ranks = layout_ranks(req->layout, host);

    for (int i = 0; i < layout_host_size(req->layout, host); i++) {
        const struct place block = block_of(to_root, ranks[i]);
        const struct place at = place_after(packed, (uint64_t)i * req->bytes);

        schedule_copy(sched, to_root ? block : at, to_root ? at : block, req->bytes);
    }
}

/* At the root: a host's blocks cross, by themselves or `packed`. */
static void cross_blocks(struct schedule *sched, const struct request *req, bool to_root, int host,
                         struct place packed)
{
    const int *ranks = layout_ranks(req->layout, host),
              members = layout_host_size(req->layout, host);

    if (blocks_together(req->bytes)) {
        cross(sched, req, to_root, ranks[0], packed, (uint64_t)members * req->bytes);
        return;
    }
    for (int i = 0; i < members; i++)
        cross(sched, req, to_root, ranks[i], block_of(to_root, ranks[i]), req->bytes);
}

static void own_host(struct schedule *sched, const struct request *req, bool to_root)
{
    const struct layout *layout = req->layout;
    const struct request inner = {.in = req->in,
                                  .out = req->out,
                                  .bytes = req->bytes,
                                  .root = layout->local_of[req->root],
                                  .local_blocks = layout_ranks(layout, layout->host)};
    const struct place block = block_of(to_root, layout->rank);

    if (sched->local_size > 1)
        algorithm_emit(inside_of(to_root), sched, &inner);
    else
        schedule_copy(sched, to_root ? block : req->out, to_root ? req->in : block, req->bytes);
}

static void at_root(struct schedule *sched, const struct request *req, bool to_root)
{
    const struct layout *layout = req->layout;
    const bool pack = blocks_together(req->bytes);
    const struct place packed =
        schedule_scratch(sched, pack ? (uint64_t)layout->size * req->bytes : 0);

    for (int step = 1; step < layout->hosts; step++) {
        const int host = to_root ? host_before(layout, step) : host_after(layout, step);
        const struct place at =
            place_after(packed, (uint64_t)layout->host_first[host] * req->bytes);

        if (pack && !to_root)
            copy_blocks(sched, req, to_root, host, at);
        cross_blocks(sched, req, to_root, host, at);
    }
    own_host(sched, req, to_root);
    schedule_fence(sched);
    for (int host = 0; pack && to_root && host < layout->hosts; host++)
        if (host != layout->host)
            copy_blocks(sched, req, to_root, host,
                        place_after(packed, (uint64_t)layout->host_first[host] * req->bytes));
}

static void elsewhere(struct schedule *sched, const struct request *req, bool to_root)
{
    const bool pack = blocks_together(req->bytes) && sched->local_size > 1;
    const bool speaks = !pack || sched->self == 0;
    const uint64_t bytes = pack ? (uint64_t)sched->local_size * req->bytes : req->bytes;
    const struct place own = to_root ? req->in : req->out;
    const struct place all = pack ? schedule_scratch(sched, speaks ? bytes : 0) : own;
    const struct request inner = {
        .in = to_root ? own : all, .out = to_root ? all : own, .bytes = req->bytes};

    if (pack && to_root)
        algorithm_emit(&gather_mapped_algorithm, sched, &inner);
    if (speaks)
        cross(sched, req, to_root, req->root, all, bytes);
    schedule_fence(sched);
    if (pack && !to_root)
        algorithm_emit(&scatter_mapped_algorithm, sched, &inner);
}

void rooted_emit(struct schedule *sched, const struct request *req, bool to_root)
{
    const struct layout *layout = req->layout;

    if (layout->rank == req->root)
        at_root(sched, req, to_root);
    else if (layout->host == layout->host_of[req->root])
        own_host(sched, req, to_root);
    else
        elsewhere(sched, req, to_root);
}

struct cost rooted_cost(const struct layout *layout, uint64_t bytes, bool to_root)
{
    const bool pack = blocks_together(bytes);
    const uint64_t away = layout->size - layout->leaders, other_hosts = layout->hosts - 1;
    const struct layout members = {.size = layout_fullest(layout),
                                   .thresholds = layout->thresholds};
    const struct cost inside = inside_of(to_root)->cost(&members, bytes);

    return (struct cost){.messages = 1,
                         .at_once = (pack ? other_hosts : away) - 1,
                         .message_bytes = away * bytes,
                         .hand_overs = (pack ? 2 : 1) * inside.hand_overs,
                         .mapped_bytes = (layout_fullest(layout) + (pack ? away : 0)) * bytes};
}
