/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that cross between hosts: a member's block is taken care of, on every other host, by its
 * counterpart there: the member of its own local index, or where the host has fewer, of that index
 * modulo their number. So all members of a host send and receive, whatever the others' numbers are.
 */
#pragma once

#include "algorithm/layout.h"
#include "algorithm/parts.h"

/* The rank of `rank`'s counterpart on `host`; on its own host that is itself. */
static inline int counterpart_of(const struct layout *layout, int rank, int host)
{
    return layout_ranks(layout, host)[layout->local_of[rank] % layout_host_size(layout, host)];
}

/* The member of `host` that the local peer `local` of this host is the counterpart of, as the `row`-th of
 * such; -1: none. */
static inline int counterpart_in_row(const struct layout *layout, int host, int row, int local)
{
    const int index = row * layout_host_size(layout, layout->host) + local;

    return index < layout_host_size(layout, host) ? layout_ranks(layout, host)[index] : -1;
}

/* The largest number of members of `host` that have one member of this host as their
 * counterpart. */
static inline int counterpart_rows(const struct layout *layout, int host)
{
    const int members = layout_host_size(layout, layout->host);

    return (layout_host_size(layout, host) + members - 1) / members;
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
        const uint64_t members = layout_host_size(layout, host), away = layout->size - members;
        const uint64_t own = members * (layout->hosts - 1);

        most = max_u64(most, max_u64(own, away));
    }
    return most;
}

/* The messages that a member of the smallest host sends and receives at once: its block to or from
 * each other host, and those of the members that it is the counterpart for. The first message in
 * either direction is a step of its own. */
static inline uint64_t counterpart_messages(const struct layout *layout)
{
    return layout->hosts - 2 + pieces_in(layout->size - layout->leaders, layout->leaders) - 1;
}
