/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for libcuda.so.1, for machines without a GPU. It is built with the tests and never installed.
 *
 * It keeps the driver's rules of order, and ends the process where a caller breaks one that a real driver
 * cannot tell from luck: a message on stderr, then abort().
 *  - Device memory has an address that the host cannot touch. The stand-in reaches it by a second mapping.
 *  - A stream is a thread that waits a random time before each operation. New memory is poisoned.
 *  - One lock (standin_lock) guards all state. Operations run without it.
 *
 * Variables, read by cuInit():
 *
 *  STANDIN_CUDA_DEVICES=n       devices, 1 to 8 (default 1); 0: cuInit() says CUDA_ERROR_NO_DEVICE
 *  CUDA_VISIBLE_DEVICES=list    indices, as the driver has it
 *  CUDA_DEVICE_MAX_CONNECTIONS=n  operations of so many streams run at once, waits for words among them; not set:
 *                               no limit, where a driver has 8
 *  STANDIN_CUDA_MEMORY_MIB=n    memory of a device (1024)
 *  STANDIN_CUDA_SEED=n          of the delays; printed on stderr when it is drawn, with STANDIN_CUDA_VERBOSE=1
 *  STANDIN_CUDA_DELAY_US=n      longest delay before an operation (100); 0: none
 *  STANDIN_CUDA_PEERS=0         no device reaches another's memory
 *  STANDIN_CUDA_VERSION=n       what cuDriverGetVersion() says (12040)
 *
 * Faults:
 *
 *  STANDIN_CUDA_OOM_AT=n        from the n-th allocation on, of device or pinned memory: OUT_OF_MEMORY
 *  STANDIN_CUDA_LOST_AT=n       the n-th operation on a stream loses its device: the error is sticky
 *  STANDIN_CUDA_LOST_FILE=path  each device is lost once this file exists
 *  STANDIN_CUDA_LOST_DEVICE=d   the one device that the two lines above are about (all)
 *  STANDIN_CUDA_LOST_ERROR=n    the error of a lost device (719)
 *  STANDIN_CUDA_LATE_COPY=n     the n-th asynchronous copy does not copy; a later call says so (214, sticky)
 *  STANDIN_CUDA_SLOW_MIBS=n     copies take the time that n MiB/s need
 *  STANDIN_CUDA_FAULT_RANK=r    faults are for the process alone whose TUTTI_RANK (or RANK) is r
 */
#ifndef STANDIN_CUDA_H
#define STANDIN_CUDA_H

#include "cuda_more.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 8

#define DECLARE(name, arguments) EXPORT CUresult name arguments;
DRIVER_FUNCTIONS(DECLARE)
MORE_FUNCTIONS(DECLARE)
#undef DECLARE

/* What a stream does for an operation, without the lock. `arguments` is the operation's own copy. */
typedef CUresult (*run_function)(const void *arguments);
/* With the lock. */
typedef void (*number_function)(void *arguments);

/* A point in the order of a stream: reached once `completed` of the stream is not less. */
struct point {
    struct CUstream_st *stream;
    uint64_t position;
};

/* Structures are kept for reuse when they are destroyed, so that a stale handle is found and named. */
struct CUstream_st {
    bool alive;
    bool legacy;
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    struct CUctx_st *context;
    struct CUstream_st *next; /* all streams that there ever were */
    struct operation *first, **last;
    uint64_t submitted, completed;
    int commands; /* pending ones that take room in its queue */
    bool has_thread;
    pthread_t owner; /* of a per-thread stream */
    bool is_per_thread;
    struct capture *capture;
    int captured; /* its last node in `capture`, -1 for none */
};

struct CUevent_st {
    bool alive;
    unsigned flags;
    struct CUctx_st *context;
    struct CUevent_st *next; /* in the list of those that are free */
    struct point at;         /* stream NULL: never recorded */
    double time;             /* of the last record that is complete, ms */
    int pending;             /* records that are still in a stream */
    struct capture *capture; /* the last record was in a capture */
    int captured;
};

struct CUctx_st {
    bool alive;
    bool primary;
    int retained;
    CUdevice device;
    unsigned flags;
    CUresult error; /* sticky */
    int running;    /* operations */
    unsigned peers; /* devices whose memory kernels of this context reach */
    struct CUstream_st *legacy;
};

struct CUmod_st {
    bool alive;
    struct CUctx_st *context;
    char *text;
    struct CUfunc_st *functions;
};

/* What stands at an address. */
enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED, MEMORY_REGISTERED, MEMORY_MANAGED };

struct range {
    uintptr_t start;
    size_t bytes;
    enum memory_kind kind;
    struct CUctx_st *context;
    unsigned flags;
    unsigned long long id;
};

