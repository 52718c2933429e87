/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the engine of messages holds senders back: large messages wait for a grant, small ones for credit,
 * and neither stops those that need not wait. And when it may sleep.
 */
#include <criterion/criterion.h>
#include <malloc.h>

#include "fake_world.h"

TestSuite(p2p_flow, .timeout = 60);

static const struct announce call = {
    .sequence = 9, .fields = {.operation = OPERATION_ALL_REDUCE, .count = 1, .op = 0, .root = -1}};

static void ring(struct world_options options)
{
    enum { BYTES = 8 << 20 };
    struct world *world = world_new(options);
    struct p2p_op sends[3] = {0}, receives[3] = {0};
    uint8_t *out[3], *in[3];

    for (int i = 0; i < 3; i++) {
        out[i] = malloc(BYTES);
        in[i] = malloc(BYTES);
        fill(out[i], BYTES, (unsigned)i);
        cr_assert_eq(p2p_send(world->members[i].group, &sends[i], (i + 1) % 3, 0, out[i], BYTES),
                     TUTTI_OK);
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(p2p_recv(world->members[i].group, &receives[i], (i + 2) % 3, 0, in[i], BYTES),
                     TUTTI_OK);
    world_settle(world);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(sends[i].status, TUTTI_OK);
        cr_assert_eq(receives[i].status, TUTTI_OK);
        cr_assert(filled(in[i], BYTES, (unsigned)(i + 2) % 3));
        free(out[i]);
        free(in[i]);
    }
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
}

Test(p2p_flow, a_ring_of_large_messages_completes_when_all_send_first)
{
    ring((struct world_options){.members = 3});
    ring((struct world_options){.members = 3, .no_cancel = true, .busy = 20, .depth = 2});
    ring((struct world_options){.members = 3, .no_progress = true, .maximum = 1 << 16, .lazy = 20});
}

/* From member 0 to 1 and back; how many pieces it took in each direction. */
static void exchange(struct world_options options, uint64_t bytes, uint64_t ret_pieces[2])
{
    struct world *world = world_new(options);
    struct p2p_op sends[2] = {0}, receives[2] = {0};
    uint8_t *out[2], *in[2];

    for (int i = 0; i < 2; i++) {
        out[i] = malloc(bytes);
        in[i] = calloc(1, bytes);
        fill(out[i], bytes, (unsigned)i);
        p2p_send(world->members[i].group, &sends[i], 1 - i, 0, out[i], bytes);
        p2p_recv(world->members[i].group, &receives[i], 1 - i, 0, in[i], bytes);
    }
    world_settle(world);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sends[i].status, TUTTI_OK);
        cr_assert_eq(receives[i].status, TUTTI_OK);
        cr_assert(filled(in[i], bytes, (unsigned)(1 - i)));
        ret_pieces[i] = world->net.links[i][1 - i].kinds[P2P_DATA];
    }
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(in[i]);
    }
}

Test(p2p_flow, a_long_message_goes_in_the_pieces_that_the_transport_asks_for)
{
    enum { BYTES = (8 << 20) + 5 };
    static const struct {
        uint64_t asked, maximum;
        bool no_cancel;
        unsigned pieces;
    } cases[] = {
        {.pieces = 9},
        {.asked = 4 << 20, .pieces = 3},
        {.asked = 64 << 20, .pieces = 1},
        {.asked = UINT64_MAX, .pieces = 1},
        {.asked = 1, .pieces = 8 * 16 + 1},
        {.asked = 64 << 20, .maximum = 2 << 20, .pieces = 5},
        {.asked = 64 << 20, .no_cancel = true, .pieces = 8 * 4 + 1}, /* as if it had not asked */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct world_options options = {.members = 2,
                                              .maximum = cases[i].maximum,
                                              .no_cancel = cases[i].no_cancel,
                                              .pieces = {cases[i].asked, cases[i].asked}};
        uint64_t pieces[2];

        exchange(options, BYTES, pieces);
        cr_assert_eq(pieces[0], cases[i].pieces, "case %zu: %llu", i,
                     (unsigned long long)pieces[0]);
        cr_assert_eq(pieces[1], pieces[0]);
    }
}

/* A send whose buffer is filled meanwhile. */
static uint64_t readable, told;

static bool may_read(struct p2p_op *op, uint64_t bytes)
{
    (void)op;
    return bytes <= readable;
}

static void arrived(struct p2p_op *op, uint64_t offset, uint64_t bytes)
{
    cr_expect_leq(offset + bytes, op->capacity);
    cr_expect_leq(offset + bytes, readable);
    told += bytes;
}

