/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that move data, and groups of them. A call outside of a group is a group of its own. The end of the outermost
 * group puts one operation on a stream for each communicator: its tasks together. Where the calls of
 * one communicator name several streams, the operation is on the first one, comes after what is on all of them, and later
 * work on each comes after it.
 */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

struct call {
    struct ncclComm *comm;
    CUstream stream;
    uint64_t capture; /* of the stream; 0: none */
    struct task task;
};

struct calls {
    struct call *list;
    size_t count;
};

static _Thread_local struct {
    int depth;
    struct calls calls;
    ncclResult_t result; /* of the first call that failed */
} group;

static atomic_long calls_made;
static atomic_int launched, groups;

EXPORT int standin_nccl_launches(void)
{
    return atomic_load(&launched);
}

EXPORT int standin_nccl_groups(void)
{
    return atomic_load(&groups);
}

/* ---- putting on streams --------------------------------------------------------------------- */

static ncclResult_t of_cuda(CUresult result)
{
    return result ? nccl_warn(ncclUnhandledCudaError, "Cuda failure %d", (int)result) : ncclSuccess;
}

/* Later work on `after` comes behind what is on `before` now. */
static CUresult order(const struct cuda *cu, CUstream before, CUstream after)
{
    CUevent event;
    CUresult result = cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    if (result)
        return result;
    result = cu->cuEventRecord(event, before);
    if (!result)
        result = cu->cuStreamWaitEvent(after, event, 0);
    cu->cuEventDestroy_v2(event);
    return result;
}

static CUresult order_all(const struct cuda *cu, const struct calls *calls,
                          const struct ncclComm *comm, CUstream stream, bool after)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < calls->count && !result; i++) {
        CUstream other = calls->list[i].stream;

        if (calls->list[i].comm == comm && other != stream)
            result = after ? order(cu, stream, other) : order(cu, other, stream);
    }
    return result;
}

/* It comes to a stream, by its call or with a graph. */
static void number(void *arguments)
{
    struct launch *launch = arguments;

    pthread_mutex_lock(&launch->comm->lock);
    launch->number = ++launch->comm->issued;
    pthread_mutex_unlock(&launch->comm->lock);
}

