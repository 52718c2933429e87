/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in flight: what moves them, what they wait for, and how they end. */
#pragma once

#include "group/group.h"

/* ---- progress.c ---- */

extern const struct p2p_events group_events;
void group_source_init(struct tutti_group *group);
/* The call at the head of the queue has gone wrong: proposes the cause; the verdict will end it. */
void group_call_failed(struct tutti_group *group, struct call *call, tutti_status status);
/* Ends a call that is in a list; its memory may be gone afterwards. */
void group_complete(struct tutti_group *group, struct call *call, tutti_status status);
void group_message_done(struct p2p_op *op);
/* The verdict is in: every call ends with it, and its memory is the caller's again. */
void group_fail_all(struct tutti_group *group);
/* The verdict as the thread's error, of a collective or message that this member calls after it; under the
 * progress lock. The launcher and the dump hear of the failure before the program does. */
tutti_status group_refuse_message(struct tutti_group *group);
tutti_status group_refuse(struct tutti_group *group, const struct call_fields *fields,
                          uint64_t bytes);

/* ---- look.c ---- */

void group_look(struct engine_source *source, int64_t now);
/* Takes in what members have told, and answers it: where an engine has nobody wait, nobody else does. With
 * the progress lock, not from p2p's callbacks. */
void group_hear(struct tutti_group *group);

/* ---- leavers.c; the first is an upcall ---- */

void group_suspect(struct tutti_group *group, int rank, const char *provider, const char *message,
                   bool link);
/* Ends the paths to members that left in order, once what they had sent must have arrived. */
void leavers_look(struct tutti_group *group, int64_t now);
/* Judges members whose connection ended: they left in order, or are proposed as lost. */
void leavers_judge(struct tutti_group *group, int64_t now);

/* ---- waits.c ---- */

/* The member that the call waits for; rank -1: none, or any. Under the progress lock. */
struct waiting group_waits_for(const struct tutti_group *group, const struct call *call);
/* The local peers that have not called it, `named` aside; how many. */
int group_missing_local(const struct tutti_group *group, const struct call *call, int named,
                        int *ret_ranks, int capacity);
/* Whether every other member has left in order, and what they had sent must have arrived. */
bool group_is_last(const struct tutti_group *group);
/* Keeps for the error of a time-out `rank`, which its words begin with, and those that have not come either. */
void group_note_missing(struct tutti_group *group, const struct call *call, int rank);
/* group_waits_for() and group_missing_local() as text; the rank, or that of a local peer that is stopped. */
int group_describe_wait(struct tutti_group *group, const struct call *call, char *ret_text,
                        size_t capacity);
/* The neighbours that are known to have called it, where an engine does it; -1: not. */
void group_heard_in(const struct tutti_group *group, const struct call *call, int32_t ret_ranks[2]);
/* "#41 all_reduce 8 x f32, sum" */
void group_describe_call(const struct call *call, char *ret_text, size_t capacity);

/* ---- compare.c ---- */

/* This member's call of that number: of the last 64, still in the queue, or sampled. NULL: forgotten, or not
 * made yet. */
const struct announce *group_own_call(const struct tutti_group *group, uint64_t sequence);
/* Compares what `source` announced with what this member called; proposes a mismatch. */
void group_compare(struct tutti_group *group, int source, const struct announce *theirs);
/* This member calls `call` now. False: somebody announced something else under this number before.
 * Looks at every member: for calls up to last_future only. */
bool group_compare_futures(struct tutti_group *group, const struct announce *call);
/* Compares the last calls of members that have left; with `leaves`, which this one does, too, their numbers
 * as well. */
void group_compare_last(struct tutti_group *group, bool leaves);
/* This member leaves: its last call with those that local peers have made, as their memory tells. */
void group_compare_local(struct tutti_group *group);
/* A local peer's line in mapped memory differs from what this member called. */
void group_mapped_mismatch(struct tutti_group *group);

/* ---- advance.c ---- */

/* Whether a wrapper holds the call back still. */
bool group_holds(const struct tutti_group *group, const struct call *call);
/* Moves one collective; NOT_READY: again later. */
tutti_status group_advance(struct tutti_group *group, struct call *call);
