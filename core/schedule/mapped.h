/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the members of one host see of each other, and the announce lines in it.
 *
 * Each member has one area of MAPPED_BYTES, zeroed at start. All but `rounds`, `claims` and the windows of two members
 * (windows.h) is written by its owner alone:
 *
 *     lines    4 slots; turn k lies in slot k % 4: one cache line (turn << 16 | flags,
 *              signature, 48 B of payload), then room for a payload of up to 4 KiB, which is stored
 *              before the line's first word is released
 *     records  the owner's last 64 calls as text, for the message of a mismatch
 *     words    the counters of staged algorithms, each on lines of its own; they count pages of the
 *              windows since the group began and are never reset
 *     claims   the words of messages that are read in place; local peers write them, too
 *     freed    which of the owner's registered memories it has given up
 *     blocks   where the blocks of its input, or output, are in registered memory, if they do not lie in a
 *              row; of one call at a time
 *     in, out  the windows of staging: chunks lie one behind the other, each in whole pages, and begin
 *              anew at the window's beginning; touched when first used
 *     trials   which way calls of its plans go, see trial.h: no more than how bytes are stored
 *     reads    what the owner says of its own memory, see peer_reads.h
 *     part     the owner's part of a round (rounds.h); touched when first used
 *     rounds   what all members write to in rounds: that of the first local peer serves all
 *
 * Registered memory (tutti_memory_allocate(), tutti_memory_register()) is mapped by all local peers, too,
 * each piece at a number of the group. A member whose input or output lies in such memory may say so in
 * its line, by number and offset. If all lines that count say so, the call takes a schedule that
 * works in these places; else every member takes the ordinary one. So the lines decide, and members whose
 * memory is of different kinds take the same way.
 *
 * Every collective that the core does begins with the member's line, whatever the plan; that is a turn.
 * What an engine does whole takes none, on all members alike, so turns are counted here, and
 * a call's number among the group's collectives is in its record alone. One rule keeps slots: the
 * line of turn k is written only after turn k-3 or later was seen from every local peer (a local peer
 * announces k-3 only when it is through with k-4, whose slot this is). Where all members read all,
 * that sight is free; a root that only sends may find no room yet. So a group runs one collective
 * at a time on its mapped memory.
 *
 * Local peers' memory is not trusted: what is read from it is compared, or copied as payload whose length
 * is our own; it is never an index or a length. The exceptions are references to registered memory,
 * with the table of blocks, and the claims of a round: they are read once and checked.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/plugin_copy.h>
#include <tutti/status.h>

#include "base/call.h"
#include "schedule/mapped_references.h"
#include "schedule/peer_reads.h"
#include "schedule/rounds.h"

