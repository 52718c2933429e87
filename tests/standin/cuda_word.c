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
    void (*run)(void *);
    void *argument;
};

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

static CUresult put_word(run_function run, struct word word, CUstream handle, unsigned allowed)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(word.call, &context);

    if (result)
        return result;
    if (word.flags & ~allowed || word.address % (word.bits / 8) ||
        standin_is_pageable(word.address))
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
                    stream, 1);
}

EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                        unsigned flags)
{
    return put_word(run_write, (struct word){__func__, NULL, (uintptr_t)address, value, 64, flags},
                    stream, 1);
}

static CUresult run_function_of_host(const void *arguments)
{
    const struct function *function = arguments;

    standin_in_callback = true;
    function->run(function->argument);
    standin_in_callback = false;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream handle, void (*run)(void *), void *argument)
{
    struct function function = {run, argument};
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!run)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    return standin_leave(standin_put(standin_stream(__func__, handle, context),
                                     run_function_of_host, &function, sizeof function, NULL));
}
