/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of messages over NCCL share. */
#pragma once

#include "rank/twins.h"

enum {
    ELEMENTS = 16384, /* 64 KiB */
    LONG = 1300001,   /* 4.96 MiB */
    BY_NCCL = 1
};

static inline tutti_group *begin(int rank, int size, tutti_options *ret_options)
{
    char host[16];

    if (gpu_count() < size) { /* NCCL takes those that share a GPU for such of several hosts */
        snprintf(host, sizeof host, "rank%d", rank);
        setenv("NCCL_HOSTID", host, 1);
    }
    tutti_group *world = twins_begin(rank);
    *ret_options = (tutti_options)TUTTI_OPTIONS_INIT;
    ret_options->stream = gpu_stream();
    return world;
}

/* The vector holds what the twins of that salt begin with. */
static inline void expect(struct twins *t, int salt, const char *what)
{
    void *const on_device = t->on_device;

    t->on_device = gpu_allocate((size_t)t->count * sizeof *t->on_host);
    twins_fill(t, salt);
    gpu_free(t->on_device);
    t->on_device = on_device;
    twins_check(t, what);
}

/* How the last message went. */
static inline void expect_way(tutti_group *world, bool by_nccl)
{
    check_eq(!strcmp(rank_served_by(world), "nccl message"), by_nccl);
}

/* Of 64 KiB and some elements more each. */
static inline void make_all(struct twins *t, int count, int salt)
{
    for (int i = 0; i < count; i++)
        twins_make(&t[i], ELEMENTS + i, salt + i);
}

static inline void free_all(struct twins *t, int count)
{
    for (int i = 0; i < count; i++)
        twins_free(&t[i]);
}