enum {
    MAPPED_LINES = 4,
    MAPPED_LINE_PAYLOAD = 48,
    MAPPED_PAYLOAD_MAX = 4096,
    /* From so many bytes on streaming stores may be faster between CPUs that share no cache: an all_reduce of 4 KiB
     * takes 1.2 us instead of 2.2, a scatter 1.3 instead of 2.7. Copies that short are timed less exactly than long
     * ones, so streaming stores must win by more, and more samples are taken. */
    MAPPED_FEW_BYTES = 2048,
    MAPPED_FEW_BYTES_WINS_BY = 2,  /* times */
    MAPPED_FEW_BYTES_SAMPLES = 16, /* that are timed before plain stores are judged */
    MAPPED_RECORDS = 64,
    MAPPED_CLAIMS = 64,     /* messages of a member that may be read in place, at a time */
    MAPPED_TRIALS = 64,     /* plans whose stores are compared, see trial.h */
    MAPPED_MEMORIES = 1024, /* pieces of registered memory in a group at a time */
    MAPPED_PAGE = 4096,
    MAPPED_CHUNK_MAX = 256 * 1024, /* bytes; fewer hand-overs beat staying in L2 */
    MAPPED_CHUNK_PAGES = MAPPED_CHUNK_MAX / MAPPED_PAGE + 1, /* odd, see schedule_chunks() */
    /*
     * Lines that a local peer has read lie in its L2, and writing them again costs an invalidation each
     * until they have left it. So a window is about twice an L2: 32 KiB of an all_reduce take 1.9 us
     * instead of 4.7 with 256 KiB. Where an operation fills more than FEW pages, the own L2 counts for
     * more, and it uses half of the window: 2 MiB take a tenth less time. Where an L2 has less than L2_MIN bytes,
     * operations that fill more than FEW_OF_SMALL pages do: with 512 KiB of L2, 256 KiB of an all_reduce take 29 us
     * instead of 50 in half of the window, but 32 KiB of a broadcast 4.0 instead of 3.1. The numbers of pages are
     * powers of two.
     */
    MAPPED_WINDOW_PAGES = 512,
    MAPPED_HALF_PAGES = MAPPED_WINDOW_PAGES / 2,
    MAPPED_FEW_PAGES = 128,
    MAPPED_FEW_OF_SMALL = 16,
    MAPPED_L2_MIN = 1024 * 1024, /* bytes */
    /* Where two members exchange chunks, their windows change hands after a power of two of pages, see windows.h: after
     * so many at least, and half of a window at most. */
    MAPPED_SWAP_PAGES_MIN = 4,
    MAPPED_SWAPS = 7,
    /*
     * More members walk through so much memory together that neither caches nor TLB hold it: 48 KiB of 8 ranks on
     * 2 CPUs take 150 us instead of 30. They keep to a few places: every chunk has the pages of the longest.
     */
    MAPPED_LOCAL_FEW = 4,
    MAPPED_PLACES = 4,
    MAPPED_LOCAL_MAX = 1024 /* a chunk shared by all still gives each four lines */
};

/* The counters. After an operation of K pages every member has brought each to base + K. */
enum mapped_word {
    WORD_IN_READY,  /* pages that are filled in my in-window */
    WORD_IN_USED,   /* pages of all others' in-windows that I am through with */
    WORD_OUT_READY, /* pages that are filled in my out-window */
    WORD_OUT_USED,  /* pages of all others' out-windows that I am through with */
    WORD_COUNT
};

struct mapped_line {
    _Alignas(64) _Atomic uint64_t word; /* turn << 16 | flags */
    uint64_t signature;
    unsigned char payload[MAPPED_LINE_PAYLOAD];
    unsigned char
        longer[MAPPED_PAYLOAD_MAX]; /* payloads of more than 48 B lie here, and only here */
};

struct mapped_record {
    _Alignas(64) struct announce announce;
};

struct mapped_counter {
    _Alignas(128) _Atomic uint64_t value;
};

/* A chunk that begins on the last page goes on behind the window. */
struct mapped_window {
    unsigned char bytes[MAPPED_WINDOW_PAGES * MAPPED_PAGE + MAPPED_CHUNK_MAX];
};

struct mapped_area {
    struct mapped_line lines[MAPPED_LINES];
    struct mapped_record records[MAPPED_RECORDS];
    struct mapped_counter words[WORD_COUNT];
    struct mapped_counter in_round; /* where its owner is in a round, see tell() in rounds.c */
    struct mapped_counter awaits;   /* the counters that the owner waits for, see mapped_waits.h */
    struct mapped_counter l2;       /* bytes of one of the owner's CPUs; 0: unknown */
    struct mapped_counter session;  /* of the owner's process, in its PID namespace */
    _Alignas(64) _Atomic uint64_t trials[MAPPED_TRIALS];
    struct peer_reads_word reads;
    _Atomic uint64_t claims[MAPPED_CLAIMS];                 /* see p2p/p2p_place.c */
    _Alignas(4096) _Atomic uint32_t freed[MAPPED_MEMORIES]; /* the number that was in this place */
    struct mapped_block blocks[MAPPED_LOCAL_MAX];
    _Alignas(4096) struct mapped_window in;
    struct mapped_window out;
    unsigned char part[ROUND_PLACES][ROUND_CHUNK_MAX];
    struct mapped_rounds rounds;
};