static void fill_slowly(struct world_options options)
{
    enum { BYTES = 8 << 20, SOME = 3 << 20 };
    struct world *world = world_new(options);
    struct p2p_group *from = world->members[0].group, *to = world->members[1].group;
    struct p2p_op sends[2] = {{.may_read = may_read}}, receives[2] = {{.arrived = arrived}};
    uint8_t *out = malloc(BYTES), *in = calloc(2, BYTES);

    fill(out, BYTES, 1);
    readable = SOME;
    told = 0;
    for (unsigned i = 0; i < 2; i++) {
        p2p_send(from, &sends[i], 1, i, out, BYTES);
        p2p_recv(to, &receives[i], 0, i, in + i * (size_t)BYTES, BYTES);
    }
    world_settle(world);
    cr_assert_eq(told, SOME, "%llu bytes", (unsigned long long)told);
    cr_assert_eq(sends[0].status, TUTTI_ERR_NOT_READY);
    cr_assert_eq(receives[0].status, TUTTI_ERR_NOT_READY);
    cr_assert_eq(sends[1].status, TUTTI_OK, "the other send need not wait");
    cr_assert_not(p2p_arm(world->members[0].engine), "nobody wakes it when more may be read");
    readable = BYTES;
    world_settle(world);
    cr_assert_eq(sends[0].status, TUTTI_OK);
    cr_assert_eq(receives[0].status, TUTTI_OK);
    cr_assert_eq(told, BYTES);
    cr_assert(filled(in, BYTES, 1) && filled(in + BYTES, BYTES, 1));
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
    free(out);
    free(in);
}

Test(p2p_flow, a_long_message_goes_as_far_as_it_may_be_read)
{
    fill_slowly((struct world_options){.members = 2});
    fill_slowly((struct world_options){.members = 2, .shows = true, .lazy = 20});
    fill_slowly((struct world_options){.members = 2, .no_cancel = true, .busy = 20, .depth = 2});
}

Test(p2p_flow, members_take_the_pieces_of_those_whose_transport_asks_for_others)
{
    enum { BYTES = 8 << 20 };
    uint64_t pieces[2];

    exchange((struct world_options){.members = 2, .pieces = {4 << 20, 0}, .lazy = 20}, BYTES,
             pieces);
    cr_assert_eq(pieces[0], 2);
    cr_assert_eq(pieces[1], 8);
    exchange((struct world_options){.members = 2, .pieces = {0, 8 << 20}, .no_cancel_first = true},
             BYTES, pieces);
    cr_assert_eq(pieces[0], 8 * 4);
    cr_assert_eq(pieces[1], 1, "which goes through memory of the core");
}

Test(p2p_flow, two_sides_out_of_credit_still_hear_of_each_other)
{
    enum { MANY = 400, BYTES = 4000 };
    struct world *world = world_new((struct world_options){.members = 2, .lazy = 10});
    static struct p2p_op sends[2][MANY], receives[2][MANY];
    static uint8_t out[MANY][BYTES], in[2][MANY][BYTES];

    for (unsigned i = 0; i < MANY; i++) {
        fill(out[i], BYTES, i);
        for (int at = 0; at < 2; at++)
            p2p_send(world->members[at].group, &sends[at][i], 1 - at, i, out[i], BYTES);
    }
    world_settle(world);
    cr_assert_eq(sends[0][0].status, TUTTI_OK);
    cr_assert_eq(sends[0][MANY - 1].status, TUTTI_ERR_NOT_READY, "it waits for its receive");
    cr_assert_gt(world->net.links[0][1].eager_peak, (1 << 20) - BYTES);
    for (unsigned i = MANY; i-- > 0;)
        for (int at = 0; at < 2; at++)
            p2p_recv(world->members[at].group, &receives[at][i], P2P_ANY_SOURCE, i, in[at][i],
                     BYTES);
    world_settle(world);
    for (unsigned i = 0; i < MANY; i++)
        for (int at = 0; at < 2; at++) {
            cr_assert_eq(sends[at][i].status, TUTTI_OK);
            cr_assert_eq(receives[at][i].status, TUTTI_OK);
            cr_assert(filled(in[at][i], BYTES, i));
        }
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
}

