/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/crossing.h"

#include "algorithm/staging.h"

struct part crossing_whole(const struct crossing *crossing, int block)
{
    const struct part all = {0, in_block_bytes(crossing->req, block)};

    return piece_of(all, crossing->most, crossing->segment);
}

struct part crossing_piece(const struct crossing *crossing, const struct turn *turn, int block)
{
    return piece_of(crossing_whole(crossing, block), turn->each, turn->index);
}

int crossing_block(const struct request *req, int host, int row)
{
    const struct layout *layout = req->layout;
    const int index = row * layout_mates(layout, layout->host) + layout->local;

    return index < layout_mates(layout, host) ? layout_ranks(layout, host)[index] : -1;
}

uint32_t crossing_place(const struct request *req, const struct turn *turn, int block)
{
    return (uint32_t)req->layout->local_of[block] * (uint32_t)turn->each;
}

uint64_t crossing_rows(const struct layout *layout)
{
    uint64_t rows = 0;

    for (int step = 1; step < layout->hosts; step++)
        rows += (uint64_t)counterpart_rows(layout, host_after(layout, step));
    return rows;
}

uint64_t crossing_longest(const struct request *req)
{
    uint64_t longest = req->in_bytes ? 0 : req->bytes;

    for (int block = 0; req->in_bytes && block < req->layout->size; block++)
        longest = max_u64(longest, req->in_bytes[block]);
    return longest;
}

/* Of a host's blocks. */
static uint64_t longest_whole(const struct crossing *crossing, int host)
{
    const struct layout *layout = crossing->req->layout;
    uint64_t longest = 0;

    for (int i = 0; i < layout_mates(layout, host); i++)
        longest = max_u64(longest, crossing_whole(crossing, layout_ranks(layout, host)[i]).bytes);
    return longest;
}

static uint64_t piece_bytes(const struct layout *layout, int host)
{
    return MAPPED_SLOT_BYTES / (uint64_t)layout_mates(layout, host) / PART_ALIGN * PART_ALIGN;
}

static void copy_in(struct schedule *sched, const struct crossing *crossing,
                    const struct turn *turn)
{
    const struct request *req = crossing->req;
    const struct layout *layout = req->layout;

    staging_claim(sched, WORD_IN_USED, turn->chunk);
    for (int i = 0; i < layout_mates(layout, turn->host); i++) {
        const int block = layout_ranks(layout, turn->host)[i];
        const struct part piece = crossing_piece(crossing, turn, block);

        if (counterpart_of(layout, block, layout->host) != layout->rank)
            schedule_copy(
                sched, place_staged_in(sched->self, turn->chunk, crossing_place(req, turn, block)),
                place_in_block(block, piece.offset), piece.bytes);
    }
    staging_post(sched, WORD_IN_READY, turn->chunk);
}

static void hand(struct schedule *sched, const struct crossing *crossing, const struct turn *turn)
{
    staging_await_all(sched, WORD_IN_READY, turn->chunk);
    crossing->take(sched, crossing, turn);
    staging_post(sched, WORD_IN_USED, turn->chunk);
}

void crossing_emit(struct schedule *sched, const struct crossing *crossing)
{
    const struct layout *layout = crossing->req->layout;
    struct turn now = {0}, before = {0};
    bool any = false;

    for (int step = 1; step <= layout->hosts; step++) {
        now.host = host_after(layout, step);
        now.each = piece_bytes(layout, now.host);
        const uint32_t pieces = (uint32_t)pieces_in(longest_whole(crossing, now.host), now.each);

        now.chunk = schedule_chunks(sched, pieces);
        for (now.index = 0; now.index < pieces; now.index++, now.chunk++) {
            copy_in(sched, crossing, &now);
            if (any)
                hand(sched, crossing, &before);
            else if (crossing->segment == 0)
                schedule_meet_all(sched); /* after the copy, which needs nobody */
            any = true;
            before = now;
        }
        now.rows += (uint64_t)counterpart_rows(layout, now.host);
    }
    if (any)
        hand(sched, crossing, &before);
}

uint64_t crossing_hand_overs(const struct layout *layout, uint64_t bytes)
{
    uint64_t hand_overs = 0;

    for (int host = 0; host < layout->hosts; host++)
        hand_overs += pieces_in(bytes, piece_bytes(layout, host));
    return hand_overs;
}