/* The bytes to map for each member. An odd number of pages: areas that lie a power of two apart alias on some
 * CPUs. */
#define MAPPED_BYTES ((uint64_t)sizeof(struct mapped_area))
_Static_assert(sizeof(struct mapped_area) / MAPPED_PAGE % 2 == 1, "add a page");
_Static_assert(MAPPED_SWAP_PAGES_MIN << (MAPPED_SWAPS - 1) == MAPPED_HALF_PAGES, "see windows.h");

/* How far back the pages lie that a chunk of `local_size` members may be on. */
static inline uint32_t mapped_lap_pages(int local_size)
{
    return local_size > MAPPED_LOCAL_FEW ? MAPPED_PLACES * MAPPED_CHUNK_PAGES : MAPPED_HALF_PAGES;
}

/* A member's view of its host's memory. Private: local peers cannot write to it. */
struct mapped {
    int local_size; /* members of the group on this host, this one included */
    int self;       /* my index among them; ascending with the rank in the group */
    struct mapped_area **areas;
    const int *ranks;             /* of each local peer, in the group */
    uint64_t *seen;               /* highest turn seen from each local peer */
    const void **vectors;         /* room for one pointer for each local peer */
    struct mapped_places *places; /* of each local peer: set by mapped_resolve() */
    struct peer_reads reads;
    struct mapped_memory
        *memories;      /* [MAPPED_MEMORIES], a number modulo that; NULL: there never were any */
    uint64_t seen_all;  /* a turn that was seen from every local peer */
    uint64_t pages;     /* of the windows before the operation that runs: the counters' base */
    uint64_t uncached;  /* so many bytes of the caller's, or more, do not stay in a cache */
    bool one_session;   /* all local peers and this member are in the same session */
    uint32_t few_pages; /* operations that fill more use half of the windows */
    /* Where operations end whose windows changed hands after SWAP_PAGES_MIN pages, twice as many, … */
    uint64_t swapped_until[MAPPED_SWAPS];
    tutti_copy copy;             /* into my windows */
    tutti_copy copy_out;         /* into local peers' outputs */
    tutti_copy copy_few;         /* into my windows, of fewer than TUTTI_COPY_LONG bytes */
    tutti_copy copy_swapped;     /* into windows that change hands */
    tutti_copy copy_swapped_few; /* the same, of fewer than TUTTI_COPY_LONG bytes */
    tutti_copy copy_line;        /* into my lines */
    uint64_t announced;          /* my last turn; the first is 1 */
    uint64_t sequence;           /* the call that it was */
    uint64_t signature; /* the same call's, as I made it: my line lies open to the local peers */
    uint64_t rounds;    /* that are done */
    uint32_t looks;     /* at the round that is next */
    bool has_given;     /* my part of it */
    bool is_last;       /* I have given the last part, and not opened the round */
    bool finished;      /* I have ended it, in the last mapped_round() */
    bool waits;         /* my area says for which counters I wait */

    /* Set with TUTTI_ERR_MISMATCH or TUTTI_ERR_INTERNAL: whose line it was, and of which call. */
    int culprit; /* index of the local peer */
    uint64_t culprit_sequence;
    uint64_t culprit_signature;
};

/*
 * `areas[local_size]`: where each member's area is mapped here; `ranks[local_size]` its rank in the group.
 * Both are copied. TUTTI_ERR_NO_MEMORY, TUTTI_ERR_INVALID_ARGUMENT (more than MAPPED_LOCAL_MAX
 * local peers); nothing is left behind then.
 */
tutti_status mapped_init(struct mapped *mapped, int local_size, int self, void *const *areas,
                         const int *ranks);
