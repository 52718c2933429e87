/* SPDX-License-Identifier: Apache-2.0 */
/* `struct world`: members that each have an engine, a path to each other over fake_transport.h, and one group. */
#pragma once

#include <stdio.h>
#include <time.h>

#include "fake_transport.h"
#include "provider/checksum.h"

struct world_options {
    int members;
    bool no_cancel, no_progress;
    bool shows;           /* send_short, show and take are there */
    bool pairs;           /* so are send_pair and take_pair */
    bool not_first_shows; /* but not in the first member's transport */
    bool checksums;
    int busy, lazy, at_once, around;
    unsigned depth;                    /* 0: no limit */
    uint64_t maximum;                  /* max_message */
    uint64_t pieces[FAKE_MEMBERS_MAX]; /* piece_bytes of each member's transport */
    bool no_cancel_first;              /* the first member's has none */
    uint64_t seed;                     /* 0: of the clock, or TUTTI_TEST_SEED */
    const struct p2p_events *events;   /* of the members' first groups; NULL: member_events */
};

struct member {
    struct p2p_engine *engine;
    struct p2p_group *group;
    struct p2p_path *paths[FAKE_MEMBERS_MAX];
    const tutti_transport_ops *ops;
    tutti_endpoint *endpoint;
    unsigned announces;
    struct announce last;
    int failed_source;
    tutti_status failed_status;
    unsigned failures;
    char words[256];
};

struct world {
    struct fake_net net;
    struct member members[FAKE_MEMBERS_MAX];
};

static inline void member_announce(void *user, int source, const struct announce *a)
{
    struct member *member = user;

    (void)source;
    member->announces++;
    member->last = *a;
}

static inline void member_peer_failed(void *user, int source, tutti_status status,
                                      const char *words)
{
    struct member *member = user;

    member->failures++;
    member->failed_source = source;
    member->failed_status = status;
    snprintf(member->words, sizeof member->words, "%s", words);
}

static const struct p2p_events member_events = {.announce = member_announce,
                                                .peer_failed = member_peer_failed};

static inline uint64_t world_seed(uint64_t wanted)
{
    const char *given = getenv("TUTTI_TEST_SEED");
    struct timespec now;

    if (given)
        return strtoull(given, NULL, 0) | 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (wanted ? wanted : (uint64_t)now.tv_nsec * 2654435761u) | 1;
}

static inline struct p2p_group *world_group_of(struct world *world, int rank, uint32_t id,
                                               const struct p2p_events *events)
{
    struct member *member = &world->members[rank];
    struct p2p_group *group = NULL;

    if (p2p_group_new(member->engine, id, rank, world->net.members, member->paths, events, member,
                      &group) != TUTTI_OK)
        return NULL;
    return group;
}

static inline struct p2p_group *world_group(struct world *world, int rank, uint32_t id)
{
    return world_group_of(world, rank, id, &member_events);
}

static inline void world_add_path(struct world *world, int from, int to)
{
    struct member *member = &world->members[from];
    tutti_peer *peer;

    if (member->ops->connect(member->endpoint, NULL, 0, (uint64_t)to, &peer) ||
        p2p_engine_add_path(member->engine, 0, peer, to, world->net.members, &member->paths[to]))
        abort();
}

static inline struct world *world_new(struct world_options options)
{
    struct world *world = calloc(1, sizeof *world);
    struct fake_net *net = &world->net;

    net->random = world_seed(options.seed);
    fprintf(stderr, "TUTTI_TEST_SEED=%llu\n", (unsigned long long)net->random);
    net->members = options.members;
    net->busy = options.busy;
    net->lazy = options.lazy;
    net->at_once = options.at_once;
    net->around = options.around;
    net->checksums = options.checksums;
    net->depth = options.depth ? options.depth : 1000000;
    net->ops = (tutti_transport_ops){.struct_size = sizeof net->ops,
                                     .max_message = options.maximum,
                                     .lanes = 1,
                                     .connect = fake_connect,
                                     .close = fake_close,
                                     .isend = fake_isend,
                                     .irecv = fake_irecv,
                                     .test = fake_test,
                                     .progress = options.no_progress ? NULL : fake_progress};
    if (options.shows) {
        net->ops.short_bytes = FAKE_SHORT;
        net->ops.send_short = fake_send_short;
        net->ops.take = fake_take;
    }
    if (options.pairs) {
        net->ops.send_pair = fake_send_pair;
        net->ops.take_pair = fake_take_pair;
    }
    for (int a = 0; a < options.members; a++) {
        struct member *member = &world->members[a];
        struct tutti_endpoint *endpoint = fake_endpoints(net, a);
        unsigned index;

        endpoint->done_count = 0;
        member->ops = &net->ops;
        member->endpoint = endpoint;
        net->ops.piece_bytes = options.pieces[a];
        net->ops.show = options.shows && (a || !options.not_first_shows) ? fake_show : NULL;
        net->ops.cancel =
            options.no_cancel || (options.no_cancel_first && a == 0) ? NULL : fake_cancel;
        net->shows |= (net->ops.show != NULL) << a;
        if ((options.checksums && checksum_transport(&member->ops, &member->endpoint)) ||
            p2p_engine_new(&member->engine) ||
            p2p_engine_add_endpoint(member->engine, member->ops, member->endpoint, &index))
            abort();
    }
    for (int a = 0; a < options.members; a++) {
        for (int b = 0; b < options.members; b++)
            if (a != b)
                world_add_path(world, a, b);
        world->members[a].group =
            world_group_of(world, a, 1, options.events ? options.events : &member_events);
    }
    return world;
}

static inline unsigned world_step(struct world *world)
{
    unsigned moved = 0;

    for (int i = 0; i < world->net.members; i++)
        moved += p2p_progress(world->members[i].engine);
    return moved;
}

/* Until nothing has moved for a while, however lazy the net is. */
static inline void world_settle(struct world *world)
{
    for (int quiet = 0; quiet < 50; quiet++)
        if (world_step(world))
            quiet = 0;
}

static inline void world_free(struct world *world)
{
    for (int i = 0; i < world->net.members; i++)
        p2p_group_free(world->members[i].group);
    for (int a = 0; a < world->net.members; a++)
        for (int b = 0; b < world->net.members; b++)
            fake_break(&world->net, a, b, TUTTI_ERR_PEER_LOST);
    for (int i = 0; i < world->net.members; i++) {
        p2p_engine_free(world->members[i].engine);
        world->members[i].ops->close(world->members[i].endpoint);
    }
    free(world);
}

static inline void fill(uint8_t *data, uint64_t bytes, uint64_t seed)
{
    uint64_t value = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (uint64_t i = 0; i < bytes; i++) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407u;
        data[i] = (uint8_t)(value >> 56);
    }
}

static inline bool filled(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
    uint64_t value = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (uint64_t i = 0; i < bytes; i++) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407u;
        if (data[i] != (uint8_t)(value >> 56))
            return false;
    }
    return true;
}
