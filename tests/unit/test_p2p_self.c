/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a member to itself: they match as all others do, and no transport has a part in them. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "fake_world.h"

enum { LARGE = 300 << 10 };

static struct world *world;
static uint8_t *out, *in;

static void setup(void)
{
    world = world_new((struct world_options){.members = 2});
    out = malloc(LARGE);
    in = calloc(1, LARGE);
    fill(out, LARGE, 3);
}

static void teardown(void)
{
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
    free(out);
    free(in);
}

TestSuite(p2p_self, .init = setup, .fini = teardown, .timeout = 30);

static struct p2p_group *group(int rank)
{
    return world->members[rank].group;
}

Test(p2p_self, sends_and_receives_meet_in_either_order_at_any_size)
{
    static const uint64_t sizes[] = {0, 1, 8, 4096, 64 << 10, (64 << 10) + 1, LARGE};

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int send_first = 0; send_first < 2; send_first++) {
            struct p2p_op send = {0}, recv = {0};
            uint64_t bytes = sizes[s];

            memset(in, 0, LARGE);
            for (int step = 0; step < 2; step++) {
                if (step != send_first)
                    cr_assert_eq(p2p_send(group(0), &send, 0, 5, out, bytes), TUTTI_OK);
                else
                    cr_assert_eq(p2p_recv(group(0), &recv, 0, 5, in, bytes), TUTTI_OK);
                /* A small send needs no receive. */
                if (step == 0 && send_first)
                    cr_expect_eq(send.status, bytes <= 64 << 10 ? TUTTI_OK : TUTTI_ERR_NOT_READY);
            }
            world_settle(world);
            cr_expect_eq(send.status, TUTTI_OK);
            cr_expect_eq(recv.status, TUTTI_OK);
            cr_expect_eq(recv.source, 0);
            cr_expect_eq(recv.bytes, bytes);
            cr_expect_eq(memcmp(in, out, bytes), 0);
            cr_expect(bytes == LARGE || in[bytes] == 0);
        }
    }
}

Test(p2p_self, any_source_takes_own_and_others_messages_in_the_order_of_arrival)
{
    uint64_t values[4] = {10, 11, 12, 13}, got;
    struct p2p_op sends[4] = {0};

    for (int i = 0; i < 4; i++) {
        int from = i % 2;

        cr_assert_eq(p2p_send(group(from), &sends[i], 0, 1, &values[i], 8), TUTTI_OK);
        world_settle(world);
    }
    for (int i = 0; i < 4; i++) {
        struct p2p_op recv = {0};

        cr_assert_eq(p2p_recv(group(0), &recv, P2P_ANY_SOURCE, 1, &got, 8), TUTTI_OK);
        world_settle(world);
        cr_expect_eq(recv.status, TUTTI_OK);
        cr_expect_eq(recv.source, i % 2);
        cr_expect_eq(got, values[i]);
    }
    /* Posted first, a receive from anybody takes the own message as well. */
    struct p2p_op recv = {0};
    cr_assert_eq(p2p_recv(group(0), &recv, P2P_ANY_SOURCE, 1, &got, 8), TUTTI_OK);
    cr_assert_eq(p2p_send(group(0), &sends[0], 0, 1, &values[3], 8), TUTTI_OK);
    world_settle(world);
    cr_expect_eq(recv.source, 0);
    cr_expect_eq(got, 13);
}

Test(p2p_self, what_is_buffered_is_bounded_and_the_rest_waits)
{
    enum { PIECE = 60 << 10, MANY = 20 };
    struct p2p_op sends[MANY] = {{0}}, recv;
    int complete = 0;

    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(p2p_send(group(0), &sends[i], 0, 1, out, PIECE), TUTTI_OK);
        complete += sends[i].status == TUTTI_OK;
    }
    cr_expect_eq(complete, (1 << 20) / PIECE);
    for (int i = 0; i < MANY; i++) {
        recv = (struct p2p_op){0};
        cr_assert_eq(p2p_recv(group(0), &recv, 0, 1, in, PIECE), TUTTI_OK);
        world_settle(world);
        cr_expect_eq(recv.status, TUTTI_OK);
        cr_expect_eq(sends[i].status, TUTTI_OK, "send %d waits although it was received", i);
    }
    /* What was received may be filled again. */
    sends[0] = (struct p2p_op){0};
    cr_assert_eq(p2p_send(group(0), &sends[0], 0, 1, out, PIECE), TUTTI_OK);
    cr_expect_eq(sends[0].status, TUTTI_OK);
}

