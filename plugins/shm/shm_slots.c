/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: memory of a pair of peers for pieces of long messages, beside its two rings.
 *
 * A slot belongs to one of the two. The owner writes a piece into it and shows a chunk of the ring that names the
 * slot; from then on it belongs to the peer, which has just read its lines and writes its own next piece there.
 * So where messages go both ways the same lines travel to and fro, and stay in the caches of the two: a line of a
 * ring, which was last written a lap ago, has to be fetched before it is written, and taken from the peer's cache.
 * Last in, first out, as the slot that was read last is the nearest.
 *
 * The pieces of a message are alike. A CPU that has read a line which another CPU wrote may write it next at no cost. If
 * the last piece were short, one member would fill a slot of which the other then writes the first lines only, and would
 * have to fetch all the others again: a message of 33024 bytes took half as long again as one of 32768.
 *
 * Nobody waits for a slot. Where messages go one way only, all slots are with the receiver before long, and pieces
 * go through the ring.
 */
#include "shm.h"

uint32_t shm_slots_each(uint64_t ring_bytes)
{
    const uint64_t count = ring_bytes / 4 / SHM_SLOT_BYTES;

    return count < SHM_SLOTS_EACH ? (uint32_t)count : SHM_SLOTS_EACH;
}

void shm_slots_begin(struct shm_slots *slots, uint8_t *of_lower, uint8_t *of_higher, uint32_t each,
                     bool lower)
{
    *slots = (struct shm_slots){.bytes = {of_lower, of_higher}, .each = each};
    for (uint32_t i = 0; i < each; i++)
        shm_slots_give(slots, (lower ? 0 : each) + i);
}

bool shm_slots_may_give(const struct shm_slots *slots, uint64_t slot)
{
    return slot < 2 * slots->each && !(slots->own >> slot & 1);
}

bool shm_slots_give(struct shm_slots *slots, uint64_t slot)
{
    if (!shm_slots_may_give(slots, slot))
        return false;
    slots->own |= UINT64_C(1) << slot;
    slots->stack[slots->count++] = (uint8_t)slot;
    return true;
}

uint8_t *shm_slots_at(const struct shm_slots *slots, uint32_t slot)
{
    const bool higher = slot >= slots->each;

    return slots->bytes[higher] + (uint64_t)(higher ? slot - slots->each : slot) * SHM_SLOT_BYTES;
}

uint8_t *shm_slots_take(struct shm_slots *slots, uint32_t *ret_slot)
{
    const uint32_t slot = slots->stack[--slots->count];
    uint8_t *at = shm_slots_at(slots, slot);

    slots->own &= ~(UINT64_C(1) << slot);
    if (!(slots->has_memory >> slot & 1))
        shm_give_memory(at, SHM_SLOT_BYTES);
    slots->has_memory |= UINT64_C(1) << slot;
    *ret_slot = slot;
    return at;
}