Test(p2p_flow, a_large_collective_needs_no_grant_when_its_receive_was_posted_first)
{
    enum { BYTES = 3 << 20 };
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);

    fill(out, BYTES, 4);
    for (int posted_first = 0; posted_first < 2; posted_first++) {
        struct world *world = world_new((struct world_options){.members = 2});
        struct p2p_group *to = world->members[1].group;
        struct p2p_op send = {0}, recv = {0};

        memset(in, 0, BYTES);
        if (posted_first)
            p2p_collective_recv(to, &recv, 0, call.sequence, in, BYTES);
        world_settle(world);
        p2p_collective_send(world->members[0].group, &send, 1, &call, out, BYTES);
        world_settle(world);
        if (!posted_first)
            p2p_collective_recv(to, &recv, 0, call.sequence, in, BYTES);
        world_settle(world);
        cr_assert_eq(send.status, TUTTI_OK);
        cr_assert_eq(recv.status, TUTTI_OK);
        cr_assert(filled(in, BYTES, 4));
        cr_assert_eq(world->members[1].announces, 1 + !posted_first, "at the receive, too");
        cr_assert_eq(world->net.links[1][0].kinds[P2P_READY], (unsigned)posted_first);
        cr_assert_eq(world->net.links[1][0].kinds[P2P_GRANT], (unsigned)!posted_first);
        cr_assert_eq(world->net.links[0][1].kinds[P2P_DATA], 3);
        cr_assert_eq(world->net.links[0][1].goes, 3U + !posted_first,
                     "the request leaves with the first piece if that may go");
        world_free(world);
    }
    free(out);
    free(in);
}

Test(p2p_flow, a_large_collective_of_another_size_is_a_mismatch_in_any_order)
{
    enum { BYTES = 1 << 20 };
    static uint8_t out[BYTES], in[BYTES];
    static const uint32_t sizes[][2] = {
        {BYTES, BYTES - 8}, {BYTES - 8, BYTES}, {8, BYTES}, {BYTES, 8}};

    for (int posted_first = 0; posted_first < 2; posted_first++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct world *world = world_new((struct world_options){.members = 2});
            struct p2p_op send = {0}, recv = {0};

            for (int step = 0; step < 2; step++) {
                if (step == posted_first)
                    p2p_collective_send(world->members[0].group, &send, 1, &call, out, sizes[i][0]);
                else
                    p2p_collective_recv(world->members[1].group, &recv, 0, call.sequence, in,
                                        sizes[i][1]);
                world_settle(world);
            }
            cr_assert_eq(recv.status, TUTTI_ERR_MISMATCH);
            cr_assert_eq(recv.bytes, sizes[i][0]);
            cr_assert_eq(send.status, TUTTI_OK);
            cr_assert_eq(world->members[1].failures + world->members[0].failures, 0);
            world_free(world);
        }
    }
}

#if !defined(__SANITIZE_ADDRESS__) /* which has an allocator of its own */
static void round_trip(struct world *world, uint64_t bytes, bool expected)
{
    static uint8_t out[64 << 10], in[64 << 10];
    struct p2p_op send = {0}, recv = {0};

    if (expected)
        p2p_recv(world->members[1].group, &recv, 0, bytes, in, bytes);
    p2p_send(world->members[0].group, &send, 1, bytes, out, bytes);
    for (int i = 0; i < 4; i++)
        world_step(world);
    if (!expected)
        p2p_recv(world->members[1].group, &recv, 0, bytes, in, bytes);
    while (send.status == TUTTI_ERR_NOT_READY || recv.status == TUTTI_ERR_NOT_READY)
        world_step(world);
}

Test(p2p_flow, traffic_in_steady_state_allocates_nothing)
{
    static const uint64_t sizes[] = {0, 8, 1000, 8192, 30000, 65536};
    struct world *world = world_new((struct world_options){.members = 2, .no_cancel = true});
    size_t before = 0;

    for (int round = 0; round < 200; round++) {
        if (round == 20)
            before = mallinfo2().uordblks;
        for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++)
            round_trip(world, sizes[i / 2], i % 2);
    }
    cr_assert_leq(mallinfo2().uordblks, before + 4096, "the fake's own queues aside");
    world_free(world);
}
#endif

static void count_done(struct p2p_op *op)
{
    ++*(int *)op->user;
}

Test(p2p_flow, done_is_called_once_and_from_progress)
{
    struct world *world = world_new((struct world_options){.members = 2});
    int count = 0;
    uint64_t value = 1;
    struct p2p_op send = {.done = count_done, .user = &count},
                  recv = {.done = count_done, .user = &count};

    p2p_send(world->members[0].group, &send, 1, 0, &value, sizeof value);
    cr_assert_eq(count, 0);
    p2p_recv(world->members[1].group, &recv, 0, 0, &value, sizeof value);
    world_settle(world);
    cr_assert_eq(count, 2);
    world_free(world);
}

