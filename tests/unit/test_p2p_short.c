/* SPDX-License-Identifier: Apache-2.0 */
/* Short messages over a transport that shows what has arrived: no requests, one message, one copy. */
#include <criterion/criterion.h>

#include "fake_world.h"

TestSuite(p2p_short, .timeout = 30);

static struct p2p_group *group(struct world *world, int rank)
{
    return world->members[rank].group;
}

static void end(struct world *world)
{
    cr_assert_eq(world->net.violations, 0);
    world_free(world);
}

/* Sends `bytes` by an operation like `send`, receives them, and checks them; posted before or after the message has come. */
static void pass_by(struct world *world, struct p2p_op send, int from, int to, uint64_t bytes,
                    bool posted)
{
    struct p2p_op receive = {0};
    uint8_t *out = malloc(bytes + 1), *in = calloc(1, bytes + 1);
    static uint64_t number;

    fill(out, bytes, ++number);
    if (posted)
        cr_assert_eq(p2p_recv(group(world, to), &receive, from, number, in, bytes), TUTTI_OK);
    cr_assert_eq(p2p_send(group(world, from), &send, to, number, out, bytes), TUTTI_OK);
    world_settle(world);
    if (!posted)
        cr_assert_eq(p2p_recv(group(world, to), &receive, from, number, in, bytes), TUTTI_OK);
    world_settle(world);
    cr_assert_eq(send.status, TUTTI_OK);
    cr_assert_eq(receive.status, TUTTI_OK);
    cr_assert_eq(receive.bytes, bytes);
    cr_assert(filled(in, bytes, number), "%d bytes", (int)bytes);
    free(out);
    free(in);
}

static void pass(struct world *world, int from, int to, uint64_t bytes, bool posted)
{
    pass_by(world, (struct p2p_op){0}, from, to, bytes, posted);
}

Test(p2p_short, header_and_payload_are_one_message_once_the_peer_has_said_that_it_shows)
{
    struct world *world = world_new((struct world_options){.members = 2, .shows = true});
    const struct fake_link *there = &world->net.links[0][1], *back = &world->net.links[1][0];

    pass(world, 0, 1, 8, true);
    cr_assert_eq(there->joined, 0); /* nothing was heard of the peer yet */
    cr_assert_eq(back->kinds[P2P_CREDIT], 1, "who hears of a peer first greets it");
    pass(world, 0, 1, 8, true);
    cr_assert_eq(there->joined, 1);
    pass(world, 1, 0, 8, false);
    cr_assert_eq(back->joined, 1);
    cr_assert_eq(back->kinds[P2P_CREDIT], 1);
    end(world);
}

Test(p2p_short, messages_of_all_sizes_arrive_whether_they_are_expected_or_not)
{
    static const uint64_t sizes[] = {
        0,    1,    40,    P2P_COMPACT_MAX, P2P_COMPACT_MAX + 1, FAKE_SHORT - P2P_HEADER_BYTES,
        4033, 4096, 65536, 300000};
    struct world *world =
        world_new((struct world_options){.members = 2, .shows = true, .around = 60});

    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            pass(world, round & 1, !(round & 1), sizes[i], round & 2);
    cr_assert_geq(world->net.links[0][1].joined,
                  49); /* all of 1 to FAKE_SHORT bytes but the first */
    end(world);
}

Test(p2p_short, a_send_is_complete_when_the_transport_has_it)
{
    struct world *world = world_new((struct world_options){.members = 2, .shows = true});
    uint64_t value = 5;
    struct p2p_op op = {0};

    pass(world, 0, 1, 8, true);
    cr_assert_eq(p2p_send(group(world, 0), &op, 1, 7, &value, sizeof value), TUTTI_OK);
    cr_assert_eq(op.status, TUTTI_OK);
    world_settle(world);
    end(world);
}

/* ---- without an operation ---- */

static enum p2p_now receive_now(struct world *world, int at, int source, uint64_t tag,
                                uint64_t *ret_value)
{
    uint64_t bytes = 0;
    enum p2p_now now = p2p_recv_at_once(group(world, at), source, tag, ret_value, sizeof *ret_value,
                                        false, &bytes);

    cr_assert_eq(bytes, now == P2P_NOW_DONE ? sizeof *ret_value : 0);
    return now;
}

static bool send_now(struct world *world, int from, int to, uint64_t tag, uint64_t value)
{
    return p2p_send_now(group(world, from), to, tag, &value, sizeof value);
}

