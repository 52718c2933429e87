/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of the staging windows. A chunk takes the next pages of its owner's window, or of the windows that two members
 * swap (schedule/windows.h). Before a member fills a chunk it waits until all members have finished with what was on
 * these pages, of this operation or of an earlier one. One lap (mapped_lap_pages()) back is enough: page k lies at k modulo one or two laps, so
 * what lies there is page k minus a multiple of a lap, or older. Where an operation's pages lie at k modulo two laps,
 * two laps back are enough for its own pages. Where members swap, it is schedule.swap_pages in place of a lap.
 */
#pragma once

#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

enum {
    STAGING_PIECES = 4 /* of a vector whose chunks are shorter than they may be */
};

/* The counters' value behind a chunk. */
static inline int64_t staging_end(struct chunk chunk)
{
    return (int64_t)chunk.page + chunk.pages;
}

/* Until `chunk` of my in-window (or out-window) may be filled. */
static inline void staging_claim(struct schedule *sched, enum mapped_word used, struct chunk chunk)
{
    const int64_t lap = sched->swap_pages ? sched->swap_pages : mapped_lap_pages(sched->local_size);
    const int64_t one_back = staging_end(chunk) - lap, two_back = one_back - lap;

    if (sched->one_way && one_back > 0) /* 0: all pages of earlier operations */
        schedule_await_all(sched, used, two_back > 0 ? two_back : 0);
    else
        schedule_await_all(sched, used, one_back);
}

/*
 * Chunks that hold a piece for each other member: where in `owner`'s chunk the piece of `part` lies,
 * one every `apart` bytes. The owner keeps its own part to itself.
 */
static inline uint32_t staging_part(uint64_t apart, int owner, int part)
{
    return (uint32_t)(part < owner ? part : part - 1) * (uint32_t)apart;
}

/* The most bytes of a piece where `pieces` make a chunk. */
static inline uint64_t staging_piece_max(uint64_t pieces)
{
    return MAPPED_CHUNK_MAX / pieces / PART_ALIGN * PART_ALIGN;
}

/* The same for a piece of at most `bytes`: short ones lie close together where chunks are short, too. */
static inline uint64_t staging_piece_bytes(const struct schedule *sched, uint64_t pieces,
                                           uint64_t bytes)
{
    const uint64_t most = staging_piece_max(pieces);
    const uint64_t needed = max_u64(round_up(bytes, PART_ALIGN), PART_ALIGN);

    return sched->local_size > MAPPED_LOCAL_FEW ? most : min_u64(most, needed);
}

/* Vectors of which a chunk holds one piece are cut so that several are on their way, as far as the
 * hand-overs are worth it: shorter chunks cost more in these than they overlap. */
static inline uint64_t staging_chunk_bytes(const struct thresholds *thresholds, uint64_t bytes)
{
    const uint64_t piece = round_up(bytes / STAGING_PIECES, PART_ALIGN);

    return min_u64(
        max_u64(piece, round_up(thresholds->bytes[THRESHOLD_STAGED_CHUNK_MIN], PART_ALIGN)),
        MAPPED_CHUNK_MAX);
}

/* In one phase each member that wants the result reduces all of it; longer vectors are reduced in
 * parts. */
static inline bool staging_takes_one_phase(const struct thresholds *thresholds, int members,
                                           uint64_t bytes)
{
    return bytes <= thresholds->bytes[THRESHOLD_STAGED_ONE_PHASE_MAX] / (uint64_t)members;
}

/* My counter has passed `chunk`. */
static inline void staging_post(struct schedule *sched, enum mapped_word word, struct chunk chunk)
{
    schedule_post(sched, word, staging_end(chunk));
}

static inline void staging_await(struct schedule *sched, int local_peer, enum mapped_word word,
                                 struct chunk chunk)
{
    schedule_await(sched, local_peer, word, staging_end(chunk));
}

static inline void staging_await_all(struct schedule *sched, enum mapped_word word,
                                     struct chunk chunk)
{
    schedule_await_all(sched, word, staging_end(chunk));
}

/* This member reads nobody's in-windows (out-windows) in this operation: nobody need wait for it. */
static inline void staging_abstain(struct schedule *sched, enum mapped_word used,
                                   struct chunk first, uint32_t chunks)
{
    schedule_post(sched, used, staging_end(chunk_after(first, chunks)) - first.pages);
}

