/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What crosses a network, read by a packet socket as tcpdump does. Needs root.
 *
 *     struct sniff *sniff = sniff_start(net_name(net, 0), reason, sizeof reason);
 *     … ranks talk …
 *     sniff_stop(sniff);
 *     cr_expect_not(sniff_saw(sniff, secret, sizeof secret));
 *     sniff_free(sniff);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sniff;

/* Reads all packets of the network namespace from now on, on all its interfaces. NULL, and why in
 * `ret_reason`. */
struct sniff *sniff_start(const char *netns, char *ret_reason, size_t size);
/* Reads what has come until now, and no more. False: some packets were missed. */
bool sniff_stop(struct sniff *sniff);
/* The bytes that were read, headers included. */
size_t sniff_bytes(const struct sniff *sniff);
/* Whether these bytes were in one of the packets, one behind the other. */
bool sniff_saw(const struct sniff *sniff, const void *bytes, size_t count);
void sniff_free(struct sniff *sniff);