Test(p2p_short, a_message_that_is_there_is_received_without_an_operation)
{
    struct world *world =
        world_new((struct world_options){.members = 3, .shows = true, .around = 50});
    uint64_t got = 0;

    cr_assert_not(send_now(world, 0, 2, 7, 1), "the peer has not said that it shows");
    for (int i = 0; i < 2; i++)
        pass(world, i, 2, 8, true);
    cr_assert_eq(receive_now(world, 2, 0, 7, &got), P2P_NOW_NOTHING);
    for (uint64_t i = 0; i < 50; i++) {
        cr_assert(send_now(world, 0, 2, 7, i));
        cr_assert(send_now(world, 1, 2, 7, 100 + i));
        cr_assert_eq(receive_now(world, 2, 1, 7, &got), P2P_NOW_DONE);
        cr_assert_eq(got, 100 + i);
        cr_assert_eq(receive_now(world, 2, 0, 7, &got), P2P_NOW_DONE);
        cr_assert_eq(got, i);
    }
    end(world);
}

/* What would be matched before it, or is not what it waits for, is left to an operation. */
Test(p2p_short, a_message_that_is_not_the_next_is_not_received_so)
{
    struct world *world = world_new((struct world_options){.members = 2, .shows = true});
    struct p2p_op early = {0}, any = {0}, other = {0};
    uint64_t got = 0, values[3];

    pass(world, 0, 1, 8, true);
    cr_assert(send_now(world, 0, 1, 7, 1));
    cr_assert_eq(receive_now(world, 1, 0, 8, &got), P2P_NOW_OTHER, "another tag");
    cr_assert_eq(p2p_recv(group(world, 1), &early, 0, 7, &values[0], 8), TUTTI_OK);
    cr_assert_eq(receive_now(world, 1, 0, 7, &got), P2P_NOW_OTHER, "posted before");
    world_settle(world);
    cr_assert_eq(values[0], 1);

    p2p_recv(group(world, 1), &any, P2P_ANY_SOURCE, 7, &values[1], 8);
    cr_assert(send_now(world, 0, 1, 7, 2));
    cr_assert_eq(receive_now(world, 1, 0, 7, &got), P2P_NOW_OTHER, "posted before, of any source");
    world_settle(world);
    cr_assert_eq(values[1], 2);

    cr_assert(send_now(world, 0, 1, 7, 3));
    world_settle(world);
    cr_assert(send_now(world, 0, 1, 7, 4));
    cr_assert_eq(receive_now(world, 1, 0, 7, &got), P2P_NOW_OTHER, "one has arrived before");
    p2p_recv(group(world, 1), &other, 0, 7, &values[2], 8);
    cr_assert_eq(values[2], 3);
    cr_assert_eq(receive_now(world, 1, 0, 7, &got), P2P_NOW_DONE);
    cr_assert_eq(got, 4);

    uint32_t half = 5;
    cr_assert(p2p_send_now(group(world, 0), 1, 7, &half, sizeof half));
    cr_assert_eq(receive_now(world, 1, 0, 7, &got), P2P_NOW_OTHER, "another size");
    uint64_t bytes = 0;
    cr_assert_eq(p2p_recv_now(group(world, 1), 0, 7, &got, sizeof got, true, &bytes), P2P_NOW_DONE);
    cr_assert_eq(bytes, sizeof half);
    end(world);
}

/* Neither credit nor order is lost between the two ways. */
Test(p2p_short, both_ways_may_alternate)
{
    enum { MESSAGES = 20000 };
    struct world *world = world_new((struct world_options){
        .members = 2, .shows = true, .busy = 10, .lazy = 10, .at_once = 50, .around = 10});
    static struct p2p_op send, receive;
    uint64_t value, got;

    pass(world, 0, 1, 8, true);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        value = i;
        if (i % 3 == 0 || !send_now(world, 0, 1, 7, value))
            cr_assert_eq(p2p_send(group(world, 0), &send, 1, 7, &value, 8), TUTTI_OK);
        if (i % 4 == 0 || receive_now(world, 1, 0, 7, &got) != P2P_NOW_DONE) {
            cr_assert_eq(p2p_recv(group(world, 1), &receive, 0, 7, &got, 8), TUTTI_OK);
            while (receive.status == TUTTI_ERR_NOT_READY)
                world_step(world);
            cr_assert_eq(receive.status, TUTTI_OK);
        }
        while (send.status == TUTTI_ERR_NOT_READY)
            world_step(world);
        cr_assert_eq(got, i);
    }
    end(world);
}

/* ---- a header and a longer payload behind it ---- */

