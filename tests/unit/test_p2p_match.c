/* SPDX-License-Identifier: Apache-2.0 */
/* Which receive takes which message: tags, sources, sizes, the order of both, and what was cancelled. */
#include <criterion/criterion.h>

#include <tutti/tensor.h>

#include "base/error.h"
#include "fake_world.h"

static struct world *world;

static void setup(void)
{
    world = world_new((struct world_options){.members = 3});
}

static void teardown(void)
{
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
}

TestSuite(p2p_match, .init = setup, .fini = teardown, .timeout = 30);

static struct p2p_group *group(int rank)
{
    return world->members[rank].group;
}

static void send_value(int from, int to, uint64_t tag, uint64_t value)
{
    struct p2p_op op = {0};

    cr_assert_eq(p2p_send(group(from), &op, to, tag, &value, sizeof value), TUTTI_OK);
    world_settle(world);
    cr_assert_eq(op.status, TUTTI_OK, "a small send needs no receive");
}

static uint64_t receive_value(int at, int source, uint64_t tag)
{
    struct p2p_op op = {0};
    uint64_t value = 0;

    cr_assert_eq(p2p_recv(group(at), &op, source, tag, &value, sizeof value), TUTTI_OK);
    world_settle(world);
    cr_assert_eq(op.status, TUTTI_OK);
    cr_assert_eq(op.bytes, sizeof value);
    cr_assert(source == P2P_ANY_SOURCE || op.source == source);
    return value;
}

Test(p2p_match, messages_of_one_tag_match_in_the_order_sent_and_posted)
{
    uint64_t got[6];
    struct p2p_op ops[6] = {0};

    for (unsigned i = 0; i < 3; i++)
        p2p_recv(group(1), &ops[i], 0, 7, &got[i], sizeof got[i]);
    for (unsigned i = 0; i < 6; i++)
        send_value(0, 1, 7, i);
    world_settle(world);
    for (unsigned i = 3; i < 6; i++)
        p2p_recv(group(1), &ops[i], 0, 7, &got[i], sizeof got[i]);
    world_settle(world);
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(ops[i].status, TUTTI_OK);
        cr_assert_eq(got[i], i);
    }
}

Test(p2p_match, a_receive_overtakes_a_larger_message_of_another_tag)
{
    enum { LARGE = 3 << 20 };
    uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
    struct p2p_op large = {0}, late = {0};

    fill(out, LARGE, 1);
    cr_assert_eq(p2p_send(group(0), &large, 1, 1, out, LARGE), TUTTI_OK);
    send_value(0, 1, 2, 42);
    cr_assert_eq(receive_value(1, 0, 2), 42);
    cr_assert_eq(large.status, TUTTI_ERR_NOT_READY);
    cr_assert_eq(p2p_recv(group(1), &late, 0, 1, in, LARGE), TUTTI_OK);
    world_settle(world);
    cr_assert_eq(large.status, TUTTI_OK);
    cr_assert_eq(late.status, TUTTI_OK);
    cr_assert(filled(in, LARGE, 1));
    free(out);
    free(in);
}

Test(p2p_match, any_source_takes_the_earliest_arrival_and_the_earliest_posting_wins)
{
    uint64_t got[3];
    struct p2p_op ops[3] = {0};

    send_value(2, 0, 5, 20);
    world_settle(world);
    send_value(1, 0, 5, 10);
    world_settle(world);
    send_value(2, 0, 5, 21);
    world_settle(world);
    cr_assert_eq(receive_value(0, 1, 5), 10);
    cr_assert_eq(receive_value(0, P2P_ANY_SOURCE, 5), 20);
    cr_assert_eq(receive_value(0, P2P_ANY_SOURCE, 5), 21);

    p2p_recv(group(0), &ops[0], 1, 6, &got[0], sizeof got[0]);
    p2p_recv(group(0), &ops[1], P2P_ANY_SOURCE, 6, &got[1], sizeof got[1]);
    p2p_recv(group(0), &ops[2], 2, 6, &got[2], sizeof got[2]);
    send_value(2, 0, 6, 22);
    world_settle(world);
    cr_assert_eq(ops[1].status, TUTTI_OK, "it was posted before the specific one");
    cr_assert_eq(ops[1].source, 2);
    cr_assert_eq(ops[2].status, TUTTI_ERR_NOT_READY);
    send_value(2, 0, 6, 23);
    send_value(1, 0, 6, 11);
    world_settle(world);
    cr_assert(got[0] == 11 && got[1] == 22 && got[2] == 23);
}

