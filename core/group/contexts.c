/* SPDX-License-Identifier: Apache-2.0 */
/* All contexts of the process, in one list. */
#include <pthread.h>

#include "group/group.h"
#include "memory/pages.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tutti_context *contexts;
static uint32_t made; /* ever */

void contexts_add(tutti_context *context)
{
    pthread_mutex_lock(&lock);
    context->number = made++;
    context->next = contexts;
    contexts = context;
    pthread_mutex_unlock(&lock);
}

void contexts_remove(tutti_context *context)
{
    pthread_mutex_lock(&lock);
    for (tutti_context **at = &contexts; *at; at = &(*at)->next)
        if (*at == context) {
            *at = context->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}

void contexts_each(void (*fn)(tutti_context *context, void *user), void *user)
{
    pthread_mutex_lock(&lock);
    for (tutti_context *c = contexts; c; c = c->next)
        fn(c, user);
    pthread_mutex_unlock(&lock);
}

void contexts_forget(void)
{
    contexts = NULL;
    pthread_mutex_init(&lock, NULL);
    pages_forget();
}
