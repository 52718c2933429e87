/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of the staging slots. Chunk c of an operation lies in slot (base + c) % MAPPED_SLOTS of its
 * owner. Before a member fills a slot it waits until all members have finished with the chunk that
 * was there, of this operation or of an earlier one.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

enum {
    STAGING_CHUNK_MIN = 64 * 1024, /* shorter ones cost more in hand-overs than they overlap */
    /* Bytes of all members together. Measured on two cores that share a cache. */
    STAGING_ONE_PHASE_MAX = 256 * 1024
};

/* Until my in-slot (or out-slot) of `chunk` may be filled. */
static inline void staging_claim(struct schedule *sched, enum mapped_word used, uint32_t chunk)
{
    schedule_await_all(sched, used, (int64_t)chunk + 1 - MAPPED_SLOTS);
}

/*
 * Slots that hold a piece for each other member: where in `owner`'s slot the piece of `part` lies,
 * one every `apart` bytes. The owner keeps its own part to itself.
 */
static inline uint32_t staging_part(uint64_t apart, int owner, int part)
{
    return (uint32_t)(part < owner ? part : part - 1) * (uint32_t)apart;
}

/* The bytes of one piece then. */
static inline uint64_t staging_part_bytes(uint64_t members)
{
    return MAPPED_SLOT_BYTES / (members - 1) / PART_ALIGN * PART_ALIGN;
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

/* In one phase each member that wants the result reduces all of it; longer vectors are reduced in
 * parts. */
static inline bool staging_takes_one_phase(int members, uint64_t bytes)
{
    return bytes <= STAGING_ONE_PHASE_MAX / (uint64_t)members;
}

/* My counter has passed `chunk`. */
static inline void staging_post(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_post(sched, word, (int64_t)chunk + 1);
}

static inline void staging_await(struct schedule *sched, int local_peer, enum mapped_word word,
                                 uint32_t chunk)
{
    schedule_await(sched, local_peer, word, (int64_t)chunk + 1);
}

static inline void staging_await_all(struct schedule *sched, enum mapped_word word, uint32_t chunk)
{
    schedule_await_all(sched, word, (int64_t)chunk + 1);
}

/* This member reads nobody's in-slots (out-slots) in this operation: nobody need wait for it. */
static inline void staging_abstain(struct schedule *sched, enum mapped_word used, uint32_t first,
                                   uint32_t chunks)
{
    schedule_post(sched, used, (int64_t)first + chunks);
}

/* Piece `piece` of the vector at `from` goes into my in-slot. */
void staging_put(struct schedule *sched, struct place from, uint32_t chunk, struct part piece);

/* ---- whole operations ---- */

/* A staged call: a piece of it goes through the slots in each chunk. */
struct staging {
    const struct request *req;
    struct part whole; /* the vector, every block alike, or my part of the vector */
    uint64_t each;     /* bytes of a piece */
    uint64_t apart;    /* as in staging_part(); 0: the slots hold one piece, which is for all */
    uint32_t first, chunks;
};

typedef void (*staging_fn)(struct schedule *sched, const struct staging *s, uint32_t chunk,
                           struct part piece);

/* Takes the chunks for `bytes` of the request's vector or blocks; `each` 0: the slots hold a piece for
 * each other member. */
struct staging staging_of(struct schedule *sched, const struct request *req, uint64_t bytes,
                          uint64_t each);
/* Calls `fn` for one chunk after the other. */
void staging_each(struct schedule *sched, const struct staging *s, staging_fn fn);
/* Stages that run one chunk apart: in turn k `give` is called for chunk k, `take` for k-1 and
 * `collect`, which may be NULL, for k-2. All members meet after the first `give`. */
void staging_pipeline(struct schedule *sched, const struct staging *s, staging_fn give,
                      staging_fn take, staging_fn collect);
/* I am through with the others' slots of `chunk`. The runner posts the last one. */
void staging_used(struct schedule *sched, const struct staging *s, enum mapped_word used,
                  uint32_t chunk);

/* A staging_fn: the input goes into my in-slot. */
void staging_give(struct schedule *sched, const struct staging *s, uint32_t chunk,
                  struct part piece);
/* A staging_fn: the input's blocks for the others go into my in-slot, to their places. */
void staging_give_blocks(struct schedule *sched, const struct staging *s, uint32_t chunk,
                         struct part piece);
/* A staging_fn: all others' pieces go to their blocks of the output; gives the slots back. */
void staging_take_blocks(struct schedule *sched, const struct staging *s, uint32_t chunk,
                         struct part piece);
/* A staging_fn: the root's piece goes to the output; gives the slot back. */
void staging_take_roots(struct schedule *sched, const struct staging *s, uint32_t chunk,
                        struct part piece);
/* All members' pieces are reduced to `to`, mine being in the vector or block at `own`, and finished;
 * gives the slots back. */
void staging_reduce(struct schedule *sched, const struct staging *s, uint32_t chunk,
                    struct part piece, struct place to, struct place own);

/* ---- reductions of which each member does its n-th ---- */

/*
 * Three stages run one chunk apart. Copy the others' parts to my in-slot; reduce my part from everybody's
 * in-slots; take the others' results from their out-slots. The algorithm decides which members take the
 * results. Invariant: in turn k the slots hold chunk k going in, k-1 being reduced, k-2 going out.
 */

/* My part; takes the chunks for the longest of all. */
struct staging staged_parts_of(struct schedule *sched, const struct request *req);
/* A staging_fn: the others' parts go into my in-slot. */
void staged_parts_give(struct schedule *sched, const struct staging *s, uint32_t chunk,
                       struct part piece);
/* A staging_fn: all other members' results, from their out-slots, which are given back. */
void staged_parts_collect(struct schedule *sched, const struct staging *s, uint32_t chunk,
                          struct part piece);
