/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: an event names a point in a stream. One that was never recorded is complete.
 */
#include "cuda.h"

#include <stdlib.h>

static struct CUevent_st *unused;

static CUresult check(const char *call, struct CUevent_st *event, CUresult entered)
{
    if (entered)
        return entered;
    if (!event)
        return standin_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!event->alive)
        standin_die(call, "event %p is destroyed", (void *)event);
    return CUDA_SUCCESS;
}

static CUresult enter(const char *call, struct CUevent_st *event)
{
    struct CUctx_st *context;

    return check(call, event, standin_enter(call, &context));
}

EXPORT CUresult cuEventCreate(CUevent *ret_event, unsigned flags)
{
    struct CUctx_st *context;
    struct CUevent_st **at, *event;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (flags & ~7u)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    at = &unused;
    while (*at && (*at)->pending)
        at = &(*at)->next;
    event = *at;
    if (event)
        *at = event->next;
    else
        event = malloc(sizeof *event);
    *event = (struct CUevent_st){.alive = true, .flags = flags, .context = context};
    *ret_event = event;
    return standin_leave(CUDA_SUCCESS);
}

/* Last in the list, so that a stale handle is found for long. */
EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    struct CUevent_st **at;
    CUresult result = enter(__func__, event);

    if (result)
        return result;
    event->alive = false;
    for (at = &unused; *at;)
        at = &(*at)->next;
    event->next = NULL;
    *at = event;
    return standin_leave(CUDA_SUCCESS);
}

CUresult standin_run_record(const void *arguments)
{
    struct CUevent_st *event = *(struct CUevent_st *const *)arguments;

    pthread_mutex_lock(&standin_lock);
    event->time = standin_now_ms();
    event->pending--;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream handle)
{
    struct CUstream_st *stream;
    CUresult result = enter(__func__, event);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, standin_current());
    if (event->context != stream->context)
        return standin_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture)
        return standin_leave(standin_capture_record(stream, event));
    result = standin_put(stream, standin_run_record, &event, sizeof event, &event->at);
    if (result == CUDA_SUCCESS) {
        event->pending++;
        event->capture = NULL;
    }
    return standin_leave(result);
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    struct CUctx_st *context;
    CUresult result = check(__func__, event, standin_enter_query(__func__, &context));

    if (result)
        return result;
    result = standin_refuse_captured_event(event);
    if (result == CUDA_SUCCESS)
        result = event->context->error;
    if (result == CUDA_SUCCESS && !standin_reached(event->at))
        result = CUDA_ERROR_NOT_READY;
    return standin_leave(result);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = enter(__func__, event);

    if (result)
        return result;
    result = standin_refuse_captured_event(event);
    if (result == CUDA_SUCCESS) {
        standin_wait_point(event->at);
        result = event->context->error;
    }
    return standin_leave(result);
}

EXPORT CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
    CUresult result = enter(__func__, start);

    if (result)
        return result;
    pthread_mutex_unlock(&standin_lock);
    result = enter(__func__, end);
    if (result)
        return result;
    if (start->capture || end->capture)
        result = CUDA_ERROR_CAPTURED_EVENT;
    else if (start->flags & CU_EVENT_DISABLE_TIMING || end->flags & CU_EVENT_DISABLE_TIMING ||
             !start->at.stream || !end->at.stream)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!standin_reached(start->at) || !standin_reached(end->at))
        result = CUDA_ERROR_NOT_READY;
    else
        *ret_ms = (float)(end->time - start->time);
    return standin_leave(result);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    struct CUstream_st *stream;
    CUresult result = enter(__func__, event);

    if (result)
        return result;
    if (flags)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    stream = standin_stream(__func__, handle, standin_current());
    result = standin_refuse_implicit(stream);
    if (result)
        return standin_leave(result);
    if (stream->capture || event->capture)
        return standin_leave(standin_capture_wait(stream, event));
    standin_put_after(stream, event->at);
    return standin_leave(CUDA_SUCCESS);
}
