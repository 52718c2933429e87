/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: one primary one for each device, more by cuCtxCreate(), and a stack of them for each thread.
 */
#include "cuda.h"

#include <stdlib.h>

#define MAX_STACK 32
#define MAX_CREATED 64

static struct CUctx_st primary[MAX_DEVICES];
static struct CUctx_st *created[MAX_CREATED];
static _Thread_local struct CUctx_st *stack[MAX_STACK];
static _Thread_local int depth;
static _Thread_local bool in_callback;

struct CUctx_st *standin_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

struct CUctx_st *standin_context_of(CUdevice device)
{
    return &primary[device];
}

/* A host function has the context of its stream. */
void standin_begin_callback(struct CUctx_st *context)
{
    stack[depth++] = context;
    in_callback = true;
}

void standin_end_callback(void)
{
    depth = 0;
    in_callback = false;
}

bool standin_in_callback(void)
{
    return in_callback;
}

CUresult standin_enter(const char *call, struct CUctx_st **ret_context)
{
    return in_callback ? CUDA_ERROR_NOT_PERMITTED : standin_enter_query(call, ret_context);
}

CUresult standin_enter_query(const char *call, struct CUctx_st **ret_context)
{
    struct CUctx_st *context = standin_current();
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!context)
        standin_die(call, "no context is current in this thread: push one first");
    pthread_mutex_lock(&standin_lock);
    if (!context->alive)
        standin_die(call, "the current context of device %d is destroyed", context->device);
    standin_check_lost(context);
    if (context->error) {
        result = context->error;
        pthread_mutex_unlock(&standin_lock);
        return result;
    }
    *ret_context = context;
    return CUDA_SUCCESS;
}

CUresult standin_leave(CUresult result)
{
    pthread_mutex_unlock(&standin_lock);
    return result;
}

static bool is_device(CUdevice device)
{
    return device >= 0 && device < standin_settings.devices;
}

/* With the lock. The streams of the context end when they are empty. */
static void destroy(struct CUctx_st *context)
{
    standin_wait_context(context);
    for (struct CUstream_st *s = standin_all_streams(); s; s = s->next)
        if (s->context == context)
            s->alive = false;
    pthread_cond_broadcast(&standin_changed);
    standin_free_context_memory(context);
    context->legacy = NULL;
    context->alive = false;
    context->peers = 0;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    context = &primary[device];
    context->device = device;
    standin_check_lost(context);
    if (context->error && context->retained == 0) /* a lost device stays lost */
        return standin_leave(context->error);
    context->alive = context->primary = true;
    context->retained++;
    *ret_context = context;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    if (primary[device].retained == 0)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (--primary[device].retained == 0)
        destroy(&primary[device]);
    return standin_leave(result);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *ret_flags, int *ret_active)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    *ret_flags = primary[device].flags;
    *ret_active = primary[device].retained > 0;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    if (!context->alive)
        standin_die(__func__, "this context is destroyed");
    if (depth == MAX_STACK)
        standin_die(__func__, "%d contexts are on this thread's stack: somebody does not pop",
                    depth);
    stack[depth++] = context;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ret_context)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (ret_context)
        *ret_context = stack[depth];
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack; NULL pops it. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (depth)
        depth--;
    return context ? cuCtxPushCurrent_v2(context) : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *ret_context)
{
    CUresult result = standin_initialised();

    if (result == CUDA_SUCCESS)
        *ret_context = standin_current();
    return result;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *ret_device)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!standin_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    *ret_device = standin_current()->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *ret_context, unsigned flags, CUdevice device)
{
    CUresult result = standin_initialised();
    struct CUctx_st *context;
    int slot = 0;

    if (result)
        return result;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    while (slot < MAX_CREATED && created[slot] && created[slot]->alive)
        slot++;
    if (slot == MAX_CREATED)
        return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!created[slot])
        created[slot] = calloc(1, sizeof *created[slot]);
    context = created[slot];
    *context = (struct CUctx_st){.alive = true, .device = device, .flags = flags};
    pthread_mutex_unlock(&standin_lock);
    *ret_context = context;
    return cuCtxPushCurrent_v2(context);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!context || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (standin_current() == context)
        depth--;
    pthread_mutex_lock(&standin_lock);
    if (!context->alive)
        standin_die(__func__, "this context is destroyed already");
    destroy(context);
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSynchronize(void)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    result = standin_refuse_in_context(context);
    if (result)
        return standin_leave(result);
    standin_wait_context(context);
    return standin_leave(context->error);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (ret_least)
        *ret_least = 0;
    if (ret_greatest)
        *ret_greatest = -5;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (flags)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!peer || !peer->alive)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!standin_settings.peers || peer->device == context->device)
        result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    else if (context->peers & 1u << peer->device)
        result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else
        context->peers |= 1u << peer->device;
    return standin_leave(result);
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!peer || !peer->alive)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!(context->peers & 1u << peer->device))
        result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    else
        context->peers &= ~(1u << peer->device);
    return standin_leave(result);
}