Test(p2p_short, a_longer_message_is_sent_and_received_without_an_operation)
{
    const uint64_t sizes[] = {FAKE_SHORT - P2P_HEADER_BYTES + 1, FAKE_SHORT, FAKE_SHORT + 1, 10000,
                              P2P_EAGER_MAX};
    static uint8_t out[P2P_EAGER_MAX + 1], in[P2P_EAGER_MAX + 1];
    struct world *world =
        world_new((struct world_options){.members = 2, .shows = true, .pairs = true});
    uint64_t bytes = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(out, sizes[i], i);
        cr_assert(p2p_send_now(group(world, 0), 1, 7, out, sizes[i]));
        cr_assert_eq(p2p_recv_now(group(world, 1), 0, 8, in, sizes[i], false, &bytes),
                     P2P_NOW_OTHER, "another tag");
        cr_assert_eq(p2p_recv_now(group(world, 1), 0, 7, in, sizes[i] - 1, false, &bytes),
                     P2P_NOW_OTHER, "another size");
        memset(in, 5, sizeof in);
        cr_assert_eq(p2p_recv_now(group(world, 1), 0, 7, in, sizes[i] + 1, true, &bytes),
                     P2P_NOW_OTHER, "bytes behind a shorter message are not written");
        cr_assert_eq(in[sizes[i] - 1], 5);
        cr_assert_eq(p2p_recv_now(group(world, 1), 0, 7, in, sizes[i], i & 1, &bytes),
                     P2P_NOW_DONE);
        cr_assert_eq(bytes, sizes[i]);
        cr_assert(filled(in, bytes, i), "%d bytes", (int)bytes);
        cr_assert_eq(world->net.pairs_taken, i + 1);
        world_settle(world); /* credit goes back */
    }
    cr_assert_not(p2p_send_now(group(world, 0), 1, 7, out, P2P_EAGER_MAX + 1),
                  "it may lie in registered memory");
    cr_assert_eq(world->net.pairs_sent, world->net.pairs_taken);
    end(world);
}

/* A peer that breaks the rules sends more without a grant than it may. */
Test(p2p_short, nothing_is_written_of_a_payload_beyond_the_limits)
{
    enum { BYTES = P2P_PAIR_MAX + 1 };
    static uint8_t payload[BYTES], in[BYTES];
    const struct p2p_header header = {
        .kind = P2P_MESSAGE, .shows = true, .group = 1, .bytes = BYTES, .tag = 7};
    struct world *world =
        world_new((struct world_options){.members = 3, .shows = true, .pairs = true});
    struct member *member = &world->members[1];
    uint8_t wire[P2P_HEADER_BYTES];
    tutti_request requests[2];
    uint64_t bytes;

    pass(world, 1, 0, 8, true);
    p2p_wire_encode(&header, wire);
    memset(payload, 1, BYTES);
    fake_isend(fake_endpoints(&world->net, 0), fake_peer(1), 0, wire, sizeof wire, 0, &requests[0]);
    fake_isend(fake_endpoints(&world->net, 0), fake_peer(1), 0, payload, BYTES, 0, &requests[1]);
    cr_assert_eq(p2p_recv_now(group(world, 1), 0, 7, in, BYTES, false, &bytes), P2P_NOW_OTHER);
    cr_assert_eq(in[0], 0);
    p2p_progress(member->engine);
    cr_assert_eq(member->failures, 1);
    cr_assert_not_null(strstr(member->words, "more than its credit"), "%s", member->words);
    fake_endpoints(&world->net, 0)->done_count = 0;
    world_free(world);
}

/* Whichever way each side takes: at once, or by an operation, which then may be the only one that is posted. */
Test(p2p_short, longer_messages_may_alternate_between_the_ways)
{
    enum { MESSAGES = 3000 };
    const uint64_t sizes[] = {8, FAKE_SHORT, 5000, 20000, P2P_EAGER_MAX, 3, P2P_PAIR_MAX, 100};
    static uint8_t out[P2P_PAIR_MAX], in[P2P_PAIR_MAX];
    struct world *world = world_new((struct world_options){.members = 2,
                                                           .shows = true,
                                                           .pairs = true,
                                                           .busy = 10,
                                                           .lazy = 30,
                                                           .at_once = 50,
                                                           .around = 10});
    struct p2p_op send, receive;
    uint64_t got;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        const uint64_t bytes = sizes[i % 8];

        send = receive = (struct p2p_op){0};
        fill(out, bytes, i);
        if (i % 5 == 0 || !p2p_send_now(group(world, 0), 1, 7, out, bytes))
            cr_assert_eq(p2p_send(group(world, 0), &send, 1, 7, out, bytes), TUTTI_OK);
        if (i % 4 == 0 || p2p_recv_now(group(world, 1), 0, 7, in, bytes, false, &got)) {
            cr_assert_eq(p2p_recv(group(world, 1), &receive, 0, 7, in, bytes), TUTTI_OK);
            while (receive.status == TUTTI_ERR_NOT_READY)
                if (i % 2 == 0 || !p2p_can_look(&receive) || !p2p_look(&receive))
                    world_step(world);
            cr_assert_eq(receive.status, TUTTI_OK);
        }
        while (send.status == TUTTI_ERR_NOT_READY)
            world_step(world);
        cr_assert(filled(in, bytes, i), "message %d", (int)i);
    }
    cr_assert_gt(world->net.pairs_taken, MESSAGES / 10);
    end(world);
}

