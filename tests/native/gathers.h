/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of the fake engine while it forms its team, as a library makes them that does not return before: on a
 * thread, one after the other. Options of the plugin: gathers (how many), gathers_fault of the member fault_rank in the last
 * one: "dies" (by SIGKILL), "never" (gives nothing), "wide" (gives more bytes).
 */
#pragma once

#include <tutti/plugin_engine.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GATHERED_MEMBERS_MAX = 16 };

struct gathers {
    const tutti_host *host;
    void *self;
    int rank, size, count;
    char fault[16];
    bool runs;
    _Atomic bool stops, ended;
    tutti_status status;
    pthread_t thread;
};

static inline void gathers_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static inline tutti_status gathers_one(struct gathers *g, int number, bool last)
{
    uint32_t mine[2] = {(uint32_t)(g->rank * 1000 + number), 0}, all[2 * GATHERED_MEMBERS_MAX];
    const uint64_t bytes = last && !strcmp(g->fault, "wide") ? 8 : 4;
    tutti_exchange *exchange;

    if (last && !strcmp(g->fault, "dies"))
        raise(SIGKILL);
    while (last && !strcmp(g->fault, "never") && !atomic_load(&g->stops))
        gathers_nap();
    if (atomic_load(&g->stops))
        return TUTTI_ERR_ABORTED;
    tutti_status status = g->host->gather_start(g->self, mine, bytes, &exchange);
    if (status)
        return status;
    while ((status = g->host->gather_test(g->self, exchange, all)) == TUTTI_ERR_NOT_READY) {
        if (atomic_load(&g->stops))
            return TUTTI_ERR_ABORTED;
        gathers_nap();
    }
    for (int r = 0; !status && r < g->size; r++)
        if (all[r] != (uint32_t)(r * 1000 + number))
            status = TUTTI_ERR_INTERNAL;
    return status;
}

static void *gathers_run(void *user)
{
    struct gathers *g = user;

    for (int i = 0; i < g->count && !g->status; i++)
        g->status = gathers_one(g, i, i == g->count - 1);
    atomic_store(&g->ended, true);
    return NULL;
}

static inline tutti_status gathers_begin(struct gathers *g, const tutti_host *host, void *self,
                                         const tutti_team_options *options)
{
    const char *count = host->config(self, "gathers"), *fault = host->config(self, "gathers_fault"),
               *who = host->config(self, "fault_rank");

    *g = (struct gathers){.host = host,
                          .self = self,
                          .rank = options->rank,
                          .size = options->size,
                          .count = count ? atoi(count) : 0};
    if (fault && who && atoi(who) == options->rank)
        strncpy(g->fault, fault, sizeof g->fault - 1);
    g->runs = g->count && !pthread_create(&g->thread, NULL, gathers_run, g);
    return g->count && !g->runs ? host->error(self, TUTTI_ERR_SYSTEM, 0, "cannot start a thread")
                                : TUTTI_OK;
}

static inline tutti_status gathers_test(const struct gathers *g)
{
    return !g->runs ? TUTTI_OK : !atomic_load(&g->ended) ? TUTTI_ERR_NOT_READY : g->status;
}

/* No service of the host is used afterwards. */
static inline void gathers_end(struct gathers *g)
{
    atomic_store(&g->stops, true);
    if (g->runs)
        pthread_join(g->thread, NULL);
    g->runs = false;
}
