/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of ours: named, and with every signal blocked, so that the program's handlers never run
 * on them. */
#ifndef TUTTI_BASE_THREAD_H
#define TUTTI_BASE_THREAD_H

#include <pthread.h>

/* Returns 0 or an errno. `name` has at most 15 bytes. */
int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument);

#endif
