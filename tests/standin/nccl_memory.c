/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that NCCL allocates, and memory that is registered with a communicator. A registration changes nothing here
 * but a count of the tasks that lie in it. The rules are checked: who frees memory, or ends the communicator, ends the
 * registration before, and one thread at a time uses a communicator.
 */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_BUFFER_ID = 7 };

struct registration {
    struct registration *next;
    uintptr_t address;
    size_t bytes;
    unsigned long long buffer; /* the driver's number of the allocation */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists */
static atomic_int allocated, registered, registered_tasks;

EXPORT int standin_nccl_allocated(void)
{
    return atomic_load(&allocated);
}

EXPORT int standin_nccl_registered(void)
{
    return atomic_load(&registered);
}

EXPORT int standin_nccl_registered_tasks(void)
{
    return atomic_load(&registered_tasks);
}

/* ---- what other calls check ----------------------------------------------------------------- */

void nccl_check_registering(const char *call, const struct ncclComm *comm)
{
    if (atomic_load(&comm->registers))
        nccl_die(call, "another thread registers memory with communicator %p", (const void *)comm);
}

void nccl_check_registered(const char *call, const struct ncclComm *comm)
{
    if (comm->registrations)
        nccl_die(call, "communicator %p has registered memory at %p", (const void *)comm,
                 (void *)comm->registrations->address);
}

static void take_out(struct registration **at)
{
    struct registration *gone = *at;

    *at = gone->next;
    free(gone);
    atomic_fetch_sub(&registered, 1);
}

void nccl_forget_memory(struct ncclComm *comm)
{
    pthread_mutex_lock(&lock);
    while (comm->registrations)
        take_out(&comm->registrations);
    pthread_mutex_unlock(&lock);
}

static bool holds(const struct ncclComm *comm, const void *memory, size_t bytes)
{
    const struct registration *r = comm->registrations;
    const uintptr_t at = (uintptr_t)memory;

    while (r && !(at >= r->address && bytes <= r->bytes && at - r->address <= r->bytes - bytes))
        r = r->next;
    return r || !bytes;
}

void nccl_note_memory(const struct ncclComm *comm, const struct task *task)
{
    pthread_mutex_lock(&lock);
    if (comm->registrations && holds(comm, task->in, nccl_in_bytes(comm, task)) &&
        holds(comm, task->out, nccl_out_bytes(comm, task)))
        atomic_fetch_add(&registered_tasks, 1);
    pthread_mutex_unlock(&lock);
}

#ifndef STANDIN_NCCL_OLD

/* ---- allocating ----------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclMemAlloc(void **ret_memory, size_t bytes)
{
    static atomic_long calls;
    const struct settings *s = nccl_settings();
    const struct cuda *cu = nccl_cuda();
    CUdeviceptr memory;

    if (s->allocate_at && atomic_fetch_add(&calls, 1) + 1 == s->allocate_at)
        return nccl_warn(s->result, "the fault of this stand-in's variables");
    if (!cu)
        return ncclUnhandledCudaError;
    if (cu->cuMemAlloc_v2(&memory, bytes))
        return nccl_warn(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
    *ret_memory = (void *)(uintptr_t)memory;
    atomic_fetch_add(&allocated, 1);
    return ncclSuccess;
}

/* In the context of the memory, whatever the thread has. */
EXPORT ncclResult_t ncclMemFree(void *memory)
{
    const struct cuda *cu = nccl_cuda();
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    CUcontext context = NULL;
    CUresult result;

    if (!cu)
        return ncclUnhandledCudaError;
    if (!memory)
        return ncclSuccess;
    if (cu->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address))
        nccl_die(__func__, "%p is no memory of the device", memory);
    cu->cuCtxPushCurrent_v2(context);
    result = cu->cuMemFree_v2(address);
    cu->cuCtxPopCurrent_v2(NULL);
    atomic_fetch_sub(&allocated, 1);
    return result ? nccl_warn(ncclUnhandledCudaError, "Cuda failure %d", (int)result) : ncclSuccess;
}

/* ---- registering ---------------------------------------------------------------------------- */

static unsigned long long buffer_at(const void *memory)
{
    unsigned long long number = 0;
    unsigned type = 0;
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    const struct cuda *cu = nccl_cuda();

    if (!cu || cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
        return 0;
    (void)cu->cuPointerGetAttribute(&number, (CUpointer_attribute)ATTRIBUTE_BUFFER_ID, address);
    return number;
}

/* The communicator is this thread's alone until leave(). */
static ncclResult_t enter(const char *call, struct ncclComm *comm)
{
    const ncclResult_t result = nccl_ready(call, comm);

    if (result)
        return result;
    if (atomic_exchange(&comm->registers, true))
        nccl_check_registering(call, comm);
    nccl_sleep_us(nccl_settings()->register_ms * 1000);
    return ncclSuccess;
}

static ncclResult_t leave(struct ncclComm *comm, ncclResult_t result)
{
    atomic_store(&comm->registers, false);
    return result;
}

EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **ret_handle)
{
    static atomic_long calls;
    const struct settings *s = nccl_settings();
    const unsigned long long buffer = buffer_at(memory);
    const ncclResult_t result = enter(__func__, comm);
    struct registration *made;

    if (result)
        return result;
    if (s->register_at && atomic_fetch_add(&calls, 1) + 1 == s->register_at)
        return leave(comm, nccl_warn(s->result, "the fault of this stand-in's variables"));
    if (!buffer || !bytes)
        return leave(comm, nccl_warn(ncclInvalidArgument, "no memory to register"));
    made = malloc(sizeof *made);
    pthread_mutex_lock(&lock);
    *made = (struct registration){comm->registrations, (uintptr_t)memory, bytes, buffer};
    comm->registrations = made;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&registered, 1);
    *ret_handle = made;
    return leave(comm, ncclSuccess);
}

EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    const ncclResult_t result = enter(__func__, comm);
    struct registration **at = &comm->registrations;

    if (result)
        return result;
    pthread_mutex_lock(&lock);
    while (*at && *at != handle)
        at = &(*at)->next;
    if (!*at)
        nccl_die(__func__, "%p is no registration of communicator %p", handle, (void *)comm);
    if (buffer_at((const void *)(*at)->address) != (*at)->buffer)
        nccl_die(__func__, "the memory at %p was freed while it was registered",
                 (void *)(*at)->address);
    take_out(at);
    pthread_mutex_unlock(&lock);
    return leave(comm, ncclSuccess);
}

#endif
