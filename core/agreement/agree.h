/* SPDX-License-Identifier: Apache-2.0 */
/* Between agree.c (every member) and agree_lead.c (what rank 0 does besides). */
#pragma once

#include "agreement/agree_wire.h"
#include "group/group.h"
#include "secret/seal.h"

enum {
    AGREE_KEY_MAX = GROUP_KEY_MAX + 128,
    AGREE_ROUNDS_MAX = 8,
    AGREE_FIRST_TRY_MS = 1000, /* of a call of the store */
    AGREE_LATE_MS = 200,       /* between two looks at the late members */
    AGREE_STALL_MS = 2000      /* then a member notes where it waits */
};

/* In the place of the salt, in the key of the outcome of members that have no decision. */
#define AGREE_UNDECIDED "undecided"

/* A frame, or the end of a member, noted under the control lock and worked on outside it. */
struct agree_note {
    struct agree_note *next;
    enum frame_type type; /* FRAME_LEAVE stands for a member that is gone */
    int rank;
    size_t size;
    uint8_t data[];
};

struct agreement {
    struct tutti_group *group;
    const struct backend_choice *choice;
    tutti_store *store;
    bool store_reconnected;
    bool store_asked_again; /* after last_ns, too */
    int64_t store_try_ms;   /* how long its answer is awaited before others are looked at */
    int64_t deadline_ns;
    uint32_t round;
    struct offer own;
    int listener; /* the Unix socket's */
    struct decision decision;
    struct outcome outcome;                    /* of this round, once known */
    struct outcome told[AGREE_ROUNDS_MAX + 1]; /* [round] that was sent down; the control lock's */
    struct agree_note *notes, **notes_tail;
    bool note_lost; /* there was no memory for one: the agreement fails */
    bool have_roster;
    int leader_fd;    /* a bare connection to the leader's listener until it has decided, or -1 */
    bool leader_seen; /* that was once made */
    int64_t probe_ns; /* the leader dials the late members then */
    int64_t ask_ns;   /* the leader asks the late members for a sign of life from then on */
    int64_t asked_ns; /* when it first did; 0: not yet */
    int64_t over_ns; /* when another member saw that the leader's deadline had passed; 0: not yet */
    int64_t last_ns; /* calls of the store end then, once the deadline has passed; 0: not yet */

    const struct forming *from; /* NULL: a world */
    int64_t stall_ns;           /* looks then for what members wait for */
    bool launched;              /* by `tutti run`, which tells of ranks that have ended */
    bool noted;                 /* where this member waits is in the store */
    int pause_ms;               /* between two looks for keys; 0: none was made */

    struct leading *lead; /* rank 0 only */
};

/* Whether this member takes the round's next step: it has no error, and the round has no outcome. */
static inline bool agree_goes_on(const struct agreement *a, tutti_status status)
{
    return !status && !a->outcome.kind;
}

/* ---- agree.c ---- */

/* What a member does now and then while it waits: it takes what has come, answers, and looks at the parent group. OK:
 * go on, or a->outcome tells. */
tutti_status agree_look(struct agreement *a);

