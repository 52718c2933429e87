/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a job under attack is started: by which launcher, over which backend, on how many hosts. A
 * way decides where the job's secret comes from.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "harness/launch.h"
#include "harness/net.h"

#define WAY_SECRET "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f91"

enum { WAY_RANKS = 4 };

struct way {
    enum {
        BY_HAND,    /* with TUTTI_SECRET; the test serves the store */
        OPEN_STORE, /* as BY_HAND, but with the user's own secret, and the store takes everybody */
        TUTTI_RUN,  /* a secret for the job */
        MPIRUN,     /* another one */
        TORCHRUN    /* the user's own secret. TUTTI_TEST_TORCHRUN names it. */
    } launcher;
    const char *backend;
    int hosts; /* half of the ranks on each; one more is the attacker's */
    bool encrypted;
    bool apart; /* on one host the halves say that they are on two: local peers and tcp */
};

/* The bytes of WAY_SECRET. */
extern const uint8_t way_secret_bytes[32];

/* Why it cannot be; NULL: it can. */
const char *way_lack(const struct way *way);
/* The case of rank_attacked, by WAY_RANKS ranks. NULL: it cannot be started. */
struct ranks *way_start(const struct way *way, const struct net *net, const char *case_name);
/* Behind its last job. */
void way_end(const struct way *way);
/* Whether the job is one process, which starts the ranks. */
bool way_is_launched(const struct way *way);
/* Whether there are listeners on its hosts that are not tutti's to guard. */
bool way_has_ports_of_others(const struct way *way);
/* The secret if the test has given it; NULL: it was made for the job. */
const uint8_t *way_secret(const struct way *way);
