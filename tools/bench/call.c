/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/call.h"

#include <glib.h>
#include <sys/mman.h>

#include "bench/operation.h"

/*
 * Buffers that lie a large power of two apart compete for the same places in caches and predictors.
 * So each begins an odd number of pages into its mapping, another one for each rank and side.
 */
enum { PAGE = 4096, SHIFT_PAGES = 64 };

static size_t shift_of(const struct bench_call *call, bool is_out)
{
    return (size_t)PAGE * (size_t)((2 * (3 * call->rank + is_out) + 1) % SHIFT_PAGES);
}

static bool side_map(struct bench_side *side, size_t bytes)
{
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED)
        return false;
    side->mapping = mapping;
    side->mapped = bytes;
    return true;
}

/* Registered memory is made by all ranks together. */
static bool side_take(struct bench_call *call, struct bench_side *side, size_t bytes)
{
    if (call->memory == BENCH_MEMORY_ALLOCATED) {
        if (tutti_memory_allocate(call->world, bytes, &side->memory))
            return false;
        side->mapping = tutti_memory_address(side->memory);
        return true;
    }
    if (!side_map(side, bytes)) {
        if (call->memory == BENCH_MEMORY_REGISTERED)
            tutti_group_abort(call->world, "a rank has no memory to register");
        return false;
    }
    return call->memory == BENCH_MEMORY_ORDINARY ||
           !tutti_memory_register(call->world, side->mapping, bytes, &side->memory);
}

/* `wanted`: this rank has a tensor there. Otherwise it only takes part in making registered memory. */
static bool side_open(struct bench_call *call, struct bench_side *side, bool wanted, int64_t count)
{
    const size_t bytes = wanted ? (size_t)count * tutti_dtype_size(call->dtype) : 0;

    if (!wanted && call->memory == BENCH_MEMORY_ORDINARY)
        return true;
    if (!side_take(call, side, bytes + (size_t)PAGE * SHIFT_PAGES))
        return false;
    if (!wanted)
        return true;
    side->data = (char *)side->mapping + shift_of(call, side == &call->out);
    side->tensor = tutti_tensor_1d(side->data, call->dtype, &side->count, count);
    return true;
}

static void side_close(struct bench_side *side)
{
    tutti_memory_free(side->memory);
    if (side->mapped)
        munmap(side->mapping, side->mapped);
    *side = (struct bench_side){0};
}

/* ---- blocks ---- */

int64_t call_block_count(const struct bench_call *call, int from, int to)
{
    const struct bench_operation *operation = call->operation;

    if (!operation->uneven)
        return call->count;
    if (operation->blocks_in && operation->blocks_out)
        return call->counts[(from + to) % call->size];
    return call->counts[operation->blocks_in ? to : from];
}

int64_t call_in_offset(const struct bench_call *call, int rank, int block)
{
    int64_t offset = 0;

    for (int to = 0; to < block; to++)
        offset += call_block_count(call, rank, to);
    return offset;
}

int64_t call_out_offset(const struct bench_call *call, int rank, int block)
{
    int64_t offset = 0;

    for (int from = 0; from < block; from++)
        offset += call_block_count(call, from, rank);
    return offset;
}

/* Blocks that grow with their number, and whose mean is call->count. */
static void count_blocks(struct bench_call *call)
{
    int64_t left = call->count * call->size;

    call->counts = g_new0(int64_t, call->size);
    call->in_counts = g_new(int64_t, call->size);
    call->out_counts = g_new(int64_t, call->size);
    for (int i = 0; i < call->size; i++) {
        const bool last = i == call->size - 1;

        call->counts[i] = last ? left : 2 * call->count * (i + 1) / (call->size + 1);
        left -= call->counts[i];
    }
    for (int i = 0; i < call->size; i++) {
        call->in_counts[i] = call_block_count(call, call->rank, i);
        call->out_counts[i] = call_block_count(call, i, call->rank);
    }
}

/* ---- the call ---- */

bool call_takes_part(const struct bench_call *call)
{
    return !call->operation->is_message || call->rank == 0 || call->rank == call->root;
}

static bool has_in(const struct bench_call *call)
{
    const struct bench_operation *operation = call->operation;
    const bool at_root = operation->traits & TUTTI_OPERATION_HAS_ROOT && operation->blocks_in;

    return call_takes_part(call) && (!at_root || call->rank == call->root);
}

static bool has_out(const struct bench_call *call)
{
    const struct bench_operation *operation = call->operation;
    const bool at_root = operation->traits & TUTTI_OPERATION_HAS_ROOT && !operation->blocks_in;

    return call_takes_part(call) && !operation->in_place && (!at_root || call->rank == call->root);
}

static int64_t in_count(const struct bench_call *call)
{
    if (call->operation->blocks_in)
        return call_in_offset(call, call->rank, call->size);
    return call->window * call_block_count(call, call->rank, call->rank);
}

static int64_t out_count(const struct bench_call *call)
{
    if (call->operation->blocks_out)
        return call_out_offset(call, call->rank, call->size);
    return call->window * call_block_count(call, call->rank, call->rank);
}

bool call_open(struct bench_call *call)
{
    const struct bench_operation *operation = call->operation;

    if (operation->is_message)
        call->works = g_new0(tutti_work *, 2 * (gsize)call->window);
    if (!(operation->traits & TUTTI_OPERATION_MOVES))
        return true;
    if (operation->uneven)
        count_blocks(call);
    return side_open(call, &call->in, has_in(call), in_count(call)) &&
           side_open(call, &call->out, has_out(call), out_count(call));
}

void call_close(struct bench_call *call)
{
    side_close(&call->in);
    side_close(&call->out);
    g_clear_pointer(&call->counts, g_free);
    g_clear_pointer(&call->in_counts, g_free);
    g_clear_pointer(&call->out_counts, g_free);
    g_clear_pointer(&call->works, g_free);
}

double call_memory(const struct bench_call *call, uint64_t bytes)
{
    const struct bench_operation *operation = call->operation;
    const int blocks =
        operation->uneven ? 2 : call->window; /* no block has more than twice the mean */
    const int in = operation->blocks_in ? call->size : blocks;
    const int out = operation->blocks_out ? call->size : blocks;

    if (!(operation->traits & TUTTI_OPERATION_MOVES))
        return 0;
    return (double)bytes * ((has_in(call) ? in : 0) + (has_out(call) ? out : 0));
}

tutti_status call_run(struct bench_call *call)
{
    tutti_work *work = NULL;
    tutti_status status;

    if (!call_takes_part(call))
        return TUTTI_OK;
    if (!call->async || call->operation->is_message)
        return call->operation->run(call, NULL);
    status = call->operation->run(call, &work);
    if (!status)
        status = tutti_work_wait(work, 0);
    tutti_work_free(work);
    return status;
}

tutti_status call_served(struct bench_call *call, const char **ret_provider,
                         const char **ret_algorithm)
{
    tutti_record record;
    uint32_t count = 0;
    tutti_status status = call_run(call);

    if (!status)
        status = tutti_recorder_read(call->world, &record, sizeof record, 1, &count);
    if (status)
        return status;
    *ret_provider = count ? g_intern_string(record.provider) : NULL;
    *ret_algorithm = count ? g_intern_string(record.algorithm) : NULL;
    return TUTTI_OK;
}
