/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of messages when something breaks, over the unfriendly transport of fake_transport.h: what
 * needs a lost peer completes with a message, everything else goes on, and each operation is told once.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "base/error.h"
#include "fake_world.h"

TestSuite(p2p_fail, .timeout = 60);

static struct p2p_group *group(struct world *world, int rank)
{
    return world->members[rank].group;
}

/* Each message that is delivered, headers and checksums among them, is altered once. */
Test(p2p_fail, an_altered_bit_is_told_of_and_never_taken)
{
    enum { LARGE = 100000, MESSAGES = 3 };
    uint64_t carried = UINT64_MAX;

    for (uint64_t flip_at = 1; flip_at <= carried; flip_at++) {
        struct world *world =
            world_new((struct world_options){.members = 2, .checksums = true, .busy = 20});
        static uint8_t from[MESSAGES][LARGE], to[MESSAGES][LARGE];
        struct p2p_op sends[MESSAGES] = {0}, recvs[MESSAGES] = {0};

        world->net.flip_at = flip_at;
        for (int i = 0; i < MESSAGES; i++) {
            fill(from[i], LARGE, (uint64_t)i);
            p2p_recv(group(world, 1), &recvs[i], 0, (uint64_t)i, to[i], LARGE);
            p2p_send(group(world, 0), &sends[i], 1, (uint64_t)i, from[i], LARGE);
        }
        world_settle(world);
        if (world->net.flip_at) /* all have passed before that one */
            carried = world->net.delivered;
        else
            cr_expect(world->members[0].failed_status == TUTTI_ERR_CORRUPT ||
                          world->members[1].failed_status == TUTTI_ERR_CORRUPT,
                      "message %llu", (unsigned long long)flip_at);
        for (int i = 0; i < MESSAGES; i++)
            cr_expect(recvs[i].status != TUTTI_OK || filled(to[i], LARGE, (uint64_t)i),
                      "message %llu", (unsigned long long)flip_at);
        world_free(world);
    }
    cr_expect_gt(carried, 4 * MESSAGES);
}

Test(p2p_fail, operations_that_need_a_lost_peer_complete_and_others_go_on)
{
    enum { LARGE = 1 << 20 };
    struct world *world = world_new((struct world_options){.members = 3});
    uint8_t *large = calloc(1, LARGE);
    uint64_t early = 5, value = 0, other = 0;
    struct p2p_op send = {0}, recv = {0}, any = {0}, kept = {0}, asked = {0}, op = {0};

    p2p_send(group(world, 2), &op, 0, 7, &early, sizeof early);
    p2p_send(group(world, 2), &asked, 0, 8, large, LARGE);
    p2p_send(group(world, 0), &send, 2, 1, large, LARGE);
    p2p_recv(group(world, 0), &recv, 2, 2, &value, sizeof value);
    p2p_recv(group(world, 0), &any, P2P_ANY_SOURCE, 3, &other, sizeof other);
    world_settle(world);
    fake_cut(&world->net, 0, 2);
    world_settle(world);
    cr_assert_eq(world->members[0].failures, 1);
    cr_assert_eq(world->members[0].failed_source, 2);
    cr_assert_eq(world->members[0].failed_status, TUTTI_ERR_PEER_LOST);
    cr_assert_not_null(strstr(world->members[0].words, "rank 2"));
    cr_assert_eq(send.status, TUTTI_ERR_PEER_LOST);
    cr_assert_eq(recv.status, TUTTI_ERR_PEER_LOST);
    cr_assert_eq(p2p_op_error(&recv), TUTTI_ERR_PEER_LOST);
    cr_assert_not_null(strstr(error_message(), "rank 2"));
    cr_assert_eq(any.status, TUTTI_ERR_NOT_READY);

    p2p_recv(group(world, 0), &kept, P2P_ANY_SOURCE, 7, &value, sizeof value);
    cr_assert_eq(kept.status, TUTTI_OK, "it had arrived whole");
    cr_assert_eq(value, 5);
    p2p_recv(group(world, 0), &kept, 2, 8, large, LARGE);
    cr_assert_eq(kept.status, TUTTI_ERR_PEER_LOST, "only its header had arrived");
    cr_assert_eq(p2p_send(group(world, 0), &op, 2, 1, &value, sizeof value), TUTTI_ERR_PEER_LOST);
    cr_assert_eq(p2p_recv(group(world, 0), &op, 2, 1, &value, sizeof value), TUTTI_ERR_PEER_LOST);

    p2p_send(group(world, 1), &op, 0, 3, &early, sizeof early);
    world_settle(world);
    cr_assert_eq(any.status, TUTTI_OK);
    cr_assert_eq(any.source, 1);
    world_free(world);
    free(large);
}

