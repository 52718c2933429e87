/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that find, list and register plugins at once get the same plugins. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/info.h>

#include "plugin/plugin.h"

enum { THREADS = 8, ROUNDS = 10 };

static const char *const names[] = {"good", "goods"};

struct thread {
    pthread_t id;
    pthread_barrier_t *start;
    const tutti_plugin *found[2];
    tutti_plugin own; /* one that only this thread registers */
    char own_name[16];
    int failures;
};

static void count_row(const tutti_plugin_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
}

static void *work(void *argument)
{
    struct thread *thread = argument;

    pthread_barrier_wait(thread->start);
    for (int round = 0; round < ROUNDS; round++) {
        const tutti_plugin *plugin;
        int rows = 0;

        for (int i = 0; i < 2; i++)
            thread->failures += plugin_find(names[i], &thread->found[i]) != TUTTI_OK;
        if (!round) {
            thread->own = *thread->found[0];
            thread->own.name = thread->own_name;
        }
        thread->failures += tutti_plugin_register(&thread->own) != TUTTI_OK;
        thread->failures += plugin_find(thread->own_name, &plugin) || plugin != &thread->own;
        thread->failures += tutti_plugins_list(count_row, &rows) || rows < 3;
        thread->failures += !plugin_find("bogus", &plugin) ||
                            !strstr(tutti_last_error(), "unknown backend \"bogus\"");
    }
    return NULL;
}

int main(void)
{
    static struct thread threads[THREADS];
    pthread_barrier_t start;
    int failures = 0;

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/tests/plugins", 1);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        threads[i].start = &start;
        snprintf(threads[i].own_name, sizeof threads[i].own_name, "own%d", i);
        if (pthread_create(&threads[i].id, NULL, work, &threads[i]))
            return 2;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        failures += threads[i].failures;
        failures += threads[i].found[0] != threads[0].found[0];
        failures += threads[i].found[1] != threads[0].found[1];
    }
    pthread_barrier_destroy(&start);
    if (failures)
        fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}
