/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors with guarded memory around them, and between their blocks. Blocks with counts may lie in
 * any order: with gaps, the last is the first in memory.
 */
#include <string.h>
#include <sys/mman.h>

#include "conformance/slot.h"
#include "harness/rank.h"

enum {
    GUARD = 64, /* bytes on both sides of a tensor */
    LINE = 64,
    REGISTERED_BYTES = 16 << 20, /* more than the tensors of one batch take */
    GUARD_BYTE = 0xa5
};

void buffers_open(void)
{
    if (run.rank % 2) {
        run.registered.private = mmap(NULL, REGISTERED_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(run.registered.private != MAP_FAILED);
        require_ok(tutti_memory_register(run.world, run.registered.private, REGISTERED_BYTES,
                                         &run.registered.memory));
    } else {
        require_ok(tutti_memory_allocate(run.world, REGISTERED_BYTES, &run.registered.memory));
    }
    run.collectives += 2; /* by which members agree on the memory */
}

void buffers_close(void)
{
    check_ok(tutti_memory_free(run.registered.memory));
    if (run.registered.private)
        munmap(run.registered.private, REGISTERED_BYTES);
}

static unsigned char *take_registered(size_t bytes)
{
    unsigned char *at = tutti_memory_address(run.registered.memory);

    at += run.registered.used;
    run.registered.used += bytes;
    run.registered.buffers++;
    require(run.registered.used <= REGISTERED_BYTES);
    return at;
}

/* The memory is used anew when nothing of it is in use. */
static void give_back_registered(void)
{
    if (--run.registered.buffers == 0)
        run.registered.used = 0;
}

/* Places the blocks, whose counts are known; returns how many elements that takes. */
static uint64_t place_blocks(struct buffer *buffer, bool gaps)
{
    int64_t next = 0;

    for (int i = 0; i < buffer->blocks; i++) {
        const int block = gaps ? buffer->blocks - 1 - i : i;

        buffer->gaps[block] = gaps ? 1 + block % 3 : 0;
        next += buffer->gaps[block];
        buffer->offsets[block] = next;
        next += buffer->counts[block];
    }
    return (uint64_t)next;
}

static void make(struct buffer *buffer, const struct slot *slot)
{
    const bool is_input = buffer == &slot->in;
    const size_t offset = slot->facts.offset;
    const uint64_t count = place_blocks(buffer, buffer->blocks > 1 && slot->facts.gaps);

    buffer->bytes = (size_t)count * slot->call.element;
    buffer->room = (GUARD + offset + buffer->bytes + GUARD + LINE - 1) / LINE * LINE;
    buffer->registered = slot->facts.registered;
    buffer->kind = is_input ? slot->facts.in : slot->facts.out;
    if (buffer->registered)
        buffer->memory = take_registered(buffer->room);
    else
        buffer_allocate(buffer);
    memset(buffer->memory, GUARD_BYTE, buffer->room);
    buffer->data = buffer->memory + GUARD + offset;
    buffer->tensor = tutti_tensor_1d(buffer_address(buffer, buffer->data), slot->call.dtype,
                                     &buffer->shape, (int64_t)count);
    buffer->tensor.device = buffer_device(buffer);
    if (slot->facts.by_offset) {
        buffer->tensor.data = buffer_address(buffer, buffer->memory + GUARD);
        buffer->tensor.byte_offset = offset;
    }
}

void buffer_make(struct buffer *buffer, const struct slot *slot, int from, int to)
{
    *buffer =
        (struct buffer){.blocks = 1, .counts = {(int64_t)sequence_block(&slot->call, from, to)}};
    make(buffer, slot);
}

void buffer_make_blocks(struct buffer *buffer, const struct slot *slot, bool is_input)
{
    *buffer = (struct buffer){.blocks = run.size};
    for (int i = 0; i < run.size; i++)
        buffer->counts[i] =
            (int64_t)sequence_block(&slot->call, is_input ? run.rank : i, is_input ? i : run.rank);
    make(buffer, slot);
}

unsigned char *buffer_block(const struct buffer *buffer, const struct slot *slot, int block)
{
    return buffer->data + (size_t)buffer->offsets[block] * slot->call.element;
}

static size_t bytes_of(const struct buffer *buffer, const struct slot *slot, int block)
{
    return (size_t)buffer->counts[block] * slot->call.element;
}

void buffer_clear(struct buffer *buffer, const struct slot *slot)
{
    for (int i = 0; i < buffer->blocks; i++)
        memset(buffer_block(buffer, slot, i), 0, bytes_of(buffer, slot, i));
}

tutti_tensor buffer_block_tensor(struct buffer *buffer, const struct slot *slot, int block)
{
    tutti_tensor tensor =
        tutti_tensor_1d(buffer_address(buffer, buffer_block(buffer, slot, block)), slot->call.dtype,
                        &buffer->counts[block], buffer->counts[block]);

    tensor.device = buffer_device(buffer);
    return tensor;
}

const tutti_tensor *const *buffer_list(struct buffer *buffer, const struct slot *slot,
                                       struct block_list *blocks)
{
    for (int i = 0; i < run.size; i++) {
        blocks->tensors[i] = buffer_block_tensor(buffer, slot, i);
        blocks->list[i] = &blocks->tensors[i];
    }
    return blocks->list;
}

const int64_t *buffer_offsets(const struct buffer *buffer, const struct slot *slot)
{
    return slot->facts.gaps || slot->facts.by_offset ? buffer->offsets : NULL;
}

static bool is_guard(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != GUARD_BYTE)
            return false;
    return true;
}

void buffer_check_and_free(struct buffer *buffer, const struct slot *slot)
{
    bool untouched;

    if (!buffer->memory)
        return;
    const unsigned char *end = buffer->data + buffer->bytes;

    untouched = is_guard(buffer->memory, (size_t)(buffer->data - buffer->memory)) &&
                is_guard(end, (size_t)(buffer->memory + buffer->room - end));
    for (int i = 0; i < buffer->blocks; i++) {
        const size_t gap = (size_t)buffer->gaps[i] * slot->call.element;

        untouched = untouched && is_guard(buffer_block(buffer, slot, i) - gap, gap);
    }
    if (!untouched)
        slot_fail(slot, "memory beside a tensor was written");
    if (buffer->registered)
        give_back_registered();
    else
        buffer_free(buffer);
    *buffer = (struct buffer){.memory = NULL};
}
