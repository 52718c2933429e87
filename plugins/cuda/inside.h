/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the plugin share: the driver's library, a device with its primary context, and how a
 * function of the table goes to the driver and tells of a failure.
 *
 * The context is current on the calling thread between accelerator_enter() and accelerator_leave() only, so the
 * program's own is the same before and after each function of the table. In between, calls that a capture in
 * mode GLOBAL would forbid are allowed: they touch no captured stream.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include <tutti/plugin_device.h>

#include "driver_api.h"
#include "kernel_table.h"

enum { DEVICES_KNOWN = 64 }; /* by their contexts; the driver has no more */

struct tutti_driver {
    const tutti_host *host;
    void *host_self;
    void *library;
    struct driver_api api;
    uint32_t devices;
    char name[24]; /* "CUDA 12.4" */
    char path[PATH_MAX];
    _Atomic(CUcontext)
        contexts[DEVICES_KNOWN]; /* the primary one of each device in use; NULL: not in use */
};

/* The kernels of a module: reductions and the factor, or packing. */
enum { KERNELS_IN_MODULE = 16 };

struct kernel {
    char name[KERNEL_NAME_BYTES];
    CUfunction function;
};

/* Written under tutti_accelerator.loading, read once `count` is set. */
struct module {
    CUmodule module;
    atomic_uint count; /* of kernels; 0: not loaded */
    struct kernel kernels[KERNELS_IN_MODULE];
};

/* A stream that waits for a word, or has waited; queues.c. */
struct waiting_stream {
    CUstream stream;
    CUevent event; /* behind the wait; NULL: not made yet */
};

enum { WAITING_STREAMS_MAX = 30 };

struct tutti_accelerator {
    tutti_driver *driver;
    int32_t number;
    CUdevice device;
    CUcontext context; /* the primary one */
    uint32_t processors;
    char words[160]; /* "device 0 (NVIDIA H100)" */
    pthread_mutex_t loading;
    struct module modules[KERNEL_MODULE_COUNT];
    pthread_mutex_t waits_lock; /* what follows */
    uint32_t waits_most;
    struct waiting_stream waits[WAITING_STREAMS_MAX];
};

struct tutti_device_event {
    tutti_accelerator *accelerator;
    CUevent event;
};

/* ---- driver.c --- */

tutti_status driver_open(const tutti_host *host, void *host_self, tutti_driver **ret_driver);
void driver_close(tutti_driver *driver);
tutti_status driver_describe(tutti_driver *driver, tutti_driver_info *ret_info);
tutti_status driver_device(tutti_driver *driver, int32_t number, tutti_accelerator_info *ret_info);
tutti_status driver_locate(tutti_driver *driver, const void *address,
                           tutti_memory_place *ret_place);

/* Reports that `what` failed on `where`, with the driver's words for `result`, which is no success. */
tutti_status driver_fails(const tutti_driver *driver, CUresult result, const char *where,
                          const char *what, ...) __attribute__((format(printf, 4, 5)));
/* Reports a failure that is not the driver's. */
tutti_status driver_refuses(const tutti_driver *driver, tutti_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

/* ---- accelerator.c --- */

tutti_status accelerator_attach(tutti_driver *driver, int32_t number,
                                tutti_accelerator **ret_accelerator);
void accelerator_detach(tutti_accelerator *accelerator);
tutti_status accelerator_allocate(tutti_accelerator *accelerator, uint32_t kind, uint64_t bytes,
                                  void **ret_memory);
void accelerator_release(tutti_accelerator *accelerator, uint32_t kind, void *memory);

/* The calling thread's mode of captures. It is set, and the context current, three times in a call over NCCL. */
struct entry {
    CUstreamCaptureMode mode;
};
static inline CUresult accelerator_enter(const tutti_accelerator *accelerator,
                                         struct entry *ret_entry)
{
    const struct driver_api *api = &accelerator->driver->api;
    const CUresult result = api->cuCtxPushCurrent_v2(accelerator->context);

    if (result)
        return result;
    ret_entry->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (api->cuThreadExchangeStreamCaptureMode(&ret_entry->mode))
        ret_entry->mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* as it is */
    return CUDA_SUCCESS;
}

/* Returns `result`, or that the context could not be popped. */
static inline CUresult accelerator_leave(const tutti_accelerator *accelerator, struct entry *entry,
                                         CUresult result)
{
    const struct driver_api *api = &accelerator->driver->api;
    CUcontext popped;

    if (entry->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        (void)api->cuThreadExchangeStreamCaptureMode(&entry->mode);
    const CUresult pop = api->cuCtxPopCurrent_v2(&popped);
    return result ? result : pop;
}

/* The same for users of the table. */
tutti_status accelerator_begin(tutti_accelerator *accelerator, int32_t *ret_before);
void accelerator_end(tutti_accelerator *accelerator, int32_t before);

/* Calls a function of the driver with the context current: IN_CONTEXT(accelerator, cuEventQuery(event)). */
#define IN_CONTEXT(accelerator, call)                                                              \
    __extension__({                                                                                \
        struct entry in_context_entry;                                                             \
        CUresult in_context_result = accelerator_enter(accelerator, &in_context_entry);            \
        if (in_context_result == CUDA_SUCCESS)                                                     \
            in_context_result = accelerator_leave(accelerator, &in_context_entry,                  \
                                                  (accelerator)->driver->api.call);                \
        in_context_result;                                                                         \
    })

/* ---- stream.c --- */

tutti_status stream_create(tutti_accelerator *accelerator, void **ret_stream);
void stream_free(tutti_accelerator *accelerator, void *stream);
tutti_status stream_check(tutti_accelerator *accelerator, void *stream, uint32_t *ret_flags);
tutti_status event_create(tutti_accelerator *accelerator, tutti_device_event **ret_event);
void event_free(tutti_device_event *event);
tutti_status event_record(tutti_device_event *event, void *stream);
tutti_status event_query(tutti_device_event *event);
tutti_status event_wait(tutti_device_event *event, tutti_accelerator *accelerator, void *stream);

/* ---- queues.c --- */

/* How many streams may wait for words at once. */
uint32_t queues_for_waits(void);
tutti_status queues_wait_word(tutti_accelerator *accelerator, void *stream, uint32_t *word,
                              uint32_t value);
void queues_free(tutti_accelerator *accelerator);

/* ---- launch.c --- */

/* Loads a module, unless it is loaded. Waits for the driver's compiler. */
tutti_status kernel_load(tutti_accelerator *accelerator, enum kernel_module number);
void kernel_unload_all(tutti_accelerator *accelerator);
/* Puts a kernel on the stream; `arguments` is its struct. */
tutti_status kernel_launch(tutti_accelerator *accelerator, void *stream, const struct kernel_id *id,
                           uint64_t bytes, void *arguments);

/* ---- work.c --- */

tutti_status work_copy(tutti_accelerator *accelerator, void *stream, void *dst, const void *src,
                       uint64_t bytes);
tutti_status work_pack(tutti_accelerator *accelerator, void *stream, void *packed,
                       const tutti_device_view *view, uint64_t begin, uint64_t count);
tutti_status work_unpack(tutti_accelerator *accelerator, void *stream,
                         const tutti_device_view *view, const void *packed, uint64_t begin,
                         uint64_t count);
tutti_status work_reduce(tutti_accelerator *accelerator, void *stream,
                         const tutti_device_reduction *what);
tutti_status work_scale(tutti_accelerator *accelerator, void *stream, uint32_t dtype, void *dst,
                        const void *a, uint64_t count, const void *factor, int32_t on_device);
tutti_status work_prepare(tutti_accelerator *accelerator, uint32_t dtype);
