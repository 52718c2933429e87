/* SPDX-License-Identifier: Apache-2.0 */
/* How shm cuts messages, for rings of every length: few local peers have long ones, hundreds have short ones. */
#include <criterion/criterion.h>

#include "shm/shm.h"

TestSuite(shm_pieces, .timeout = 30);

static uint64_t next_size(uint64_t bytes)
{
    return bytes < 300 ? bytes + 1 : bytes + bytes / 97;
}

Test(shm_pieces, pieces_are_of_one_length_and_within_the_bounds)
{
    for (uint64_t ring = SHM_RING_MIN; ring <= SHM_RING_MAX; ring *= 2)
        for (uint64_t bytes = shm_whole_max(ring) + 1; bytes < 10 << 20; bytes = next_size(bytes)) {
            const uint64_t piece = shm_piece_of(ring, bytes), count = (bytes + piece - 1) / piece;

            cr_assert(piece && piece <= shm_piece_max(ring));
            cr_assert(piece % SHM_LINE == 0 || count == 1);
            cr_assert_lt(count * piece - bytes, count * SHM_LINE,
                         "ring %d, %d bytes: the last piece is short", (int)ring, (int)bytes);
        }
}

/* Pieces lie in the ring, in slots, or in both by turns. */
enum places { IN_RING, IN_SLOTS, BY_TURNS, PLACES };

/* The room that a message of more than one chunk takes in its ring, as put_piece() cuts it. */
static uint64_t room_of(uint64_t ring, uint64_t body, enum places places, unsigned *ret_pieces)
{
    const uint64_t piece_max = shm_piece_of(ring, body);
    uint64_t used = shm_chunk_bytes(0);
    unsigned pieces = 0;

    for (uint64_t left = body, piece; left; left -= piece, pieces++) {
        const bool in_slot = places == IN_SLOTS || (places == BY_TURNS && pieces % 2);

        piece = left < piece_max ? left : piece_max;
        if (in_slot && piece > SHM_SLOT_BYTES)
            piece = shm_slot_piece(left);
        cr_assert(piece && piece <= left && (!in_slot || piece <= SHM_SLOT_BYTES));
        used += shm_chunk_bytes(in_slot ? 0 : piece);
    }
    *ret_pieces = pieces;
    return used;
}

/* All chunks of what may be a pair, as shm_stream_send_pair() writes them, in the room that it asks for. */
Test(shm_pieces, a_pair_has_room_in_its_ring)
{
    unsigned pairs = 0, most = 0;

    for (uint64_t ring = SHM_RING_MIN; ring <= SHM_RING_MAX; ring *= 2)
        for (uint64_t head = 0; head <= SHM_WHOLE; head += 61)
            for (uint64_t body = 1; body < 300000; body = next_size(body)) {
                const uint64_t asked = shm_chunk_bytes(shm_pair_payload(head, body)) + SHM_LINE;

                if (!shm_may_be_pair(ring, head, body))
                    continue;
                for (int places = 0; places < PLACES; places++) {
                    unsigned pieces = 0;
                    const uint64_t used = shm_chunk_bytes(head) + SHM_LINE +
                                          (body <= shm_whole_max(ring)
                                               ? shm_chunk_bytes(body)
                                               : room_of(ring, body, (enum places)places, &pieces));

                    cr_assert(used <= asked && asked <= ring && pieces <= SHM_PAIR_PIECES,
                              "ring %d: %d and %d bytes", (int)ring, (int)head, (int)body);
                    most = pieces > most ? pieces : most;
                }
                pairs++;
            }
    cr_assert_gt(pairs, 1000);
    cr_assert_eq(most, SHM_PAIR_PIECES);
    cr_assert(shm_may_be_pair(SHM_RING_MAX, 64, 256 << 10));
    cr_assert_not(shm_may_be_pair(SHM_RING_MAX, 64, (256 << 10) + 1));
    cr_assert_not(shm_may_be_pair(SHM_RING_MIN, 64, 16 << 10));
    cr_assert_not(shm_may_be_pair(SHM_RING_MIN, SHM_RING_MIN / 4 + 1, 100));
    cr_assert_not(shm_may_be_pair(SHM_RING_MAX, 64, 0));
}
