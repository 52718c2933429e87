/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: every member of a host gives its part, and the parts are reduced for all.
 *
 * Where ranks outnumber CPUs, a hand-over is a context switch, and a member that waits for one peer
 * after the other is switched to several times, and reads the lines of all. In a round it is
 * switched to once: it stores its part, counts itself in one counter of the host, and leaves the
 * CPU. The last member compares the announce lines of all, reduces the parts and publishes the
 * result, which all read. A long part is reduced in pieces, each by the member that claims it: the
 * last one, and those that wait on other CPUs meanwhile. The member that reduces the last piece ends the round.
 *
 * The shared words lie in the area of the first local peer. Rounds are numbered from 1, alike on
 * all members, and a member gives its part of round r+1 only when it has seen that r is done. It
 * follows that
 *   - the result of r may be read until one's own part of r+1 is given;
 *   - one's own part may be written over as soon as r is done;
 *   - a member that is late in r holds up r+1, so there is never more than one round in work.
 * Parts are stored before `given` is raised, the result before `done`: release and acquire. Claims are
 * made only by members that have not left the round, so they never fall into the next one.
 *
 * A call in rounds announces itself in its line as any other. Since the last member compares all
 * lines, the others need not. A member that waits for long compares them, too: a local peer in
 * another call never comes to the round.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

enum {
    ROUND_PAYLOAD = 48,
    ROUND_PAYLOAD_MAX = 4096,
    ROUND_CHUNK_MAX = 64 * 1024, /* bytes of a part: whole elements of every dtype */
    ROUND_PIECE = 4096,          /* bytes of a part that a member claims */
    ROUND_CLAIMS_BITS = 16,
    /* By turns: it takes long to write lines that a peer has just read. */
    ROUND_PLACES = 2
};

/* What all members write to. */
struct mapped_rounds {
    _Alignas(128) _Atomic uint64_t given; /* parts, of all rounds together */
    _Atomic uint32_t resting;             /* members in mapped_round_rest() */
    _Alignas(128) _Atomic uint64_t done;  /* rounds */
    unsigned char payload[ROUND_PAYLOAD]; /* the result of an inline call, if it is as short */
    _Alignas(64) unsigned char longer[ROUND_PAYLOAD_MAX]; /* the same, if it is longer */
    /* The number of the open round << ROUND_CLAIMS_BITS, plus the claims made in it. */
    _Alignas(128) _Atomic uint64_t claims;
    _Atomic uint32_t reduced; /* pieces of that round that are done */
    _Alignas(4096) unsigned char result[ROUND_PLACES][ROUND_CHUNK_MAX];
};

/* The work of a round. */
struct round_work {
    void (*reduce)(const void *user, uint32_t piece);
    const void *user;
    uint32_t pieces; /* alike on all members; 1: for the last member alone */
};

struct mapped;

/*
 * The next round of the call that was announced last: gives my part, which is in its place, unless
 * I have given it. TUTTI_OK: the round is done, and the result may be read; the next call begins
 * another round. With mapped->finished set, this member ended the round and has to wake the others.
 * A member that waits reduces pieces here, too.
 * TUTTI_ERR_NOT_READY: call again. TUTTI_ERR_MISMATCH, TUTTI_ERR_INTERNAL: as mapped_meet().
 */
tutti_status mapped_round(struct mapped *mapped, const struct round_work *work);

/* A local peer for which the round waits, where mapped_round() was not ready. */
int mapped_round_awaits(const struct mapped *mapped);

/* Whether I have given my part of a round, and have not to open it; then *ret_round is its number. */
bool mapped_round_is_given(const struct mapped *mapped, uint64_t *ret_round);

/* Sleeps until that round is done, for `ms` at most. Reads shared words alone, so that another thread
 * may take the round meanwhile. Returns whether it is done. */
bool mapped_round_rest(const struct mapped *mapped, uint64_t round, unsigned ms);
