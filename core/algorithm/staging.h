/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of the staging slots. Chunk c of an operation lies in slot (base + c) % MAPPED_SLOTS of its
 * owner; who fills it first waits until everybody is through with the chunk that lay there before,
 * be it of this operation or of an earlier one.
 */
#ifndef TUTTI_ALGORITHM_STAGING_H
#define TUTTI_ALGORITHM_STAGING_H

#include "algorithm/parts.h"
#include "work/schedule.h"

enum { STAGING_CHUNK_MIN = 64 * 1024 }; /* shorter ones cost more in hand-overs than they overlap */

/* Until my in-slot (or out-slot) of `chunk` may be filled. */
static inline void staging_claim(struct schedule *sched, enum mapped_word used, uint32_t chunk)
{
    schedule_await_all(sched, used, (int64_t)chunk + 1 - MAPPED_SLOTS);
}

/*
 * Slots that hold a piece for each other member: where in `owner`'s slot the piece of `part` lies,
 * each taking `each` bytes. The owner keeps its own part to itself.
 */
static inline uint32_t staging_part(uint64_t each, int owner, int part)
{
    return (uint32_t)(part < owner ? part : part - 1) * (uint32_t)each;
}

/* The bytes of one piece then. */
static inline uint64_t staging_part_bytes(int mates)
{
    return MAPPED_SLOT_BYTES / (uint64_t)(mates - 1) / PART_ALIGN * PART_ALIGN;
}

/*
 * Vectors that go through whole slots are cut so that all slots are at work, as far as the
 * hand-overs are worth it.
 */
static inline uint64_t staging_chunk_bytes(uint64_t bytes)
{
    const uint64_t quarter = round_up(bytes / MAPPED_SLOTS, PART_ALIGN);

    return quarter < STAGING_CHUNK_MIN   ? STAGING_CHUNK_MIN
           : quarter > MAPPED_SLOT_BYTES ? MAPPED_SLOT_BYTES
                                         : quarter;
}

/* This member reads nobody's in-slots (out-slots) in this operation: nobody need wait for it. */
static inline void staging_abstain(struct schedule *sched, enum mapped_word used, uint32_t first,
                                   uint32_t chunks)
{
    schedule_post(sched, used, (int64_t)first + chunks);
}

/* My counter has passed `chunk`. */
static inline void staging_post(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_post(sched, word, (int64_t)chunk + 1);
}

static inline void staging_await(struct schedule *sched, int mate, enum mapped_word word,
                                 uint32_t chunk)
{
    schedule_await(sched, mate, word, (int64_t)chunk + 1);
}

static inline void staging_await_all(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_await_all(sched, word, (int64_t)chunk + 1);
}

/* Piece `piece` of the vector at `from` goes into my in-slot. */
static inline void staging_give(struct schedule *sched, struct place from, uint32_t chunk,
                                struct part piece)
{
    staging_claim(sched, WORD_IN_USED, chunk);
    schedule_copy(sched, place_staged_in(sched->self, chunk, 0), place_after(from, piece.offset),
                  piece.bytes);
    staging_post(sched, WORD_IN_READY, chunk);
}

#endif
