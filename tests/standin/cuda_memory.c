/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory. A device has 16 GiB of addresses that the host cannot touch, and a sparse file, mapped elsewhere, that
 * holds what is at them. Addresses are given out in order and used again as late as possible, so that a
 * use after free is found. A guard behind each allocation is checked when it is freed.
 */
#include "cuda.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPACE ((size_t)16 << 30)
#define ALIGNMENT ((size_t)512)
#define GUARD ((size_t)512)
#define POISON 0xa5
#define GUARD_BYTE 0x5a

static struct device_memory {
    unsigned char *address; /* PROT_NONE */
    unsigned char *view;
    size_t next; /* where the search for addresses begins */
    size_t used;
} memories[MAX_DEVICES];

static struct range *ranges; /* by address */
static size_t count, capacity;
static unsigned long long last_id;

/* The first range that ends after `address`. */
static size_t position(uintptr_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges[middle].start + ranges[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct range *standin_range(uintptr_t address)
{
    size_t i = position(address);

    return i < count && ranges[i].start <= address ? &ranges[i] : NULL;
}

static struct device_memory *memory_of(uintptr_t address)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        if (memories[i].address && address - (uintptr_t)memories[i].address < SPACE)
            return &memories[i];
    return NULL;
}

bool standin_is_device_address(uintptr_t address)
{
    return memory_of(address) != NULL;
}

bool standin_is_pageable(uintptr_t address)
{
    return !memory_of(address) && !standin_range(address);
}

static unsigned char *view_of(uintptr_t address)
{
    struct device_memory *memory = memory_of(address);

    return memory ? memory->view + (address - (uintptr_t)memory->address)
                  : (unsigned char *)address;
}

void *standin_view(const char *call, uintptr_t address, size_t bytes)
{
    const struct range *range = standin_range(address);

    if (!range && memory_of(address))
        standin_die(call, "%p is not allocated: it was freed, or it is not in any allocation",
                    (void *)address);
    if (range && bytes > range->start + range->bytes - address)
        standin_die(call, "%zu bytes at %p, whose allocation ends after %zu", bytes,
                    (void *)address, (size_t)(range->start + range->bytes - address));
    return view_of(address);
}

EXPORT void *standin_cuda_view(CUdeviceptr address, size_t bytes)
{
    void *view;

    pthread_mutex_lock(&standin_lock);
    view = standin_view(__func__, (uintptr_t)address, bytes);
    pthread_mutex_unlock(&standin_lock);
    return view;
}

static struct range *insert(uintptr_t start, size_t bytes, enum memory_kind kind,
                            struct CUctx_st *context, unsigned flags)
{
    size_t at = position(start);

    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        ranges = realloc(ranges, capacity * sizeof *ranges);
    }
    memmove(ranges + at + 1, ranges + at, (count - at) * sizeof *ranges);
    ranges[at] = (struct range){start, bytes, kind, context, flags, ++last_id};
    count++;
    return &ranges[at];
}

static void take_out(const struct range *range)
{
    size_t at = (size_t)(range - ranges);

    memmove(ranges + at, ranges + at + 1, (count - at - 1) * sizeof *ranges);
    count--;
}

static void map_device(struct device_memory *memory)
{
    int file = memfd_create("standin-cuda", MFD_CLOEXEC);

    memory->address =
        mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file < 0 || ftruncate(file, (off_t)SPACE) != 0 || memory->address == MAP_FAILED ||
        (memory->view = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                             0)) == MAP_FAILED)
        standin_die(__func__, "cannot map %zu bytes", SPACE);
    close(file);
    madvise(memory->view, SPACE, MADV_DONTDUMP);
    madvise(memory->view, SPACE, MADV_DONTFORK);
}

