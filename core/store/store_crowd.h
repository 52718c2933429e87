/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections of unknown clients a store's server holds, and of which addresses. They may have
 * half of the process's descriptors, so that the others stay for members. When they have as many, a
 * newcomer takes the place of the oldest one of the address that holds most: an address that takes many
 * pushes out itself, and not others.
 *
 * Addresses are told apart by a hash in so few bits that two may count as one. Of an IPv6 address the
 * first 64 bits count, as one host has all addresses of its network. An attacker can choose addresses that
 * count with those of others only if it has many.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { STORE_CROWD_GROUPS = 256, STORE_CROWD_MAX = 16384 };

struct store_crowd {
    unsigned limit, count;
    unsigned of_group[STORE_CROWD_GROUPS];
};

void store_crowd_init(struct store_crowd *crowd);
/* The group of the address at the other end of a connection. */
uint8_t store_crowd_group(int fd);
void store_crowd_enter(struct store_crowd *crowd, uint8_t group);
void store_crowd_leave(struct store_crowd *crowd, uint8_t group);
static inline bool store_crowd_is_full(const struct store_crowd *crowd)
{
    return crowd->count >= crowd->limit;
}
/* The group that holds most. */
uint8_t store_crowd_largest(const struct store_crowd *crowd);
