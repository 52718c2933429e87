/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works as the program sees them: waiting, testing, callbacks, results.
 *
 * The thread that completes an operation holds the progress lock and calls work_completed();
 * everything else comes from threads of the program. A callback is queued once, by the later of
 * completion and tutti_work_then(); `engine->lock` decides which one is later. A work of a batch
 * ends when its last part has, with the message of the first part that failed.
 */
#include "engine/work.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/options.h"
#include "engine/engine_inside.h"

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

/* Nobody can take a reference of a work that has one alone. */
static void drop(struct tutti_work *work)
{
    if (atomic_load_explicit(&work->references, memory_order_acquire) != 1 &&
        atomic_fetch_sub(&work->references, 1) != 1)
        return;
    error_forget(&work->error);
    work->release(work);
}

static bool is_complete(const struct tutti_work *work)
{
    return status_of(work) != TUTTI_ERR_NOT_READY;
}

/* ---- memory ---- */

struct tutti_work *work_memory_take(struct progress_engine *engine, size_t bytes)
{
    struct tutti_work *work = engine->free_works;

    if (!work)
        work = atomic_exchange_explicit(&engine->returned_works, NULL, memory_order_acquire);
    if (work) {
        engine->free_works = work->next_due;
        return work;
    }
    work = malloc(bytes);
    engine->work_blocks += work != NULL;
    return work;
}

void work_memory_untake(struct tutti_work *work)
{
    work->next_due = work->engine->free_works;
    work->engine->free_works = work;
}

void work_memory_give_back(struct tutti_work *work)
{
    struct progress_engine *engine = work->engine;

    /* Half as many atomic operations as below and in taking it from there. */
    if (engine_try(engine)) {
        work_memory_untake(work);
        engine_release(engine);
        return;
    }
    struct tutti_work *first = atomic_load_explicit(&engine->returned_works, memory_order_relaxed);

    do
        work->next_due = first;
    while (!atomic_compare_exchange_weak_explicit(&engine->returned_works, &first, work,
                                                  memory_order_release, memory_order_relaxed));
}

/* Takes all that is not in use; under the progress lock. */
static struct tutti_work *take_free(struct progress_engine *engine)
{
    struct tutti_work *all = engine->free_works, **last = &all;

    while (*last)
        last = &(*last)->next_due;
    *last = atomic_exchange_explicit(&engine->returned_works, NULL, memory_order_acquire);
    engine->free_works = NULL;
    return all;
}

uint32_t work_memory_used(struct progress_engine *engine)
{
    uint32_t used = atomic_load(&engine->batches);

    engine_take(engine);
    engine->free_works = take_free(engine);
    used += engine->work_blocks;
    for (const struct tutti_work *work = engine->free_works; work; work = work->next_due)
        used--;
    engine_release(engine);
    return used;
}

void work_memory_trim(struct progress_engine *engine)
{
    engine_take(engine);
    struct tutti_work *work = take_free(engine);
    while (work) {
        struct tutti_work *next = work->next_due;

        free(work);
        engine->work_blocks--;
        work = next;
    }
    engine_release(engine);
}

/* ---- completion ---- */

/* Queues the callbacks that have not run, if there are any; whether it did. */
static bool queue_callback(struct tutti_work *work)
{
    struct progress_engine *engine = work->engine;

    pthread_mutex_lock(&engine->lock);
    const bool some = (work->fn && !work->fn_ran) || (work->on_release && !work->held);
    bool queue = some && !work->due && is_complete(work);
    work->due |= queue;
    pthread_mutex_unlock(&engine->lock);
    if (queue) {
        atomic_fetch_add(&work->references, 1);
        engine_due(engine, work);
    }
    return queue;
}

static void ring_event_fd(struct progress_engine *engine)
{
    uint64_t one = 1;
    int fd = atomic_load(&engine->event_fd);

    if (fd >= 0) {
        ssize_t ignored = write(fd, &one, sizeof one);
        (void)ignored; /* a counter that is full is readable already */
    }
}

void work_part_failed(struct tutti_work *whole, tutti_status status)
{
    if (whole->part_status && whole->part_status != TUTTI_ERR_CAPTURED)
        return;
    whole->part_status = status;
    error_keep(&whole->error);
}

void work_part_ended(struct tutti_work *whole, tutti_status status)
{
    if (status)
        work_part_failed(whole, status);
    if (--whole->parts == 0)
        engine_complete(whole->engine, whole->state, whole->part_status);
}

void work_completed(struct tutti_work *work)
{
    if (work->word)
        work->open_word(work->word);
    if (work->part_of) {
        tutti_status status = result(work); /* the thread's error from here on */

        if (!status && work->ret_source)
            *work->ret_source = work->source;
        if (!status && work->ret_bytes)
            *work->ret_bytes = work->bytes;

        work_part_ended(work->part_of, status);
    }
    /* A thread that sets `interest` looks afterwards whether the work is complete. */
    if ((atomic_load(&work->interest) && queue_callback(work)) || atomic_load(&work->watched))
        ring_event_fd(work->engine);
    drop(work);
}