/* Room for `bytes` from `from` on; SPACE: none. */
static size_t find_room(struct device_memory *memory, size_t from, size_t bytes)
{
    uintptr_t base = (uintptr_t)memory->address;

    for (size_t i = position(base + from); i < count; i++) {
        size_t start = ranges[i].start - base;

        if (ranges[i].start < base || start >= SPACE)
            break;
        if (start >= from && start - from >= bytes)
            return from;
        from = (start + ranges[i].bytes + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return from <= SPACE && SPACE - from >= bytes ? from : SPACE;
}

static CUresult allocate_on_device(struct CUctx_st *context, size_t bytes, CUdeviceptr *ret_address)
{
    struct device_memory *memory = &memories[context->device];
    size_t whole = (bytes + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, at;

    if (standin_fault_allocation() || bytes > standin_settings.memory ||
        memory->used + bytes > standin_settings.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!memory->address)
        map_device(memory);
    at = find_room(memory, memory->next, whole);
    if (at == SPACE)
        at = find_room(memory, 0, whole);
    if (at == SPACE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->next = at + whole;
    memory->used += bytes;
    memset(memory->view + at, POISON, bytes);
    memset(memory->view + at + bytes, GUARD_BYTE, GUARD);
    *ret_address = (CUdeviceptr)(uintptr_t)(memory->address + at);
    insert((uintptr_t)*ret_address, bytes, MEMORY_DEVICE, context, 0);
    return CUDA_SUCCESS;
}

static void free_device(const char *call, const struct range *range)
{
    struct device_memory *memory = memory_of(range->start);
    unsigned char *view = view_of(range->start);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from, to;

    for (size_t i = 0; i < GUARD; i++)
        if (view[range->bytes + i] != GUARD_BYTE)
            standin_die(call, "byte %zu behind the %zu bytes at %p was written", i, range->bytes,
                        (void *)range->start);
    memset(view, POISON, range->bytes < page ? range->bytes : page);
    from = ((uintptr_t)view + page - 1) / page * page;
    to = ((uintptr_t)view + range->bytes) / page * page;
    if (from < to)
        madvise((void *)from, to - from, MADV_REMOVE);
    memory->used -= range->bytes;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t bytes)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    result = standin_refuse_unsafe();
    if (result == CUDA_SUCCESS && (!ret_address || bytes == 0))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = allocate_on_device(context, bytes, ret_address);
    return standin_leave(result);
}

static CUresult allocate_on_host(struct CUctx_st *context, size_t bytes, enum memory_kind kind,
                                 unsigned flags, void **ret_memory)
{
    CUresult result = standin_refuse_unsafe();
    void *memory;

    if (result)
        return result;
    if (!ret_memory || (bytes == 0 && kind == MEMORY_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_memory = NULL;
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (standin_fault_allocation() || posix_memalign(&memory, 4096, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(memory, POISON, bytes);
    insert((uintptr_t)memory, bytes, kind, context, flags);
    *ret_memory = memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ret_address, size_t bytes, unsigned flags)
{
    struct CUctx_st *context;
    void *memory = NULL;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (flags != 1 && flags != 2)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    result = allocate_on_host(context, bytes, MEMORY_MANAGED, flags, &memory);
    if (result == CUDA_SUCCESS)
        *ret_address = (CUdeviceptr)(uintptr_t)memory;
    return standin_leave(result);
}

EXPORT CUresult cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    return standin_leave(allocate_on_host(context, bytes, MEMORY_PINNED, flags, ret_memory));
}

/* Frees what begins at `address`, after what is on the streams of the context. */
static CUresult free_memory(const char *call, uintptr_t address, unsigned kinds)
{
    struct CUctx_st *context;
    const struct range *range;
    CUresult result = standin_enter(call, &context);

    if (result)
        return result;
    result = standin_refuse_unsafe();
    if (result || !address)
        return standin_leave(result);
    range = standin_range(address);
    if (!range || range->start != address || !(kinds & 1u << range->kind))
        standin_die(call, "%p is not the begin of an allocation of this kind", (void *)address);
    standin_wait_context(range->context);
    range = standin_range(address);
    if (range->kind == MEMORY_DEVICE)
        free_device(call, range);
    else
        free((void *)address);
    take_out(range);
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    return free_memory(__func__, (uintptr_t)address, 1u << MEMORY_DEVICE | 1u << MEMORY_MANAGED);
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
    return free_memory(__func__, (uintptr_t)memory, 1u << MEMORY_PINNED);
}

EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    struct CUctx_st *context;
    uintptr_t start = (uintptr_t)memory;
    size_t at;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    result = standin_refuse_unsafe();
    if (result == CUDA_SUCCESS && (!memory || bytes == 0))
        result = CUDA_ERROR_INVALID_VALUE;
    at = position(start);
    if (result == CUDA_SUCCESS && at < count && ranges[at].start < start + bytes)
        result = ranges[at].kind == MEMORY_REGISTERED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                      : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        insert(start, bytes, MEMORY_REGISTERED, context, flags);
    return standin_leave(result);
}

EXPORT CUresult cuMemHostUnregister(void *memory)
{
    struct CUctx_st *context;
    const struct range *range;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    result = standin_refuse_unsafe();
    range = standin_range((uintptr_t)memory);
    if (result)
        return standin_leave(result);
    if (!range)
        return standin_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (range->kind != MEMORY_REGISTERED || range->start != (uintptr_t)memory)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    standin_wait_context(range->context);
    take_out(standin_range((uintptr_t)memory));
    return standin_leave(CUDA_SUCCESS);
}

void standin_free_context_memory(struct CUctx_st *context)
{
    for (size_t i = count; i-- > 0;) {
        if (ranges[i].context != context)
            continue;
        if (ranges[i].kind == MEMORY_DEVICE)
            free_device(__func__, &ranges[i]);
        else if (ranges[i].kind != MEMORY_REGISTERED)
            free((void *)ranges[i].start);
        take_out(&ranges[i]);
    }
}

EXPORT CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    *ret_total = standin_settings.memory;
    *ret_free = standin_settings.memory - memories[context->device].used;
    return standin_leave(CUDA_SUCCESS);
}