/* A peer that leaves closes its end: what this side still sends fails before what the peer sent is read. */
Test(p2p_fail, what_a_peer_sent_arrives_although_sends_to_it_fail_first)
{
    enum { MESSAGES = 6, BYTES = 30000 };
    struct world *world = world_new((struct world_options){.members = 2, .no_cancel = true});
    struct p2p_op sends[MESSAGES] = {0}, receives[MESSAGES] = {0}, back = {0}, late = {0};
    uint8_t *out = malloc(BYTES), *in = malloc((size_t)MESSAGES * BYTES);

    fill(out, BYTES, 3);
    p2p_send(group(world, 0), &back, 1, 1, out, BYTES);
    for (int i = 0; i < MESSAGES; i++)
        p2p_send(group(world, 1), &sends[i], 0, 1, out, BYTES);
    fake_break(&world->net, 0, 1, TUTTI_ERR_PEER_LOST);
    for (int i = 0; i < MESSAGES; i++)
        p2p_recv(group(world, 0), &receives[i], 1, 1, in + (size_t)i * BYTES, BYTES);
    world_settle(world);
    for (int i = 0; i < MESSAGES; i++) {
        cr_assert_eq(receives[i].status, TUTTI_OK);
        cr_assert(filled(in + (size_t)i * BYTES, BYTES, 3));
    }
    cr_assert(p2p_idle(world->members[0].engine), "there is nobody to wait for");
    p2p_recv(group(world, 0), &late, 1, 1, in, BYTES);
    fake_break(&world->net, 1, 0, TUTTI_ERR_PEER_LOST);
    world_settle(world);
    cr_assert_eq(back.status, TUTTI_ERR_PEER_LOST);
    cr_assert_eq(late.status, TUTTI_ERR_PEER_LOST);
    cr_assert_eq(world->members[0].failures, 1);
    world_free(world);
    free(out);
    free(in);
}

/* It took what it needed and was gone before the sender looked. */
Test(p2p_fail, a_send_that_was_taken_is_complete_although_the_peer_left_since)
{
    enum { BYTES = 30000 };
    struct world *world =
        world_new((struct world_options){.members = 2, .no_cancel = true, .no_progress = true});
    struct p2p_op send = {0}, receive = {0};
    uint8_t *out = calloc(1, BYTES), *in = malloc(BYTES);

    world_settle(world);
    p2p_send(group(world, 0), &send, 1, 1, out, BYTES);
    p2p_recv(group(world, 1), &receive, 0, 1, in, BYTES);
    while (receive.status == TUTTI_ERR_NOT_READY)
        p2p_progress(world->members[1].engine);
    cr_assert_eq(receive.status, TUTTI_OK);
    cr_assert_eq(send.status, TUTTI_ERR_NOT_READY);
    fake_cut(&world->net, 0, 1);
    world_settle(world);
    cr_assert_eq(send.status, TUTTI_OK);
    cr_assert_eq(world->members[0].failures, 1);
    world_free(world);
    free(out);
    free(in);
}

static struct world *ending;

/* The payload is moved, and the end of the connection found behind it, when the next header is asked for. */
static tutti_status irecv_that_ends(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                    void *data, uint64_t capacity, tutti_request *request)
{
    tutti_status status = fake_irecv(endpoint, peer, lane, data, capacity, request);

    if (status == TUTTI_OK && capacity == P2P_HEADER_BYTES) {
        fake_move(endpoint);
        fake_break(&ending->net, peer->rank, endpoint->rank, TUTTI_ERR_PEER_LOST);
    }
    return status;
}

