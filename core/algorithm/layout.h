/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which members share a host, in the forms that composed algorithms need, and the thresholds by
 * which algorithms are chosen. Fixed when a group is made, the same on every member but for `rank`,
 * `host` and `local`.
 */
#pragma once

#include <tutti/status.h>

#include "algorithm/thresholds.h"

struct layout {
    int size, rank; /* of the group, of this member */
    int hosts;
    int host;    /* this member's */
    int local;   /* its index among its local peers */
    int leaders; /* the smallest host's members: so many peer sets work in parallel */

    /* The group's: the standard ones, unless they are replaced. */
    const struct thresholds *thresholds;

    int *host_of;    /* [size]  0 .. hosts-1, numbered by their lowest rank; holds all arrays */
    int *local_of;   /* [size]  index among the local peers, ascending with the rank */
    int *host_first; /* [hosts + 1]  where a host's members begin in by_host */
    int *by_host;    /* [size]  ranks, host by host, ascending */
    int *peers;      /* [leaders * hosts]  peer set i: the member of local index i of each host */
};

/*
 * `host_of[size]`: any numbers; equal ones share a host. TUTTI_ERR_INVALID_ARGUMENT for a rank
 * outside the size, TUTTI_ERR_NO_MEMORY.
 */
tutti_status layout_init(struct layout *layout, int size, int rank, const int *host_of);
void layout_free(struct layout *layout);

static inline int layout_host_size(const struct layout *layout, int host)
{
    return layout->host_first[host + 1] - layout->host_first[host];
}

static inline const int *layout_ranks(const struct layout *layout, int host)
{
    return layout->by_host + layout->host_first[host];
}

/* The members of the fullest host. */
static inline int layout_fullest(const struct layout *layout)
{
    int most = 1; /* a host has a member */

    for (int host = 0; host < layout->hosts; host++)
        if (layout_host_size(layout, host) > most)
            most = layout_host_size(layout, host);
    return most;
}
