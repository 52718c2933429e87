/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring: a chunk is a word that is not 0, and a payload (shm_lead_bytes), rounded up to lines. Behind
 * the last chunk there is always a word that is 0. The producer writes the payload, and then, released,
 * the word that was 0 until now. Behind short chunks it sets the words of the next lines to 0 in advance, some
 * at a time and when the chunk is shown already: a line that the consumer has read last time around is slow
 * to get back. The first time around all are 0, and it gets memory ahead in the same way.
 */
#include "shm.h"

#include <sys/mman.h>
#include <unistd.h>

uint64_t shm_ring_room(uint32_t local_peers)
{
    uint64_t share = SHM_RINGS_BYTES / (local_peers ? local_peers : 1), room = SHM_RING_MIN;

    while (room * 2 <= share && room < SHM_RING_MAX)
        room *= 2;
    return room;
}

/* In a ring that the producer's L2 holds, a consumer that is behind reads all lines from that L2, which takes half as
 * long again as from the level 3 cache: so a ring is about twice an L2. One that is longer only holds more memory. */
uint64_t shm_ring_bytes(uint64_t room)
{
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    uint64_t bytes = SHM_RING_LEAST;

    while (l2 > 0 && bytes < room && bytes < 2 * (uint64_t)l2)
        bytes *= 2;
    return bytes < room ? bytes : room;
}

enum { CLEAR_LEAST = 4 * SHM_LINE, CLEAR_MOST = 16 * SHM_LINE };

enum shm_room shm_outlet_room(struct shm_outlet *outlet, uint64_t payload)
{
    uint64_t wanted = shm_chunk_bytes(payload) + SHM_LINE;

    if (outlet->size - (outlet->tail - outlet->head_seen) >= wanted)
        return SHM_ROOM;
    /* Acquire: the consumer's reads of these bytes come before our next writes to them. */
    uint64_t head = atomic_load_explicit(&outlet->control->head, memory_order_acquire);
    if (outlet->tail - head > outlet->size)
        return SHM_CORRUPT;
    outlet->head_seen = head;
    return outlet->size - (outlet->tail - head) >= wanted ? SHM_ROOM : SHM_FULL;
}

/* Writes to a position of the ring, and around its end. */
static void write_at(struct shm_outlet *outlet, bool streams, uint64_t position,
                     const uint8_t *from, uint64_t bytes)
{
    const uint64_t place = position & (outlet->size - 1), rest = outlet->size - place;
    const uint64_t first = bytes < rest ? bytes : rest;

    tutti_copy_by(streams, outlet->bytes + place, from, first);
    if (bytes > first)
        tutti_copy_by(streams, outlet->bytes, from + first, bytes - first);
}

static void clear(struct shm_outlet *outlet, uint64_t from, uint64_t to)
{
    for (; from < to; from += SHM_LINE)
        atomic_store_explicit(shm_word_at(outlet->bytes, outlet->size, from), 0,
                              memory_order_relaxed);
    outlet->clear = to;
}

/* Makes the chunk at `at`, whose lines end at `end`, one that the next publish shows. */
static void put_word(struct shm_outlet *outlet, uint64_t at, uint64_t end, uint64_t word)
{
    outlet->tail = end;
    if (end >= outlet->clear)
        clear(outlet, end, end + SHM_LINE);
    if (outlet->held) {
        atomic_store_explicit(shm_word_at(outlet->bytes, outlet->size, at), word,
                              memory_order_relaxed);
        return;
    }
    outlet->held = true;
    outlet->held_at = at;
    outlet->held_word = word;
}

void shm_outlet_put(struct shm_outlet *outlet, uint64_t word, const void *head, uint64_t head_bytes,
                    const void *body, uint64_t body_bytes)
{
    const uint64_t bytes = head_bytes + body_bytes;
    const uint64_t at = outlet->tail, start = at + shm_lead_bytes(bytes);
    uint8_t *to = outlet->bytes + (start & (outlet->size - 1));

    if (bytes <= outlet->size - (start & (outlet->size - 1))) {
        tutti_copy_plain(to, head, head_bytes);
        tutti_copy_plain(to + head_bytes, body, body_bytes);
    } else {
        write_at(outlet, false, start, head, head_bytes);
        write_at(outlet, false, start + head_bytes, body, body_bytes);
    }
    put_word(outlet, at, at + shm_chunk_bytes(bytes), word);
}

void shm_outlet_put_piece(struct shm_outlet *outlet, uint64_t word, const void *data,
                          uint64_t bytes, tutti_copy_turn turn)
{
    const uint64_t at = outlet->tail;

    write_at(outlet, turn.streams, at + shm_lead_bytes(bytes), data, bytes);
    put_word(outlet, at, at + shm_chunk_bytes(bytes), word);
}

void shm_give_memory(uint8_t *from, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    (void)madvise(from, bytes, MADV_POPULATE_WRITE);
#else
    (void)from;
    (void)bytes;
#endif
}

/* Gives the ring memory ahead of the tail, as much as it has used by now. Else both sides fault on each page at
 * the same moment, and one waits for the other. */
static __attribute__((noinline, cold)) void populate(struct shm_outlet *outlet)
{
    const uint64_t used = shm_round(outlet->tail, SHM_PAGE);
    const uint64_t from = outlet->clear & ~(uint64_t)(SHM_PAGE - 1);
    uint64_t to = used + (used < SHM_POPULATE_MAX ? used : SHM_POPULATE_MAX);

    if (to > outlet->size)
        to = outlet->size;
    shm_give_memory(outlet->bytes + from, to - from);
    outlet->clear = to;
}

/* For a chunk like the last one, and as far as the consumer has read. Not behind chunks that may be written by
 * streaming stores, which want the lines in no cache: to get them before they are timed would hide the cost of
 * plain ones. */
static void clear_ahead(struct shm_outlet *outlet)
{
    const uint64_t last = outlet->tail - outlet->held_at;
    const uint64_t room = outlet->head_seen + outlet->size;
    uint64_t to = outlet->tail + CLEAR_MOST;

    if (outlet->clear - outlet->tail > last)
        return;
    if (outlet->clear < outlet->size) {
        populate(outlet);
        return;
    }
    if (last > TUTTI_COPY_LONG)
        return;
    if (last >= CLEAR_MOST)
        to += last;
    if (to > room)
        to = room;
    if (to > outlet->clear)
        clear(outlet, outlet->clear, to);
}

bool shm_outlet_publish(struct shm_outlet *outlet)
{
    if (!outlet->held)
        return false;
    outlet->held = false;
    atomic_store_explicit(shm_word_at(outlet->bytes, outlet->size, outlet->held_at),
                          outlet->held_word, memory_order_release);
    clear_ahead(outlet);
    return true;
}

uint64_t shm_inlet_word(const struct shm_inlet *inlet)
{
    return atomic_load_explicit(shm_word_at(inlet->bytes, inlet->size, inlet->head),
                                memory_order_acquire);
}

void shm_inlet_read(const struct shm_inlet *inlet, bool streams, void *to, uint64_t bytes)
{
    const tutti_shown at = shm_inlet_place(inlet, bytes);

    tutti_copy_by(streams, to, at.data, at.bytes);
    if (at.rest_bytes)
        tutti_copy_by(streams, (uint8_t *)to + at.bytes, at.rest, at.rest_bytes);
}
