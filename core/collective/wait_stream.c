/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_work_wait_stream(): a stream waits for a work, and the caller does not. The stream waits for a word that
 * the end of the work opens, however it ends. Copies back to devices are done by then, whatever stream did them.
 * An operation that an engine has put on a stream is waited for there, without the host. One that is recorded in a graph is
 * waited for in the same capture alone, where the wait becomes a part of the graph.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "device/device.h"
#include "engine/work.h"

static void open_word(void *word)
{
    device_word_open(word);
}

static tutti_status status_of(const struct tutti_work *work)
{
    return atomic_load_explicit(&work->state->status, memory_order_acquire);
}

static bool is_complete(const struct tutti_work *work)
{
    return status_of(work) != TUTTI_ERR_NOT_READY;
}

/* Of one that is complete. A captured one has not. */
static bool has_failed(const struct tutti_work *work)
{
    const tutti_status status = status_of(work);

    return status && status != TUTTI_ERR_CAPTURED;
}

/* An operation that an engine puts on a stream comes there first: if the stream waited before, it would wait for itself. */
static void await_issue(struct tutti_work *work)
{
    while (atomic_load(&work->to_issue) && !is_complete(work))
        engine_wait(work->engine, work->state, clock_now_ns() + CLOCK_NS_PER_MS / 10);
}

/* Where the operation lies on a stream already, or all those of a batch do, behind one mark, that is enough. False: it
 * does not. */
static bool wait_by_mark(struct tutti_work *work, void *stream, tutti_status *ret_status)
{
    engine_take(work->engine);
    const bool lies = work->mark && work->parts == work->marked;
    if (lies)
        *ret_status = device_mark_wait(work->mark, stream);
    engine_release(work->engine);
    return lies;
}

/* The call's thread waits for it next, so the work is complete, and the operation may be not: another stream waits for
 * all that is on that of the call. */
static tutti_status wait_by_stream(struct device *device, const struct tutti_work *work,
                                   void *stream)
{
    struct device_mark *mark;
    tutti_status status = device_mark(device, work->stream, &mark);

    if (status)
        return error_named(status);
    status = device_mark_wait(mark, stream);
    device_mark_free(mark);
    return error_named(status);
}

/* The word of the work, as it is before anybody can open it. False: the work is complete. */
static bool attach(struct tutti_work *work, struct device_word *word, struct device_word *ret_word)
{
    engine_take(work->engine);
    const bool attached = !is_complete(work);
    struct device_word *spare = word;

    if (attached && !work->word) {
        work->word = word;
        work->open_word = open_word;
        spare = NULL;
    }
    if (attached)
        *ret_word = *(const struct device_word *)work->word;
    engine_release(work->engine);
    if (spare)
        device_word_open(spare);
    return attached;
}

static tutti_status wait_by_word(struct device *device, struct tutti_work *work, void *stream)
{
    struct device_word *word, attached;
    tutti_status status = device_word_take(device, &word);

    if (status)
        return status;
    if (!attach(work, word, &attached))
        return tutti_work_wait(work, 0);
    status = device_word_wait(&attached, stream);
    if (!status)
        engine_visit(work->engine);
    return status;
}

/* Of a call that was captured: the event of its stream takes the other one into the capture, if it is not there yet. */
static tutti_status wait_in_capture(struct device *device, const struct tutti_work *work,
                                    void *stream)
{
    bool goes_on = false, captured;
    tutti_status status = device_check_recording(device, work->stream, &goes_on);

    if (!status && !goes_on)
        status = error_set(TUTTI_ERR_CAPTURED,
                           "the work was captured into a graph, which is complete: let the stream "
                           "wait for the graph's launch");
    if (!status)
        status = device_check_recording(device, stream, &captured);
    if (!status && work->is_on_streams)
        status = error_set(TUTTI_ERR_UNSUPPORTED,
                           "the calls of this batch were captured on several streams: let the "
                           "stream wait for an event on each of them");
    if (status || stream == work->stream)
        return error_named(status);
    return wait_by_stream(device, work, stream);
}

tutti_status tutti_work_wait_stream(tutti_work *work, void *stream)
{
    if (!work)
        return error_named(error_set(TUTTI_ERR_INVALID_ARGUMENT, "the work is NULL"));
    if (work->fork_generation != fork_current())
        return error_named(
            error_set(TUTTI_ERR_FORKED, "the work belongs to the parent of this process"));
    struct device *device = atomic_load(&work->engine->device);
    if (is_complete(work) && !work->is_on_stream)
        return tutti_work_wait(work, 0);
    if (!device)
        return error_named(
            error_set(TUTTI_ERR_UNSUPPORTED,
                      "no call of this process has used a device yet: wait for the work "
                      "with tutti_work_wait()"));
    await_issue(work);
    if (is_complete(work) && has_failed(work))
        return tutti_work_wait(work, 0);
    if (is_complete(work) && work->is_captured)
        return wait_in_capture(device, work, stream);
    tutti_status status = device_check_stream(device, stream);
    if (status)
        return error_named(status);
    if (is_complete(work) && work->is_on_stream)
        return wait_by_stream(device, work, stream);
    if (wait_by_mark(work, stream, &status))
        return error_named(status);
    if (atomic_load(&work->engine->callers_only)) /* nobody but this thread may move it */
        return tutti_work_wait(work, 0);
    status = wait_by_word(device, work, stream);
    return status == TUTTI_ERR_UNSUPPORTED ? tutti_work_wait(work, 0) : error_named(status);
}
