/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/layout.h"

#include <stdlib.h>

#include "base/error.h"

/* Numbers hosts by their lowest rank; returns how many there are. Quadratic in hosts, made once. */
static int number_hosts(struct layout *layout, const int *host_of)
{
    int hosts = 0;

    for (int rank = 0; rank < layout->size; rank++) {
        int host = 0;

        /* host_first serves as the list of each host's lowest rank here */
        while (host < hosts && host_of[layout->host_first[host]] != host_of[rank])
            host++;
        if (host == hosts)
            layout->host_first[hosts++] = rank;
        layout->host_of[rank] = host;
    }
    return hosts;
}

static void order_by_host(struct layout *layout)
{
    int *first = layout->host_first;

    for (int host = 0; host <= layout->hosts; host++)
        first[host] = 0;
    for (int rank = 0; rank < layout->size; rank++)
        layout->local_of[rank] = first[layout->host_of[rank] + 1]++;
    for (int host = 0; host < layout->hosts; host++)
        first[host + 1] += first[host];
    for (int rank = 0; rank < layout->size; rank++)
        layout->by_host[first[layout->host_of[rank]] + layout->local_of[rank]] = rank;
}

static void make_peer_sets(struct layout *layout)
{
    layout->leaders = layout->size;
    for (int host = 0; host < layout->hosts; host++)
        if (layout_host_size(layout, host) < layout->leaders)
            layout->leaders = layout_host_size(layout, host);
    for (int set = 0; set < layout->leaders; set++)
        for (int host = 0; host < layout->hosts; host++)
            layout->peers[set * layout->hosts + host] = layout_ranks(layout, host)[set];
}

tutti_status layout_init(struct layout *layout, int size, int rank, const int *host_of)
{
    const size_t n = size > 0 ? (size_t)size : 0;
    int *memory;

    if (size < 1 || rank < 0 || rank >= size)
        return TUTTI_ERR_INVALID_ARGUMENT;
    memory = calloc(5 * n + 1, sizeof *memory); /* leaders * hosts is at most size */
    if (!memory)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the layout of %d members", size);
    *layout = (struct layout){.size = size,
                              .rank = rank,
                              .thresholds = &thresholds_standard,
                              .host_of = memory,
                              .local_of = memory + n,
                              .by_host = memory + 2 * n,
                              .peers = memory + 3 * n,
                              .host_first = memory + 4 * n};
    layout->hosts = number_hosts(layout, host_of);
    order_by_host(layout);
    make_peer_sets(layout);
    layout->host = layout->host_of[rank];
    layout->local = layout->local_of[rank];
    return TUTTI_OK;
}

void layout_free(struct layout *layout)
{
    free(layout->host_of);
    *layout = (struct layout){0};
}