void work_run_callback(struct tutti_work *work)
{
    pthread_mutex_lock(&work->engine->lock);
    const tutti_work_fn fn = work->fn_ran ? NULL : work->fn;
    const tutti_release_fn release = work->held ? NULL : work->on_release;
    work->fn_ran |= fn != NULL;
    if (release)
        work->on_release = NULL;
    work->due = false; /* what is set from here on is queued again */
    pthread_mutex_unlock(&work->engine->lock);
    if (fn)
        fn(work, status_of(work), work->user);
    if (release)
        release(work->release_user);
    drop(work);
}

void work_hold(struct tutti_work *work)
{
    atomic_fetch_add(&work->references, 1);
    pthread_mutex_lock(&work->engine->lock);
    work->held = true;
    pthread_mutex_unlock(&work->engine->lock);
}

void work_let_go(struct tutti_work *work)
{
    pthread_mutex_lock(&work->engine->lock);
    work->held = false;
    pthread_mutex_unlock(&work->engine->lock);
    if (queue_callback(work))
        ring_event_fd(work->engine);
    drop(work);
}

static tutti_status check_timeout(int64_t timeout_ms, int64_t *ret_until_ns)
{
    if (timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a time-out of %lld ms is negative",
                         (long long)timeout_ms);
    *ret_until_ns = timeout_ms ? clock_deadline_ms(timeout_ms) : INT64_MAX;
    return TUTTI_OK;
}

static void spin(struct tutti_work *work)
{
    struct progress_engine *engine = work->engine;

    if (!work->spin || is_complete(work) || !engine_try(engine))
        return;
    /* A work that is not complete under the lock has its group. */
    if (!is_complete(work) && !engine_is_barred(engine))
        work->spin(work);
    engine_release(engine);
}

tutti_status tutti_work_wait(tutti_work *work, int64_t timeout_ms)
{
    int64_t until_ns = 0;
    tutti_status status = error_named(check(work));

    if (!status)
        status = error_named(check_timeout(timeout_ms, &until_ns));
    if (status)
        return status;
    spin(work);
    const bool done = is_complete(work) || engine_wait(work->engine, work->state, until_ns);
    engine_callers_callbacks(work->engine);
    if (!done)
        return error_set(TUTTI_ERR_NOT_READY, "the operation is not complete after %lld ms",
                         (long long)timeout_ms);
    return result(work);
}

tutti_status tutti_work_test(tutti_work *work, int32_t *ret_done)
{
    tutti_status status = error_named(check(work));

    if (status)
        return status;
    if (!ret_done)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_done is NULL");
    if (!is_complete(work))
        engine_help(work->engine);
    engine_callers_callbacks(work->engine);
    *ret_done = is_complete(work);
    return *ret_done ? result(work) : TUTTI_OK;
}

/* ---- several ---- */