void mapped_free(struct mapped *mapped);

/* Each member tells the bytes of a level 2 cache, before the group is complete. */
void mapped_tell_l2(struct mapped *mapped, uint64_t bytes);
/* The same for the session of its process: sched_yield() leaves the CPU only to threads of the same session. */
void mapped_tell_session(struct mapped *mapped, uint64_t session);
/* This member's part of the level 3 caches. */
void mapped_tell_l3(struct mapped *mapped, uint64_t bytes);

/* Once all have told: when streaming stores are worth it (`crowded`: ranks outnumber the CPUs;
 * members may differ), whether all are in one session, and how much of the windows is used, which is the same
 * on all. */
void mapped_fit_cpus(struct mapped *mapped, bool crowded);

/* Copies at least MAPPED_FEW_BYTES by the kind of store that costs less, by what is known in `copy`. */
void mapped_copy(tutti_copy *copy, void *to, const void *from, size_t bytes);

/*
 * Writes my line for the call `announce` with `bytes` of payload (at most MAPPED_PAYLOAD_MAX; may be 0).
 * TUTTI_ERR_NOT_READY: the slot may still be read by local peer `mapped->culprit`; try again.
 * TUTTI_ERR_MISMATCH: a local peer's line of the last call differs from what this member called then.
 * Does not wake sleepers: that is the caller's, once, after this returned TUTTI_OK.
 */
tutti_status mapped_announce(struct mapped *mapped, const struct announce *announce,
                             const void *payload, size_t bytes);

/* The same without payload: the line shows where my input and output are in registered memory. */
tutti_status mapped_announce_references(struct mapped *mapped, const struct announce *announce,
                                        const struct mapped_references *references);

/*
 * Looks for local peer `index`'s line of the call that I announced last. TUTTI_OK: it is there and is the
 * same call, its payload may be read until my next announce; TUTTI_ERR_NOT_READY;
 * TUTTI_ERR_MISMATCH with the culprit set; TUTTI_ERR_INTERNAL when the line holds what no member
 * could have written.
 */
tutti_status mapped_meet(struct mapped *mapped, int index);

/* mapped_meet() for all local peers; after NOT_READY `culprit` is the first that is missing. */
tutti_status mapped_meet_all(struct mapped *mapped);

/* Whether local peer `index` has come to the call that I announced last, whatever it called. */
bool mapped_has_called(const struct mapped *mapped, int index);

/* Whether local peer `index` has come to a later call than the one that I announced last. */
bool mapped_has_passed(const struct mapped *mapped, int index);

/*
 * Copies what local peer `index` called as `sequence`, for words. False when the record is gone or was
 * never written; the fields are the local peer's word and may be anything.
 */
bool mapped_record(const struct mapped *mapped, int index, uint64_t sequence,
                   struct announce *ret_announce);

static inline struct mapped_line *mapped_line_of(const struct mapped *mapped, int index,
                                                 uint64_t turn)
{
    return &mapped->areas[index]->lines[turn % MAPPED_LINES];
}

/* The line of local peer `index` in the turn that I announced last. */
static inline struct mapped_line *mapped_line(const struct mapped *mapped, int index)
{
    return mapped_line_of(mapped, index, mapped->announced);
}

/* The place of a payload of `bytes` in a line. */
static inline unsigned char *mapped_payload(struct mapped_line *line, size_t bytes)
{
    return bytes <= MAPPED_LINE_PAYLOAD ? line->payload : line->longer;
}

/* The part of local peer `index` in the round that is next. */
static inline unsigned char *mapped_round_part(const struct mapped *mapped, int index)
{
    return mapped->areas[index]->part[mapped->rounds % ROUND_PLACES];
}

/* The result of the round after `rounds` others. */
static inline unsigned char *mapped_round_result(const struct mapped *mapped, uint64_t rounds)
{
    return mapped->areas[0]->rounds.result[rounds % ROUND_PLACES];
}
