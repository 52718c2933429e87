/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events. A stream is the caller's handle: NULL and 1 are the
 * legacy default stream, 2 is that of the calling thread.
 */
#include <stdio.h>

#include "inside.h"

tutti_status stream_create(tutti_accelerator *accelerator, void **ret_stream)
{
    CUstream stream;
    int least = 0, greatest = 0;
    CUresult result = IN_CONTEXT(accelerator, cuCtxGetStreamPriorityRange(&least, &greatest));

    if (!result)
        result = IN_CONTEXT(accelerator,
                            cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    if (result)
        return driver_fails(accelerator->driver, result, accelerator->words, "making a stream");
    *ret_stream = stream;
    return TUTTI_OK;
}

void stream_free(tutti_accelerator *accelerator, void *stream)
{
    if (stream)
        (void)IN_CONTEXT(accelerator, cuStreamDestroy_v2(stream));
}

/* The words about a stream of the context `other`. */
static tutti_status refuse_context(const tutti_accelerator *accelerator, CUcontext other)
{
    const tutti_driver *driver = accelerator->driver;
    CUcontext popped;
    CUdevice device = accelerator->device;

    if (driver->api.cuCtxPushCurrent_v2(other) == CUDA_SUCCESS) {
        (void)driver->api.cuCtxGetDevice(&device);
        (void)driver->api.cuCtxPopCurrent_v2(&popped);
    }
    if (device != accelerator->device)
        return driver_refuses(driver, TUTTI_ERR_INVALID_ARGUMENT,
                              "the stream is one of device %d, and the work is for %s", device,
                              accelerator->words);
    return driver_refuses(driver, TUTTI_ERR_INVALID_ARGUMENT,
                          "the stream belongs to a context of the program's own on %s; pass a "
                          "stream of the primary context, which the CUDA runtime uses",
                          accelerator->words);
}

/* The context of a stream and, if that is the device's, whether it is captured. */
static CUresult look(const tutti_accelerator *accelerator, void *stream, CUcontext *ret_context,
                     CUstreamCaptureStatus *ret_capture)
{
    const struct driver_api *api = &accelerator->driver->api;
    struct entry entry;
    CUresult result = accelerator_enter(accelerator, &entry);

    if (result)
        return result;
    *ret_context = accelerator->context;
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        result = api->cuStreamGetCtx(stream, ret_context);
    if (!result && *ret_context == accelerator->context)
        result = api->cuStreamIsCapturing(stream, ret_capture);
    return accelerator_leave(accelerator, &entry, result);
}

tutti_status stream_check(tutti_accelerator *accelerator, void *stream, uint32_t *ret_flags)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = accelerator->context;
    CUresult result = look(accelerator, stream, &context, &capture);
    bool is_beside =
        false; /* the legacy stream, while a stream that is ordered with it is captured */

    if (context != accelerator->context)
        return refuse_context(accelerator, context);
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        is_beside = true;
        result = CUDA_SUCCESS;
    }
    if (result)
        return driver_fails(accelerator->driver, result, accelerator->words, "looking at stream %p",
                            stream);
    *ret_flags = (capture || is_beside ? TUTTI_STREAM_CAPTURING : 0) |
                 (capture == CU_STREAM_CAPTURE_STATUS_ACTIVE ? TUTTI_STREAM_RECORDS : 0) |
                 (stream == CU_STREAM_PER_THREAD ? TUTTI_STREAM_OF_THREAD : 0);
    return TUTTI_OK;
}

/* ---- events --- */

tutti_status event_create(tutti_accelerator *accelerator, tutti_device_event **ret_event)
{
    const tutti_driver *driver = accelerator->driver;
    tutti_device_event *event = driver->host->allocate(driver->host_self, sizeof *event);

    if (!event)
        return driver_refuses(driver, TUTTI_ERR_NO_MEMORY, "no memory for an event");
    event->accelerator = accelerator;
    const CUresult result =
        IN_CONTEXT(accelerator, cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING));
    if (result) {
        driver->host->release(driver->host_self, event);
        return driver_fails(driver, result, accelerator->words, "making an event");
    }
    *ret_event = event;
    return TUTTI_OK;
}

void event_free(tutti_device_event *event)
{
    if (!event)
        return;
    const tutti_driver *driver = event->accelerator->driver;
    (void)IN_CONTEXT(event->accelerator, cuEventDestroy_v2(event->event));
    driver->host->release(driver->host_self, event);
}

tutti_status event_record(tutti_device_event *event, void *stream)
{
    const tutti_accelerator *accelerator = event->accelerator;
    const CUresult result = IN_CONTEXT(accelerator, cuEventRecord(event->event, stream));

    return result ? driver_fails(accelerator->driver, result, accelerator->words,
                                 "recording an event on stream %p", stream)
                  : TUTTI_OK;
}

tutti_status event_query(tutti_device_event *event)
{
    const tutti_accelerator *accelerator = event->accelerator;
    const CUresult result = IN_CONTEXT(accelerator, cuEventQuery(event->event));

    if (result == CUDA_ERROR_NOT_READY)
        return TUTTI_ERR_NOT_READY;
    return result
               ? driver_fails(accelerator->driver, result, accelerator->words, "work on a stream")
               : TUTTI_OK;
}

tutti_status event_wait(tutti_device_event *event, tutti_accelerator *accelerator, void *stream)
{
    const CUresult result = IN_CONTEXT(accelerator, cuStreamWaitEvent(stream, event->event, 0));

    return result ? driver_fails(accelerator->driver, result, accelerator->words,
                                 "letting stream %p wait for an event", stream)
                  : TUTTI_OK;
}
