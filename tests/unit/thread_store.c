/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads on stores, for ThreadSanitizer (which Criterion cannot run under): a client that all
 * threads share, one of each thread, clients that come and go, and a hash store with threads as
 * ranks. Ends with 0 when every sum is right.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/store.h>

enum { THREADS = 4, ROUNDS = 50, TIMEOUT_MS = 30 * 1000 };

struct task {
    tutti_store *shared, *hash;
    uint16_t port;
    int rank;
};

static void check(tutti_status status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s: %s: %s\n", what, tutti_status_name(status), tutti_last_error());
        exit(1);
    }
}

/* Everybody counts up and waits until all have. */
static void meet(tutti_store *store, const char *name, int round)
{
    char counter[64], all[64];
    const char *key = all;
    int64_t arrived;

    snprintf(counter, sizeof counter, "%s/%d", name, round);
    snprintf(all, sizeof all, "%s/%d/all", name, round);
    check(tutti_store_add(store, counter, 1, TIMEOUT_MS, &arrived), "add");
    if (arrived == THREADS)
        check(tutti_store_set(store, all, "", 0, TIMEOUT_MS), "set");
    check(tutti_store_wait(store, &key, 1, TIMEOUT_MS), "wait");
}

static void *run(void *argument)
{
    const struct task *task = argument;
    tutti_store *own, *view;
    int64_t sum;

    check(tutti_store_open_tcp("127.0.0.1", task->port, TIMEOUT_MS, &own), "open");
    check(tutti_store_open_prefix(own, "view", &view), "prefix");
    tutti_store_unref(own);
    for (int round = 0; round < ROUNDS; round++) {
        tutti_store *guest;

        meet(view, "tcp", round);
        meet(task->hash, "hash", round);
        check(tutti_store_add(task->shared, "shared", task->rank + 1, TIMEOUT_MS, &sum), "add");
        check(tutti_store_open_tcp("localhost", task->port, TIMEOUT_MS, &guest), "open");
        check(tutti_store_add(guest, "shared", 1, TIMEOUT_MS, &sum), "add");
        tutti_store_unref(guest);
    }
    tutti_store_unref(view);
    return NULL;
}

int main(void)
{
    static const int64_t expected = ROUNDS * (THREADS * (THREADS + 1) / 2 + THREADS);
    pthread_t threads[THREADS];
    struct task tasks[THREADS];
    tutti_store_server *server;
    tutti_store *shared, *hash;
    int64_t sum;

    check(tutti_store_server_start("127.0.0.1", 0, &server), "server");
    check(tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(server), TIMEOUT_MS, &shared),
          "open");
    check(tutti_store_open_hash(&hash), "hash");
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){shared, hash, tutti_store_server_port(server), i};
        if (pthread_create(&threads[i], NULL, run, &tasks[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(tutti_store_add(shared, "shared", 0, TIMEOUT_MS, &sum), "add");
    tutti_store_unref(shared);
    tutti_store_unref(hash);
    tutti_store_server_stop(server);
    if (sum != expected) {
        fprintf(stderr, "the sum is %" PRId64 " instead of %" PRId64 "\n", sum, expected);
        return 1;
    }
    return 0;
}