Test(p2p_match, another_size_is_a_mismatch_of_that_receive_alone)
{
    static uint8_t out[300 << 10], in[300 << 10];
    static const uint32_t sizes[][2] = {{8, 16},        {16, 8},        {0, 4},        {4, 0},
                                        {300 << 10, 8}, {8, 300 << 10}, {40000, 39999}};

    for (int posted_first = 0; posted_first < 2; posted_first++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct p2p_op send = {0}, recv = {0}, next = {0};
            uint64_t value = 0;
            char words[64];

            if (posted_first)
                p2p_recv(group(1), &recv, 0, 3, in, sizes[i][1]);
            p2p_send(group(0), &send, 1, 3, out, sizes[i][0]);
            world_settle(world);
            if (!posted_first)
                p2p_recv(group(1), &recv, 0, 3, in, sizes[i][1]);
            world_settle(world);
            cr_assert_eq(recv.status, TUTTI_ERR_MISMATCH);
            cr_assert_eq(p2p_op_error(&recv), TUTTI_ERR_MISMATCH);
            snprintf(words, sizeof words, "receive of %u bytes matched a message of %u bytes",
                     sizes[i][1], sizes[i][0]);
            cr_assert_not_null(strstr(error_message(), words), "%s", error_message());
            cr_assert_eq(send.status, TUTTI_OK);

            p2p_recv(group(1), &next, 0, 3, &value, sizeof value);
            send_value(0, 1, 3, 77);
            world_settle(world);
            cr_assert_eq(value, 77);
        }
    }
}

Test(p2p_match, collectives_and_user_messages_do_not_meet)
{
    struct announce a = {.sequence = 5,
                         .signature = 99,
                         .fields = {.operation = OPERATION_ALL_GATHER,
                                    .flags = CALL_UNEVEN,
                                    .count = 3,
                                    .op = -1,
                                    .root = -1,
                                    .dtype = TUTTI_F32,
                                    .sizes = 0xbeef}};
    uint64_t first = 1, second = 2, got[2];
    struct p2p_op ops[5] = {0};

    send_value(0, 1, 5, 3);
    p2p_collective_send(group(0), &ops[0], 1, &a, &first, sizeof first);
    p2p_collective_send(group(0), &ops[1], 1, &a, &second, sizeof second);
    world_settle(world);
    cr_assert_eq(world->members[1].announces, 2, "also when no receive is posted");
    cr_assert_eq(memcmp(&world->members[1].last, &a, sizeof a), 0);
    for (int i = 0; i < 2; i++)
        p2p_collective_recv(group(1), &ops[2 + i], 0, 5, &got[i], sizeof got[i]);
    cr_assert(got[0] == 1 && got[1] == 2);
    cr_assert_eq(receive_value(1, 0, 5), 3);
}