Test(p2p_flow, an_engine_is_idle_when_the_transport_has_let_go_of_what_it_sent)
{
    struct world *world = world_new((struct world_options){.members = 2});
    uint64_t value = 1;
    struct p2p_op send = {0};

    cr_assert(p2p_idle(world->members[0].engine));
    p2p_send(world->members[0].group, &send, 1, 0, &value, sizeof value);
    cr_assert_eq(send.status, TUTTI_ERR_NOT_READY, "nobody would move it if it were complete");
    cr_assert_not(p2p_idle(world->members[0].engine));
    world_settle(world);
    cr_assert_eq(send.status, TUTTI_OK);
    cr_assert(p2p_idle(world->members[0].engine));
    world_free(world);
}

static int32_t arm_answer;

static int32_t fake_arm(tutti_endpoint *endpoint)
{
    (void)endpoint;
    return arm_answer;
}

static tutti_status fake_wait_fd(tutti_endpoint *endpoint, int32_t *ret_fd)
{
    *ret_fd = 100 + endpoint->rank;
    return TUTTI_OK;
}

Test(p2p_flow, an_engine_sleeps_only_when_its_endpoint_is_armed_and_takes_everything)
{
    struct world *world = world_new((struct world_options){.members = 2});
    struct p2p_engine *engine = world->members[1].engine;
    uint64_t value = 1;
    struct p2p_op send = {0};

    cr_assert_not(p2p_arm(engine), "there is nothing to sleep on");
    cr_assert(p2p_is_polled(engine));
    world->net.ops.wait_fd = fake_wait_fd;
    cr_assert(p2p_is_polled(engine), "a descriptor alone does not say when sleeping is safe");
    world->net.ops.arm = fake_arm;
    cr_assert_not(p2p_is_polled(engine));
    arm_answer = TUTTI_EVENTS_PENDING;
    cr_assert_not(p2p_arm(engine));
    arm_answer = TUTTI_ARMED;
    cr_assert(p2p_arm(engine));
    world->net.depth = 0;
    p2p_send(world->members[1].group, &send, 0, 0, &value, sizeof value);
    cr_assert_not(p2p_arm(engine), "the transport is full and may not say when it is not");
    world->net.depth = 10;
    world_settle(world);
    cr_assert_eq(send.status, TUTTI_OK);
    cr_assert(p2p_arm(engine));
    world_free(world);
}

/* Each send is complete when it is started, and is handled before the transport is asked for what has arrived. */
Test(p2p_flow, what_is_complete_at_once_hides_nothing_that_arrives)
{
    enum { TURNS = 8 };
    struct world *world = world_new((struct world_options){.members = 2, .at_once = 100});
    struct p2p_engine *engine = world->members[0].engine;
    struct p2p_op sends[TURNS] = {0}, send = {0}, receive = {0};
    uint64_t word = 5, got = 0;

    cr_assert_eq(p2p_recv(world->members[0].group, &receive, 1, 7, &got, 8), TUTTI_OK);
    cr_assert_eq(p2p_send(world->members[1].group, &send, 0, 7, &word, 8), TUTTI_OK);
    for (int i = 0; i < TURNS; i++) {
        cr_assert_eq(p2p_send(world->members[0].group, &sends[i], 1, 8, &word, 8), TUTTI_OK);
        p2p_progress(engine);
        cr_assert(i || sends[0].status == TUTTI_OK);
    }
    cr_assert_eq(receive.status, TUTTI_OK);
    cr_assert_eq(got, 5);
    world_free(world);
}

Test(p2p_flow, who_hears_asks_the_transport_in_any_case)
{
    struct world *world = world_new((struct world_options){.members = 2, .at_once = 100});
    struct member *member = &world->members[0];
    struct p2p_op sends[2] = {0};
    uint64_t word = 5;

    cr_assert_eq(p2p_send(world->members[1].group, &sends[1], 0, 7, &word, 8), TUTTI_OK);
    cr_assert_eq(p2p_send(member->group, &sends[0], 1, 8, &word, 8), TUTTI_OK);
    const uint64_t arrived = p2p_path_arrived(member->paths[1]);
    p2p_hear(member->engine);
    cr_assert_gt(p2p_path_arrived(member->paths[1]), arrived);
    world_free(world);
}
