/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, composed: every block goes once to every other host, and by mapped memory to all
 * members there.
 *
 * A member sends its block to its counterpart on each other host (counterparts.h). Inside a host
 * the blocks go through the in-slots in rows: first everybody's own, then, host by host, those that
 * came from there, at most one a member in each row; a row is copied out one chunk after it was put
 * in, while the next one arrives.
 * Cost: hosts-1 messages, each host's blocks once to each other host; n+1 blocks copied.
 */
#include "algorithm/algorithm.h"
#include "algorithm/counterparts.h"
#include "algorithm/exchange.h"
#include "algorithm/staging.h"

/* Where the rows are: those of host (mine - step), in which mate i has block row * mates + i. */
struct row {
    int step, row;
};

/* One chunk of a row. */
struct turn {
    struct row at;
    uint32_t chunk;
    struct part piece;
};

/* The block that mate `mate` has in a row; -1: none. */
static int block_in(const struct request *req, struct row at, int mate)
{
    const struct layout *layout = req->layout;
    const int host = host_before(layout, at.step),
              index = at.row * layout_mates(layout, layout->host) + mate;

    return index < layout_mates(layout, host) ? layout_ranks(layout, host)[index] : -1;
}

/* The row after `at`; past the last one step is `hosts`. */
static struct row row_after(const struct layout *layout, struct row at)
{
    if (at.row + 1 < counterpart_rows(layout, host_before(layout, at.step)))
        return (struct row){at.step, at.row + 1};
    return (struct row){at.step + 1, 0};
}

static void send_all(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;

    for (int step = 1; step < layout->hosts; step++)
        exchange_send(sched, counterpart_of(layout, layout->rank, host_after(layout, step)),
                      req->in, req->bytes);
}

/* My block of a row, if I have one and it comes by messages. */
static struct exchange receive(struct schedule *sched, const struct request *req, struct row at)
{
    const bool comes = at.step > 0 && at.step < req->layout->hosts;
    const int block = comes ? block_in(req, at, req->layout->local) : -1;

    if (block < 0)
        return (struct exchange){0};
    return exchange_recv(sched, block, place_out_block(block, 0), req->bytes);
}

static void give(struct schedule *sched, const struct request *req, const struct turn *turn)
{
    const int block = block_in(req, turn->at, sched->self);
    const struct place from = turn->at.step ? place_out_block(block, 0) : req->in;

    if (block >= 0)
        staging_give(sched, from, turn->chunk, turn->piece);
}

static void take(struct schedule *sched, const struct request *req, const struct turn *turn)
{
    for (int i = 1; i < sched->mates; i++) {
        const int mate = (sched->self + i) % sched->mates, block = block_in(req, turn->at, mate);

        if (block < 0)
            continue;
        staging_await(sched, mate, WORD_IN_READY, turn->chunk);
        schedule_copy(sched, place_out_block(block, turn->piece.offset),
                      place_staged_in(mate, turn->chunk, 0), turn->piece.bytes);
    }
    staging_post(sched, WORD_IN_USED, turn->chunk);
}

/* Until what a chunk holds has come. */
static void arrive(struct schedule *sched, const struct exchange *e, uint64_t *fenced,
                   struct part piece)
{
    for (; *fenced < e->count && *fenced * e->each < piece.offset + piece.bytes; ++*fenced)
        schedule_fence_ticket(sched, e->tickets[*fenced]);
}

/* A member alone on its host: nobody else sees what came. */
static void receive_all(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;

    for (struct row at = {1, 0}; at.step < layout->hosts; at = row_after(layout, at))
        receive(sched, req, at);
}

static uint32_t count_rows(const struct layout *layout)
{
    uint32_t rows = 0;

    for (struct row at = {0, 0}; at.step < layout->hosts; at = row_after(layout, at))
        rows++;
    return rows;
}

static void in_rows(struct schedule *sched, const struct request *req)
{
    const struct layout *layout = req->layout;
    const struct part whole = {0, req->bytes};
    const uint64_t each = staging_chunk_bytes(req->bytes);
    const uint32_t pieces = (uint32_t)pieces_in(req->bytes, each);
    const uint32_t first = schedule_chunks(sched, pieces * count_rows(layout));
    struct turn now = {.chunk = first}, before = now;
    struct exchange coming = {0};

    while (now.at.step < layout->hosts) {
        const struct row next = row_after(layout, now.at);
        const struct exchange later = receive(sched, req, next);
        uint64_t fenced = 0;

        for (uint32_t k = 0; k < pieces; k++, now.chunk++) {
            now.piece = piece_of(whole, each, k);
            arrive(sched, &coming, &fenced, now.piece);
            give(sched, req, &now);
            if (now.chunk == first)
                schedule_meet_all(sched);
            else
                take(sched, req, &before);
            before = now;
        }
        coming = later;
        now.at = next;
    }
    take(sched, req, &before);
}

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    send_all(sched, req);
    schedule_copy(sched, place_out_block(sched->rank, 0), req->in, req->bytes);
    if (sched->mates > 1)
        in_rows(sched, req);
    else
        receive_all(sched, req);
    schedule_fence(sched);
    return schedule_status(sched);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    const uint64_t mates = layout_fullest(layout);
    const uint64_t chunks = pieces_in(bytes, staging_chunk_bytes(bytes));

    return (struct cost){.messages = 1,
                         .at_once = counterpart_messages(layout),
                         .message_bytes = counterpart_traffic(layout) * bytes,
                         .hand_overs = (pieces_in(layout->size, mates) + 1) * chunks,
                         .mapped_bytes = (layout->size + 1) * bytes};
}

const struct algorithm all_gather_composed_algorithm = {
    "all_gather_composed", OPERATION_ALL_GATHER, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
