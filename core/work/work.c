/* SPDX-License-Identifier: Apache-2.0 */
#include "work/work.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"

static tutti_status check(const struct tutti_work *work)
{
    if (!work)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the work is NULL");
    if (work->fork_generation != fork_current())
        return error_set(TUTTI_ERR_FORKED, "the work belongs to the parent of this process");
    return TUTTI_OK;
}

static tutti_status status_of(const struct tutti_work *work)
{
    return atomic_load_explicit(&work->state->status, memory_order_acquire);
}

static tutti_status result(const struct tutti_work *work)
{
    tutti_status status = status_of(work);

    return status ? error_give(status, &work->error) : TUTTI_OK;
}

void work_drop(struct tutti_work *work)
{
    if (atomic_fetch_sub(&work->references, 1) != 1)
        return;
    error_forget(&work->error);
    work->release(work);
}

/* Queues the callback if there is one and it has not been queued. */
static void queue_callback(struct tutti_work *work)
{
    struct engine *engine = work->engine;

    pthread_mutex_lock(&engine->lock);
    bool queue = work->fn && !work->due && status_of(work) != TUTTI_ERR_NOT_READY;
    work->due |= queue;
    pthread_mutex_unlock(&engine->lock);
    if (!queue)
        return;
    atomic_fetch_add(&work->references, 1);
    engine_due(engine, work);
}

static void ring_event_fd(struct engine *engine)
{
    uint64_t one = 1;

    pthread_mutex_lock(&engine->lock);
    int fd = engine->event_fd;
    pthread_mutex_unlock(&engine->lock);
    if (fd >= 0) {
        ssize_t ignored = write(fd, &one, sizeof one);
        (void)ignored; /* a counter that is full is readable already */
    }
}

void work_completed(struct tutti_work *work)
{
    queue_callback(work);
    if (atomic_load(&work->watched) || work->fn)
        ring_event_fd(work->engine);
    work_drop(work);
}

void work_run_callback(struct tutti_work *work)
{
    work->fn(work, status_of(work), work->user);
    work_drop(work);
}

tutti_status tutti_work_wait(tutti_work *work, int64_t timeout_ms)
{
    tutti_status status = check(work);

    if (status)
        return status;
    if (timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a time-out of %lld ms is negative",
                         (long long)timeout_ms);
    int64_t until = timeout_ms ? clock_deadline_ms(timeout_ms) : INT64_MAX;
    if (!engine_wait(work->engine, work->state, until))
        return error_set(TUTTI_ERR_NOT_READY, "the operation is not complete after %lld ms",
                         (long long)timeout_ms);
    return result(work);
}

tutti_status tutti_work_test(tutti_work *work, int32_t *ret_done)
{
    tutti_status status = check(work);

    if (status)
        return status;
    if (!ret_done)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_done is NULL");
    if (status_of(work) == TUTTI_ERR_NOT_READY)
        engine_help(work->engine);
    *ret_done = status_of(work) != TUTTI_ERR_NOT_READY;
    return *ret_done ? result(work) : TUTTI_OK;
}

const char *tutti_work_error(const tutti_work *work)
{
    return work && status_of(work) && work->error.message ? work->error.message : "";
}

int32_t tutti_work_source(const tutti_work *work)
{
    return work && !status_of(work) ? work->source : -1;
}

tutti_status tutti_work_then(tutti_work *work, tutti_work_fn fn, void *user)
{
    tutti_status status = check(work);

    if (status)
        return status;
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the callback is NULL");
    pthread_mutex_lock(&work->engine->lock);
    bool taken = work->fn != NULL;
    if (!taken) {
        work->user = user;
        work->fn = fn;
    }
    pthread_mutex_unlock(&work->engine->lock);
    if (taken)
        return error_set(TUTTI_ERR_BUSY, "the work has a callback already");
    queue_callback(work);
    return TUTTI_OK;
}

tutti_status tutti_work_watch(tutti_work *work)
{
    tutti_status status = check(work);

    if (status)
        return status;
    atomic_store(&work->watched, true);
    if (status_of(work) != TUTTI_ERR_NOT_READY)
        ring_event_fd(work->engine);
    return TUTTI_OK;
}

void tutti_work_free(tutti_work *work)
{
    if (work && work->fork_generation == fork_current())
        work_drop(work);
}
