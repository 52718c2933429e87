/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: queues of operations, each with a thread. An operation begins when what it comes after is complete:
 * for one on the legacy stream, all that was submitted to the blocking streams of its context; for one on a
 * blocking stream, what was submitted to the legacy stream; for each, what cuStreamWaitEvent() named.
 *
 * Once its context has an error, a stream completes its operations without running them.
 */
#include "cuda.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* As many copies, fills, kernels and waits are in a stream; the next one waits in its call (driver 580). */
#define COMMANDS 1020

struct operation {
    struct operation *next;
    run_function run;
    void *arguments;
    struct point *after;
    int count;
};

static struct CUstream_st *streams;
static _Thread_local uint64_t random_state;

struct CUstream_st *standin_all_streams(void)
{
    return streams;
}

bool standin_reached(struct point point)
{
    return !point.stream || point.stream->completed >= point.position;
}

void standin_wait_point(struct point point)
{
    while (!standin_reached(point))
        pthread_cond_wait(&standin_changed, &standin_lock);
}

void standin_wait_context(struct CUctx_st *context)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->context == context)
            standin_wait_point((struct point){s, s->submitted});
}

static bool is_blocking(const struct CUstream_st *stream)
{
    return !stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

void standin_wait_legacy(struct CUstream_st *legacy)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->context == legacy->context && (is_blocking(s) || s == legacy))
            standin_wait_point((struct point){s, s->submitted});
}

/* Nothing is pending in the stream or, for the legacy one, in those that it waits for. */
static bool is_idle(const struct CUstream_st *stream)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->context == stream->context && s->completed < s->submitted &&
            (s == stream || (stream->legacy && is_blocking(s))))
            return false;
    return true;
}

/* xorshift64*, each stream in its own sequence. */
static uint64_t next_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

/* Half of the operations begin at once. */
static void delay(void)
{
    uint64_t drawn = next_random() >> 8;

    if (standin_settings.delay_us > 0 && drawn & 1)
        standin_sleep_us((long)((drawn >> 1) % (uint64_t)standin_settings.delay_us));
}

static bool may_begin(const struct operation *operation)
{
    for (int i = 0; i < operation->count; i++)
        if (!standin_reached(operation->after[i]))
            return false;
    return true;
}

static bool is_command(run_function run)
{
    return run != standin_run_record && run != standin_run_host_function;
}

/* With the lock, which it gives up while the operation runs. */
static void perform(struct CUstream_st *stream, struct operation *operation)
{
    struct CUctx_st *context = stream->context;
    CUresult result;

    while (operation->run && context->error == CUDA_SUCCESS && standin_settings.connections > 0 &&
           context->running >= standin_settings.connections)
        pthread_cond_wait(&standin_changed, &standin_lock);
    context->running++;
    standin_check_lost(context);
    if (context->error == CUDA_SUCCESS && operation->run) {
        result = standin_fault_operation(context->device);
        if (result == CUDA_SUCCESS) {
            pthread_mutex_unlock(&standin_lock);
            delay();
            result = operation->run(operation->arguments);
            pthread_mutex_lock(&standin_lock);
        }
        if (result && !context->error)
            context->error = result;
    }
    stream->first = operation->next;
    if (!stream->first)
        stream->last = &stream->first;
    stream->completed++;
    context->running--;
    if (operation->run)
        stream->commands -= is_command(operation->run);
    free(operation->arguments);
    free(operation->after);
    free(operation);
    pthread_cond_broadcast(&standin_changed);
}

static void *stream_thread(void *argument)
{
    struct CUstream_st *stream = argument;

    pthread_mutex_lock(&standin_lock);
    random_state = standin_settings.seed ^ (uintptr_t)stream->submitted << 32;
    for (const struct CUstream_st *s = stream; s; s = s->next)
        random_state = (random_state + 1) * UINT64_C(6364136223846793005);
    random_state |= 1;
    for (;;) {
        while (!stream->first && stream->alive)
            pthread_cond_wait(&standin_changed, &standin_lock);
        if (!stream->first)
            break;
        while (!may_begin(stream->first))
            pthread_cond_wait(&standin_changed, &standin_lock);
        perform(stream, stream->first);
    }
    stream->has_thread = false;
    pthread_mutex_unlock(&standin_lock);
    return NULL;
}

/* Its signals are blocked: those of the process are for its own threads. */
static void start_thread(struct CUstream_st *stream)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    if (pthread_create(&thread, &attributes, stream_thread, stream))
        standin_die(__func__, "pthread_create failed");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->has_thread = true;
}

static void comes_after(struct operation *operation, struct point point)
{
    if (standin_reached(point))
        return;
    operation->after = realloc(operation->after, (size_t)(operation->count + 1) * sizeof point);
    operation->after[operation->count++] = point;
}

/* What the legacy stream's rule adds. */
static void order(struct CUstream_st *stream, struct operation *operation)
{
    struct CUstream_st *legacy = stream->context->legacy;

    if (is_blocking(stream) && legacy)
        comes_after(operation, (struct point){legacy, legacy->submitted});
    if (!stream->legacy)
        return;
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->context == stream->context && is_blocking(s))
            comes_after(operation, (struct point){s, s->submitted});
}

