/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose bytes engines move: agreements and their order, sides that cannot, and sends that are taken back. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "fake_world.h"

TestSuite(p2p_move, .timeout = 60);

enum { BYTES = 100000, MESSAGES = 3, MEETINGS = 16 };

/* What the operations met, in that order. */
static struct {
    struct world *world;
    struct {
        struct p2p_op *op;
        enum p2p_meeting what;
    } met[MEETINGS];
    int count;
} t;

static void meets(struct p2p_op *op, enum p2p_meeting what)
{
    cr_assert(t.count < MEETINGS);
    t.met[t.count].op = op;
    t.met[t.count++].what = what;
}

static struct p2p_op movable(bool has_no_buffer)
{
    return (struct p2p_op){.may_move = true, .has_no_buffer = has_no_buffer, .meets = meets};
}

static void begin(void)
{
    memset(&t, 0, sizeof t);
    t.world = world_new((struct world_options){.members = 2});
}

static void end(void)
{
    cr_assert_eq(t.world->net.violations, 0);
    world_free(t.world);
}

static struct p2p_group *group(int rank)
{
    return t.world->members[rank].group;
}

static void start_send(struct p2p_op *op, const void *buffer)
{
    cr_assert_eq(p2p_send(group(0), op, 1, 5, buffer, BYTES), TUTTI_OK);
}

static void start_receive(struct p2p_op *op, void *buffer)
{
    cr_assert_eq(p2p_recv(group(1), op, 0, 5, buffer, BYTES), TUTTI_OK);
}

static void expect_meeting(int number, const struct p2p_op *op, enum p2p_meeting what)
{
    cr_assert(number < t.count);
    cr_expect_eq(t.met[number].op, op);
    cr_expect_eq(t.met[number].what, what);
}

Test(p2p_move, messages_are_moved_in_the_order_of_their_agreements)
{
    static const int order[MESSAGES] = {2, 0, 1};
    struct p2p_op sends[MESSAGES], receives[MESSAGES];

    begin();
    for (int i = 0; i < MESSAGES; i++) {
        sends[i] = movable(true);
        receives[i] = movable(true);
        start_receive(&receives[i], NULL);
        start_send(&sends[i], NULL);
    }
    world_settle(t.world);
    for (int i = 0; i < MESSAGES; i++)
        expect_meeting(i, &receives[i], P2P_MEETS_OFFER);
    t.count = 0;
    for (int i = 0; i < MESSAGES; i++)
        p2p_agree(&receives[order[i]]);
    world_settle(t.world);
    cr_assert_eq(t.count, 2 * MESSAGES);
    for (int i = 0, sent = 0, received = 0; i < t.count; i++) {
        struct p2p_op *op = t.met[i].op;

        cr_expect_eq(t.met[i].what, P2P_IS_AGREED);
        cr_expect_eq(p2p_cancel(op), TUTTI_ERR_BUSY);
        if (op >= sends && op < sends + MESSAGES)
            cr_expect_eq(op, &sends[order[sent++]]);
        else
            cr_expect_eq(op, &receives[order[received++]]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        cr_expect_eq(sends[i].status, TUTTI_ERR_NOT_READY);
        p2p_moved(&sends[i]);
        p2p_moved(&receives[i]);
        cr_expect_eq(sends[i].status, TUTTI_OK);
        cr_expect_eq(receives[i].status, TUTTI_OK);
        cr_expect_eq(receives[i].bytes, BYTES);
    }
    end();
}

/* `sender`: it is the one whose bytes cannot be moved. */
static void go_the_usual_way(bool sender, bool early)
{
    static uint8_t out[BYTES], in[BYTES];
    struct p2p_op send = sender ? (struct p2p_op){0} : movable(true);
    struct p2p_op receive = sender ? movable(true) : (struct p2p_op){0};

    begin();
    fill(out, BYTES, 4);
    memset(in, 0, BYTES);
    if (early)
        start_receive(&receive, sender ? NULL : in);
    start_send(&send, sender ? out : NULL);
    world_settle(t.world);
    if (!early)
        start_receive(&receive, sender ? NULL : in);
    world_settle(t.world);
    cr_assert_eq(t.count, 1);
    expect_meeting(0, sender ? &receive : &send, P2P_MEETS_HOST);
    p2p_give_buffer(t.met[0].op, sender ? in : out);
    world_settle(t.world);
    cr_expect_eq(send.status, TUTTI_OK);
    cr_expect_eq(receive.status, TUTTI_OK);
    cr_expect(filled(in, BYTES, 4));
    end();
}

Test(p2p_move, a_message_that_one_side_cannot_move_goes_the_usual_way)
{
    for (int i = 0; i < 4; i++)
        go_the_usual_way(i & 1, i & 2);
}

Test(p2p_move, a_receive_that_does_not_agree_gets_its_bytes_the_usual_way)
{
    static uint8_t out[BYTES], in[BYTES];
    struct p2p_op send = movable(true), receive = movable(true);

    begin();
    fill(out, BYTES, 5);
    start_receive(&receive, NULL);
    start_send(&send, NULL);
    world_settle(t.world);
    expect_meeting(0, &receive, P2P_MEETS_OFFER);
    p2p_give_buffer(&receive, in);
    world_settle(t.world);
    expect_meeting(1, &send, P2P_MEETS_HOST);
    p2p_give_buffer(&send, out);
    world_settle(t.world);
    cr_expect_eq(receive.status, TUTTI_OK);
    cr_expect(filled(in, BYTES, 5));
    end();
}

/* With the agreement on its way, or before it; the receive gets the next message. */
static void take_back(bool crosses)
{
    struct p2p_op send = movable(true), next = movable(true), receive = movable(true);

    begin();
    start_receive(&receive, NULL);
    start_send(&send, NULL);
    world_settle(t.world);
    if (crosses)
        p2p_agree(&receive);
    cr_assert_eq(p2p_cancel(&send), TUTTI_OK);
    cr_expect_eq(send.status, TUTTI_ERR_ABORTED);
    world_settle(t.world);
    cr_assert_eq(t.count, 2);
    expect_meeting(1, &receive, P2P_MEETS_NOTHING);
    p2p_agree(&receive); /* of no effect */
    start_send(&next, NULL);
    world_settle(t.world);
    cr_assert_eq(t.count, 3);
    expect_meeting(2, &receive, P2P_MEETS_OFFER);
    p2p_agree(&receive);
    world_settle(t.world);
    cr_assert_eq(t.count, 5);
    p2p_moved(&next);
    p2p_moved(&receive);
    cr_expect_eq(receive.status, TUTTI_OK);
    end();
}

Test(p2p_move, a_receive_whose_message_is_taken_back_gets_the_next_one)
{
    take_back(false);
    take_back(true);
}

Test(p2p_move, the_end_of_a_group_ends_what_was_agreed_on)
{
    struct p2p_op sends[2], receives[2];

    begin();
    for (int i = 0; i < 2; i++) {
        sends[i] = movable(true);
        receives[i] = movable(true);
        start_receive(&receives[i], NULL);
        start_send(&sends[i], NULL);
    }
    world_settle(t.world);
    p2p_agree(&receives[0]);
    world_settle(t.world);
    for (int rank = 0; rank < 2; rank++)
        p2p_group_fail(group(rank), TUTTI_ERR_TIMEOUT);
    for (int i = 0; i < 2; i++) {
        p2p_moved(&sends[i]);
        p2p_agree(&receives[i]);
        cr_expect_eq(sends[i].status, TUTTI_ERR_TIMEOUT);
        cr_expect_eq(receives[i].status, TUTTI_ERR_TIMEOUT);
    }
    end();
}
