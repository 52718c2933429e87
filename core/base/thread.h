/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of ours: named, and with every signal blocked, so that the program's handlers never run on
 * them. Conditions wait by CLOCK_MONOTONIC: a change of the wall clock moves no deadline.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns 0 or an errno. `name` has at most 15 bytes. */
int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument);

/* Cannot fail: glibc and musl refuse only attributes and clocks that are not used here. */
void thread_condition_init(pthread_cond_t *condition);
/* Waits once, until `deadline_ns`; false: it has passed. */
bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline_ns);