static struct point append(struct CUstream_st *stream, struct operation *operation)
{
    order(stream, operation);
    *stream->last = operation;
    stream->last = &operation->next;
    stream->submitted++;
    if (!stream->has_thread)
        start_thread(stream);
    pthread_cond_broadcast(&standin_changed);
    return (struct point){stream, stream->submitted};
}

static CUresult put(struct CUstream_st *stream, run_function run, number_function number,
                    const void *arguments, size_t size, struct point *ret_point)
{
    struct operation *operation;
    struct point point;
    CUresult result = standin_refuse_implicit(stream);

    if (result)
        return result;
    if (stream->capture)
        return standin_capture_put(stream, run, number, arguments, size);
    while (is_command(run) && stream->commands >= COMMANDS)
        pthread_cond_wait(&standin_changed, &standin_lock);
    operation = calloc(1, sizeof *operation);
    operation->run = run;
    stream->commands += is_command(run);
    operation->arguments = malloc(size ? size : 1);
    memcpy(operation->arguments, arguments, size);
    if (number)
        number(operation->arguments);
    point = append(stream, operation);
    if (ret_point)
        *ret_point = point;
    return CUDA_SUCCESS;
}

CUresult standin_put(struct CUstream_st *stream, run_function run, const void *arguments,
                     size_t size, struct point *ret_point)
{
    return put(stream, run, NULL, arguments, size, ret_point);
}

CUresult standin_put_numbered(struct CUstream_st *stream, run_function run, number_function number,
                              const void *arguments, size_t size)
{
    return put(stream, run, number, arguments, size, NULL);
}

void standin_put_after(struct CUstream_st *stream, struct point point)
{
    struct operation *operation;

    if (standin_reached(point))
        return;
    operation = calloc(1, sizeof *operation);
    comes_after(operation, point);
    append(stream, operation);
}

/* A place of a stream that ended, or a new one. Its counts go on, so that old points stay reached. */
static struct CUstream_st *new_stream(struct CUctx_st *context, unsigned flags)
{
    struct CUstream_st *stream = streams;

    while (stream && (stream->alive || stream->has_thread || stream->first))
        stream = stream->next;
    if (!stream) {
        stream = calloc(1, sizeof *stream);
        stream->next = streams;
        streams = stream;
    }
    stream->alive = true;
    stream->legacy = stream->is_per_thread = false;
    stream->flags = flags;
    stream->priority = 0;
    stream->context = context;
    stream->first = NULL;
    stream->last = &stream->first;
    stream->capture = NULL;
    stream->captured = -1;
    return stream;
}

static struct CUstream_st *per_thread_stream(struct CUctx_st *context)
{
    struct CUstream_st *s = streams;

    while (s && !(s->alive && s->is_per_thread && s->context == context &&
                  pthread_equal(s->owner, pthread_self())))
        s = s->next;
    if (!s) {
        s = new_stream(context, 0);
        s->is_per_thread = true;
        s->owner = pthread_self();
    }
    return s;
}

struct CUstream_st *standin_stream(const char *call, CUstream handle, struct CUctx_st *context)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (!context->legacy) {
            context->legacy = new_stream(context, 0);
            context->legacy->legacy = true;
        }
        return context->legacy;
    }
    if (handle == CU_STREAM_PER_THREAD)
        return per_thread_stream(context);
    if (!handle->alive)
        standin_die(call, "stream %p is destroyed", (void *)handle);
    return handle;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *ret_stream, unsigned flags, int priority)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *ret_stream = new_stream(context, flags);
    (*ret_stream)->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamCreate(CUstream *ret_stream, unsigned flags)
{
    return cuStreamCreateWithPriority(ret_stream, flags, 0);
}

/* What is in the stream is still done. */
EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return standin_leave(CUDA_ERROR_INVALID_HANDLE);
    stream = standin_stream(__func__, handle, context);
    standin_capture_drop(stream);
    stream->alive = false;
    pthread_cond_broadcast(&standin_changed);
    return standin_leave(CUDA_SUCCESS);
}

static CUresult refuse_to_ask(struct CUstream_st *stream)
{
    CUresult result = standin_refuse_captured(stream);

    return result ? result : standin_refuse_unsafe();
}

EXPORT CUresult cuStreamQuery(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter_query(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = refuse_to_ask(stream);
    if (result == CUDA_SUCCESS)
        result = stream->context->error;
    if (result == CUDA_SUCCESS && !is_idle(stream))
        result = CUDA_ERROR_NOT_READY;
    return standin_leave(result);
}

EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = refuse_to_ask(stream);
    if (result)
        return standin_leave(result);
    if (stream->legacy)
        standin_wait_legacy(stream);
    standin_wait_point((struct point){stream, stream->submitted});
    return standin_leave(stream->context->error);
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret_context)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    *ret_context = standin_stream(__func__, handle, context)->context;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *ret_flags)
{
    struct CUstream_st *stream;
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = standin_refuse_captured(stream);
    if (result == CUDA_SUCCESS)
        *ret_flags = stream->flags;
    return standin_leave(result);
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *ret_priority)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    *ret_priority = standin_stream(__func__, handle, context)->priority;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult standin_cuda_put(CUstream handle, run_function run, number_function number,
                                 const void *arguments, size_t size)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    return standin_leave(
        put(standin_stream(__func__, handle, context), run, number, arguments, size, NULL));
}
