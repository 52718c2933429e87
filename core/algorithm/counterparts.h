/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that cross between hosts: a member's block is taken care of, on every other host, by its
 * counterpart there: the member of its own local index, or where the host has fewer, of that index
 * modulo their number. So all members of a host send and receive, whatever the others' numbers are.
 */
#ifndef TUTTI_ALGORITHM_COUNTERPARTS_H
#define TUTTI_ALGORITHM_COUNTERPARTS_H

#include "algorithm/layout.h"
#include "algorithm/parts.h"

/* The rank of `rank`'s counterpart on `host`; on its own host that is itself. */
static inline int counterpart_of(const struct layout *layout, int rank, int host)
{
    return layout_ranks(layout, host)[layout->local_of[rank] % layout_mates(layout, host)];
}

/* For how many members of `host` a member of this host is the counterpart, at most. */
static inline int counterpart_rows(const struct layout *layout, int host)
{
    const int mates = layout_mates(layout, layout->host);

    return (layout_mates(layout, host) + mates - 1) / mates;
}

/* The other hosts, one after the other, beginning with my neighbours: to send to, to receive from. */
static inline int host_after(const struct layout *layout, int step)
{
    return (layout->host + step) % layout->hosts;
}

static inline int host_before(const struct layout *layout, int step)
{
    return (layout->host - step + layout->hosts) % layout->hosts;
}

/* Blocks that the busiest host sends or receives, where each of a host's goes to every other. */
static inline uint64_t counterpart_traffic(const struct layout *layout)
{
    uint64_t most = 0;

    for (int host = 0; host < layout->hosts; host++) {
        const uint64_t mates = layout_mates(layout, host), away = layout->size - mates;
        const uint64_t own = mates * (layout->hosts - 1);

        most = own > most ? own : most;
        most = away > most ? away : most;
    }
    return most;
}

/* What a member of the smallest host sends and receives at once: its block to or from each other
 * host, and those that it is the counterpart for. The first of either is a step of its own. */
static inline uint64_t counterpart_messages(const struct layout *layout)
{
    return layout->hosts - 2 + pieces_in(layout->size - layout->leaders, layout->leaders) - 1;
}

#endif
