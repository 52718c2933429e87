/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped algorithms with a thread per member and nothing between them but the mapped memory:
 * what the simulator cannot show, the order in which one core sees what another wrote. Made for
 * ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sim.h"

/* The last number of threads is one that takes rounds. */
enum { THREADS_FEW = 5, THREADS_MAX = 8, CALLS = 100, DEADLINE_S = 300 };

static struct sim_op ops[CALLS];

struct actor {
    struct sim_world world; /* of its own, but for the memory of the areas */
    int rank;
    pthread_t thread;
};

static struct sim_op random_op(struct sim_world *world)
{
    static const uint64_t limits[] = {1, 12, 1024, 9000, 100000};

    /* All but the monitored barrier, which goes by messages on one host, too. */
    return (struct sim_op){.operation =
                               (enum operation)(1 + sim_below(world, OPERATION_ALL_TO_ALL)),
                           .dtype = sim_below(world, 2) ? TUTTI_F32 : TUTTI_I32,
                           .op = sim_below(world, 2) ? TUTTI_SUM : TUTTI_MAX,
                           .root = (int)sim_below(world, (uint64_t)world->size),
                           .count = sim_below(world, 1 + limits[sim_below(world, 5)]),
                           .in_place = sim_below(world, 2)};
}

static void *act(void *user)
{
    struct actor *actor = user;
    struct sim_member *member = &actor->world.members[actor->rank];
    const int64_t deadline = clock_now_ns() + DEADLINE_S * CLOCK_NS_PER_S;

    for (uint64_t i = 0; i < CALLS; i++) {
        tutti_status status;

        sim_call(member, &ops[i], i);
        while ((status = sim_advance(member)) == TUTTI_ERR_NOT_READY) {
            if (clock_now_ns() > deadline)
                sim_fail("rank %d hangs in call %lu", actor->rank, (unsigned long)i);
            sched_yield();
        }
        if (status)
            sim_fail("rank %d got %s in call %lu", actor->rank, tutti_status_name(status),
                     (unsigned long)i);
        sim_check(&actor->world, actor->rank, &ops[i], i);
        if (sim_below(&actor->world, 4) == 0)
            sched_yield();
    }
    return NULL;
}

static void run(int size, uint64_t seed)
{
    const int one_host[THREADS_MAX] = {0};
    static struct actor actors[THREADS_MAX];
    struct sim_world world;

    sim_open(&world, size, one_host, true, seed);
    for (int i = 0; i < CALLS; i++)
        ops[i] = random_op(&world);
    for (int rank = 0; rank < size; rank++) {
        actors[rank].rank = rank;
        sim_share(&actors[rank].world, &world, seed + (uint64_t)rank);
    }
    for (int rank = 0; rank < size; rank++)
        if (pthread_create(&actors[rank].thread, NULL, act, &actors[rank]))
            sim_fail("no thread");
    for (int rank = 0; rank < size; rank++)
        pthread_join(actors[rank].thread, NULL);
    for (int rank = 0; rank < size; rank++)
        sim_close(&actors[rank].world);
    sim_close(&world);
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

    printf("sim_threads: seed %lu\n", (unsigned long)seed);
    for (int size = 2; size <= THREADS_FEW; size++)
        run(size, seed + (uint64_t)size);
    run(THREADS_MAX, seed);
    printf("sim_threads: %d calls by each of 2 to %d, and of %d threads are right\n", CALLS,
           THREADS_FEW, THREADS_MAX);
    return 0;
}