/* Piece `piece` of the vector at `from` goes into my in-window. */
void staging_put(struct schedule *sched, struct place from, struct chunk chunk, struct part piece);

/* ---- whole operations ---- */

/* A staged call: a piece of it goes through the windows in each chunk. */
struct staging {
    const struct request *req;
    struct part whole; /* the vector, every block alike, or my part of the vector */
    uint64_t each;     /* bytes of a piece */
    uint64_t apart;    /* as in staging_part(); 0: a chunk holds one piece, which is for all */
    struct chunk first;
    uint32_t chunks;
};

typedef void (*staging_fn)(struct schedule *sched, const struct staging *s, struct chunk chunk,
                           struct part piece);

/* Takes the chunks for `bytes` of the request's vector or blocks; `each` 0: a chunk holds a piece for
 * each other member. */
struct staging staging_of(struct schedule *sched, const struct request *req, uint64_t bytes,
                          uint64_t each);
/*
 * Nobody both fills windows and reads them in this operation. Then a member may fill two laps: with one, its L2 holds all
 * that waits to be read, and a local peer takes half as long again to read it from there as from the level 3 cache.
 * Where all fill and read, more memory only costs more. For chunks that fill no more than a lap, and for more than
 * MAPPED_LOCAL_FEW members, nothing changes.
 */
void staging_goes_one_way(struct schedule *sched, const struct staging *s);
/*
 * All members fill windows and read them, chunk by chunk. Then two members swap their windows, if the operation has no
 * pages before. Each chunk has just the pages that it needs, and the operation takes a multiple of swap_pages:
 * so the same operation finds its chunks where the other member filled as much the last time. A member
 * fills a chunk only when it has read the last but one, so two chunks have to fit into swap_pages.
 */
void staging_goes_both_ways(struct schedule *sched, struct staging *s);
/* Calls `fn` for one chunk after the other. */
void staging_each(struct schedule *sched, const struct staging *s, staging_fn fn);
/* Stages that run one chunk apart: in turn k `give` is called for chunk k, `take` for k-1 and
 * `collect`, which may be NULL, for k-2. All members meet after the first `give`. */
void staging_pipeline(struct schedule *sched, const struct staging *s, staging_fn give,
                      staging_fn take, staging_fn collect);
/* I am through with the others' pages of `chunk`. The runner posts the last one. */
void staging_used(struct schedule *sched, const struct staging *s, enum mapped_word used,
                  struct chunk chunk);

/* A staging_fn: the input goes into my in-window. */
void staging_give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                  struct part piece);
/* A staging_fn: the input's blocks for the others go into my in-window, to their places. */
void staging_give_blocks(struct schedule *sched, const struct staging *s, struct chunk chunk,
                         struct part piece);
/* A staging_fn: all others' pieces go to their blocks of the output; gives the pages back. */
void staging_take_blocks(struct schedule *sched, const struct staging *s, struct chunk chunk,
                         struct part piece);
/* A staging_fn: the root's piece goes to the output; gives the pages back. */
void staging_take_roots(struct schedule *sched, const struct staging *s, struct chunk chunk,
                        struct part piece);
/* All members' pieces are reduced to `to`, mine being in the vector or block at `own`, and finished;
 * gives the pages back. */
void staging_reduce(struct schedule *sched, const struct staging *s, struct chunk chunk,
                    struct part piece, struct place to, struct place own);

/* ---- reductions of which each member does its n-th ---- */

/*
 * Three stages run one chunk apart. Copy the others' parts to my in-window; reduce my part from everybody's
 * in-windows; take the others' results from their out-windows. The algorithm decides which members take the
 * results. Invariant: in turn k the windows hold chunk k going in, k-1 being reduced, k-2 going out.
 */

/* My part; takes the chunks for the longest of all. */
struct staging staged_parts_of(struct schedule *sched, const struct request *req);
/* A staging_fn: the others' parts go into my in-window. */
void staged_parts_give(struct schedule *sched, const struct staging *s, struct chunk chunk,
                       struct part piece);
/* A staging_fn: all other members' results, from their out-windows, whose pages are given back. */
void staged_parts_collect(struct schedule *sched, const struct staging *s, struct chunk chunk,
                          struct part piece);
