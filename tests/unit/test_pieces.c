/* SPDX-License-Identifier: Apache-2.0 */
/* Long stand-ins in pieces, with a device that is played. */
#include <criterion/criterion.h>

#include "tensor/pieces.h"

TestSuite(pieces, .timeout = 20);

enum { MIB = 1 << 20 };

/* A stand-in whose first `come` pieces are there. */
struct played {
    struct packed packed; /* first */
    struct pieces pieces;
    uint32_t come, given[PIECES_MAX], count, rest;
};

static tutti_status filled(struct packed *packed)
{
    const struct played *p = (struct played *)packed;

    return p->come == p->pieces.count ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

static tutti_status piece_filled(struct packed *packed, uint32_t index)
{
    return index < ((struct played *)packed)->come ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

static tutti_status give_piece(struct packed *packed, uint32_t index)
{
    struct played *p = (struct played *)packed;

    p->given[p->count++] = index;
    return TUTTI_OK;
}

static tutti_status give_rest(struct packed *packed, bool all)
{
    (void)all;
    ((struct played *)packed)->rest++;
    return TUTTI_OK;
}

static const struct packed_staging staging = {.filled = filled,
                                              .piece_filled = piece_filled,
                                              .give_piece = give_piece,
                                              .give_rest = give_rest};

static unsigned char memory[2][8 * MIB];

static struct played play(int which, enum tensor_use use, uint32_t parts)
{
    struct played p = {.packed = {.staging = &staging, .use = use}};

    cr_assert(pieces_cut(&p.pieces, sizeof memory[which], parts));
    p.pieces.memory = memory[which];
    return p;
}

/* Links the stand-ins, which have their place now. */
static struct packed *list_of(struct played *first, struct played *second)
{
    first->packed.pieces = &first->pieces;
    first->packed.next = second ? &second->packed : NULL;
    if (second)
        second->packed.pieces = &second->pieces;
    return &first->packed;
}

Test(pieces, they_cover_every_byte_once)
{
    static const uint64_t lengths[] = {2 * MIB, 2 * MIB + 1, 3 * MIB + 4094, 64 * MIB + 13,
                                       UINT64_C(5) << 30};
    static const uint32_t parts[] = {1, 2, 3, 7, 8, 16, 17, 1000};

    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            struct pieces pieces;
            uint64_t at = 0, found = 0;

            cr_assert(pieces_cut(&pieces, lengths[l], parts[p]));
            cr_assert_leq(pieces.count, PIECES_MAX);
            while (at < lengths[l] && found != at + 1) {
                found = at + 1;
                for (uint32_t i = 0; i < pieces.count; i++)
                    if (pieces.piece[i].begin == at) {
                        cr_assert_gt(pieces.piece[i].end, at);
                        cr_assert(at % 4096 == 0);
                        at = pieces.piece[i].end;
                        found = 0;
                        break;
                    }
            }
            cr_expect_eq(at, lengths[l], "%llu bytes in %u parts", (unsigned long long)lengths[l],
                         parts[p]);
        }
    struct pieces none;
    cr_expect_not(pieces_cut(&none, 2 * MIB - 1, 1));
}

Test(pieces, each_part_begins_before_another_goes_on)
{
    struct pieces pieces;

    cr_assert(pieces_cut(&pieces, 8 * MIB, 2));
    cr_assert_eq(pieces.count, 8);
    for (uint32_t i = 0; i < pieces.count; i++)
        cr_expect_eq(pieces.piece[i].begin, (i % 2) * 4 * MIB + i / 2 * MIB);
}

Test(pieces, a_step_waits_for_the_pieces_that_it_uses)
{
    struct played p = play(0, TENSOR_BOTH, 1);
    struct packed *list = list_of(&p, NULL);

    cr_expect_eq(pieces_may_begin(list), TUTTI_ERR_NOT_READY);
    p.come = 1;
    cr_expect_eq(pieces_may_begin(list), TUTTI_OK);
    cr_expect_eq(pieces_reach(list, memory[0], MIB), TUTTI_OK);
    cr_expect_eq(pieces_reach(list, memory[0], MIB + 1), TUTTI_ERR_NOT_READY);
    cr_expect_eq(pieces_reach(list, memory[1], MIB), TUTTI_OK, "other memory");
    cr_expect(packed_awaits(list));
    p.come = p.pieces.count;
    cr_expect_eq(pieces_reach(list, memory[0] + 7 * MIB, MIB), TUTTI_OK);
    cr_expect_not(packed_awaits(list));
}

Test(pieces, a_piece_goes_back_when_no_step_writes_it_any_more)
{
    struct played p = play(0, TENSOR_BOTH, 1);
    struct packed *list = list_of(&p, NULL);

    p.come = p.pieces.count;
    cr_assert_eq(pieces_reach(list, memory[0], sizeof memory[0]), TUTTI_OK);
    for (uint32_t i = 0; i < p.pieces.count; i++)
        pieces_note_write(list, memory[0] + i * MIB, MIB, 10 + i);
    pieces_note_write(list, memory[0] + MIB - 1, 2, 20); /* of two pieces */
    cr_expect_eq(pieces_give(list, 13), TUTTI_OK);
    cr_expect_eq(p.count, 2);
    cr_expect(p.given[0] == 2 && p.given[1] == 3);
    cr_expect_eq(pieces_give(list, 20), TUTTI_OK);
    cr_expect_eq(p.count, p.pieces.count);
    cr_expect(pieces_are_going(list));
}

Test(pieces, nothing_goes_back_while_another_tensor_is_still_read)
{
    struct played in = play(0, TENSOR_READ, 1), out = play(1, TENSOR_WRITTEN, 1);
    struct packed *list = list_of(&out, &in);

    out.come = out.pieces.count;
    in.come = 1;
    cr_expect_eq(pieces_may_begin(list), TUTTI_OK);
    cr_expect_eq(pieces_give(list, 100), TUTTI_OK);
    cr_expect_eq(out.count, 0);
    in.come = in.pieces.count;
    cr_expect_eq(pieces_reach(list, memory[0], sizeof memory[0]), TUTTI_OK);
    cr_expect_eq(pieces_give(list, 100), TUTTI_OK);
    cr_expect_eq(out.count, out.pieces.count);
    cr_expect_eq(in.count, 0);
}

Test(pieces, a_failure_waits_only_for_what_is_on_its_way)
{
    struct played in = play(0, TENSOR_BOTH, 1), out = play(1, TENSOR_WRITTEN, 1);
    struct packed *list = list_of(&out, &in);

    in.come = in.pieces.count;
    out.come = out.pieces.count;
    cr_assert_eq(pieces_may_begin(list), TUTTI_OK);
    cr_assert_eq(pieces_reach(list, memory[0], sizeof memory[0]), TUTTI_OK);
    pieces_note_write(list, memory[0], sizeof memory[0], 5);
    cr_expect_eq(pieces_give(list, 4), TUTTI_OK);
    pieces_stop(list);
    cr_expect_eq(out.rest, 1);
    cr_expect_not(out.packed.is_back);
    cr_expect_eq(in.rest, 0);
    cr_expect(in.packed.is_back);
}

Test(pieces, a_message_goes_back_in_pieces_as_it_arrives)
{
    struct played p = play(0, TENSOR_WRITTEN, 1);
    struct packed *list = list_of(&p, NULL);

    pieces_arrived(list, 0, MIB + 1);
    cr_expect_eq(p.count, 0, "the stream has not come to the receive");
    p.come = p.pieces.count;
    pieces_arrived(list, 3 * MIB, MIB); /* before what lies before it */
    cr_assert_eq(p.count, 2);
    cr_expect_eq(p.given[0], 0);
    cr_expect_eq(p.given[1], 3);
    pieces_arrived(list, MIB + 1, 2 * MIB - 1);
    cr_assert_eq(p.count, 4);
    cr_expect(pieces_are_going(list));
}

Test(pieces, what_lies_behind_a_shorter_message_does_not_go_back)
{
    struct played p = play(0, TENSOR_WRITTEN, 1);
    struct packed *list = list_of(&p, NULL);

    p.come = p.pieces.count;
    pieces_arrived(list, 0, MIB + 10);
    pieces_shorten(&p.pieces, MIB + 10);
    cr_expect_eq(p.count, 1);
    cr_expect(p.pieces.piece[0].is_back);
    cr_expect_not(p.pieces.piece[1].is_back);
    cr_expect_eq(p.pieces.piece[1].end, MIB + 10);
    for (uint32_t i = 2; i < p.pieces.count; i++)
        cr_expect(p.pieces.piece[i].is_back);
}