Test(p2p_fail, a_message_whose_end_is_found_with_the_end_of_the_connection_arrives)
{
    enum { BYTES = 30000 };
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);

    fill(out, BYTES, 3);
    for (int polled = 0; polled < 2; polled++) {
        struct p2p_op send = {0}, receive = {0};
        struct world *world = world_new((struct world_options){
            .members = 2, .no_cancel = polled == 1, .no_progress = polled == 1});

        ending = world;
        world_settle(world);
        p2p_send(group(world, 1), &send, 0, 1, out, BYTES);
        p2p_recv(group(world, 0), &receive, 1, 1, in, BYTES);
        world->net.ops.irecv = irecv_that_ends;
        world_settle(world);
        cr_assert_eq(receive.status, TUTTI_OK);
        cr_assert(filled(in, BYTES, 3));
        cr_assert_eq(world->members[0].failures, 1);
        world_free(world);
    }
    free(out);
    free(in);
}

static struct world_options tempers[] = {
    {.members = 4},
    {.members = 4, .busy = 30, .lazy = 60, .at_once = 30, .depth = 3},
    {.members = 4, .no_cancel = true, .lazy = 50},
    {.members = 4, .no_cancel = true, .no_progress = true, .busy = 50, .lazy = 70, .depth = 1},
    {.members = 4, .busy = 30, .lazy = 60, .pieces = {2 << 20, 64 << 20, 0, 64 << 10}},
    {.members = 4,
     .busy = 30,
     .lazy = 60,
     .no_cancel_first = true,
     .pieces = {0, 64 << 20, 0, 64 << 20}},
};

ParameterizedTestParameters(p2p_fail, nothing_touches_a_buffer_after_its_group_has_failed)
{
    return cr_make_param_array(struct world_options, tempers, sizeof tempers / sizeof *tempers);
}

enum { FLYING = 40 };

struct flight {
    struct p2p_op *ops[FLYING]; /* of those that were started */
    uint8_t *data[FLYING];
    int started, done;
};

static void landed(struct p2p_op *op)
{
    ++*(int *)op->user;
}

/* Any operation, matched or not. Its tag, or sequence, and its size are random. */
static tutti_status start_any(struct fake_net *net, struct p2p_group *g, int other,
                              struct p2p_op *op, uint8_t *data, uint64_t bytes)
{
    const uint64_t tag = fake_random(net) % 3;
    const struct announce a = {.sequence = tag, .fields = {.operation = OPERATION_BROADCAST}};

    switch (fake_random(net) % 4) {
    case 0:
        return p2p_send(g, op, other, bytes + tag, data, bytes);
    case 1:
        return p2p_recv(g, op, tag ? other : P2P_ANY_SOURCE, bytes + tag, data, bytes);
    case 2:
        return p2p_collective_send(g, op, other, &a, data, bytes);
    default:
        return p2p_collective_recv(g, op, other, tag, data, bytes);
    }
}

/*
 * At all stages. Where sizes of one sequence differ, a sender may stream to a receive that it has not met. Its path
 * ends then, and nothing more is started over it.
 */
static void take_off(struct world *world, int at, struct flight *flight)
{
    static const uint32_t sizes[] = {0, 8, 5000, 20000, 65536, 200000, 3 << 20};
    struct fake_net *net = &world->net;

    for (int i = 0; i < FLYING; i++) {
        const uint64_t bytes = sizes[fake_random(net) % 7];
        const int other = (int)((unsigned)at + 1 + fake_random(net) % 3) % 4;
        struct p2p_op *op = calloc(1, sizeof *op);
        uint8_t *data = calloc(1, bytes + 1);

        op->done = landed;
        op->user = &flight->done;
        if (start_any(net, group(world, at), other, op, data, bytes) == TUTTI_OK) {
            flight->ops[flight->started] = op;
            flight->data[flight->started++] = data;
        } else {
            cr_assert_gt(world->members[at].failures, 0, "%s", error_message());
            free(op);
            free(data);
        }
        if (fake_chance(net, 30))
            world_step(world);
    }
}

