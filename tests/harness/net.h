/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces as hosts: each has an interface eth0 with an address of 10.77.0.0/24 and a
 * default route, all are on one switch, and a link can be cut and restored. Needs root and
 * iproute2.
 *
 *     char reason[256];
 *     struct net *net = net_create(2, reason, sizeof reason);
 *     if (!net)
 *         cr_skip_test("%s", reason);
 *     ranks_start(&(struct ranks_options){…, .address = net_address(net, 0),
 *         .netns = (const char *[]){net_name(net, 0), net_name(net, 0), net_name(net, 1)}});
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { NET_HOSTS_MAX = 16 };

struct net;

/* NULL, and why in `ret_reason`: not allowed here, or no tools. */
struct net *net_create(int hosts, char *ret_reason, size_t size);
/* NULL is allowed. */
void net_destroy(struct net *net);
const char *net_name(const struct net *net, int host);
const char *net_address(const struct net *net, int host);
/* Cuts the host off without either side being told, as a pulled cable of the switch would; restores
 * it.
 */
bool net_cut(struct net *net, int host);
bool net_mend(struct net *net, int host);

/* Cuts the link between two hosts alone, in both directions and without either side being told;
 * restores it. */
bool net_cut_link(struct net *net, int a, int b);
bool net_mend_link(struct net *net, int a, int b);

/* The namespace as a descriptor, -1: there is none. */
int net_open(const char *name);
/* Moves the calling thread there; returns what net_leave() takes, -1: it could not. */
int net_enter(const char *name);
void net_leave(int back);
