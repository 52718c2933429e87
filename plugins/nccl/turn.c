/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct turn *taken;

bool turn_is_free(const struct turn *own)
{
    bool free = true;

    pthread_mutex_lock(&lock);
    for (const struct turn *t = taken; t; t = t->next)
        free = free && (t == own || !pthread_equal(t->thread, pthread_self()));
    pthread_mutex_unlock(&lock);
    return free;
}

void turn_take(struct turn *turn)
{
    pthread_mutex_lock(&lock);
    if (!turn->is_taken) {
        turn->next = taken;
        taken = turn;
    }
    turn->thread = pthread_self();
    __atomic_store_n(&turn->is_taken, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void turn_give(struct turn *turn)
{
    if (!__atomic_load_n(&turn->is_taken, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    for (struct turn **at = &taken; *at; at = &(*at)->next)
        if (*at == turn) {
            *at = turn->next;
            break;
        }
    __atomic_store_n(&turn->is_taken, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}
