/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random traffic of four members against a model, over transports of every temper.
 *
 * Tags below ANY_TAG are received from their source alone: the k-th receive of (source, tag) gets
 * the k-th message. From ANY_TAG on all messages have one size and receives name any source or one:
 * of each source they must get the messages in the order in which they were posted. Collectives are
 * like the former, by sequence.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "fake_world.h"

enum {
    MEMBERS = 4,
    TAGS = 6,
    ANY_TAG = 4,
    SEQUENCES = 5,
    PENDING = 1000,
    PENDING_RANDOM = 48,
    LONGEST = 300 << 10
};

enum kind { FREE, SEND, RECEIVE };

struct pending {
    struct p2p_op op;
    uint8_t kind;
    uint8_t collective;
    int at, other;
    uint64_t tag, number; /* of the message, or of the receive in its order */
    uint8_t *data;
};

struct model {
    struct world *world;
    struct pending pending[MEMBERS][PENDING];
    int slots; /* how many of them may be used: more at the end, so that all counterparts start */
    uint64_t sent[2][MEMBERS][MEMBERS][TAGS], received[2][MEMBERS][MEMBERS][TAGS];
    uint64_t want[MEMBERS][TAGS]; /* messages that any-source tags still owe: sent - received */
    unsigned completed;
};

static uint64_t seed_of(int collective, int from, int to, uint64_t tag, uint64_t number)
{
    return ((((uint64_t)collective * 8 + (unsigned)from) * 8 + (unsigned)to) * 8 + tag) << 32 |
           number;
}

/* Mostly small, some around the limits, some large. */
static uint64_t size_of(int collective, int from, int to, uint64_t tag, uint64_t number)
{
    uint64_t h = (seed_of(collective, from, to, tag, number) + 1) * UINT64_C(0xd1342543de82ef95);

    if (!collective && tag >= ANY_TAG)
        return tag == ANY_TAG ? 2000 : 70000;
    h ^= h >> 32;
    switch (h % 5) {
    case 0:
        return h / 5 % 3;
    case 1:
        return h / 5 % 9000;
    case 2:
        return 65530 + h / 5 % 12;
    case 3:
        return h / 5 % LONGEST;
    default:
        return 100 + h / 5 % 1000;
    }
}

static struct pending *take_slot(struct model *m, int at)
{
    for (int i = 0; i < m->slots; i++)
        if (m->pending[at][i].kind == FREE)
            return &m->pending[at][i];
    return NULL;
}

static void start_send(struct model *m, int from, int to, int collective, uint64_t tag)
{
    struct pending *p = take_slot(m, from);
    struct p2p_group *group = m->world->members[from].group;
    struct announce a = {
        .sequence = tag,
        .fields = {.operation = OPERATION_BROADCAST, .count = 1, .op = -1, .root = from}};

    if (!p)
        return;
    *p = (struct pending){.kind = SEND,
                          .at = from,
                          .other = to,
                          .collective = collective != 0,
                          .tag = tag,
                          .number = m->sent[collective][from][to][tag]++};

    uint64_t bytes = size_of(collective, from, to, tag, p->number);
    p->data = malloc(bytes + 1);
    fill(p->data, bytes, seed_of(collective, from, to, tag, p->number));
    cr_assert_eq(collective ? p2p_collective_send(group, &p->op, to, &a, p->data, bytes)
                            : p2p_send(group, &p->op, to, tag, p->data, bytes),
                 TUTTI_OK);
}

static void start_receive(struct model *m, int at, int from, int collective, uint64_t tag)
{
    struct pending *p = take_slot(m, at);
    struct p2p_group *group = m->world->members[at].group;
    uint64_t bytes;

    if (!p)
        return;
    *p = (struct pending){
        .kind = RECEIVE, .at = at, .other = from, .tag = tag, .collective = collective != 0};
    if (!collective && tag >= ANY_TAG) {
        p->number = m->want[at][tag]++; /* the order of posting */
        bytes = size_of(0, 0, at, tag, 0);
    } else {
        p->number = m->received[collective][from][at][tag]++;
        bytes = size_of(collective, from, at, tag, p->number);
    }
    p->data = calloc(1, bytes + 1);
    cr_assert_eq(collective ? p2p_collective_recv(group, &p->op, from, tag, p->data, bytes)
                            : p2p_recv(group, &p->op, from, tag, p->data, bytes),
                 TUTTI_OK);
}

/* Which message of its source this is; the tags of any source say it in their content. */
static void check_received(struct model *m, struct pending *p)
{
    int from = p->op.source;
    uint64_t number = p->number;

    if (!p->collective && p->tag >= ANY_TAG) {
        number = m->received[0][from][p->at][p->tag]++;
        cr_assert(p->other == P2P_ANY_SOURCE || p->other == from);
    } else {
        cr_assert_eq(from, p->other);
    }
    cr_assert(filled(p->data, p->op.bytes, seed_of(p->collective, from, p->at, p->tag, number)),
              "rank %d: %s %d from %d, message %d", p->at, p->collective ? "sequence" : "tag",
              (int)p->tag, from, (int)number);
}

static void finish(struct model *m, struct pending *p)
{
    cr_assert_eq(p->op.status, TUTTI_OK);
    if (p->kind == RECEIVE)
        check_received(m, p);
    free(p->data);
    p->kind = FREE;
    m->completed++;
}

/* Receives of any-source tags are looked at in the order of their posting. */
static struct pending *oldest_any(struct model *m, int at, uint64_t tag)
{
    struct pending *oldest = NULL;

