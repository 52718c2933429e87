/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long messages that are copied from place to place: by whom, and what becomes of one whose sender ends while
 * it is received. The memory that members map of each other is this process's own here.
 */
#include <criterion/criterion.h>

#include "base/error.h"
#include "fake_world.h"

TestSuite(p2p_place, .timeout = 60);

enum {
    MEMBERS = 3,
    BYTES = 3 << 20,
    SHORTER = 600000,
    SHORT = 70000,
    CLAIMS = 4,
    NUMBER = 7,
    BAD_NUMBER = 8
};

static struct {
    struct world *world;
    uint8_t memory[MEMBERS][BYTES];
    bool unknown[MEMBERS]; /* the member does not map the others' */
    _Atomic uint64_t claims[MEMBERS][CLAIMS];
    unsigned used[MEMBERS]; /* bits */
    bool lies;              /* places are named wrongly */
} t;

static int rank_of(const void *user)
{
    return (int)((const struct member *)user - t.world->members);
}

static bool place(void *user, int destination, const void *buffer, uint64_t bytes,
                  struct p2p_place *ret_place, _Atomic uint64_t **ret_claim)
{
    const int rank = rank_of(user);
    const uint8_t *at = buffer;

    (void)destination;
    if (at < t.memory[rank] || at + bytes > t.memory[rank] + BYTES || t.used[rank] == 15)
        return false;
    const unsigned claim = (unsigned)__builtin_ctz(~t.used[rank]);
    t.used[rank] |= 1u << claim;
    *ret_place = (struct p2p_place){.memory = t.lies ? BAD_NUMBER : NUMBER,
                                    .claim = claim,
                                    .offset = (uint64_t)(at - t.memory[rank])};
    *ret_claim = &t.claims[rank][claim];
    return true;
}

static void unplace(void *user, _Atomic uint64_t *claim)
{
    const int rank = rank_of(user);

    t.used[rank] &= ~(1u << (claim - t.claims[rank]));
}

static tutti_status find(void *user, int source, const struct p2p_place *at, uint64_t bytes,
                         unsigned char **ret_at, _Atomic uint64_t **ret_claim)
{
    if (t.unknown[rank_of(user)])
        return TUTTI_ERR_NOT_READY;
    if (at->memory != NUMBER || at->claim >= CLAIMS || at->offset > BYTES ||
        bytes > BYTES - at->offset)
        return TUTTI_ERR_INTERNAL;
    *ret_at = t.memory[source] + at->offset;
    *ret_claim = &t.claims[source][at->claim];
    return TUTTI_OK;
}

static const struct p2p_events events = {.announce = member_announce,
                                         .peer_failed = member_peer_failed,
                                         .place = place,
                                         .unplace = unplace,
                                         .find = find};

static void begin(struct world_options options)
{
    memset(&t, 0, sizeof t);
    options.members = MEMBERS;
    options.events = &events;
    t.world = world_new(options);
}

static void end(void)
{
    cr_assert_eq(t.world->net.violations, 0);
    world_free(t.world);
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(t.used[i], 0, "a place of rank %d is still held", i);
}

static struct p2p_group *group(int rank)
{
    return t.world->members[rank].group;
}

static uint64_t passed(enum p2p_kind kind, int from, int to)
{
    return t.world->net.links[from][to].kinds[kind];
}

/* One from rank 0 to rank 1, which is posted before, or after; the number of pieces in the rings. */
static uint64_t exchange(const uint8_t *out, uint8_t *in, uint64_t bytes, int source, bool early)
{
    const uint64_t before = passed(P2P_DATA, 0, 1);
    struct p2p_op send = {0}, recv = {0};

    memset(in, 0, bytes);
    if (early)
        cr_assert_eq(p2p_recv(group(1), &recv, source, 5, in, bytes), TUTTI_OK);
    cr_assert_eq(p2p_send(group(0), &send, 1, 5, out, bytes), TUTTI_OK);
    world_settle(t.world);
    if (!early) {
        cr_assert_eq(send.status, TUTTI_ERR_NOT_READY);
        cr_assert_eq(p2p_recv(group(1), &recv, source, 5, in, bytes), TUTTI_OK);
        world_settle(t.world);
    }
    cr_assert_eq(send.status, TUTTI_OK);
    cr_assert_eq(recv.status, TUTTI_OK);
    cr_assert_eq(recv.source, 0);
    cr_assert_eq(recv.bytes, bytes);
    cr_assert(filled(in, bytes, 3));
    return passed(P2P_DATA, 0, 1) - before;
}

