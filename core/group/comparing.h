/* SPDX-License-Identifier: Apache-2.0 */
/* The announcements that a member keeps to compare its calls with those of members that it does not
 * meet in messages. */
#pragma once

#include <stdint.h>

#include "base/call.h"

/* Of another member, numbers of calls; 0: none. */
struct peer_calls {
    uint64_t sent;     /* the last that this member announced to it, without a message */
    uint64_t queried;  /* the last that it asked about, and has no answer to */
    uint64_t received; /* the last that is known of it */
    uint64_t agreed;   /* the last that was the same as this member's, with all before it */
};

enum {
    GROUP_CALLS_KEPT = 64,  /* own calls, to compare late announcements with */
    GROUP_FUTURES_KEPT = 8, /* announcements kept of each member that is ahead */
    SAMPLES_KEPT = 16
};

struct announced {
    struct peer_calls *peers; /* [size] */
    uint64_t pending;         /* the first that was queried and is not called yet; 0: none */

    /* Calls of an engine that are announced though no member waits. */
    uint64_t next_sample; /* the next call from this number on is announced */
    unsigned samples;     /* ever kept */
    struct announce kept[SAMPLES_KEPT];
};

/* Under the progress lock. */
struct group_comparing {
    struct announce calls[GROUP_CALLS_KEPT]; /* own ones */
    struct announce *futures;                /* [size * GROUP_FUTURES_KEPT] */
    uint64_t last_future; /* no member has announced a later call that is kept there */
    struct announced announced;
};
