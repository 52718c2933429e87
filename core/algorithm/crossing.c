/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/crossing.h"

#include "algorithm/staging.h"

/* One chunk: a piece of each block that belongs to a host. */
struct turn {
    int host;
    struct chunk chunk;
    uint64_t each;  /* bytes of a block's piece in a chunk */
    uint64_t index; /* of the piece in the segment */
    uint64_t rows;  /* blocks that I take for the hosts before this one */
};

struct part crossing_whole(const struct crossing *crossing, int block)
{
    const struct part all = {0, in_block_bytes(crossing->req, block)};

    return piece_of(all, crossing->most, crossing->segment);
}

static struct part piece_in(const struct crossing *crossing, const struct turn *turn, int block)
{
    return piece_of(crossing_whole(crossing, block), turn->each, turn->index);
}

/* The place of a block's piece in each chunk. */
static uint32_t place_in_chunk(const struct layout *layout, const struct turn *turn, int block)
{
    return (uint32_t)layout->local_of[block] * (uint32_t)turn->each;
}

uint64_t crossing_rows(const struct layout *layout)
{
    uint64_t rows = 0;

    for (int step = 1; step < layout->hosts; step++)
        rows += (uint64_t)counterpart_rows(layout, host_after(layout, step));
    return rows;
}

/* The longest of a host's blocks. */
static uint64_t longest_whole(const struct crossing *crossing, int host)
{
    const struct layout *layout = crossing->req->layout;
    uint64_t longest = 0;

    for (int i = 0; i < layout_host_size(layout, host); i++)
        longest = max_u64(longest, crossing_whole(crossing, layout_ranks(layout, host)[i]).bytes);
    return longest;
}

static void copy_in(struct schedule *sched, const struct crossing *crossing,
                    const struct turn *turn)
{
    const struct layout *layout = crossing->req->layout;

    staging_claim(sched, WORD_IN_USED, turn->chunk);
    for (int i = 0; i < layout_host_size(layout, turn->host); i++) {
        const int block = layout_ranks(layout, turn->host)[i];
        const struct part piece = piece_in(crossing, turn, block);
        const uint32_t at = place_in_chunk(layout, turn, block);

        if (counterpart_of(layout, block, layout->host) != layout->rank)
            schedule_copy(sched, place_staged_in(sched->self, turn->chunk, at),
                          place_in_block(block, piece.offset), piece.bytes);
    }
    staging_post(sched, WORD_IN_READY, turn->chunk);
}

static struct taking taking_of(const struct crossing *crossing, const struct turn *turn, int row,
                               int block)
{
    const struct layout *layout = crossing->req->layout;
    const struct part whole = crossing_whole(crossing, block),
                      piece = piece_in(crossing, turn, block);

    return (struct taking){
        .block = block,
        .whole = whole,
        .piece = piece,
        .chunk = turn->chunk,
        .at = place_in_chunk(layout, turn, block),
        .own = turn->host == layout->host,
        .last = piece.bytes && piece.offset + piece.bytes == whole.offset + whole.bytes,
        .leave = place_after(crossing->leave, (turn->rows + (uint64_t)row) * crossing->slot)};
}

/* From all local peers' windows: the blocks of the turn's host that I am the counterpart for. */
static void take(struct schedule *sched, const struct crossing *crossing, const struct turn *turn)
{
    const struct layout *layout = crossing->req->layout;

    staging_await_all(sched, WORD_IN_READY, turn->chunk);
    for (int row = 0; row < counterpart_rows(layout, turn->host); row++) {
        const int block = counterpart_in_row(layout, turn->host, row, layout->local);

        if (block < 0)
            break;
        const struct taking taking = taking_of(crossing, turn, row, block);

        crossing->take(sched, crossing, &taking);
    }
    staging_post(sched, WORD_IN_USED, turn->chunk);
}

void crossing_emit(struct schedule *sched, const struct crossing *crossing)
{
    const struct layout *layout = crossing->req->layout;
    struct turn now = {0}, before = {0};
    bool any = false;

    for (int step = 1; step <= layout->hosts; step++) {
        now.host = host_after(layout, step);
        const uint64_t members = (uint64_t)layout_host_size(layout, now.host),
                       longest = longest_whole(crossing, now.host);

        now.each = staging_piece_bytes(sched, members, longest);
        const uint32_t pieces = (uint32_t)pieces_in(longest, now.each);

        now.chunk = schedule_chunks(sched, pieces, members * now.each);
        for (now.index = 0; now.index < pieces;
             now.index++, now.chunk = chunk_after(now.chunk, 1)) {
            copy_in(sched, crossing, &now);
            if (any)
                take(sched, crossing, &before);
            else if (crossing->segment == 0)
                schedule_meet_all(sched); /* after the copy, which needs nobody */
            any = true;
            before = now;
        }
        now.rows += (uint64_t)counterpart_rows(layout, now.host);
    }
    if (any)
        take(sched, crossing, &before);
}

uint64_t crossing_hand_overs(const struct layout *layout, uint64_t bytes)
{
    uint64_t hand_overs = 0;

    for (int host = 0; host < layout->hosts; host++)
        hand_overs += pieces_in(bytes, staging_piece_max((uint64_t)layout_host_size(layout, host)));
    return hand_overs;
}