static void exchange_all(struct world_options options)
{
    uint8_t *private = malloc(BYTES);

    begin(options);
    fill(t.memory[0], BYTES, 3);
    for (int i = 0; i < 4; i++) {
        const int source = i & 2 ? 0 : P2P_ANY_SOURCE;
        const bool early = i & 1;

        cr_expect_eq(exchange(t.memory[0], private, i < 2 ? SHORTER : SHORT, source, early), 0);
        cr_expect_eq(passed(P2P_HELP, 1, 0), (uint64_t)i);
        cr_expect_eq(exchange(t.memory[0], t.memory[1], BYTES, source, early), 0);
        cr_expect_eq(passed(P2P_HELP, 1, 0), (uint64_t)i + 1);
    }
    cr_expect_eq(passed(P2P_TAKEN, 1, 0), 8);
    cr_expect_neq(exchange(t.memory[0], private, BYTES, 0, true), 0, "too long to copy alone");
    t.unknown[1] = true;
    cr_expect_neq(exchange(t.memory[0], t.memory[1], SHORTER, 0, false), 0);
    t.unknown[0] = true;
    t.unknown[1] = false;
    cr_expect_eq(exchange(t.memory[0], t.memory[1], BYTES, 0, false), 0);
    fill(private, BYTES, 3);
    cr_expect_neq(exchange(private, t.memory[1], SHORTER, 0, false), 0, "the sender's decides");
    end();
    free(private);
}

Test(p2p_place, what_both_map_is_copied_once_and_all_else_is_asked_for)
{
    exchange_all((struct world_options){0});
    exchange_all((struct world_options){.shows = true, .lazy = 20, .busy = 20});
    exchange_all((struct world_options){.no_cancel = true, .no_progress = true});
    exchange_all((struct world_options){.shows = true, .pairs = true});
}

Test(p2p_place, another_size_is_a_mismatch_of_the_receive_alone)
{
    struct p2p_op send = {0}, recv = {0};
    uint8_t *in = calloc(1, BYTES);

    begin((struct world_options){0});
    p2p_recv(group(1), &recv, 0, 5, in, SHORTER - 1);
    p2p_send(group(0), &send, 1, 5, t.memory[0], SHORTER);
    world_settle(t.world);
    cr_expect_eq(send.status, TUTTI_OK);
    cr_expect_eq(recv.status, TUTTI_ERR_MISMATCH);
    p2p_op_error(&recv);
    cr_expect_not_null(strstr(error_message(), "599999 bytes matched a message of 600000 bytes"));

    fill(t.memory[0], SHORTER, 3);
    recv = (struct p2p_op){.up_to = true};
    p2p_send(group(0), &send, 1, 5, t.memory[0], SHORTER);
    p2p_recv(group(1), &recv, 0, 5, in, BYTES);
    world_settle(t.world);
    cr_expect_eq(recv.status, TUTTI_OK);
    cr_expect_eq(recv.bytes, SHORTER);
    cr_expect(filled(in, SHORTER, 3));
    end();
    free(in);
}

