/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is registered with a communicator. While that lives, memory_release() deregisters and frees. Once it was
 * aborted, no function of NCCL may name it: the thread that ends it frees what ncclMemAlloc() gave, and memory of the
 * program is waited for until then.
 */
#include "memory.h"

#include <string.h>

#include "communicator.h"
#include "failure.h"

enum { WARNING = 1 }; /* tutti_host.log */

struct tutti_team_memory {
    void *address;
    void *handle; /* NULL: NCCL registers nothing (NCCL_LOCAL_REGISTER=0) */
    bool is_own;  /* of ncclMemAlloc() */
};

static bool is_out_of_memory(const struct nccl_library *nccl, ncclResult_t result)
{
    char words[256];

    if (result != ncclUnhandledCudaError)
        return false;
    failure_words(nccl, words, sizeof words);
    return strstr(words, "out of memory");
}

static tutti_status allocate(const struct channel_home *home, uint64_t bytes, void **ret_address)
{
    const ncclResult_t result = home->nccl->ncclMemAlloc(ret_address, bytes);

    if (!result)
        return TUTTI_OK;
    if (is_out_of_memory(home->nccl, result))
        return fail(&home->caller, TUTTI_ERR_NO_MEMORY, 0,
                    "the GPU has no %llu bytes: ncclMemAlloc is out of memory",
                    (unsigned long long)bytes);
    return failure_tell(&home->caller, home->nccl, "ncclMemAlloc", result);
}

static tutti_status make(const struct channel_home *home, struct communicator *communicator,
                         tutti_team_memory *memory, uint64_t bytes)
{
    const struct nccl_library *nccl = home->nccl;

    if (!memory->address) {
        const tutti_status status = allocate(home, bytes, &memory->address);

        if (status)
            return status;
        memory->is_own = true;
    }
    const ncclResult_t result = nccl->ncclCommRegister(communicator_handle(communicator),
                                                       memory->address, bytes, &memory->handle);
    if (!result)
        return TUTTI_OK;
    const tutti_status status = failure_tell(&home->caller, nccl, "ncclCommRegister", result);
    if (memory->is_own)
        (void)nccl->ncclMemFree(memory->address);
    return status;
}

tutti_status memory_register(const struct channel_home *home, struct communicator *communicator,
                             void *address, uint64_t bytes, void **ret_address,
                             tutti_team_memory **ret_memory)
{
    const struct nccl_library *nccl = home->nccl;
    const struct caller *c = &home->caller;
    int32_t before;

    if (!nccl->ncclMemAlloc)
        return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                    "%.300s, NCCL %u.%u.%u, has no functions that register memory, which came with "
                    "2.19",
                    nccl->path, nccl->major, nccl->minor, nccl->patch);
    tutti_team_memory *memory = c->host->allocate(c->self, sizeof *memory);
    if (!memory)
        return fail(c, TUTTI_ERR_NO_MEMORY, 0, "no memory to register memory");
    *memory = (tutti_team_memory){.address = address};
    tutti_status status = home->device->enter(home->accelerator, &before);
    if (!status) {
        status = make(home, communicator, memory, bytes);
        home->device->leave(home->accelerator, before);
    }
    if (status) {
        c->host->release(c->self, memory);
        return status;
    }
    *ret_address = memory->address;
    *ret_memory = memory;
    return TUTTI_OK;
}

/* The communicator goes on without it. */
static bool deregister(const struct channel_home *home, struct communicator *communicator,
                       const tutti_team_memory *memory)
{
    return !communicator_was_aborted(communicator) &&
           (!memory->handle ||
            !home->nccl->ncclCommDeregister(communicator_handle(communicator), memory->handle));
}

/* NCCL knows the memory until the end of its communicator, or always. */
static void leave_to_end(const struct channel_home *home, struct communicator *communicator,
                         const tutti_team_memory *memory)
{
    const struct caller *c = &home->caller;

    if (memory->is_own)
        communicator_frees(communicator, memory->address);
    else if (!communicator_was_aborted(communicator) || !communicator_await_end(communicator))
        c->host->log(c->self, WARNING,
                     "NCCL has not let go of memory that the program registered; to free it now "
                     "may fail later");
}

void memory_release(const struct channel_home *home, struct communicator *communicator,
                    tutti_team_memory *memory)
{
    const struct caller *c = &home->caller;
    int32_t before;
    const bool is_entered = !home->device->enter(home->accelerator, &before);

    if (!is_entered || !deregister(home, communicator, memory))
        leave_to_end(home, communicator, memory);
    else if (memory->is_own && home->nccl->ncclMemFree(memory->address))
        c->host->log(c->self, WARNING, "ncclMemFree has failed: the memory is lost");
    if (is_entered)
        home->device->leave(home->accelerator, before);
    c->host->release(c->self, memory);
}
