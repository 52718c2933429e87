/* SPDX-License-Identifier: Apache-2.0 */
/* How shm cuts messages, for rings of every length: few local peers have long ones, hundreds have short ones; and how it
 * copies the pieces. */
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

/* ---- reading ---- */

enum { SPACE = SHM_SLOT_BYTES + 128, GUARD = 0xa5 };

static uint8_t source[SPACE] __attribute__((aligned(SHM_PAGE))), target[SPACE];

/* Whether the target has these bytes at `shift`, and nothing was written around them. */
static bool was_read(uint64_t shift, uint64_t bytes)
{
    for (uint64_t i = 0; i < sizeof target; i++)
        if (target[i] != (i < shift || i >= shift + bytes ? GUARD : source[i - shift]))
            return false;
    return true;
}

static void fill_source(void)
{
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 7 + i / 251);
}

static void check_length(uint64_t bytes)
{
    for (uint64_t shift = 0; shift < 64; shift += 21)
        for (unsigned parts = 1; parts <= 4; parts *= 2) {
            memset(target, GUARD, sizeof target);
            shm_read(parts, target + shift, source, bytes);
            cr_assert(was_read(shift, bytes), "%d bytes in %u parts", (int)bytes, parts);
        }
}

Test(shm_pieces, every_length_is_read_in_parts_to_any_address)
{
    fill_source();
    for (uint64_t bytes = 0; bytes <= SHM_SLOT_BYTES; bytes = next_size(bytes))
        check_length(bytes);
    for (uint64_t page = 2048; page <= SHM_SLOT_BYTES; page += 2048)
        for (uint64_t bytes = page - 1; bytes <= page + 1; bytes++)
            check_length(bytes);
}

/* Timed ones, and those that follow. */
Test(shm_pieces, slots_are_read_in_two_and_in_four_parts)
{
    struct shm_reads reads = {0};

    fill_source();
    for (int i = 0; i < 64; i++) {
        const uint64_t bytes = SHM_SLOT_BYTES - (uint64_t)i * SHM_LINE;

        memset(target, GUARD, sizeof target);
        shm_read_slot(&reads, target, source, bytes);
        cr_assert(was_read(0, bytes), "%d bytes", (int)bytes);
    }
    cr_assert_eq(reads.count, 64);
#if defined(__x86_64__)
    cr_assert(reads.two && reads.four);
#endif
    shm_read_slot(&reads, target, source, 4096);
    cr_assert_eq(reads.count, 64, "a short one is not in four parts");
}
