/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter, composed: every host sends one partial result for each block that belongs to
 * another host.
 *
 * A block is reduced over the members of a host by its owner's counterpart there (counterparts.h),
 * who sends the result to the owner; the owner reduces those of all hosts in their order. Blocks go
 * in segments, so that the scratch stays small, and in a segment host by host, my own last:
 * everybody puts its pieces of a host's blocks into its in-slot, and one chunk later each reduces
 * those that it is the counterpart for.
 * Cost: hosts-1 messages; (m-1)/m * n blocks copied, and as many read and reduced, by each of the m
 * members of a host. Invariant: while segment k is reduced over the hosts, k+1 is on its way into
 * the other half of what is kept for those that come.
 */
#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"
#include "algorithm/direct.h"
#include "algorithm/staging.h"

/* Partial results. */
struct partials {
    struct place come[2], leave; /* of other hosts for me, and of mine for them */
    uint64_t slot;               /* bytes of one */
};

/* One chunk of a segment of a host's blocks. */
struct turn {
    int host;
    uint32_t chunk;
    uint64_t each;      /* bytes of a block's piece in a slot */
    struct part piece;  /* in the block */
    struct part whole;  /* the segment in the block */
    struct place leave; /* where my partial results of this host's blocks lie one after another */
};

/* The block of a host that I reduce in a row; -1: none. */
static int block_in(const struct request *req, int host, int row)
{
    const struct layout *layout = req->layout;
    const int index = row * layout_mates(layout, layout->host) + layout->local;

    return index < layout_mates(layout, host) ? layout_ranks(layout, host)[index] : -1;
}

static uint32_t place_in_slot(const struct request *req, const struct turn *turn, int block)
{
    return (uint32_t)req->layout->local_of[block] * (uint32_t)turn->each;
}

static void copy_in(struct schedule *sched, const struct request *req, const struct turn *turn)
{
    const struct layout *layout = req->layout;

    staging_claim(sched, WORD_IN_USED, turn->chunk);
    for (int i = 0; i < layout_mates(layout, turn->host); i++) {
        const int block = layout_ranks(layout, turn->host)[i];

        if (counterpart_of(layout, block, layout->host) != layout->rank)
            schedule_copy(
                sched, place_staged_in(sched->self, turn->chunk, place_in_slot(req, turn, block)),
                place_in_block(block, turn->piece.offset), turn->piece.bytes);
    }
    staging_post(sched, WORD_IN_READY, turn->chunk);
}

/* Mine of this chunk, over my host; with a block's last piece its result leaves. */
static void reduce(struct schedule *sched, const struct request *req, const struct partials *p,
                   const struct turn *turn)
{
    const uint64_t done = turn->piece.offset + turn->piece.bytes - turn->whole.offset;
    const bool own = turn->host == req->layout->host;

    staging_await_all(sched, WORD_IN_READY, turn->chunk);
    for (int row = 0; row < counterpart_rows(req->layout, turn->host); row++) {
        const int block = block_in(req, turn->host, row);
        const struct place partial = own ? place_after(req->out, turn->whole.offset)
                                         : place_after(turn->leave, (uint64_t)row * p->slot);

        if (block < 0)
            break;
        const uint32_t at = place_in_slot(req, turn, block);

        schedule_reduce_mates(sched, place_after(partial, turn->piece.offset - turn->whole.offset),
                              place_in_block(block, turn->piece.offset), turn->chunk, at, at,
                              turn->piece.bytes);
        if (!own && done == turn->whole.bytes)
            schedule_send(sched, block, partial, turn->whole.bytes);
    }
    staging_post(sched, WORD_IN_USED, turn->chunk);
}

/* A member alone on its host has nothing to reduce there. */
static void send_all(struct schedule *sched, const struct request *req, struct part whole)
{
    for (int step = 1; step < req->layout->hosts; step++) {
        const int host = host_after(req->layout, step);

        for (int i = 0; i < layout_mates(req->layout, host); i++) {
            const int block = layout_ranks(req->layout, host)[i];

            schedule_send(sched, block, place_in_block(block, whole.offset), whole.bytes);
        }
    }
}

/* All hosts' blocks, mine last. */
static void inside(struct schedule *sched, const struct request *req, const struct partials *p,
                   struct part whole)
{
    const struct layout *layout = req->layout;
    struct turn now = {.whole = whole, .leave = p->leave}, before = now;
    bool first = true;

