/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

#include "base/clock.h"

int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    const int error = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*ret_thread, name);
    return error;
}

void thread_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(deadline_ns % CLOCK_NS_PER_S)};

    return pthread_cond_timedwait(condition, mutex, &until) == 0 || clock_now_ns() < deadline_ns;
}