static void let_go_of_graph(void *of)
{
    struct ncclComm *comm = of;

    pthread_mutex_lock(&comm->lock);
    comm->graphs--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

/* A graph that captures the stream needs the communicator as long as it exists. */
static CUresult hold_by_graph(const struct cuda *cu, struct ncclComm *comm, CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUuserObject object;
    CUgraph graph = NULL;
    CUresult result = cu->cuStreamGetCaptureInfo_v2(stream, &capture, NULL, &graph, NULL, NULL);

    if (result || capture != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    pthread_mutex_lock(&comm->lock);
    comm->graphs++;
    pthread_mutex_unlock(&comm->lock);
    result =
        cu->cuUserObjectCreate(&object, comm, let_go_of_graph, 1, USER_OBJECT_NO_DESTRUCTOR_SYNC);
    return result ? result : cu->cuGraphRetainUserObject(graph, object, 1, GRAPH_USER_OBJECT_MOVE);
}

static CUresult put(const struct cuda *cu, struct launch *launch, CUstream stream)
{
    CUresult result = hold_by_graph(cu, launch->comm, stream);

    if (result)
        return result;
    atomic_fetch_add(&launched, 1);
    return cu->standin_cuda_put(stream, nccl_run_launch, number, launch,
                                sizeof *launch + launch->count * sizeof *launch->tasks);
}

/* The operation of the calls of one communicator. Its messages come last. */
static struct launch *gather(const struct calls *calls, struct ncclComm *comm)
{
    struct launch *launch = malloc(sizeof *launch + calls->count * sizeof *launch->tasks);

    *launch = (struct launch){.comm = comm};
    for (int messages = 0; messages < 2; messages++)
        for (size_t i = 0; i < calls->count; i++) {
            const struct call *call = &calls->list[i];

            if (call->comm == comm && (call->task.kind >= SEND) == messages)
                launch->tasks[launch->count++] = call->task;
        }
    return launch;
}

static ncclResult_t launch(const struct calls *calls, const struct call *first)
{
    const struct cuda *cu = nccl_cuda();
    struct ncclComm *comm = first->comm;
    struct launch *launch = gather(calls, comm);
    CUresult result = cu->cuCtxPushCurrent_v2(comm->context);

    comm->was_used = true;
    if (!result)
        result = order_all(cu, calls, comm, first->stream, false);
    if (!result)
        result = put(cu, launch, first->stream);
    if (!result)
        result = order_all(cu, calls, comm, first->stream, true);
    cu->cuCtxPopCurrent_v2(NULL);
    free(launch);
    return of_cuda(result);
}

static bool is_first_of_comm(const struct calls *calls, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (calls->list[before].comm == calls->list[i].comm)
            return false;
    return true;
}

/* ---- calls that are in progress ------------------------------------------------------------- */

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting {
    struct waiting *next;
    struct ncclComm *comm;
    struct calls calls;
} * waiting;

static struct calls take(const struct ncclComm *comm)
{
    struct waiting **at, *found;
    struct calls calls;

    pthread_mutex_lock(&waiting_lock);
    for (at = &waiting; (*at)->comm != comm;)
        at = &(*at)->next;
    found = *at;
    *at = found->next;
    pthread_mutex_unlock(&waiting_lock);
    calls = found->calls;
    free(found);
    return calls;
}

/* So long the next call is in progress; 0: it is not. */
static long progress_ms(const struct ncclComm *comm)
{
    const struct settings *s = nccl_settings();

    return comm->blocking ? 0 : comm->was_used ? s->later_ms : s->first_ms;
}

static ncclResult_t launch_later(struct ncclComm *comm)
{
    struct calls calls = take(comm);
    ncclResult_t result = ncclSuccess;

    nccl_sleep_us(progress_ms(comm) * 1000);
    if (!atomic_load(&comm->aborted))
        result = launch(&calls, &calls.list[0]);
    free(calls.list);
    return result;
}

/* Its calls alone. */
static ncclResult_t begin(const struct calls *calls, const struct call *first)
{
    struct waiting *added = malloc(sizeof *added);

    *added = (struct waiting){.comm = first->comm,
                              .calls.list = malloc(calls->count * sizeof *calls->list)};
    for (size_t i = 0; i < calls->count; i++)
        if (calls->list[i].comm == first->comm)
            added->calls.list[added->calls.count++] = calls->list[i];
    pthread_mutex_lock(&waiting_lock);
    added->next = waiting;
    waiting = added;
    pthread_mutex_unlock(&waiting_lock);
    return nccl_run(first->comm, launch_later);
}

static ncclResult_t launch_all(const struct calls *calls)
{
    ncclResult_t result = ncclSuccess;

    atomic_fetch_add(&groups, calls->count > 0);
    for (size_t i = 1; i < calls->count; i++)
        if (calls->list[i].comm->blocking != calls->list[0].comm->blocking)
            return nccl_warn(ncclInvalidArgument, "Blocking and nonblocking communicators are not "
                                                  "allowed in the same group");
    for (size_t i = 0; i < calls->count; i++) {
        const struct call *call = &calls->list[i];
        ncclResult_t one;

        if (!is_first_of_comm(calls, i))
            continue;
        one = progress_ms(call->comm) ? begin(calls, call) : launch(calls, call);
        if (one)
            result = one;
    }
    return result;
}

/* ---- groups --------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result;

    if (group.depth == 0)
        return nccl_warn(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
    if (--group.depth)
        return ncclSuccess;
    result = group.result ? group.result : launch_all(&group.calls);
    free(group.calls.list);
    group.calls = (struct calls){NULL, 0};
    group.result = ncclSuccess;
    return result;
}

static void add(const struct call *call)
{
    struct calls *calls = &group.calls;

    calls->list = realloc(calls->list, (calls->count + 1) * sizeof *call);
    calls->list[calls->count++] = *call;
}

/* ---- what a call says ----------------------------------------------------------------------- */

static ncclResult_t check_op(const char *name, const struct task *task)
{
    if ((int)task->op >= 0 && task->op <= ncclAvg)
        return ncclSuccess;
    return nccl_warn(ncclInvalidArgument, "%s : invalid reduction operation %d", name,
                     (int)task->op);
}

static bool reduces(const struct task *task)
{
    return task->kind == ALL_REDUCE || task->kind == REDUCE || task->kind == REDUCE_SCATTER;
}

/* As where one of the GPUs has a compute capability below 9.0. */
static ncclResult_t check_type(const char *name, const struct task *task)
{
    const int newest = nccl_settings()->version >= 22400 ? ncclFloat8e5m2 : ncclBfloat16;

    if ((int)task->type < 0 || (int)task->type > newest)
        return nccl_warn(ncclInvalidArgument, "%s : invalid type %d", name, (int)task->type);
    if (reduces(task) && task->type >= ncclFloat8e4m3)
        return nccl_warn(ncclInvalidArgument,
                         "FP8 reduction support begins with sm90 capable devices.");
    return ncclSuccess;
}

static ncclResult_t check(const char *name, const struct ncclComm *comm, struct task *task)
{
    const ncclResult_t result = check_type(name, task);

    if (result)
        return result;
    if (task->root < 0 || task->root >= comm->size)
        return nccl_warn(ncclInvalidArgument,
                         "%s : invalid root %d (root should be in the 0..%d "
                         "range)",
                         name, task->root, comm->size);
    if ((nccl_in_bytes(comm, task) && !task->in) || (nccl_out_bytes(comm, task) && !task->out))
        return nccl_warn(ncclInvalidArgument, "%s : a buffer is NULL", name);
    return check_op(name, task);
}

static bool is_pageable(const struct cuda *cu, const void *memory, size_t bytes)
{
    unsigned type = 0;

    return bytes && cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              (CUdeviceptr)(uintptr_t)memory) != CUDA_SUCCESS;
}

/* Kernels reduce whole elements, and move bytes. */
static bool is_misaligned(const struct task *task, const void *memory, size_t bytes)
{
    return bytes && reduces(task) && (uintptr_t)memory % nccl_type_bytes(task->type);
}

static CUresult fault_of(const struct cuda *cu, const struct ncclComm *comm,
                         const struct task *task)
{
    const size_t in = nccl_in_bytes(comm, task), out = nccl_out_bytes(comm, task);

    if (is_pageable(cu, task->in, in) || is_pageable(cu, task->out, out))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return is_misaligned(task, task->in, in) || is_misaligned(task, task->out, out)
               ? CUDA_ERROR_MISALIGNED_ADDRESS
               : CUDA_SUCCESS;
}

/* What only the driver knows. */
static ncclResult_t look_at(const char *name, struct call *call)
{
    const struct cuda *cu = nccl_cuda();
    struct ncclComm *comm = call->comm;
    struct task *task = &call->task;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext context = NULL;
    CUresult result;

    if (!cu)
        return ncclUnhandledCudaError;
    result = cu->cuCtxPushCurrent_v2(comm->context);
    if (!result)
        result = cu->cuStreamGetCtx(call->stream, &context);
    if (!result)
        result =
            cu->cuStreamGetCaptureInfo_v2(call->stream, &capture, &call->capture, NULL, NULL, NULL);
    task->fault = fault_of(cu, comm, task);
    cu->cuCtxPopCurrent_v2(NULL);
    if (!result && context != comm->context)
        return nccl_warn(ncclUnhandledCudaError,
                         "%s : Cuda failure 'invalid resource handle': the stream is another "
                         "device's",
                         name);
    return of_cuda(result);
}

static ncclResult_t check_capture(const struct call *call)
{
    for (size_t i = 0; i < group.calls.count; i++)
        if (group.calls.list[i].comm == call->comm && group.calls.list[i].capture != call->capture)
            return nccl_warn(ncclInvalidUsage,
                             "Streams given to a communicator within a NCCL group must either be "
                             "all uncaptured or all captured by the same graph.");
    return ncclSuccess;
}

static ncclResult_t prepare(const char *name, struct call *call)
{
    const struct settings *s = nccl_settings();
    ncclResult_t result = nccl_ready(name, call->comm);

    if (!result)
        result = check(name, call->comm, &call->task);
    if (!result && atomic_fetch_add(&calls_made, 1) + 1 == s->fails_at)
        result = nccl_warn(s->result, "%s : the fault of this stand-in's variables", name);
    if (!result)
        result = look_at(name, call);
    return result ? result : check_capture(call);
}

static ncclResult_t enqueue(const char *name, struct call call)
{
    ncclResult_t result;

    ncclGroupStart();
    result = prepare(name, &call);
    if (result && !group.result)
        group.result = result;
    /* Nothing is done for a collective of no elements, not even waited for the others. */
    if (!result && (call.task.count || call.task.kind >= SEND)) {
        nccl_note_memory(call.comm, &call.task);
        add(&call);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result ? result : end;
}

/* The arguments of each call have these names. */
#define ENQUEUE(which, from, to, operation, member)                                                \
    enqueue(__func__, (struct call){.comm = comm,                                                  \
                                    .stream = (CUstream)stream,                                    \
                                    .task = {.kind = which,                                        \
                                             .in = from,                                           \
                                             .out = to,                                            \
                                             .count = count,                                       \
                                             .type = type,                                         \
                                             .op = operation,                                      \
                                             .root = member}})

EXPORT ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(REDUCE, in, out, op, root);
}

EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(BROADCAST, in, out, ncclSum, root);
}

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(ALL_REDUCE, in, out, op, 0);
}

EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(REDUCE_SCATTER, in, out, op, 0);
}

EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(ALL_GATHER, in, out, ncclSum, 0);
}

EXPORT ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(SEND, in, NULL, ncclSum, peer);
}

EXPORT ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream)
{
    return ENQUEUE(RECV, NULL, out, ncclSum, peer);
}