/* cuda_driver.c */
struct settings {
    int devices;
    int visible[MAX_DEVICES];
    size_t memory;
    uint64_t seed;
    long delay_us;
    int connections; /* 0: no limit */
    bool peers;
    int version;
    long oom_at, lost_at, late_copy, slow_mibs;
    const char *lost_file;
    int lost_device;
    CUresult lost_error;
};
extern struct settings standin_settings;
extern pthread_mutex_t standin_lock;
extern pthread_cond_t standin_changed; /* an operation is complete, or something ended */

void standin_read_settings(void);
/* Ends the process: the caller broke a rule. */
void standin_die(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
double standin_now_ms(void);
void standin_sleep_us(long us);

/* cuda_context.c. standin_enter() locks; it fails (unlocked) if the driver is not initialised, if a host function
 * of a stream calls, and with the sticky error of the current context. No current context: ends the process.
 * A host function may ask events and streams: standin_enter_query(). */
CUresult standin_enter(const char *call, struct CUctx_st **ret_context);
CUresult standin_enter_query(const char *call, struct CUctx_st **ret_context);
CUresult standin_leave(CUresult result); /* unlocks */
struct CUctx_st *standin_current(void);  /* NULL: none */
CUresult standin_initialised(void);
void standin_check_lost(struct CUctx_st *context);
struct CUctx_st *standin_context_of(CUdevice device);
void standin_begin_callback(struct CUctx_st *context);
void standin_end_callback(void);
bool standin_in_callback(void);

/* cuda_memory.c, with the lock. NULL: nothing that the driver knows. */
const struct range *standin_range(uintptr_t address);
/* The address by which the stand-in reaches `bytes` of memory of any kind. Freed memory, or a piece that is
 * longer than its range, ends the process. Pageable memory: the address itself. */
void *standin_view(const char *call, uintptr_t address, size_t bytes);
bool standin_is_device_address(uintptr_t address);
bool standin_is_pageable(uintptr_t address);
void standin_free_context_memory(struct CUctx_st *context);

/* cuda_event.c and cuda_word.c: operations that take no room in a stream's queue */
CUresult standin_run_record(const void *arguments);
CUresult standin_run_host_function(const void *arguments);

/* cuda_stream.c, with the lock */
struct CUstream_st *standin_stream(const char *call, CUstream handle, struct CUctx_st *context);
/* Puts an operation at the end of `stream`, or into its capture. `ret_point` may be NULL. */
CUresult standin_put(struct CUstream_st *stream, run_function run, const void *arguments,
                     size_t size, struct point *ret_point);
/* The same for one that changes its arguments when it comes to a stream, also each time with a graph. */
CUresult standin_put_numbered(struct CUstream_st *stream, run_function run, number_function number,
                              const void *arguments, size_t size);
/* `stream` goes on after `point`. */
void standin_put_after(struct CUstream_st *stream, struct point point);
void standin_wait_point(struct point point); /* returns with the error of the context, too */
void standin_wait_context(struct CUctx_st *context);
/* All that an operation on this legacy stream would wait for. */
void standin_wait_legacy(struct CUstream_st *legacy);
bool standin_reached(struct point point);
struct CUstream_st *standin_all_streams(void);

/* cuda_capture.c, with the lock */
CUresult standin_capture_put(struct CUstream_st *stream, run_function run, number_function number,
                             const void *arguments, size_t size);
CUresult standin_capture_record(struct CUstream_st *stream, struct CUevent_st *event);
CUresult standin_capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
CUresult standin_refuse_captured_event(struct CUevent_st *event);
/* A call that must not be made on a stream that captures. */
CUresult standin_refuse_captured(struct CUstream_st *stream);
/* A call that may wait for work of others, by the modes of captures and of this thread. */
CUresult standin_refuse_unsafe(void);
/* A call that waits for a whole context. */
CUresult standin_refuse_in_context(struct CUctx_st *context);
/* The stream is destroyed. */
void standin_capture_drop(struct CUstream_st *stream);
/* A call on the legacy stream while a blocking stream of its context captures. */
CUresult standin_refuse_implicit(struct CUstream_st *stream);

/* cuda_fault.c, with the lock */
bool standin_fault_allocation(void);
CUresult standin_fault_operation(CUdevice device);
bool standin_fault_copy(void);

/* For the stand-in of NCCL and for tests, found by dlsym(). They take the lock themselves. */
EXPORT CUresult standin_cuda_put(CUstream stream, run_function run, number_function number,
                                 const void *arguments, size_t size);
EXPORT void *standin_cuda_view(CUdeviceptr address, size_t bytes);
EXPORT void standin_cuda_lose(CUdevice device, CUresult error);

#endif