ParameterizedTest(struct world_options *temper, p2p_fail,
                  nothing_touches_a_buffer_after_its_group_has_failed)
{
    for (int round = 0; round < 60; round++) {
        struct world *world = world_new(*temper);
        struct flight flights[4] = {0};

        for (int at = 0; at < 4; at++)
            take_off(world, at, &flights[at]);
        for (uint64_t i = fake_random(&world->net) % 40; i > 0; i--)
            world_step(world);
        for (int at = 0; at < 4; at++) {
            struct flight *flight = &flights[at];

            p2p_group_fail(group(world, at), TUTTI_ERR_TIMEOUT);
            cr_assert_eq(flight->done, flight->started);
            for (int i = 0; i < flight->started; i++) {
                cr_assert_neq(flight->ops[i]->status, TUTTI_ERR_NOT_READY);
                free(flight->ops[i]); /* AddressSanitizer sees a late use */
                free(flight->data[i]);
            }
            for (int i = 0; i < 3; i++)
                world_step(world);
        }
        world_settle(world);

        struct p2p_op op = {0};
        cr_assert_eq(p2p_recv(group(world, 0), &op, 1, 0, NULL, 0), TUTTI_ERR_TIMEOUT);
        cr_assert_eq(world->net.violations, 0);
        world_free(world);
    }
}

Test(p2p_fail, other_groups_go_on_when_nothing_was_cut)
{
    struct world *world = world_new((struct world_options){.members = 2, .no_cancel = true});
    struct p2p_group *second[2] = {world_group(world, 0, 2), world_group(world, 1, 2)};
    static uint8_t large[1 << 20];
    uint64_t value = 3, got = 0;
    struct p2p_op ops[4] = {0};

    p2p_send(group(world, 0), &ops[0], 1, 0, large, sizeof large);
    p2p_recv(group(world, 1), &ops[1], 0, 0, large, sizeof large);
    world_step(world);
    for (int i = 0; i < 2; i++)
        p2p_group_fail(group(world, i), TUTTI_ERR_ABORTED);
    p2p_send(second[0], &ops[2], 1, 0, &value, sizeof value);
    p2p_recv(second[1], &ops[3], 0, 0, &got, sizeof got);
    world_settle(world);
    cr_assert_eq(ops[3].status, TUTTI_OK);
    cr_assert_eq(got, 3);
    cr_assert_eq(world->members[0].failures + world->members[1].failures, 0);
    p2p_group_free(second[0]);
    p2p_group_free(second[1]);
    world_free(world);
}

/* When the group fails the piece has not come yet, waits for its memory, or is on its way. */
Test(p2p_fail, a_long_piece_of_a_failed_group_ends_the_path_and_is_kept_nowhere)
{
    enum { LONG = 8 << 20 };
    uint8_t *out = calloc(1, LONG), *in = calloc(1, LONG);
    int cut = 0;

    for (int steps = 0; steps < 8; steps++) {
        struct world *world =
            world_new((struct world_options){.members = 2, .pieces = {LONG, LONG}});
        struct p2p_group *second = world_group(world, 1, 2);
        struct p2p_op send = {0}, recv = {0}, op = {0};

        p2p_send(group(world, 0), &send, 1, 0, out, LONG);
        p2p_recv(group(world, 1), &recv, 0, 0, in, LONG);
        for (int i = 0; i < steps; i++)
            p2p_progress(world->members[i % 2].engine);
        bool whole = recv.status == TUTTI_OK;
        p2p_group_fail(group(world, 1), TUTTI_ERR_ABORTED);
        memset(in, 0xee, LONG);
        world_settle(world);
        for (int i = 0; i < LONG; i++)
            cr_assert_eq(in[i], 0xee, "after %d steps byte %d was written", steps, i);
        cr_assert_eq(world->members[1].engine->buffers.kept, 0);
        if (!whole && send.status != TUTTI_ERR_NOT_READY) {
            cut++;
            cr_assert_eq(world->members[1].failed_status, TUTTI_ERR_ABORTED);
            cr_assert_not_null(strstr(world->members[1].words, "cut off half way"));
            cr_assert_eq(p2p_send(second, &op, 0, 0, NULL, 0), TUTTI_ERR_ABORTED);
        }
        p2p_group_free(second);
        world_free(world);
    }
    cr_assert_gt(cut, 0);
    free(out);
    free(in);
}