    for (int i = 0; i < m->slots; i++) {
        struct pending *p = &m->pending[at][i];

        if (p->kind == RECEIVE && !p->collective && p->tag == tag &&
            (!oldest || p->number < oldest->number))
            oldest = p;
    }
    return oldest;
}

static void reap(struct model *m)
{
    for (int at = 0; at < MEMBERS; at++) {
        for (int i = 0; i < m->slots; i++) {
            struct pending *p = &m->pending[at][i];
            bool any = p->kind == RECEIVE && !p->collective && p->tag >= ANY_TAG;

            if (p->kind != FREE && !any && p->op.status != TUTTI_ERR_NOT_READY)
                finish(m, p);
        }
        for (uint64_t tag = ANY_TAG; tag < TAGS; tag++) {
            struct pending *p;

            while ((p = oldest_any(m, at, tag)) && p->op.status != TUTTI_ERR_NOT_READY)
                finish(m, p);
        }
    }
}

static void start_something(struct model *m)
{
    struct fake_net *net = &m->world->net;
    int at = (int)(fake_random(net) % MEMBERS);
    int other = (int)((unsigned)at + 1 + fake_random(net) % (MEMBERS - 1)) % MEMBERS;
    int collective = fake_chance(net, 40);
    uint64_t tag = fake_random(net) % (collective ? SEQUENCES : TAGS);

    if (fake_chance(net, 50))
        start_send(m, at, other, collective, tag);
    else if (!collective && tag >= ANY_TAG)
        start_receive(m, at, fake_chance(net, 50) ? P2P_ANY_SOURCE : other, 0, tag);
    else
        start_receive(m, at, other, collective, tag);
}

static void start_counterpart(struct model *m, const struct pending *p)
{
    int c = p->collective, at = p->at, other = p->other;
    uint64_t tag = p->tag;

    if (!c && tag >= ANY_TAG) {
        if (p->kind == SEND)
            start_receive(m, other, P2P_ANY_SOURCE, 0, tag);
        else
            start_send(m, other < 0 ? (at + 1) % MEMBERS : other, at, 0, tag);
    } else if (p->kind == SEND && m->received[c][at][other][tag] <= p->number) {
        start_receive(m, other, at, c, tag);
    } else if (p->kind == RECEIVE && m->sent[c][other][at][tag] <= p->number) {
        start_send(m, other, at, c, tag);
    }
}

/* Sends what posted receives still want and receives what was sent, until nothing is pending. */
static void drain(struct model *m)
{
    static struct pending *waiting[MEMBERS * PENDING];
    unsigned count;

    m->slots = PENDING;
    do {
        count = 0;
        world_settle(m->world);
        reap(m);
        for (int at = 0; at < MEMBERS; at++)
            for (int i = 0; i < m->slots; i++)
                if (m->pending[at][i].kind != FREE)
                    waiting[count++] = &m->pending[at][i];
        for (unsigned i = 0; i < count; i++)
            start_counterpart(m, waiting[i]);
    } while (count);
}

static struct world_options tempers[] = {
    {.members = MEMBERS},
    {.members = MEMBERS, .checksums = true, .busy = 30, .lazy = 30, .at_once = 50},
    {.members = MEMBERS, .checksums = true, .no_cancel = true, .busy = 50, .lazy = 50, .depth = 3},
    {.members = MEMBERS, .checksums = true, .no_progress = true, .busy = 10, .lazy = 50},
    {.members = MEMBERS, .busy = 30, .lazy = 30, .at_once = 50, .depth = 3},
    {.members = MEMBERS, .no_cancel = true, .lazy = 50, .at_once = 20},
    {.members = MEMBERS, .no_progress = true, .busy = 10, .lazy = 50, .maximum = 65536},
    {.members = MEMBERS,
     .no_progress = true,
     .no_cancel = true,
     .busy = 40,
     .lazy = 80,
     .depth = 1},
    {.members = MEMBERS, .at_once = 100, .lazy = 10, .maximum = 100000},
    {.members = MEMBERS, .shows = true, .around = 30},
    {.members = MEMBERS,
     .shows = true,
     .busy = 30,
     .lazy = 30,
     .at_once = 50,
     .around = 50,
     .depth = 3},
    {.members = MEMBERS, .shows = true, .no_cancel = true, .lazy = 50, .at_once = 20},
    {.members = MEMBERS, .shows = true, .pairs = true, .busy = 20, .lazy = 30, .around = 20},
    {.members = MEMBERS, .shows = true, .not_first_shows = true, .busy = 10, .lazy = 30},
};

ParameterizedTestParameters(p2p_random, traffic_of_four_members_arrives_as_the_model_says)
{
    return cr_make_param_array(struct world_options, tempers, sizeof tempers / sizeof *tempers);
}

ParameterizedTest(struct world_options *temper, p2p_random,
                  traffic_of_four_members_arrives_as_the_model_says, .timeout = 60)
{
    struct model *m = calloc(1, sizeof *m);
    struct timespec begin, now;

    m->world = world_new(*temper);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do { /* rounds: the slots fill with operations whose counterparts never come by chance */
        m->slots = PENDING_RANDOM;
        for (int i = 0; i < 300; i++) {
            start_something(m);
            p2p_progress(m->world->members[fake_random(&m->world->net) % MEMBERS].engine);
            reap(m);
        }
        drain(m);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < 2);
    fprintf(stderr, "%u operations\n", m->completed);
    cr_assert_gt(m->completed, 200);
    cr_assert(!temper->pairs || m->world->net.pairs_sent > 10);
    cr_assert_eq(m->world->net.violations, 0, "credit, framing or an order on the wire");
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(m->world->members[i].failures, 0, "%s", m->world->members[i].words);
    world_free(m->world);
    free(m);
}
