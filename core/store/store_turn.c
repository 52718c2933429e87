/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/error.h"
#include "base/thread.h"
#include "store/store.h"

void store_turn_init(struct store_turn *turn)
{
    turn->taken = false;
    thread_condition_init(&turn->free);
    pthread_mutex_init(&turn->mutex, NULL);
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
        in_time = thread_condition_wait(&turn->free, &turn->mutex, time->deadline_ns);

    const bool ours = !turn->taken;

    turn->taken = true;
    pthread_mutex_unlock(&turn->mutex);
    return ours ? TUTTI_OK
                : error_set(TUTTI_ERR_TIMEOUT,
                            "another thread's call kept this store busy for %" PRId64
                            " ms; open a store object for each thread that waits for keys",
                            time->ms);
}

void store_turn_give(struct store_turn *turn)
{
    pthread_mutex_lock(&turn->mutex);
    turn->taken = false;
    pthread_cond_signal(&turn->free);
    pthread_mutex_unlock(&turn->mutex);
}
