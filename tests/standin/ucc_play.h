/* SPDX-License-Identifier: Apache-2.0 */
/* A member of a job that uses UCC directly; ucc_play.c says how. */
#pragma once

#include "ucc/ucc_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { PLAYERS_MAX = 8, CHANNELS = 16, GATHER_MAX = 4096, WAIT_S = 60 };

/* The library's functions by name: `library.context_progress(…)`. */
#define MEMBER(result, name, params) result(*name) params;
struct library {
    UCCI_FUNCTIONS(MEMBER)
};
#undef MEMBER
extern struct library library;

/* Where members gather bytes, in memory that all have. One channel for the context and one for each team. */
struct channel {
    _Atomic uint64_t arrived[PLAYERS_MAX];
    uint8_t data[2][PLAYERS_MAX][GATHER_MAX];
};
struct board {
    struct channel channels[CHANNELS];
    _Atomic uint64_t flags[PLAYERS_MAX]; /* of a case's own */
    _Atomic bool dies[PLAYERS_MAX];      /* as the case wants it */
};

/* An all-gather's caller: `members` of the job, of which this process is the `place`-th. */
struct gatherer {
    struct channel *channel;
    uint32_t members, place;
    uint64_t rounds;
    int patience_ms; /* then it fails */
};

struct player {
    struct board *board;
    uint32_t size, rank;
    ucci_lib_h lib;
    ucci_context_h context;
    ucci_team_h world;
    struct gatherer for_context, for_world;
    bool ended; /* nothing is left that end_world() has to give back */
};

/* Ends the process with words. */
_Noreturn void fail(const struct player *player, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define CHECK(player, what, ...)                                                                   \
    do {                                                                                           \
        if (!(what))                                                                               \
            fail(player, __VA_ARGS__);                                                             \
    } while (0)

double now_s(void);
ucci_oob oob_of(struct gatherer *gatherer);
/* Makes the library, the context, or the team of `places` (ascending; NULL for all), with an end to each wait. */
void make_library(struct player *player);
ucci_status make_context(struct player *player);
void make_world(struct player *player);
ucci_team_h make_team(struct player *player, struct gatherer *gatherer);
void end_world(struct player *player);
/* Moves the library until the operation has ended, or for `seconds`. Returns its status. */
ucci_status finish(struct player *player, ucci_request *request, double seconds);
/* Begins an operation of the team, which has to be possible. */
ucci_request *begin(struct player *player, ucci_team_h team, ucci_coll_args *args);
/* The same, waits for its end, which has to be good, and gives it back. */
void perform(struct player *player, ucci_team_h team, ucci_coll_args *args);

/* Cases: every collective, type, operation and size (ucc_play_grid.c); the rules (ucc_play_rules.c). */
void play_grid(struct player *player);
void play_rounds(struct player *player);
void play_refusals(struct player *player);
void play_empty(struct player *player);
void play_order(struct player *player);
void play_teams(struct player *player);
void play_threads(struct player *player);
void play_spoilt(struct player *player);
void play_dead(struct player *player);
void play_absent(struct player *player);
void play_sum(struct player *player);