static bool may_read_all(struct p2p_op *op, uint64_t bytes)
{
    (void)op;
    (void)bytes;
    return true;
}

/* Whether a message from rank 0 to rank 1, which has posted nothing, asks for a grant. */
static bool asks(struct world *world, struct p2p_op send, uint64_t bytes)
{
    const uint64_t *kinds = world->net.links[0][1].kinds, before = kinds[P2P_REQUEST];

    pass_by(world, send, 0, 1, bytes, false);
    return kinds[P2P_REQUEST] > before;
}

Test(p2p_short, a_long_message_needs_no_grant_if_it_leaves_with_its_header)
{
    const struct p2p_op plain = {0}, slow = {.may_read = may_read_all};
    struct world *world =
        world_new((struct world_options){.members = 2, .shows = true, .pairs = true});

    cr_expect_not(asks(world, plain, P2P_EAGER_MAX + 1));
    cr_expect_not(asks(world, plain, P2P_PAIR_MAX));
    cr_expect(asks(world, plain, P2P_PAIR_MAX + 1));
    cr_expect(asks(world, slow, P2P_PAIR_MAX), "its buffer is filled on the way");
    cr_expect_eq(world->net.pairs_sent, 3, "so does a payload that was granted");
    end(world);

    world = world_new((struct world_options){.members = 2, .shows = true});
    cr_expect_not(asks(world, plain, P2P_EAGER_MAX));
    cr_expect(asks(world, plain, P2P_EAGER_MAX + 1), "header and payload leave one by one");
    end(world);
    world = world_new((struct world_options){
        .members = 2, .shows = true, .pairs = true, .maximum = P2P_PAIR_MAX - 1});
    cr_expect_not(asks(world, plain, P2P_PAIR_MAX - 1));
    cr_expect(asks(world, plain, P2P_PAIR_MAX), "the transport takes no longer ones");
    end(world);
    world = world_new((struct world_options){.members = 2, .shows = true, .pairs = true});
    p2p_group_tell_bare(group(world, 0));
    cr_expect_not(asks(world, plain, P2P_EAGER_MAX));
    cr_expect(asks(world, plain, P2P_EAGER_MAX + 1), "its receive may have no buffer");
    end(world);
}

/* So it can be taken back until it is received. */
Test(p2p_short, a_long_message_that_cannot_leave_at_once_asks)
{
    enum { BYTES = 200000 };
    static uint8_t out[BYTES];
    const uint64_t word = 7;
    struct world *world =
        world_new((struct world_options){.members = 2, .shows = true, .pairs = true, .depth = 2});
    struct p2p_op send = {0};

    pass(world, 1, 0, 8, true);
    pass(world, 0, 1, 8, true); /* each knows that the other one shows */
    cr_assert(p2p_send_now(group(world, 0), 1, 7, &word, sizeof word));
    cr_assert_eq(p2p_send(group(world, 0), &send, 1, 8, out, BYTES), TUTTI_OK);
    cr_assert_eq(send.status, TUTTI_ERR_NOT_READY);
    world_settle(world);
    cr_assert_eq(world->net.links[0][1].kinds[P2P_REQUEST], 1);
    cr_assert(p2p_is_unmatched(&send));
    cr_assert_eq(p2p_cancel(&send), TUTTI_OK);
    world_settle(world);
    pass(world, 0, 1, 100, true);
    end(world);
}

/* ---- full, of different kinds, nonsense ---- */

