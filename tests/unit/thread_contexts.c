/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads as ranks: several contexts in one process, met in a hash store. A plain program, so that
 * ThreadSanitizer sees core, shm and tcp in one address space.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { RANKS = 3, ROUNDS = 200, LARGE = 40000 };

struct thread {
    pthread_t id;
    int rank;
    const char *backend;
    tutti_store *store;
    int failures;
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s rank %d: line %d: %s (%s)\n", thread->backend, thread->rank,       \
                    __LINE__, #condition, tutti_last_error());                                     \
            thread->failures++;                                                                    \
        }                                                                                          \
    } while (0)

static void collectives(struct thread *thread, tutti_group *world)
{
    int64_t shape;
    float *data = calloc(LARGE, sizeof *data);
    tutti_work *work;

    EXPECT(data);
    for (int i = 0; data && i < ROUNDS; i++) {
        int64_t count = i % 10 ? 1 + i % 7 : LARGE;
        tutti_tensor t = tutti_tensor_1d(data, TUTTI_F32, &shape, count);

        data[0] = data[count - 1] = (float)thread->rank;
        if (i % 2) {
            EXPECT(!tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
        } else {
            EXPECT(!tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &work));
            EXPECT(!tutti_work_wait(work, 0));
            tutti_work_free(work);
        }
        EXPECT(data[0] == RANKS * (RANKS - 1) / 2 && data[count - 1] == data[0]);
        EXPECT(!tutti_broadcast(world, &t, i % RANKS, NULL, NULL));
    }
    free(data);
}

static void *rank_main(void *argument)
{
    struct thread *thread = argument;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.world_size = RANKS;
    options.rank = thread->rank;
    options.backend = thread->backend;
    options.store = thread->store;
    options.run_id = thread->backend;
    options.timeout_ms = 60000;
    EXPECT(!tutti_context_create(&options.context));
    EXPECT(!tutti_init(&options, &world));
    if (world) {
        collectives(thread, world);
        EXPECT(tutti_context_destroy(options.context) == TUTTI_ERR_BUSY);
        EXPECT(!tutti_group_destroy(world));
    }
    EXPECT(!tutti_context_destroy(options.context));
    return NULL;
}

int main(void)
{
    static const char *const backends[] = {"shm", "tcp"};
    int failures = 0;

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    for (int b = 0; b < 2; b++) {
        struct thread threads[RANKS] = {0};
        tutti_store *store;

        if (tutti_store_open_hash(&store))
            return 2;
        for (int r = 0; r < RANKS; r++) {
            threads[r].rank = r;
            threads[r].backend = backends[b];
            threads[r].store = store;
            if (pthread_create(&threads[r].id, NULL, rank_main, &threads[r]))
                return 2;
        }
        for (int r = 0; r < RANKS; r++) {
            pthread_join(threads[r].id, NULL);
            failures += threads[r].failures;
        }
        tutti_store_unref(store);
    }
    return failures != 0;
}
