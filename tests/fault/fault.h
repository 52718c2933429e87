/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fault tests share: over what ranks are connected, and what all survivors must have in
 * common. Nobody tells the ranks what was done to one of them: the time runs from the signal to
 * each survivor's return.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <criterion/criterion.h>

#include "harness/launch.h"

enum { FAULT_RANKS_MAX = 16, FAULT_BUDGET_MS = 1000, FAULT_TEST_S = 100, FAULT_FOLDER_MAX = 32 };

/* Over what ranks are connected. */
struct fault_way {
    const char *name;
    const char *backend;
    const char *host_of[FAULT_RANKS_MAX]; /* TUTTI_HOST; the first NULL: all on one host */
    const char *mpi;                      /* as in ranks_options */
    bool has_gpus;                        /* those of the stand-in for CUDA's driver */
};

extern const struct fault_way fault_shm, fault_tcp, fault_gloo, fault_ucx, fault_ucc,
    fault_composed, fault_openmpi, fault_mpich, fault_gpus;

/* A test for each way: NAME_over_shm, NAME_over_tcp, NAME_composed. The body sees `way`. */
#define FAULT_TEST(suite, name)                                                                    \
    static void fault_##suite##_##name(const struct fault_way *way);                               \
    Test(suite, name##_over_shm, .timeout = FAULT_TEST_S)                                          \
    {                                                                                              \
        fault_##suite##_##name(&fault_shm);                                                        \
    }                                                                                              \
    Test(suite, name##_over_tcp, .timeout = FAULT_TEST_S)                                          \
    {                                                                                              \
        fault_##suite##_##name(&fault_tcp);                                                        \
    }                                                                                              \
    Test(suite, name##_composed, .timeout = FAULT_TEST_S)                                          \
    {                                                                                              \
        fault_##suite##_##name(&fault_composed);                                                   \
    }                                                                                              \
    static void fault_##suite##_##name(const struct fault_way *way)

/* The same, and over each engine that is not ours, where there is one: for all that goes through a backend. */
#define FAULT_TEST_OVER(suite, name, engine)                                                       \
    Test(suite, name##_over_##engine, .timeout = FAULT_TEST_S)                                     \
    {                                                                                              \
        if (ranks_lack(#engine))                                                                   \
            cr_skip_test("%s", ranks_lack(#engine));                                               \
        fault_##suite##_##name(&fault_##engine);                                                   \
    }
#define FAULT_TEST_WITH_ENGINES(suite, name)                                                       \
    static void fault_##suite##_##name(const struct fault_way *way);                               \
    FAULT_TEST_OVER(suite, name, gloo)                                                             \
    FAULT_TEST_OVER(suite, name, ucc)                                                              \
    FAULT_TEST_OVER(suite, name, ucx)                                                              \
    FAULT_TEST(suite, name)

/* The same, and in a job of each MPI. */
#define FAULT_TEST_EVERYWHERE(suite, name)                                                         \
    static void fault_##suite##_##name(const struct fault_way *way);                               \
    FAULT_TEST_OVER(suite, name, openmpi)                                                          \
    FAULT_TEST_OVER(suite, name, mpich)                                                            \
    FAULT_TEST_WITH_ENGINES(suite, name)

/* The test again, which is defined before this, with a GPU for each rank. */
#define FAULT_TEST_WITH_GPUS(suite, name)                                                          \
    Test(suite, name##_with_gpus, .timeout = FAULT_TEST_S)                                         \
    {                                                                                              \
        fault_##suite##_##name(&fault_gpus);                                                       \
    }

/* Starts `size` ranks of a case of `program`; `env` is a list ended by NULL, or NULL. The test
 * fails when they cannot be started. */
struct ranks *fault_start(const struct fault_way *way, const char *program, const char *case_name,
                          int size, const char *const *env);

/* Lets all ranks go into init at once, when all are there; FAULT_TOGETHER is in their environment. */
#define FAULT_TOGETHER "TUTTI_TEST_TOGETHER=1"
void fault_join_together(struct ranks *ranks);

/* Waits until the rank's offer for the world is in the store: from then on the others know it. */
void fault_await_offer(struct ranks *ranks, int rank);
/* The same for a key of the world's ("decision/1"), in the store at `port`; 0: the test's own. */
void fault_await_key(struct ranks *ranks, uint16_t port, const char *name);

/* What is expected of those that live on. */
struct fault_expected {
    int size;
    uint32_t gone;        /* bit r: rank r is not asked */
    const char *status;   /* "TUTTI_ERR_PEER_LOST" */
    const char *parts[4]; /* that the words contain */
    int64_t from_ns;      /* CLOCK_MONOTONIC */
    int budget_ms;        /* of fault_within(); 0: not limited */
    /* Parts that depend on answers in time: expected unless the machine withheld `in_time_ms` or more from
     * `in_time_ns` until the last returned. */
    const char *parts_in_time[2];
    int64_t in_time_ns;
    int in_time_ms;
};

/*
 * Waits for the survivors and checks that all returned, in time, the same status and the same
 * words; prints how long the last one took.
 */
void fault_expect(struct ranks *ranks, const struct fault_expected *expected);

/*
 * Whether `rank` returned within `budget_ms` after `from_ns`, not counting what the machine withheld
 * (ranks_withheld_ms()); prints how long it took. Budgets are those of a build without instruments: with
 * them the run's own deadline is the limit.
 */
bool fault_within(const struct ranks *ranks, int rank, int64_t from_ns, int budget_ms);

/* All but the victim, of `size`, say that it was lost; then as fault_finish(). */
void fault_expect_lost(struct ranks *ranks, int size, int victim, int64_t from_ns);

/* A new folder with a copy of a file of the build's libraries, and nothing else; NULL: nothing. */
void fault_make_folder(const char *file, char ret_folder[static FAULT_FOLDER_MAX]);
void fault_remove_folder(const char *folder);

/* CLOCK_MONOTONIC. */
int64_t fault_now_ns(void);

/* The stopped rank goes on: all end as `expected`, however long it takes; then as fault_finish(). */
void fault_expect_of_stopped(struct ranks *ranks, int victim,
                             const struct fault_expected *expected);

/* Nothing of the run is left; frees it. Those that are stopped are ended first. */
void fault_finish(struct ranks *ranks);
