/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store.h"

tutti_status store_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (!error) {
        error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (!error)
            error = pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    return error ? error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot make a condition variable")
                 : TUTTI_OK;
}

bool store_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(deadline_ns % CLOCK_NS_PER_S)};

    return pthread_cond_timedwait(condition, mutex, &until) == 0 || clock_now_ns() < deadline_ns;
}

tutti_status store_turn_init(struct store_turn *turn)
{
    turn->taken = false;

    tutti_status status = store_condition_init(&turn->free);

    if (status)
        return status;

    int error = pthread_mutex_init(&turn->mutex, NULL);

    if (error) {
        pthread_cond_destroy(&turn->free);
        return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot make a mutex");
    }
    return TUTTI_OK;
}

void store_turn_destroy(struct store_turn *turn)
{
    pthread_mutex_destroy(&turn->mutex);
    pthread_cond_destroy(&turn->free);
}

tutti_status store_turn_take(struct store_turn *turn, const struct store_time *time)
{
    bool in_time = true;

    pthread_mutex_lock(&turn->mutex);
    while (turn->taken && in_time)
        in_time = store_condition_wait(&turn->free, &turn->mutex, time->deadline_ns);

    const bool ours = !turn->taken;

    turn->taken = true;
    pthread_mutex_unlock(&turn->mutex);
    return ours ? TUTTI_OK
                : error_set(TUTTI_ERR_TIMEOUT,
                            "another thread's call kept this store busy for %" PRId64
                            " ms; threads that wait for keys want a store object each",
                            time->ms);
}

void store_turn_give(struct store_turn *turn)
{
    pthread_mutex_lock(&turn->mutex);
    turn->taken = false;
    pthread_cond_signal(&turn->free);
    pthread_mutex_unlock(&turn->mutex);
}