static tutti_status check_all(tutti_work *const *works, uint32_t count)
{
    if (count && !works)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the array of works is NULL");
    if (count > INT32_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%u works are too many", count);
    for (uint32_t i = 0; i < count; i++)
        if (works[i] && check(works[i]))
            return error_prefix("work %u of %u", i, count);
    return TUTTI_OK;
}

tutti_status tutti_work_wait_all(tutti_work *const *works, uint32_t count, int64_t timeout_ms,
                                 tutti_status *ret_statuses)
{
    int64_t until_ns;
    uint32_t late = 0, first = count;
    tutti_status status = error_named(check_all(works, count));

    if (!status)
        status = error_named(check_timeout(timeout_ms, &until_ns));
    if (status)
        return status;
    for (uint32_t i = 0; i < count; i++)
        if (works[i])
            late += !engine_wait(works[i]->engine, works[i]->state, until_ns);
    for (uint32_t i = 0; i < count; i++)
        if (works[i])
            engine_callers_callbacks(works[i]->engine);
    for (uint32_t i = 0; i < count; i++) {
        tutti_status one = works[i] ? status_of(works[i]) : TUTTI_OK;

        if (one && one != TUTTI_ERR_NOT_READY && first == count)
            first = i;
        if (ret_statuses)
            ret_statuses[i] = one;
    }
    if (first < count) {
        result(works[first]);
        return error_prefix("work %u of %u", first, count);
    }
    if (late)
        return error_set(TUTTI_ERR_NOT_READY, "%u of %u works are not complete after %lld ms", late,
                         count, (long long)timeout_ms);
    return TUTTI_OK;
}

static int32_t first_complete(tutti_work *const *works, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (works[i] && is_complete(works[i]))
            return (int32_t)i;
    return -1;
}

/* The next engine among those of the works after `engine`, in the order of the array and around. */
static struct progress_engine *next_engine(tutti_work *const *works, uint32_t count,
                                           uint32_t *cursor)
{
    do
        *cursor = (*cursor + 1) % count;
    while (!works[*cursor]);
    return works[*cursor]->engine;
}

static bool one_engine(tutti_work *const *works, uint32_t count,
                       const struct progress_engine *engine)
{
    for (uint32_t i = 0; i < count; i++)
        if (works[i] && works[i]->engine != engine)
            return false;
    return true;
}

tutti_status tutti_work_wait_any(tutti_work *const *works, uint32_t count, int64_t timeout_ms,
                                 int32_t *ret_index)
{
    int64_t until_ns = 0;
    uint32_t cursor = count;
    tutti_status status = error_named(check_all(works, count));

    if (!status && !ret_index)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_index is NULL");
    if (!status)
        status = error_named(check_timeout(timeout_ms, &until_ns));
    if (status)
        return status;
    *ret_index = -1;
    for (uint32_t i = 0; i < count && cursor == count; i++)
        if (works[i])
            cursor = i;
    if (cursor == count)
        return TUTTI_OK;
    struct progress_engine *engine = works[cursor]->engine;
    bool alone = one_engine(works, count, engine);
    while ((*ret_index = first_complete(works, count)) < 0) {
        int64_t now = alone ? 0 : clock_now_ns();
        int64_t end =
            alone || now + WAITING_SLICE_NS > until_ns ? until_ns : now + WAITING_SLICE_NS;

        if (!engine_wait_any(engine, works, count, end) && end == until_ns)
            return error_set(TUTTI_ERR_NOT_READY, "none of %u works is complete after %lld ms",
                             count, (long long)timeout_ms);
        if (!alone)
            engine = next_engine(works, count, &cursor);
    }
    engine_callers_callbacks(works[*ret_index]->engine);
    return result(works[*ret_index]);
}

/* Lets each engine of the works move once. */
static void help_all(tutti_work *const *works, uint32_t count)
{
    const struct progress_engine *before = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (works[i] && works[i]->engine != before) {
            engine_help(works[i]->engine);
            engine_callers_callbacks(works[i]->engine);
            before = works[i]->engine;
        }
}

tutti_status tutti_work_test_any(tutti_work *const *works, uint32_t count, int32_t *ret_index)
{
    tutti_status status = error_named(check_all(works, count));

    if (!status && !ret_index)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_index is NULL");
    if (status)
        return status;
    if (first_complete(works, count) < 0)
        help_all(works, count);
    *ret_index = first_complete(works, count);
    if (*ret_index < 0)
        return TUTTI_OK;
    engine_callers_callbacks(works[*ret_index]->engine);
    return result(works[*ret_index]);
}

/* ---- what became of it ---- */

tutti_status tutti_work_cancel(tutti_work *work)
{
    tutti_status status = error_named(check(work));

    if (status)
        return status;
    if (!work->cancel)
        return error_set(
            TUTTI_ERR_BUSY,
            "a collective or a batch cannot be withdrawn: tutti_group_abort() ends its "
            "group");
    engine_take(work->engine);
    status = is_complete(work)
                 ? error_set(TUTTI_ERR_BUSY, "the operation is complete: nothing is left to cancel")
                 : work->cancel(work);
    engine_release(work->engine);
    return status;
}

tutti_status tutti_work_result(const tutti_work *work, tutti_work_info *ret_info)
{
    tutti_status status = error_named(check(work));

    if (status)
        return status;
    if (!ret_info || ret_info->struct_size < sizeof(uint32_t))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_info and its struct_size must be set");
    if (!is_complete(work))
        return error_set(TUTTI_ERR_NOT_READY, "the operation is not complete");
    status = result(work);
    if (status)
        return status;
    tutti_work_info info = {
        .source = work->source, .bytes = work->bytes, .sequence = work->sequence};
    options_give(&info, sizeof info, ret_info);
    return TUTTI_OK;
}

const char *tutti_work_error(const tutti_work *work)
{
    return work && is_complete(work) && work->error.message ? work->error.message : "";
}

int32_t tutti_work_source(const tutti_work *work)
{
    return work && !status_of(work) ? work->source : -1;
}

tutti_status tutti_work_then(tutti_work *work, tutti_work_fn fn, void *user)
{
    tutti_status status = error_named(check(work));

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
    atomic_store(&work->interest, true);
    queue_callback(work);
    return TUTTI_OK;
}

tutti_status tutti_work_on_release(tutti_work *work, tutti_release_fn fn, void *user)
{
    tutti_status status = error_named(check(work));

    if (status)
        return status;
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the function is NULL");
    pthread_mutex_lock(&work->engine->lock);
    bool taken = work->has_release;
    if (!taken) {
        work->has_release = true;
        work->release_user = user;
        work->on_release = fn;
    }
    pthread_mutex_unlock(&work->engine->lock);
    if (taken)
        return error_set(TUTTI_ERR_BUSY, "the work has a function for its release already");
    atomic_store(&work->interest, true);
    queue_callback(work);
    return TUTTI_OK;
}

tutti_status tutti_work_watch(tutti_work *work)
{
    tutti_status status = error_named(check(work));

    if (status)
        return status;
    atomic_store(&work->watched, true);
    if (is_complete(work))
        ring_event_fd(work->engine);
    return TUTTI_OK;
}

void tutti_work_free(tutti_work *work)
{
    if (work && work->fork_generation == fork_current())
        drop(work);
}
