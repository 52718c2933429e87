/* SPDX-License-Identifier: Apache-2.0 */
/* How the members of a group reach each other: by which backends, which way each call goes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

#include "dispatch/dispatch.h"
#include "p2p/p2p.h"
#include "plugin/backend.h"
#include "plugin/host.h"
#include "schedule/mapped.h"

struct native;
struct wrappers;

/* Backends by their numbers in the choice: inside a host, between hosts, those that rules name; beside
 * them whole operations of an engine. */
enum {
    LOCAL = BACKEND_LOCAL,
    REMOTE = BACKEND_REMOTE,
    TRANSPORTS = BACKEND_NAMES_MAX,
    NATIVE = TRANSPORTS,
    DEVICE_NATIVE, /* the same of tensors on devices, by an engine that takes them where they are */
    PROVIDERS,
    ROUTES_MAX = BACKEND_RULES_MAX + 1
};

/* A transport that is open for a group. */
struct endpoint {
    struct host_user user;
    const tutti_transport_ops *ops; /* NULL: this level is not used */
    const tutti_cost *cost;         /* of its messages */
    tutti_endpoint *endpoint;
    tutti_endpoint *inmost; /* the plugin's own, behind wrappers */
    unsigned index;         /* in the p2p engine */
    int32_t wait_fd;        /* -1: none */
};

/* The ways to members by one backend. The arrays are NULL where no route takes it. */
struct link {
    tutti_peer **peers;      /* [size] */
    struct p2p_path **paths; /* [size] */
};

/* How calls reach all members: by which backends, and a space of messages in the group's engine. */
struct route {
    struct backend_way way;
    bool on_device; /* its engine is that of devices */
    struct p2p_group *p2p;
    struct group_facts facts;
    char composed[2 * (PLUGIN_NAME_MAX + 1)]; /* "shm+tcp": the carriers of composed calls */
};

/* Number 0 is the group's own, the others are those of calls that rules take. Fixed when the group is made;
 * routes.c. */
struct routes {
    struct route each[ROUTES_MAX];
    int count; /* 0 in a group of one, which has its own all the same */
    int of_rule[BACKEND_RULES_MAX];
    const struct backend_rule *message_rule; /* NULL: messages go the group's own way */
    const char *message_words;               /* that rule's, for their records; NULL: none */
    int message_route;                       /* by which they go */
    struct link links[TRANSPORTS];
};

/* How messages with another member go, and what this member has seen of its connections. */
struct member {
    const char *carrier;  /* the backend of messages with it; "self" */
    bool gone;            /* left in order, and its paths were ended */
    int64_t suspected_ns; /* when a connection ended without a reason yet; 0: never */
    int64_t doubted_ns;   /* how long since, of the time in which this process looked */
    char *suspicion;      /* what its provider said of that; NULL: nothing */
    uint64_t arrived;     /* of it, when it was looked at last */
    bool link_lost;       /* suspected, since the network to it does not answer */
};

/* Fixed when the group is made, but for what becomes of members; under the progress lock. */
struct group_ways {
    struct wrappers *wrappers; /* the world's; NULL: none */
    tutti_wrapped_group wrapped;
    struct member *members; /* [size] */
    bool any_suspect;       /* of the members */
    int64_t judged_ns;      /* when they were looked at last */
    struct endpoint endpoints[TRANSPORTS];
    struct native *native;        /* NULL: no engine does whole operations */
    struct native *device_native; /* NULL: none does them on devices */
    _Atomic uint64_t device_way;  /* how calls of one kind use tensors there; 0: not yet known */
    struct p2p_engine *p2p_engine;
    struct routes routes;
    int map_level; /* whose memory the local peers map, if its backend maps any */
    tutti_map *map;
    struct mapped mapped;
    bool has_mapped;
};

/* Whether an engine does calls of the group, which nobody compares on the way. */
static inline bool ways_have_engine(const struct group_ways *ways)
{
    return ways->native || ways->device_native;
}