Test(p2p_fail, messages_of_a_group_wait_for_it_and_those_of_a_freed_one_are_dropped)
{
    struct world *world = world_new((struct world_options){.members = 2});
    struct p2p_group *ahead = world_group(world, 0, 2), *late;
    static uint8_t large[200 << 10], in[200 << 10], middle[30000], middle_in[30000];
    struct announce a = {.sequence = 1, .fields = {.operation = OPERATION_BARRIER}};
    struct p2p_op ops[8] = {0};

    fill(large, sizeof large, 1);
    fill(middle, sizeof middle, 2);
    p2p_send(ahead, &ops[0], 1, 0, large, sizeof large);
    p2p_send(ahead, &ops[1], 1, 0, middle, sizeof middle);
    p2p_collective_send(ahead, &ops[2], 1, &a, NULL, 0);
    p2p_collective_recv(ahead, &ops[3], 1, 1, in, sizeof in);
    world_settle(world);
    cr_assert_eq(world->members[1].announces, 0);
    late = world_group(world, 1, 2);
    p2p_recv(late, &ops[4], 0, 0, in, sizeof in);
    p2p_recv(late, &ops[5], 0, 0, middle_in, sizeof middle_in);
    p2p_collective_send(late, &ops[6], 0, &a, large, sizeof large);
    world_settle(world);
    cr_assert_eq(world->members[1].announces, 1);
    for (int i = 0; i < 7; i++)
        cr_assert_eq(ops[i].status, TUTTI_OK, "%d", i);
    cr_assert(filled(in, sizeof in, 1));
    cr_assert(filled(middle_in, sizeof middle_in, 2));

    p2p_group_free(late);
    for (int i = 0; i < 100; i++) {
        p2p_send(ahead, &ops[0], 1, 0, middle, sizeof middle);
        world_settle(world);
        if (ops[0].status != TUTTI_OK)
            p2p_group_free(ahead), i = 100, ahead = NULL;
    }
    cr_assert_not_null(ahead, "the credit of dropped messages comes back");
    p2p_group_free(ahead);
    cr_assert_null(world_group(world, 1, 2), "an id is never used twice");
    world_free(world);
}

Test(p2p_fail, a_group_that_is_sent_more_than_can_be_kept_fails_and_names_the_sender)
{
    struct world *world = world_new((struct world_options){.members = 3});
    struct p2p_op ops[4] = {0}, recv = {0};

    p2p_recv(group(world, 1), &recv, 0, 99, NULL, 0);
    world->members[1].engine->envelopes = P2P_ENVELOPES_MAX - 2;
    for (int i = 0; i < 3; i++)
        p2p_send(group(world, 2), &ops[i], 1, 0, NULL, 0);
    world_settle(world);
    cr_assert_eq(world->members[1].failures, 1);
    cr_assert_eq(world->members[1].failed_status, TUTTI_ERR_NO_MEMORY);
    cr_assert_not_null(strstr(world->members[1].words, "from rank 2"), "%s",
                       world->members[1].words);
    cr_assert_eq(recv.status, TUTTI_ERR_NO_MEMORY);
    cr_assert_eq(world->members[1].engine->envelopes, P2P_ENVELOPES_MAX - 2);
    world_free(world);
}