Test(p2p_match, only_what_has_not_begun_can_be_cancelled)
{
    static uint8_t large[1 << 20], in[1 << 20];
    struct p2p_op recv = {0}, send = {0}, queued = {0};
    uint64_t value = 0;

    p2p_recv(group(1), &recv, 0, 1, &value, sizeof value);
    cr_assert_eq(p2p_cancel(&recv), TUTTI_OK);
    cr_assert_eq(recv.status, TUTTI_ERR_ABORTED);
    send_value(0, 1, 1, 9);
    world_settle(world);
    cr_assert_eq(value, 0);
    cr_assert_eq(receive_value(1, 0, 1), 9);
    cr_assert_eq(p2p_cancel(&recv), TUTTI_ERR_BUSY, "it is over");

    world->net.depth = 0; /* full: everything queues */
    p2p_send(group(0), &queued, 1, 2, &value, sizeof value);
    cr_assert_eq(queued.status, TUTTI_ERR_NOT_READY);
    cr_assert_eq(p2p_cancel(&queued), TUTTI_OK);
    p2p_send(group(0), &send, 1, 2, large, sizeof large);
    cr_assert_eq(p2p_cancel(&send), TUTTI_OK);
    world->net.depth = 100;
    p2p_send(group(0), &send, 1, 2, large, sizeof large);
    p2p_recv(group(1), &recv, 0, 2, in, sizeof in);
    for (int i = 0; i < 1000 && !world->net.links[0][1].kinds[P2P_DATA]; i++)
        for (int rank = 0; rank < 2; rank++)
            p2p_progress(world->members[rank].engine);
    cr_assert_eq(p2p_cancel(&send), TUTTI_ERR_BUSY, "it moves");
    world_settle(world);
    cr_assert_eq(recv.status, TUTTI_OK);
}

/* ---- announced messages that are taken back ---- */

enum { LONG = 1 << 20 };

static uint8_t long_out[4][LONG], long_in[4][LONG];

static void send_long(struct p2p_op *op, int to, uint64_t tag, unsigned seed)
{
    fill(long_out[seed], LONG, seed);
    p2p_send(group(0), op, to, tag, long_out[seed], LONG);
}

Test(p2p_match, an_announced_message_that_nobody_received_is_as_if_never_sent)
{
    struct p2p_op sends[3] = {0}, recv = {0}, any = {0};
    const uint32_t before = world->members[1].engine->envelopes;

    for (unsigned i = 0; i < 3; i++)
        send_long(&sends[i], 1, 4, i);
    world_settle(world);
    cr_assert_eq(world->members[1].engine->envelopes, before + 3);
    cr_assert(p2p_is_unmatched(&sends[0]));
    cr_assert_eq(p2p_cancel(&sends[0]), TUTTI_OK);
    cr_assert_eq(sends[0].status, TUTTI_ERR_ABORTED);
    cr_assert_eq(p2p_cancel(&sends[0]), TUTTI_ERR_BUSY, "it is over");
    world_settle(world);
    cr_assert_eq(world->members[1].engine->envelopes, before + 2);
    p2p_recv(group(1), &recv, 0, 4, long_in[0], LONG);
    p2p_recv(group(1), &any, P2P_ANY_SOURCE, 4, long_in[1], LONG);
    world_settle(world);
    cr_assert(recv.status == TUTTI_OK && filled(long_in[0], LONG, 1));
    cr_assert(any.status == TUTTI_OK && filled(long_in[1], LONG, 2));
    cr_assert_eq(world->members[1].failures + world->members[0].failures, 0);
}

/* The receive is posted before the withdrawal arrives, so its grant meets that on the way. */
Test(p2p_match, a_receive_whose_message_is_taken_back_takes_the_next_one)
{
    for (int any = 0; any < 2; any++)
        for (int kept = 0; kept < 2; kept++) {
            struct p2p_op sends[3] = {0}, recv = {.up_to = true}, later = {0};
            const int source = any ? P2P_ANY_SOURCE : 0;

            send_long(&sends[0], 1, 5, 0);
            world_settle(world);
            if (kept) {
                send_long(&sends[1], 1, 5, 1);
                world_settle(world);
            }
            p2p_recv(group(1), &recv, source, 5, long_in[0], LONG);
            p2p_recv(group(1), &later, 0, 6, long_in[1], LONG);
            cr_assert_eq(recv.state, OP_WAITING_DATA);
            cr_assert_eq(p2p_cancel(&sends[0]), TUTTI_OK);
            world_settle(world);
            cr_assert_eq(sends[0].status, TUTTI_ERR_ABORTED);
            if (!kept) {
                cr_assert_eq(recv.status, TUTTI_ERR_NOT_READY);
                cr_assert_eq(recv.state, OP_POSTED);
                send_value(0, 1, 5, 77);
                world_settle(world);
                cr_assert_eq(recv.bytes, sizeof(uint64_t));
                cr_assert_eq(*(uint64_t *)(void *)long_in[0], 77);
            } else {
                cr_assert(filled(long_in[0], LONG, 1));
            }
            cr_assert_eq(recv.status, TUTTI_OK);
            cr_assert_eq(p2p_cancel(&later), TUTTI_OK);
        }
    cr_assert_eq(world->members[1].failures + world->members[0].failures, 0);
}

