/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream that waits for a word of memory, that writes one, and that calls a function of the host.
 */
#include "cuda.h"

#define LOOK_AGAIN_US 20

struct word {
    const char *call;
    struct CUctx_st *context;
    uintptr_t address;
    uint64_t value;
    unsigned bits, flags;
};

struct function {
    struct CUctx_st *context;
    void (*run)(void *);
    void *argument;
};

/* The driver runs host functions of all streams one after the other. */
static pthread_mutex_t host_functions = PTHREAD_MUTEX_INITIALIZER;

static uint64_t load(const void *at, unsigned bits)
{
    return bits == 32 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

static bool is_there(const struct word *word, uint64_t now)
{
    uint64_t mask = word->bits == 32 ? UINT32_MAX : UINT64_MAX;

    switch (word->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic */
        return word->bits == 32 ? (int32_t)(uint32_t)(now - word->value) >= 0
                                : (int64_t)(now - word->value) >= 0;
    case WAIT_VALUE_EQ:
        return now == word->value;
    case WAIT_VALUE_AND:
        return (now & word->value) != 0;
    default:
        return (~(now | word->value) & mask) != 0;
    }
}

/* A device that is lost waits no longer. */
static CUresult run_wait(const void *arguments)
{
    const struct word *word = arguments;
    CUresult error = CUDA_SUCCESS;

    while (error == CUDA_SUCCESS) {
        const void *at;

        pthread_mutex_lock(&standin_lock);
        at = standin_view(word->call, word->address, word->bits / 8);
        standin_check_lost(word->context);
        error = word->context->error;
        pthread_mutex_unlock(&standin_lock);
        if (is_there(word, load(at, word->bits)))
            break;
        standin_sleep_us(LOOK_AGAIN_US);
    }
    return error;
}

static CUresult run_write(const void *arguments)
{
    const struct word *word = arguments;
    void *at;

    pthread_mutex_lock(&standin_lock);
    at = standin_view(word->call, word->address, word->bits / 8);
    pthread_mutex_unlock(&standin_lock);
    if (word->bits == 32)
        __atomic_store_n((uint32_t *)at, (uint32_t)word->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)at, word->value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

/* Not in managed memory, nor in pageable one. */
static bool may_have_words(uintptr_t address)
{
    const struct range *range = standin_range(address);

    return range ? range->kind != MEMORY_MANAGED : !standin_is_pageable(address);
}

static CUresult put_word(run_function run, struct word word, CUstream handle, unsigned allowed)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(word.call, &context);

    if (result)
        return result;
    if (word.flags & ~allowed || word.address % (word.bits / 8) || !may_have_words(word.address))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    stream = standin_stream(word.call, handle, context);
    standin_view(word.call, word.address, word.bits / 8);
    word.context = stream->context;
    return standin_leave(standin_put(stream, run, &word, sizeof word, NULL));
}

EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                                       unsigned flags)
{
    return put_word(run_wait, (struct word){__func__, NULL, (uintptr_t)address, value, 32, flags},
                    stream, 3);
}

EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                       unsigned flags)
{
    return put_word(run_wait, (struct word){__func__, NULL, (uintptr_t)address, value, 64, flags},
                    stream, 3);
}

EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                                        unsigned flags)
{
    return put_word(run_write, (struct word){__func__, NULL, (uintptr_t)address, value, 32, flags},
                    stream, 0);
}

EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                        unsigned flags)
{
    return put_word(run_write, (struct word){__func__, NULL, (uintptr_t)address, value, 64, flags},
                    stream, 0);
}

CUresult standin_run_host_function(const void *arguments)
{
    const struct function *function = arguments;

    pthread_mutex_lock(&host_functions);
    standin_begin_callback(function->context);
    function->run(function->argument);
    standin_end_callback();
    pthread_mutex_unlock(&host_functions);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream handle, void (*run)(void *), void *argument)
{
    struct function function = {NULL, run, argument};
    struct CUstream_st *stream;
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!run)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    stream = standin_stream(__func__, handle, context);
    function.context = stream->context;
    return standin_leave(
        standin_put(stream, standin_run_host_function, &function, sizeof function, NULL));
}