Test(p2p_fail, a_header_that_makes_no_sense_ends_its_path_and_no_other)
{
    static const struct {
        struct p2p_header header;
        int at, value; /* a byte to overwrite; -1: none */
        uint32_t length;
        const char *words;
    } cases[] = {
        {{.kind = P2P_MESSAGE, .group = 1}, 0, 0, 64, "no mark of tutti"},
        {{.kind = P2P_MESSAGE, .group = 1}, 1, 77, 64, "unknown kind"},
        {{.kind = P2P_MESSAGE, .group = 1}, 1, 0, 64, "unknown kind"},
        {{.kind = P2P_MESSAGE, .group = 1}, 45, 1, 64, "fields set that its kind has not"},
        {{.kind = P2P_MESSAGE, .group = 1}, -1, 0, 60, "its length"},
        {{.kind = P2P_MESSAGE, .group = 1, .source = 2}, -1, 0, 64, "another rank's place"},
        {{.kind = P2P_MESSAGE, .group = 1, .source = 9}, -1, 0, 64, "another rank's place"},
        {{.kind = P2P_MESSAGE, .group = 1, .bytes = 270000}, -1, 0, 64, "more than its credit"},
        {{.kind = P2P_MESSAGE, .group = 1, .credit = 1}, -1, 0, 64, "more credit than it has"},
        {{.kind = P2P_MESSAGE, .group = 1, .id = 1}, -1, 0, 64, "an id where none belongs"},
        {{.kind = P2P_COLLECTIVE, .group = 1}, -1, 0, 64, "unknown operation"},
        {{.kind = P2P_REQUEST, .group = 1}, -1, 0, 64, "impossible size"},
        {{.kind = P2P_REQUEST, .group = 1, .bytes = UINT64_MAX}, -1, 0, 64, "impossible size"},
        {{.kind = P2P_GRANT, .group = 1, .id = 12345}, -1, 0, 64, "never asked for"},
        {{.kind = P2P_GRANT, .group = 77}, -1, 0, 64, "does not exist"},
        {{.kind = P2P_WITHDRAW, .group = 1, .bytes = 1}, -1, 0, 64, "a withdrawal with a size"},
        {{.kind = P2P_REFUSE, .group = 1, .bytes = 1}, -1, 0, 64, "impossible refusal"},
        {{.kind = P2P_REQUEST, .group = 1, .bytes = 8}, 56, 1, 64, "fields set that its kind has"},
        {{.kind = P2P_TAKEN, .group = 1, .bytes = 8}, -1, 0, 64, "impossible answer to a place"},
        {{.kind = P2P_TAKEN, .group = 1, .id = 70}, -1, 0, 64, "never asked for"},
        {{.kind = P2P_HELP, .group = 1, .tag = 8}, -1, 0, 64, "impossible answer to a place"},
        {{.kind = P2P_HELP, .group = 77}, -1, 0, 64, "does not exist"},
        {{.kind = P2P_AGREE, .group = 1, .bytes = 8}, -1, 0, 64, "impossible grant"},
        {{.kind = P2P_AGREE, .group = 1, .id = 70}, -1, 0, 64, "never asked for"},
        {{.kind = P2P_MOVE, .group = 1, .tag = 8}, -1, 0, 64, "impossible refusal"},
        {{.kind = P2P_MOVE, .group = 77}, -1, 0, 64, "does not exist"},
        {{.kind = P2P_MESSAGE, .group = 1}, 3, 1, 64, "fields set that its kind has not"},
        {{.kind = P2P_DATA, .group = 1, .bytes = P2P_PIECE_MAX + 1}, -1, 0, 64, "too long"},
        {{.kind = P2P_DATA, .group = 1, .bytes = 8, .id = 70}, -1, 0, 64, "never asked for"},
        {{.kind = P2P_ANNOUNCE, .group = 1}, -1, 0, 64, "unknown operation"},
        {{.kind = P2P_ANSWER, .group = 1}, -1, 0, 64, "unknown operation"},
        {{.kind = P2P_ANNOUNCE,
          .group = 1,
          .bytes = 8,
          .announce.fields.operation = OPERATION_BARRIER},
         -1,
         0,
         64,
         "an announcement with a size"},
        {{.kind = P2P_CREDIT, .bytes = 8}, -1, 0, 64, "impossible credit"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_new((struct world_options){.members = 3});
        struct member *member = &world->members[1];
        uint8_t wire[P2P_HEADER_BYTES];
        tutti_request request;
        struct p2p_op ops[2] = {0};

        p2p_wire_encode(&cases[i].header, wire);
        if (cases[i].at >= 0)
            wire[cases[i].at] = (uint8_t)cases[i].value;
        fake_isend(fake_endpoints(&world->net, 0), fake_peer(1), 0, wire, cases[i].length, 0,
                   &request);
        p2p_progress(member->engine);
        cr_assert_eq(member->failures, 1, "%s", cases[i].words);
        cr_assert_eq(member->failed_source, 0);
        cr_assert_eq(member->failed_status, TUTTI_ERR_INTERNAL);
        cr_assert_not_null(strstr(member->words, cases[i].words), "%s", member->words);
        cr_assert_not_null(strstr(member->words, "rank 0"));
        p2p_send(group(world, 2), &ops[0], 1, 0, NULL, 0);
        p2p_recv(group(world, 1), &ops[1], 2, 0, NULL, 0);
        for (int step = 0; step < 5; step++) { /* rank 0 would stumble over the raw request */
            p2p_progress(world->members[2].engine);
            p2p_progress(member->engine);
        }
        cr_assert_eq(ops[1].status, TUTTI_OK);
        fake_endpoints(&world->net, 0)->done_count = 0;
        world_free(world);
    }
}
