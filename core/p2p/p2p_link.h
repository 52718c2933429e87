/* SPDX-License-Identifier: Apache-2.0 */
/* Lists through members of their elements: a ring whose head is a link, too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "p2p/p2p.h"

#define P2P_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void p2p_link_init(struct p2p_link *link)
{
    link->prev = link->next = link;
}

static inline bool p2p_link_alone(const struct p2p_link *link)
{
    return link->next == link;
}

static inline void p2p_link_append(struct p2p_link *list, struct p2p_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

/* Leaves `link` alone, so that taking it out twice does no harm. */
static inline void p2p_link_remove(struct p2p_link *link)
{
    link->prev->next = link->next; /* NOLINT: lists are closed, so there is always a neighbour */
    link->next->prev = link->prev;
    p2p_link_init(link);
}

#define P2P_FIRST(list, type, member)                                                              \
    (p2p_link_alone(list) ? NULL : P2P_OF((list)->next, type, member))
