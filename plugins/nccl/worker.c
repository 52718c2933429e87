/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct worker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ncclResult_t (*call)(void *user); /* NULL: there is none to make */
    void *(*last)(void *user);
    void *user;
    ncclResult_t result;
};

static void release(struct worker *worker)
{
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

static void *work(void *user)
{
    struct worker *worker = user;

    pthread_mutex_lock(&worker->lock);
    while (!worker->last) {
        if (!worker->call) {
            pthread_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        const ncclResult_t result = worker->call(worker->user);
        pthread_mutex_lock(&worker->lock);
        worker->result = result;
        worker->call = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    void *(*last)(void *user) = worker->last;
    void *of_last = worker->user;
    pthread_mutex_unlock(&worker->lock);
    release(worker);
    return last(of_last);
}

struct worker *worker_start(void)
{
    struct worker *worker = calloc(1, sizeof *worker);
    sigset_t all, before;
    pthread_t thread;

    if (!worker)
        return NULL;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, NULL, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        release(worker);
        errno = error;
        return NULL;
    }
    pthread_detach(thread);
    return worker;
}

ncclResult_t worker_call(struct worker *worker, ncclResult_t (*call)(void *user), void *user)
{
    pthread_mutex_lock(&worker->lock);
    worker->user = user;
    worker->call = call;
    pthread_cond_broadcast(&worker->changed);
    while (worker->call)
        pthread_cond_wait(&worker->changed, &worker->lock);
    const ncclResult_t result = worker->result;
    pthread_mutex_unlock(&worker->lock);
    return result;
}

void worker_finish(struct worker *worker, void *(*call)(void *user), void *user)
{
    pthread_mutex_lock(&worker->lock);
    worker->user = user;
    worker->last = call;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}