void agree_key(const struct agreement *a, char ret_key[AGREE_KEY_MAX], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t agree_left_ms(const struct agreement *a);
/* Writes the round's outcome unless it is there, takes over what is there, and tells the tree
 * below. */
tutti_status agree_settle(struct agreement *a, enum outcome_kind kind, tutti_status status,
                          int culprit, const char *message);
/* The leader: a member that could not take the decision over has said why where it could, and a->outcome
 * tells. */
tutti_status agree_look_at_undecided(struct agreement *a);
/* This member cannot go on for the last error's reason, and everybody shall know; OK: a->outcome
 * tells. */
tutti_status agree_give_up(struct agreement *a, tutti_status status, int culprit);

/* ---- agree_keys.c ---- */

/* The key of the group that is decided. */
tutti_status agree_group_key(const struct agreement *a, struct key *ret_key);

/* ---- agree_store.c ---- */

/* TIMEOUT, with a message: the store has not answered until the deadline. */
tutti_status agree_store_silent(const struct agreement *a);
/* Whether what failed may be tried from the beginning: this world's store was one that it has left, and
 * another is open now. */
bool agree_store_reopened(struct agreement *a, tutti_status status);
/* The error of a member for which rank 0 is gone, with the store that it served; else `status`, with its
 * words. */
tutti_status agree_server_lost(struct agreement *a, tutti_status status);
/* Whether a call of a->store that failed may be made again: its connection was reset, and there is a new
 * one to the same store. Once in an agreement. */
bool agree_store_reconnected(struct agreement *a, tutti_status status);
/* Records go into the store with a seal. Those that come out have it still, for agree_unseal(). */

/* One try. TIMEOUT: no answer so far; it may be repeated. */
tutti_status agree_check(struct agreement *a, const char *const *keys, size_t count,
                         bool *ret_present);
/* The others have their answer when they return, or the deadline has passed (TIMEOUT), or the parent
 * has ended. agree_get() and agree_multi_get() are for keys that are there. */
tutti_status agree_get(struct agreement *a, const char *key, tutti_store_value *ret_value);
tutti_status agree_multi_get(struct agreement *a, const char *const *keys, size_t count,
                             tutti_store_value *ret_values);
tutti_status agree_set(struct agreement *a, const char *key, const void *data, size_t size);
/* Sets what is not there; in any case gets what is, if `ret_value` is not NULL. */
tutti_status agree_put(struct agreement *a, const char *key, const void *data, size_t size,
                       tutti_store_value *ret_value);
/* The same with a decision that ends the group. */
tutti_status agree_put_abort(struct agreement *a, const char *key, const struct outcome *reason);
void agree_delete(struct agreement *a, const char *key);
/* Whether the key is there, as far as the store answers. */
bool agree_has(struct agreement *a, const char *key);

/* ---- agree_seal.c ---- */

/* The record with its seal, in memory for the caller to free(). */
tutti_status agree_seal(const struct agreement *a, const char *key, const void *data, size_t size,
                        struct writer *ret_sealed);
/* Takes the seal off the value. STORE: it has none, or not one of this job, and the words name the key; MISMATCH: it is
 * of another secret, and this member requires its own. */
tutti_status agree_unseal(struct agreement *a, const char *key, tutti_store_value *value);
/* The same, and the state of a good seal or of another secret's tells. */
tutti_status agree_look_at_seal(const struct agreement *a, const char *key,
                                tutti_store_value *value, struct seal *ret_seal,
                                enum seal_state *ret_state);
/* The error of a member that requires its secret, for a record of another one. */
tutti_status agree_other_secret(struct agreement *a, const char *key, const struct seal *seal);
/* MISMATCH: the members have different secrets, as their seals say. */
tutti_status agree_secrets_error(const struct agreement *a, const struct seal *first, int rank,
                                 const struct seal *other);

/* ---- agree_decision.c ---- */

/* Looks for the keys until all are there, seldom when that takes long; TIMEOUT without a message, also
 * when the store does not answer. */
tutti_status agree_await_keys(struct agreement *a, const char *const *keys, size_t count,
                              int64_t ms);
/* Whether what this member waits for from `rank`, an offer or rank 0's decision, is not in the store. */
bool agree_misses(struct agreement *a, int rank);
/* Waits for the round's decision and takes it over; OK: a->decision, or a->outcome, tells. */
tutti_status agree_read_decision(struct agreement *a);

/* ---- agree_notes.c ---- */

/* To those below in the tree, now or when they connect. */
void agree_tell_outcome(struct agreement *a, const struct outcome *outcome);

extern const struct control_handlers agree_handlers;
/* Works on what was noted until there is nothing, or the round has its outcome. */
tutti_status agree_take_notes(struct agreement *a);
void agree_drop_notes(struct agreement *a);
/* Fills in this member's report, OPENED with its addresses; the message of a failure is the thread's error. */
void agree_fill_report(const struct agreement *a, enum report_phase phase, tutti_status status,
                       struct report *report);
tutti_status agree_send_report(struct agreement *a, const struct report *report);

/* ---- agree_offer.c ---- */

/* Publishes this member's offer; `choice_words` is the backend as it was asked for. */
tutti_status agree_offer(struct agreement *a, const char *choice_words);

/* ---- agree_choose.c ---- */

/* What TUTTI_TLS came to with that decision: TUTTI_ENCRYPTION_…. */
int32_t agree_encryption(const struct agreement *a, const struct decision *d);

/* ---- agree_lead.c ---- */

tutti_status lead_begin(struct agreement *a);
void lead_end(struct agreement *a);
/* Gathers the offers and publishes the decision of the round (or of its abort). */
tutti_status lead_decide(struct agreement *a);
/* A member's report; settles the round when all are in. */
tutti_status lead_report(struct agreement *a, const struct report *report);
/* Ranks whose offers are not in the store, as text; how many came, and the first that did not.
 * TIMEOUT: the store does not answer. */
tutti_status agree_missing_offers(struct agreement *a, char *ret_message, size_t capacity,
                                  int *ret_came, int *ret_first);
/* Writes which members do not answer, or else which have not reported; the first of those that do
 * not answer, or -1. */
int lead_missing(const struct agreement *a, char *ret_message, size_t capacity);
/* Whether the round lacks a report of `rank`. */
bool lead_awaits(const struct agreement *a, int rank);

/* ---- agree_probe.c ---- */

/* While the decision is awaited: has the leader died? a->outcome tells. Members next to it look at their
 * connection to it, all at what the launcher says. */
tutti_status agree_probe_leader(struct agreement *a, bool near_leader);
void agree_probe_end(struct agreement *a);
/* The leader: have those died whose reports are late, or given up? The control plane tells, or a->outcome. */
tutti_status agree_probe_late(struct agreement *a);

/* ---- agree_ended.c; nothing without `tutti run` ---- */

void agree_ended_begin(struct agreement *a);
/* OK; or one that is waited for has ended, with a message. agree_ended_soon() waits `ms` for such news. */
tutti_status agree_ended(struct agreement *a, int *ret_culprit);
tutti_status agree_ended_soon(struct agreement *a, int ms, int *ret_culprit);

/* An engine may see that a connection has ended before the core does, and it cannot say which process that was. What
 * the core hears a moment later can. Returns `status`, with its message, unless something else ends the wait. */
tutti_status agree_await_name_of_lost(struct agreement *a, tutti_status status);

/* ---- agree_stall.c; nothing in a world ---- */

/* OK; or the parent has ended, and its words are the thread's error. */
tutti_status agree_parent(struct agreement *a);
/* The same; or a member has left the parent and will not come, with a message: the leader looks at all, the others
 * at the leader, while they wait for it. */
tutti_status agree_left(struct agreement *a, int *ret_culprit);
/* The rank in the parent of a member of this group. */
int agree_parent_rank(const struct agreement *a, int rank);
/* A store that is gone may be the least of what happened: `status`, or the parent's, with a message. */
tutti_status agree_parent_knows(struct agreement *a, tutti_status status);
/* While offers or the decision are awaited. Members that wait for each other get a decision. */
void agree_stalled(struct agreement *a, bool leader_came);
/* Whether others have ended this group, before the leader has decided. */
bool agree_is_overruled(struct agreement *a);
void agree_stall_end(struct agreement *a);
/* "; world rank 2 waits in group g", or "". */
void agree_where_is(struct agreement *a, int rank, char *ret_message, size_t capacity);
