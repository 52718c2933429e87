/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library may log from a thread of its own, so the list of callers has a lock, which is held while a line is passed
 * on. A caller that has left gets no line after listeners_leave() has returned.
 */
#include "listeners.h"

#include <pthread.h>
#include <stdlib.h>

struct listener {
    struct caller caller;
    struct listener *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;

tutti_status listeners_join(const struct caller *caller)
{
    struct listener *listener = malloc(sizeof *listener), **end = &listeners;

    if (!listener)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for a place in the log");
    *listener = (struct listener){.caller = *caller};
    pthread_mutex_lock(&lock);
    while (*end)
        end = &(*end)->next;
    *end = listener;
    pthread_mutex_unlock(&lock);
    return TUTTI_OK;
}

void listeners_leave(const struct caller *caller)
{
    struct listener **link = &listeners;

    pthread_mutex_lock(&lock);
    while (*link && ((*link)->caller.self != caller->self || (*link)->caller.host != caller->host))
        link = &(*link)->next;
    struct listener *gone = *link;
    if (gone)
        *link = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
}

bool listeners_tell(int32_t level, const char *words)
{
    pthread_mutex_lock(&lock);
    const struct listener *first = listeners;
    if (first)
        first->caller.host->log(first->caller.self, level, words);
    pthread_mutex_unlock(&lock);
    return first != NULL;
}
