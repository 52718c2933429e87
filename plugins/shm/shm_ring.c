/* SPDX-License-Identifier: Apache-2.0 */
#include "shm.h"

#include <string.h>

uint64_t shm_ring_bytes(uint32_t mates)
{
    uint64_t share = SHM_RINGS_BYTES / (mates ? mates : 1), bytes = SHM_RING_MIN;

    while (bytes * 2 <= share && bytes < SHM_RING_MAX)
        bytes *= 2;
    return bytes;
}

uint64_t shm_outlet_space(struct shm_outlet *outlet, uint64_t wanted)
{
    uint64_t space = outlet->size - (outlet->tail - outlet->head_seen);

    if (space >= wanted)
        return space;
    /* Acquire: the consumer's reads of these bytes come before our next writes to them. */
    uint64_t head = atomic_load_explicit(&outlet->control->head, memory_order_acquire);
    if (outlet->tail - head > outlet->size || head % 8)
        return UINT64_MAX;
    outlet->head_seen = head;
    return outlet->size - (outlet->tail - head);
}

void shm_outlet_write(struct shm_outlet *outlet, uint64_t position, const void *from,
                      uint64_t bytes)
{
    uint64_t at = position & (outlet->size - 1), first = outlet->size - at;

    if (bytes <= first) {
        memcpy(outlet->bytes + at, from, bytes);
        return;
    }
    memcpy(outlet->bytes + at, from, first);
    memcpy(outlet->bytes, (const uint8_t *)from + first, bytes - first);
}

uint64_t shm_inlet_filled(struct shm_inlet *inlet, uint64_t wanted)
{
    uint64_t filled = inlet->tail_seen - inlet->head;

    if (filled >= wanted)
        return filled;
    uint64_t tail = atomic_load_explicit(&inlet->control->tail, memory_order_acquire);
    if (tail - inlet->head > inlet->size || tail % 8)
        return UINT64_MAX;
    inlet->tail_seen = tail;
    return tail - inlet->head;
}

void shm_inlet_read(const struct shm_inlet *inlet, void *to, uint64_t bytes)
{
    uint64_t at = inlet->head & (inlet->size - 1), first = inlet->size - at;

    if (bytes <= first) {
        memcpy(to, inlet->bytes + at, bytes);
        return;
    }
    memcpy(to, inlet->bytes + at, first);
    memcpy((uint8_t *)to + first, inlet->bytes, bytes - first);
}
