/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring: a chunk is a word that is not 0, padding (shm_lead_bytes), and a payload rounded up to
 * 8 bytes. Behind the last chunk there is always a word that is 0. The producer writes payload, the
 * 0 behind it, and then, released, the word that was the 0 until now.
 */
#include "shm.h"

#include <string.h>

uint64_t shm_ring_bytes(uint32_t local_size)
{
    uint64_t share = SHM_RINGS_BYTES / (local_size ? local_size : 1), bytes = SHM_RING_MIN;

    while (bytes * 2 <= share && bytes < SHM_RING_MAX)
        bytes *= 2;
    return bytes;
}

static _Atomic uint64_t *word_at(uint8_t *bytes, uint64_t size, uint64_t position)
{
    return (_Atomic uint64_t *)(void *)(bytes + (position & (size - 1)));
}

enum shm_room shm_outlet_room(struct shm_outlet *outlet, uint64_t payload)
{
    uint64_t wanted = shm_chunk_bytes(outlet->tail, payload) + 8;

    if (outlet->size - (outlet->tail - outlet->head_seen) >= wanted)
        return SHM_ROOM;
    /* Acquire: the consumer's reads of these bytes come before our next writes to them. */
    uint64_t head = atomic_load_explicit(&outlet->control->head, memory_order_acquire);
    if (outlet->tail - head > outlet->size)
        return SHM_CORRUPT;
    outlet->head_seen = head;
    return outlet->size - (outlet->tail - head) >= wanted ? SHM_ROOM : SHM_FULL;
}

static void copy_in(bool streams, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    if (streams)
        tutti_copy_stream(to, from, bytes);
    else if (bytes) /* the payload may be NULL otherwise */
        memcpy(to, from, bytes);
}

void shm_outlet_put(struct shm_outlet *outlet, uint64_t word, const void *payload, uint64_t bytes)
{
    uint64_t at = outlet->tail, start = at + shm_lead_bytes(at, bytes);
    uint64_t place = start & (outlet->size - 1), first = outlet->size - place;
    const uint8_t *from = payload;
    const tutti_copy_turn turn = tutti_copy_begin(&outlet->copy, bytes);

    first = bytes < first ? bytes : first;
    copy_in(turn.streams, outlet->bytes + place, from, first);
    if (bytes > first)
        copy_in(turn.streams, outlet->bytes, from + first, bytes - first);
    tutti_copy_end(&outlet->copy, turn, bytes);
    outlet->tail = start + shm_round(bytes, 8);
    atomic_store_explicit(word_at(outlet->bytes, outlet->size, outlet->tail), 0,
                          memory_order_relaxed);
    if (outlet->held) {
        atomic_store_explicit(word_at(outlet->bytes, outlet->size, at), word, memory_order_relaxed);
        return;
    }
    outlet->held = true;
    outlet->held_at = at;
    outlet->held_word = word;
}

bool shm_outlet_publish(struct shm_outlet *outlet)
{
    if (!outlet->held)
        return false;
    outlet->held = false;
    atomic_store_explicit(word_at(outlet->bytes, outlet->size, outlet->held_at), outlet->held_word,
                          memory_order_release);
    return true;
}

uint64_t shm_inlet_word(const struct shm_inlet *inlet)
{
    return atomic_load_explicit(word_at(inlet->bytes, inlet->size, inlet->head),
                                memory_order_acquire);
}

void shm_inlet_read(const struct shm_inlet *inlet, void *to, uint64_t bytes)
{
    uint64_t start = inlet->head + shm_lead_bytes(inlet->head, bytes);
    uint64_t place = start & (inlet->size - 1), first = inlet->size - place;

    if (bytes > first) {
        memcpy(to, inlet->bytes + place, first);
        memcpy((uint8_t *)to + first, inlet->bytes, bytes - first);
    } else if (bytes) {
        memcpy(to, inlet->bytes + place, bytes);
    }
}
