/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in one engine, each for operations of its own. What ends an operation comes
 * through one descriptor, as from a peer, and whichever thread the system wakes for it completes it.
 * No sleep of this engine ends by itself: when the right thread is not told, or nobody watches the
 * descriptor any more, the program hangs, and the alarm ends it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "quiet_source.h"

enum { THREADS = 8, TURNS = 200, DEADLINE_S = 300, NEVER_MS = 3600 * 1000 };

static struct progress_engine engine;
static int ends[2]; /* of a pipe: each byte names the thread whose operation is complete */
static struct operation_state operations[THREADS];
static _Atomic int waited[THREADS];

static unsigned progress(struct engine_source *source)
{
    unsigned char who;
    unsigned moved = 0;

    (void)source;
    while (read(ends[0], &who, 1) == 1) {
        engine_complete(&engine, &operations[who], TUTTI_OK);
        moved++;
    }
    return moved;
}

static void look(struct engine_source *source, int64_t now_ns)
{
    (void)source;
    (void)now_ns;
}

static void *wait_in_turn(void *user)
{
    int self = (int)(intptr_t)user;

    for (int turn = 0; turn < TURNS; turn++) {
        if (!engine_wait(&engine, &operations[self], INT64_MAX))
            abort();
        atomic_store(&operations[self].status, TUTTI_ERR_NOT_READY);
        atomic_fetch_add(&waited[self], 1);
    }
    return NULL;
}

int main(void)
{
    struct engine_source source = {.progress = progress,
                                   .look = look,
                                   .sleep = quiet_sleep,
                                   .may_sleep = quiet_may_sleep,
                                   .awake = quiet_awake,
                                   .shares_cpu = quiet_shares_cpu};
    pthread_t threads[THREADS];
    unsigned seed = 1;

    alarm(DEADLINE_S);
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) || engine_init(&engine) ||
        engine_watch(&engine, ends[0]))
        return 1;
    engine.sleep_ms = NEVER_MS;
    atomic_store(&engine.oversubscribed, 1); /* no spinning: they are to sleep */
    engine_add(&engine, &source);
    for (int i = 0; i < THREADS; i++) {
        operations[i].status = TUTTI_ERR_NOT_READY;
        if (pthread_create(&threads[i], NULL, wait_in_turn, (void *)(intptr_t)i))
            return 1;
    }
    for (int turn = 1; turn <= TURNS; turn++) {
        for (int k = 0, first = rand_r(&seed) % THREADS; k < THREADS; k++) {
            unsigned char who = (unsigned char)((first + k * 3) % THREADS);

            if (write(ends[1], &who, 1) != 1)
                return 1;
            /* One at a time, so that all the others are asleep; every other turn all at once. */
            while (turn % 2 && atomic_load(&waited[who]) < turn)
                usleep(20);
        }
        for (int i = 0; i < THREADS; i++)
            while (atomic_load(&waited[i]) < turn)
                usleep(20);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    engine_remove(&engine, &source);
    engine_unwatch(&engine, ends[0]);
    engine_fini(&engine);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