Test(p2p_self, another_size_is_the_receivers_mismatch_alone)
{
    static const uint64_t sizes[] = {16, LARGE}; /* buffered, waiting */

    for (int s = 0; s < 2; s++) {
        for (int send_first = 0; send_first < 2; send_first++) {
            struct p2p_op send = {0}, recv = {0};

            if (send_first)
                cr_assert_eq(p2p_send(group(0), &send, 0, 1, out, sizes[s]), TUTTI_OK);
            cr_assert_eq(p2p_recv(group(0), &recv, 0, 1, in, sizes[s] - 8), TUTTI_OK);
            if (!send_first)
                cr_assert_eq(p2p_send(group(0), &send, 0, 1, out, sizes[s]), TUTTI_OK);
            world_settle(world);
            cr_expect_eq(send.status, TUTTI_OK);
            cr_expect_eq(recv.status, TUTTI_ERR_MISMATCH);
            p2p_op_error(&recv);
            cr_expect_not_null(strstr(error_message(), "from rank 0"));
        }
    }
}

Test(p2p_self, a_receive_that_says_so_takes_a_shorter_message)
{
    /* From oneself and from another, found and awaited, buffered and requested. */
    static const uint64_t sizes[] = {0, 24, LARGE - 8};

    for (int from = 0; from < 2; from++) {
        for (int s = 0; s < 3; s++) {
            for (int send_first = 0; send_first < 2; send_first++) {
                struct p2p_op send = {0}, recv = {.up_to = true};

                memset(in, 0, LARGE);
                if (send_first)
                    cr_assert_eq(p2p_send(group(from), &send, 0, 1, out, sizes[s]), TUTTI_OK);
                if (send_first)
                    world_settle(world);
                cr_assert_eq(p2p_recv(group(0), &recv, P2P_ANY_SOURCE, 1, in, LARGE), TUTTI_OK);
                if (!send_first)
                    cr_assert_eq(p2p_send(group(from), &send, 0, 1, out, sizes[s]), TUTTI_OK);
                world_settle(world);
                cr_expect_eq(send.status, TUTTI_OK);
                cr_expect_eq(recv.status, TUTTI_OK);
                cr_expect_eq(recv.bytes, sizes[s]);
                cr_expect_eq(recv.source, from);
                cr_expect_eq(memcmp(in, out, sizes[s]), 0);
                cr_expect_eq(in[sizes[s]], 0);
            }
        }
    }
    struct p2p_op send = {0}, recv = {.up_to = true};
    cr_assert_eq(p2p_recv(group(0), &recv, 1, 1, in, 8), TUTTI_OK);
    cr_assert_eq(p2p_send(group(1), &send, 0, 1, out, 9), TUTTI_OK);
    world_settle(world);
    cr_expect_eq(recv.status, TUTTI_ERR_MISMATCH);
    cr_expect_eq(recv.bytes, 9);
}

Test(p2p_self, a_waiting_send_can_be_withdrawn_and_a_failing_group_gives_it_back)
{
    struct p2p_op send = {0}, other = {0}, recv = {0};

    cr_assert_eq(p2p_send(group(0), &send, 0, 1, out, LARGE), TUTTI_OK);
    cr_assert_eq(p2p_send(group(0), &other, 0, 1, out, LARGE), TUTTI_OK);
    cr_expect_eq(p2p_cancel(&send), TUTTI_OK);
    cr_expect_eq(send.status, TUTTI_ERR_ABORTED);
    cr_assert_eq(p2p_recv(group(0), &recv, 0, 1, in, LARGE), TUTTI_OK);
    cr_expect_eq(recv.status, TUTTI_OK);
    cr_expect_eq(other.status, TUTTI_OK, "the second was met, as the first is gone");

    send = other = (struct p2p_op){0};
    cr_assert_eq(p2p_send(group(0), &send, 0, 1, out, LARGE), TUTTI_OK);
    cr_assert_eq(p2p_send(group(0), &other, 0, 1, out, 16), TUTTI_OK);
    p2p_group_fail(group(0), TUTTI_ERR_ABORTED);
    cr_expect_eq(send.status, TUTTI_ERR_ABORTED);
    cr_expect_eq(other.status, TUTTI_OK);
}