Test(p2p_short, a_full_transport_gets_the_rest_in_order)
{
    enum { MESSAGES = 400 };
    struct world *world =
        world_new((struct world_options){.members = 2, .shows = true, .depth = 5, .busy = 20});
    static uint64_t values[MESSAGES], got[MESSAGES];
    static struct p2p_op sends[MESSAGES], receives[MESSAGES];

    pass(world, 0, 1, 8, true);
    for (unsigned i = 0; i < MESSAGES; i++) {
        values[i] = i;
        cr_assert_eq(p2p_send(group(world, 0), &sends[i], 1, 7, &values[i], 8), TUTTI_OK);
    }
    for (unsigned i = 0; i < MESSAGES; i++)
        p2p_recv(group(world, 1), &receives[i], 0, 7, &got[i], 8);
    world_settle(world);
    for (unsigned i = 0; i < MESSAGES; i++) {
        cr_assert_eq(sends[i].status, TUTTI_OK);
        cr_assert_eq(receives[i].status, TUTTI_OK);
        cr_assert_eq(got[i], i);
    }
    end(world);
}

Test(p2p_short, a_member_whose_transport_shows_not_gets_header_and_payload_apart)
{
    struct world *world = world_new((struct world_options){
        .members = 2, .shows = true, .pairs = true, .not_first_shows = true});

    for (int i = 0; i < 10; i++) {
        pass(world, 0, 1, 100, i & 1);
        pass(world, 1, 0, 100, i & 1);
        pass(world, 0, 1, 10000, i & 1);
        pass(world, 1, 0, 10000, i & 1);
    }
    cr_assert_eq(world->net.links[0][1].joined, 0);
    cr_assert_eq(world->net.links[1][0].joined, 0);
    cr_assert_eq(world->net.pairs_sent, 10, "member 1 sends pairs, which member 0 receives apart");
    end(world);
}

/* What rank 0 says is not what this version says. */
static void expect_failure(const uint8_t *wire, uint64_t bytes, const char *words)
{
    struct world *world = world_new((struct world_options){.members = 3, .shows = true});
    struct member *member = &world->members[1];
    tutti_request request;

    fake_isend(fake_endpoints(&world->net, 0), fake_peer(1), 0, wire, bytes, 0, &request);
    fake_isend(fake_endpoints(&world->net, 0), fake_peer(1), 0, wire, bytes, 0, &request);
    p2p_progress(member->engine);
    cr_assert_eq(member->failures, 1, "%s", words);
    cr_assert_eq(member->failed_source, 0);
    cr_assert_eq(member->failed_status, TUTTI_ERR_INTERNAL);
    cr_assert_not_null(strstr(member->words, words), "%s", member->words);
    cr_assert_not_null(strstr(member->words, "rank 0"));
    fake_endpoints(&world->net, 0)->done_count = 0;
    pass(world, 2, 1, 64, true); /* others are not disturbed */
    world_free(world);
}

Test(p2p_short, nonsense_fails_the_path_with_words)
{
    static uint8_t wire[FAKE_SHORT + 1];
    const struct p2p_header full = {.kind = P2P_MESSAGE, .shows = true, .group = 1, .bytes = 100},
                            compact = {.kind = P2P_MESSAGE, .shows = true, .group = 1},
                            credit = {.kind = P2P_CREDIT, .shows = true};

    p2p_wire_encode(&full, wire);
    expect_failure(wire, P2P_HEADER_BYTES + 99, "its length");
    expect_failure(wire, P2P_HEADER_BYTES + 101, "its length");
    expect_failure(wire, FAKE_SHORT + 1, "no message of tutti");
    expect_failure(wire, 1, "its length");
    expect_failure(wire, 0, "its length");
    p2p_wire_encode(&credit, wire);
    expect_failure(wire, P2P_HEADER_BYTES + 1, "its length");
    cr_assert_eq(p2p_wire_encode_short(&compact, wire), P2P_COMPACT_BYTES);
    expect_failure(wire, P2P_COMPACT_BYTES - 1, "its length");
    wire[3] = 1;
    expect_failure(wire, P2P_COMPACT_BYTES, "fields set");
    wire[0] ^= 1;
    expect_failure(wire, P2P_COMPACT_BYTES, "no mark");
}

Test(p2p_short, a_path_that_failed_leaves_nothing_in_the_transport)
{
    struct world *world = world_new((struct world_options){.members = 2, .shows = true});
    struct p2p_op ops[3] = {{0}};

    pass(world, 0, 1, 8, true);
    p2p_path_fail(world->members[1].paths[0], TUTTI_ERR_PEER_LOST, "gone");
    for (int i = 0; i < 3; i++)
        p2p_send(group(world, 0), &ops[i], 1, 7, "x", 1);
    world_settle(world);
    cr_assert_null(world->net.links[0][1].sends.first);
    end(world);
}