    for (int step = 1; step <= layout->hosts; step++) {
        now.host = host_after(layout, step);
        now.each =
            MAPPED_SLOT_BYTES / (uint64_t)layout_mates(layout, now.host) / PART_ALIGN * PART_ALIGN;
        const uint32_t pieces = (uint32_t)pieces_in(whole.bytes, now.each);

        now.chunk = schedule_chunks(sched, pieces);
        for (uint32_t k = 0; k < pieces; k++, now.chunk++) {
            now.piece = piece_of(whole, now.each, k);
            copy_in(sched, req, &now);
            if (!first)
                reduce(sched, req, p, &before);
            else if (whole.offset == 0)
                schedule_meet_all(sched); /* after the copy, which needs nobody */
            first = false;
            before = now;
        }
        now.leave = place_after(now.leave, (uint64_t)counterpart_rows(layout, now.host) * p->slot);
    }
    reduce(sched, req, p, &before);
}

/* Starts the exchange of one segment; when the fence after it is through, come[segment % 2] has the
 * other hosts' results for me, and the output mine. */
static void exchange(struct schedule *sched, const struct request *req, const struct partials *p,
                     int *counterparts, uint64_t segment)
{
    const struct layout *layout = req->layout;
    const struct part whole = piece_of((struct part){0, req->bytes}, DIRECT_SEGMENT_BYTES, segment);

    schedule_view(sched, layout->host, layout->hosts, counterparts);
    for (int step = 1; step < layout->hosts; step++) {
        const int host = direct_from(sched, step);

        schedule_recv(sched, host, direct_slot(sched, p->come[segment % 2], p->slot, host),
                      whole.bytes);
    }
    schedule_view(sched, layout->rank, layout->size, NULL);
    if (sched->mates > 1)
        inside(sched, req, p, whole);
    else
        send_all(sched, req, whole);
}

/* Over the hosts. */
static void reduce_all(struct schedule *sched, const struct request *req, const struct partials *p,
                       uint64_t segment)
{
    const struct layout *layout = req->layout;
    const struct part whole = piece_of((struct part){0, req->bytes}, DIRECT_SEGMENT_BYTES, segment);
    const struct place to = place_after(req->out, whole.offset);

    schedule_view(sched, layout->host, layout->hosts, NULL);
    schedule_reduce_all(sched, to,
                        sched->mates > 1 ? to : place_in_block(layout->rank, whole.offset),
                        p->come[segment % 2], (uint32_t)p->slot, whole.bytes);
    schedule_view(sched, layout->rank, layout->size, NULL);
    if (req->finish)
        schedule_finish(sched, to, whole.bytes);
}

static uint64_t leaving(const struct layout *layout)
{
    uint64_t rows = 0;

    for (int step = 1; step < layout->hosts; step++)
        rows += (uint64_t)counterpart_rows(layout, host_after(layout, step));
    return rows;
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const uint64_t mark = sched->scratch_used;
    const uint64_t segments = pieces_in(req->bytes, DIRECT_SEGMENT_BYTES);
    struct partials p = {.slot = round_up(min_u64(req->bytes, DIRECT_SEGMENT_BYTES), PART_ALIGN)};
    int *counterparts = schedule_table(sched, (uint32_t)layout->hosts);

    if (!counterparts)
        return schedule_status(sched);
    for (int host = 0; host < layout->hosts; host++)
        counterparts[host] = counterpart_of(layout, layout->rank, host);
    for (int i = 0; i < 2; i++)
        p.come[i] = schedule_scratch(sched, (uint64_t)(layout->hosts - 1) * p.slot);
    p.leave = schedule_scratch(sched, sched->mates > 1 ? leaving(layout) * p.slot : 0);
    exchange(sched, req, &p, counterparts, 0);
    for (uint64_t k = 0; k < segments; k++) {
        schedule_fence(sched);
        if (k + 1 < segments)
            exchange(sched, req, &p, counterparts, k + 1);
        reduce_all(sched, req, &p, k);
    }
    schedule_scratch_release(sched, mark);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t mates = layout_fullest(layout);
    const uint64_t each = layout->size - layout->size / mates; /* blocks */
    uint64_t hand_overs = 0;

    for (int host = 0; host < layout->hosts; host++)
        hand_overs += pieces_in(bytes, MAPPED_SLOT_BYTES / (uint64_t)layout_mates(layout, host));
    return (struct cost){.messages = 1,
                         .at_once = counterpart_messages(layout),
                         .message_bytes = counterpart_traffic(layout) * bytes,
                         .hand_overs = hand_overs,
                         .mapped_bytes = 2 * each * bytes,
                         .reduced_bytes = (each + layout->hosts - 1) * bytes};
}

const struct algorithm reduce_scatter_composed_algorithm = {"reduce_scatter_composed",
                                                            OPERATION_REDUCE_SCATTER,
                                                            ALGORITHM_COMPOSED,
                                                            emit,
                                                            cost,
                                                            NULL,
                                                            NULL};
