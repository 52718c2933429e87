/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, composed: every block goes once to every other host, and by mapped memory to all
 * members there.
 *
 * A member sends its block to its counterpart on each other host (counterparts.h). Inside a host
 * the blocks go through the in-windows in rows: first everybody's own, then, host by host, those that
 * came from there, at most one a member in each row; a row is copied out one chunk after it was put
 * in, while the next one arrives.
 * Cost: hosts-1 messages, each host's blocks once to each other host; n+1 blocks copied.
 */
#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"
#include "algorithm/exchange.h"
#include "algorithm/staging.h"

/* The rows of host (mine - step): local peer i has block row * members + i. */
struct row {
    int step, row;
};

/* One chunk of a row: the piece of the same number of each of its blocks. */
struct turn {
    struct row at;
    struct chunk chunk;
    uint64_t each, index;
};

/* The block that local peer `local_peer` has in a row; -1: none. */
static int block_in(const struct request *req, struct row at, int local_peer)
{
    return counterpart_in_row(req->layout, host_before(req->layout, at.step), at.row, local_peer);
}

/* The turn's piece of a block, or of none. */
static struct part piece_in(const struct request *req, const struct turn *turn, int block)
{
    const uint64_t bytes = block < 0 ? 0 : out_block_bytes(req, block);

    return piece_of((struct part){0, bytes}, turn->each, turn->index);
}

/* The bytes of its longest block. */
static uint64_t longest_in(const struct request *req, struct row at)
{
    const int members = layout_host_size(req->layout, req->layout->host);
    uint64_t longest = 0;

    for (int local_peer = 0; local_peer < members; local_peer++) {
        const int block = block_in(req, at, local_peer);

        longest = max_u64(longest, block < 0 ? 0 : out_block_bytes(req, block));
    }
    return longest;
}

/* The row after `at`; past the last one step is `hosts`. */
static struct row row_after(const struct layout *layout, struct row at)
{
    if (at.row + 1 < counterpart_rows(layout, host_before(layout, at.step)))
        return (struct row){at.step, at.row + 1};
    return (struct row){at.step + 1, 0};
}

/* My block of a row, if I have one and it comes by messages. */
static struct exchange receive(struct schedule *sched, const struct request *req, struct row at)
{
    const bool comes = at.step > 0 && at.step < req->layout->hosts;
    const int block = comes ? block_in(req, at, req->layout->local) : -1;

    if (block < 0)
        return (struct exchange){0};
    return exchange_recv(sched, block, place_out_block(block, 0), out_block_bytes(req, block));
}

/* Until what a chunk holds has come. */
static void arrive(struct schedule *sched, const struct exchange *e, uint64_t *fenced,
                   struct part piece)
{
    for (; *fenced < e->count && *fenced * e->each < piece.offset + piece.bytes; ++*fenced)
        schedule_fence_ticket(sched, e->tickets[*fenced]);
}

/* Mine of this turn; an empty piece is not given, nor waited for. */
static void give(struct schedule *sched, const struct request *req, const struct turn *turn,
                 const struct exchange *coming, uint64_t *fenced)
{
    const int block = block_in(req, turn->at, sched->self);
    const struct place from = turn->at.step ? place_out_block(block, 0) : req->in;
    const struct part piece = piece_in(req, turn, block);

    if (!piece.bytes)
        return;
    arrive(sched, coming, fenced, piece);
    staging_put(sched, from, turn->chunk, piece);
}

static void take(struct schedule *sched, const struct request *req, const struct turn *turn)
{
    for (int i = 1; i < sched->local_size; i++) {
        const int local_peer = (sched->self + i) % sched->local_size,
                  block = block_in(req, turn->at, local_peer);
        const struct part piece = piece_in(req, turn, block);

        if (!piece.bytes)
            continue;
        staging_await(sched, local_peer, WORD_IN_READY, turn->chunk);
        schedule_copy(sched, place_out_block(block, piece.offset),
                      place_staged_in(local_peer, turn->chunk, 0), piece.bytes);
    }
    staging_post(sched, WORD_IN_USED, turn->chunk);
}

static void in_rows(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    struct turn now = {0}, before = now;
    struct exchange coming = {0};
    bool any = false;

    while (now.at.step < layout->hosts) {
        const struct row next = row_after(layout, now.at);
        const struct exchange later = receive(sched, req, next);
        const uint64_t longest = longest_in(req, now.at);
        uint64_t fenced = 0, pieces;

        now.each = staging_chunk_bytes(sched->thresholds, longest);
        pieces = pieces_in(longest, now.each);
        now.chunk = schedule_chunks(sched, (uint32_t)pieces, min_u64(now.each, longest));
        for (now.index = 0; now.index < pieces;
             now.index++, now.chunk = chunk_after(now.chunk, 1)) {
            give(sched, req, &now, &coming, &fenced);
            if (any)
                take(sched, req, &before);
            else
                schedule_meet_all(sched); /* after the copy, which needs nobody */
            any = true;
            before = now;
        }
        coming = later;
        now.at = next;
    }
    if (any)
        take(sched, req, &before);
}

static void emit(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++)
        exchange_send(sched, counterpart_of(layout, layout->rank, host_after(layout, step)),
                      req->in, out_block_bytes(req, layout->rank));
    schedule_copy(sched, place_out_block(sched->rank, 0), req->in,
                  out_block_bytes(req, sched->rank));
    if (sched->local_size > 1)
        in_rows(sched, req);
    else /* nobody else sees what comes */
        for (struct row at = {1, 0}; at.step < layout->hosts; at = row_after(layout, at))
            receive(sched, req, at);
    schedule_fence(sched);
}

COST(.messages = 1, .at_once = counterpart_messages(layout),
     .message_bytes = counterpart_traffic(layout) * bytes,
     .hand_overs = (pieces_in(n, (uint64_t)layout_fullest(layout)) + 1) *
                   pieces_in(bytes, staging_chunk_bytes(layout->thresholds, bytes)),
     .mapped_bytes = (n + 1) * bytes)
ALGORITHM(all_gather_composed, ALL_GATHER, COMPOSED, .emit = emit, .cost = cost);