Test(p2p_match, receives_posted_again_keep_their_order)
{
    struct p2p_op send = {0}, first = {0}, second = {0};
    uint64_t a = 0, b = 0;

    first.up_to = true;
    send_long(&send, 1, 8, 0);
    world_settle(world);
    p2p_recv(group(1), &first, 0, 8, long_in[0], LONG);
    p2p_recv(group(1), &second, 0, 8, &b, sizeof b);
    cr_assert_eq(p2p_cancel(&send), TUTTI_OK);
    world_settle(world);
    send_value(0, 1, 8, 1);
    send_value(0, 1, 8, 2);
    world_settle(world);
    memcpy(&a, long_in[0], sizeof a);
    cr_assert(first.status == TUTTI_OK && second.status == TUTTI_OK);
    cr_assert(a == 1 && b == 2);
}

Test(p2p_match, a_receive_ends_when_its_message_is_taken_back_after_later_ones)
{
    struct p2p_op send = {0}, first = {0}, second = {0};
    uint64_t b = 0;

    send_long(&send, 1, 8, 0);
    send_value(0, 1, 8, 2);
    world_settle(world);
    p2p_recv(group(1), &first, 0, 8, long_in[0], LONG);
    p2p_recv(group(1), &second, 0, 8, &b, sizeof b);
    cr_assert(second.status == TUTTI_OK && b == 2);
    cr_assert_eq(p2p_cancel(&send), TUTTI_OK);
    world_settle(world);
    cr_assert_eq(first.status, TUTTI_ERR_ABORTED);
    cr_assert_eq(p2p_op_error(&first), TUTTI_ERR_ABORTED);
    cr_assert(strstr(error_message(), "rank 0 withdrew the message of 1048576 bytes (tag 8)"), "%s",
              error_message());
    cr_assert_eq(world->members[1].failures + world->members[0].failures, 0);
}

Test(p2p_match, ranks_that_cannot_be_the_other_side_are_refused)
{
    struct p2p_op op = {0};
    struct announce announce = {.sequence = 1};

    cr_assert_eq(p2p_send(group(1), &op, 3, 0, NULL, 0), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(p2p_collective_send(group(1), &op, 1, &announce, NULL, 0),
                 TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(p2p_collective_recv(group(1), &op, 1, 1, NULL, 0), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(p2p_recv(group(1), &op, -2, 0, NULL, 0), TUTTI_ERR_INVALID_ARGUMENT);
}

Test(p2p_match, a_hundred_thousand_unexpected_messages_are_found_quickly)
{
    enum { MANY = 100000 };
    struct p2p_op *sends = calloc(MANY, sizeof *sends);
    uint64_t *values = calloc(MANY, sizeof *values);
    struct timespec begin, end;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (uint64_t i = 0; i < MANY; i++) {
        values[i] = i;
        p2p_send(group(0), &sends[i], 1, i % 2 ? i : 0, &values[i], sizeof values[i]);
        if (i % 100 == 0)
            world_step(world);
    }
    world_settle(world);
    for (uint64_t i = MANY; i-- > 0;) {
        struct p2p_op op = {0};
        uint64_t value = 0;

        if (i % 2 == 0)
            continue;
        p2p_recv(group(1), &op, i % 4 == 1 ? 0 : P2P_ANY_SOURCE, i, &value, sizeof value);
        while (op.status == TUTTI_ERR_NOT_READY)
            world_step(world);
        cr_assert_eq(op.status, TUTTI_OK);
        cr_assert_eq(value, i);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    cr_assert_lt(end.tv_sec - begin.tv_sec, 5);
    for (int i = 0; i < 3; i++)
        p2p_group_fail(group(i), TUTTI_ERR_ABORTED);
    free(sends);
    free(values);
}