Test(p2p_place, a_send_can_be_cancelled_until_it_is_received)
{
    struct p2p_op sends[2] = {0}, recv = {0};
    uint8_t *in = calloc(1, SHORTER);

    begin((struct world_options){0});
    fill(t.memory[0] + SHORTER, SHORTER, 3);
    for (int i = 0; i < 2; i++)
        p2p_send(group(0), &sends[i], 1, 5, t.memory[0] + i * SHORTER, SHORTER);
    world_settle(t.world);
    cr_expect(p2p_is_unmatched(&sends[0]));
    cr_expect_eq(p2p_cancel(&sends[0]), TUTTI_OK);
    p2p_recv(group(1), &recv, 0, 5, in, SHORTER); /* the withdrawal is still on its way */
    cr_expect_eq(recv.status, TUTTI_ERR_NOT_READY, "what was taken back is not received");
    world_settle(t.world);
    cr_expect_eq(recv.status, TUTTI_OK);
    cr_expect(filled(in, SHORTER, 3), "the next one is");

    p2p_send(group(0), &sends[0], 1, 5, t.memory[0], SHORTER);
    p2p_progress(t.world->members[0].engine);
    p2p_recv(group(1), &recv, 0, 5, t.memory[1], SHORTER);
    p2p_progress(t.world->members[1].engine);
    cr_expect_not(p2p_is_unmatched(&sends[0]));
    cr_expect_eq(p2p_cancel(&sends[0]), TUTTI_ERR_BUSY);
    world_settle(t.world);
    cr_expect_eq(sends[0].status, TUTTI_OK);
    end();
    free(in);
}

/* Its memory may hold anything by then. */
Test(p2p_place, a_receive_does_not_succeed_when_its_sender_ends_meanwhile)
{
    struct p2p_op send = {0}, recv = {0};

    begin((struct world_options){0});
    p2p_recv(group(1), &recv, 0, 5, t.memory[1], BYTES);
    p2p_send(group(0), &send, 1, 5, t.memory[0], BYTES);
    for (int i = 0; i < 3; i++) /* the header, then a piece */
        p2p_progress(t.world->members[1].engine);
    cr_expect(p2p_is_placed(t.world->members[1].engine));
    cr_expect_not(p2p_arm(t.world->members[1].engine));
    cr_expect_eq(recv.status, TUTTI_ERR_NOT_READY);
    p2p_group_fail(group(0), TUTTI_ERR_TIMEOUT);
    cr_expect_eq(send.status, TUTTI_ERR_TIMEOUT);
    world_settle(t.world);
    cr_expect_eq(recv.status, TUTTI_ERR_NOT_READY);
    cr_expect_not(p2p_is_placed(t.world->members[1].engine));
    p2p_group_fail(group(1), TUTTI_ERR_TIMEOUT);
    cr_expect_eq(recv.status, TUTTI_ERR_TIMEOUT);
    end();
}

Test(p2p_place, a_receive_ends_with_the_path_to_its_sender)
{
    struct p2p_op send = {0}, recv = {0};

    begin((struct world_options){0});
    p2p_recv(group(1), &recv, 0, 5, t.memory[1], BYTES);
    p2p_send(group(0), &send, 1, 5, t.memory[0], BYTES);
    for (int i = 0; i < 3; i++)
        p2p_progress(t.world->members[1].engine);
    cr_expect_eq(recv.status, TUTTI_ERR_NOT_READY);
    fake_cut(&t.world->net, 0, 1);
    world_settle(t.world);
    cr_expect_eq(send.status, TUTTI_ERR_PEER_LOST);
    cr_expect(recv.status == TUTTI_ERR_PEER_LOST || recv.status == TUTTI_OK, "%d", recv.status);
    end();
}

Test(p2p_place, a_place_outside_the_memory_ends_the_path_in_words)
{
    struct p2p_op send = {0}, recv = {0};
    const struct member *receiver;

    begin((struct world_options){0});
    receiver = &t.world->members[1];
    t.lies = true;
    p2p_recv(group(1), &recv, 0, 5, t.memory[1], SHORTER);
    p2p_send(group(0), &send, 1, 5, t.memory[0], SHORTER);
    world_settle(t.world);
    cr_expect_eq(recv.status, TUTTI_ERR_INTERNAL);
    cr_expect_eq(receiver->failed_source, 0);
    cr_expect_not_null(strstr(receiver->words, "a place outside its registered memory"), "%s",
                       receiver->words);
    p2p_group_fail(group(0), TUTTI_ERR_ABORTED);
    end();
}
