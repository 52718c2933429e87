/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fork.h"

#include <pthread.h>
#include <stddef.h>

_Atomic uint32_t fork_generation;

static void (*child_handler)(void);

static void in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
    if (child_handler)
        child_handler();
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void fork_watch(void (*handler)(void))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    child_handler = handler;
    pthread_once(&once, watch);
}
