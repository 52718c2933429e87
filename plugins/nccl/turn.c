/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

#include <signal.h>
#include <stdlib.h>

/* A thread for one call. It frees this. */
struct helper {
    ncclResult_t (*call)(void *user);
    void *user;
    ncclResult_t result;
    bool has_called, may_end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* something of a helper */
static struct turn *taken;

static bool is_free(const struct turn *own)
{
    bool free = true;

    pthread_mutex_lock(&lock);
    for (const struct turn *t = taken; t; t = t->next)
        free = free && (t == own || !pthread_equal(t->thread, pthread_self()));
    pthread_mutex_unlock(&lock);
    return free;
}

static void take(struct turn *turn, struct helper *helper)
{
    pthread_mutex_lock(&lock);
    turn->thread = pthread_self();
    turn->helper = helper;
    if (!helper) { /* no other call comes to a thread of ours */
        turn->next = taken;
        taken = turn;
    }
    __atomic_store_n(&turn->is_taken, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

static void *help(void *user)
{
    struct helper *helper = user;
    const ncclResult_t result = helper->call(helper->user);

    pthread_mutex_lock(&lock);
    helper->result = result;
    helper->has_called = true;
    pthread_cond_broadcast(&changed);
    while (!helper->may_end)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(helper);
    return NULL;
}

static bool start(struct helper *helper)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, NULL, help, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return !error;
}

static void end(struct helper *helper)
{
    pthread_mutex_lock(&lock);
    helper->may_end = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static ncclResult_t call_elsewhere(struct turn *turn, ncclResult_t (*call)(void *user), void *user)
{
    struct helper *helper = calloc(1, sizeof *helper);

    if (!helper)
        return ncclSystemError;
    *helper = (struct helper){.call = call, .user = user};
    if (!start(helper)) {
        free(helper);
        return ncclSystemError;
    }
    pthread_mutex_lock(&lock);
    while (!helper->has_called)
        pthread_cond_wait(&changed, &lock);
    const ncclResult_t result = helper->result;
    pthread_mutex_unlock(&lock);
    if (result == ncclInProgress)
        take(turn, helper);
    else
        end(helper);
    return result;
}

ncclResult_t turn_call(struct turn *turn, ncclResult_t (*call)(void *user), void *user)
{
    turn_give(turn); /* a call of it comes after the last one */
    if (!is_free(turn))
        return call_elsewhere(turn, call, user);
    const ncclResult_t result = call(user);
    if (result == ncclInProgress)
        take(turn, NULL);
    return result;
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
    struct helper *helper = turn->helper;
    turn->helper = NULL;
    __atomic_store_n(&turn->is_taken, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (helper)
        end(helper);
}
