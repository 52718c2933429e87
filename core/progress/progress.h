/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in flight: what moves them, what they wait for, and how they end. */
#pragma once

#include <string.h>

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

/* ---- plans.c ---- */

/* The plan of a call, made when it is new; under the progress lock. `sizes`: NULL unless it is uneven. */
tutti_status group_find_plan(struct tutti_group *group, const struct call_fields *fields,
                             const struct call_sizes *sizes, struct plan_entry **ret_plan);
static inline tutti_status group_plan(struct tutti_group *group, const struct call_fields *fields,
                                      const struct call_sizes *sizes, struct plan_entry **ret_plan)
{
    struct plan_entry *last = group->calls.last_plan;

    if (sizes || !last || memcmp(&last->fields, fields, sizeof *fields) != 0)
        return group_find_plan(group, fields, sizes, ret_plan);
    *ret_plan = last;
    return TUTTI_OK;
}
void group_plans_free(struct tutti_group *group);
/* The schedule of the plan for tensors in registered memory, where it has one; under the progress lock. */
tutti_status group_plan_registered(struct tutti_group *group, struct plan_entry *entry);

/* ---- registered.c ---- */

/* Whether members may read each other's own memory in such a call: the same on all, but for what they have not found
 * out yet. */
bool registered_may_read(struct tutti_group *group, const struct call_fields *fields,
                         uint64_t bytes);
/* What a call whose plan and tensors are set shows of registered memory, or of its process's; in a group that has
 * made some, or where members may read each other's memory. */
tutti_status registered_refer(struct tutti_group *group, struct call *call);
/* Before it shows that: the other schedule, and where its blocks are, if they do not lie in a row. */
void registered_offer(const struct call *call, struct run_call *run);
/* The call ends with `status`: its memory may be freed, and is the caller's. */
void registered_release(struct call *call, tutti_status status);

/* ---- registered_message.c: p2p's events of messages in registered memory ---- */

bool registered_place(void *user, int destination, const void *buffer, uint64_t bytes,
                      struct p2p_place *ret_place, _Atomic uint64_t **ret_claim);
void registered_unplace(void *user, _Atomic uint64_t *claim);
tutti_status registered_find(void *user, int source, const struct p2p_place *place, uint64_t bytes,
                             unsigned char **ret_at, _Atomic uint64_t **ret_claim);

/* ---- recorder.c ---- */

/* The common part of the records of all collectives with these fields. */
tutti_record record_of_fields(const struct call_fields *fields);
uint64_t record_collective(struct tutti_group *group, const struct plan_entry *plan,
                           uint64_t sequence, uint64_t bytes);
/* The call works in registered memory: another algorithm than its plan's. */
void record_registered(struct tutti_group *group, const struct call *call);
/* The call has tensors on a device, which come to it by pinned memory. */
void record_staged(struct tutti_group *group, const struct call *call);
/* The collective by which the program learns that the group has failed: what it would have called. */
void record_refused(struct tutti_group *group, const struct call_fields *fields, uint64_t bytes);
/* A message that is in flight, or is over already, as `state` says. */
uint64_t record_message(struct tutti_group *group, bool is_send, int32_t peer, uint64_t tag,
                        uint64_t bytes, int32_t state);
/* Notes the source of a receive's message, and its backend. */
void record_source(struct tutti_group *group, uint64_t number, int source);
/* An engine of `provider` moves the message where it lies. */
void record_moved(struct tutti_group *group, uint64_t number, const char *provider);
/* "all_reduce 8 x f32, sum" */
void call_fields_text(const struct call_fields *fields, char *ret_text, size_t capacity);

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
enum { GROUP_UNCLAIMED_MAX = 96 };
/* "; it has sent tag 5, for which there is no receive": of `rank`, from which the call receives; "": none. */
void group_describe_unclaimed(struct tutti_group *group, const struct call *call, int rank,
                              char ret_text[GROUP_UNCLAIMED_MAX]);
/* The neighbours that are known to have called it, where an engine does it; -1: not. */
void group_heard_in(const struct tutti_group *group, const struct call *call, int32_t ret_ranks[2]);
/* "#41 all_reduce 8 x f32, sum" */
void group_describe_call(const struct call *call, char *ret_text, size_t capacity);

/* ---- announced.c ---- */

/* False: no memory. */
bool announced_init(struct announced *announced, int size);
void announced_free(struct announced *announced);
/* `source` has called `sequence`. */
void announced_received(struct tutti_group *group, int source, uint64_t sequence);
/* … and asks whether this member has. */
void announced_queried(struct tutti_group *group, int source, uint64_t sequence);
/* `source` has called the same as this member up to `sequence`. */
void announced_agreed(struct tutti_group *group, int source, uint64_t sequence);
/* Announces this member's call to `to`, once. */
void announced_send(struct tutti_group *group, int to, const struct announce *call);
/* The same to the two neighbours in the ring of ranks. */
void announced_send_to_neighbours(struct tutti_group *group, const struct announce *call);
/* Asks all members whether they have called the same; false: somebody has not answered. */
bool announced_all_agree(struct tutti_group *group, const struct announce *call);
/* Answers the peers that asked about calls that this member has made by now; whether there was
 * one. */
bool announced_answer(struct tutti_group *group);
/* Whether the member is known to have called it. */
bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member is known to have called the same, or cannot be asked any more. */
bool announced_agrees(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member was asked about the call, and has not been heard of in it. */
bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence);
static inline bool announced_is_sample(const struct announced *announced, uint64_t sequence)
{
    return sequence >= announced->next_sample;
}
/* Before an engine begins the call: announces it, and hears what has come meanwhile. False: it must not begin. */
bool announced_sample(struct tutti_group *group, const struct call *call);
/* This member's call of that number, if it is one of the last samples; NULL: it is not. */
const struct announce *announced_find_sample(const struct announced *announced, uint64_t sequence);

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

/* ---- staged.c: calls with tensors on devices ---- */

/* Whether a collective may begin, as far as its stand-ins go: OK, NOT_READY, or what failed. */
tutti_status staged_fill(struct call *call);
/* Whether the call waits for its stand-ins, as far as is known. */
bool staged_waits(const struct call *call);
/* A call with stand-ins begins: its run waits for their pieces, if there are any. */
void staged_pieces_of(struct call *call, struct run_call *run);
/* Notes until when the run of such a call, which has been started, writes each piece. */
void staged_note_writes(struct call *call);
/* The run was moved: pieces that are finished go back. `status`: of the move; returned, or what failed. */
tutti_status staged_give(struct call *call, tutti_status status);
/* A call with stand-ins of tensors on devices is over: a work completes by staged_move() if there is something to copy
 * back, or on its way; of a blocking one the caller's thread calls staged_put_back(). False: neither. */
bool staged_return(struct tutti_group *group, struct call *call, tutti_status status);
/* Puts the copies back on the stream of the call, which is blocking and over. If it failed, the stream waits for those
 * that are on their way. */
tutti_status staged_put_back(struct call *call, tutti_status status);
/* A message with stand-ins is about to be posted, or held: its long ones come and go in pieces. */
void staged_message(const struct tutti_group *group, struct call *call);
/* Whether a send may be posted, as far as its stand-in goes. */
tutti_status staged_may_leave(struct call *call);
/* Whether a message that is about to be posted has to wait, for its tensor or for sends before it. */
bool staged_hold(struct tutti_group *group, struct call *call);
/* Takes a message from those that are held; false: it is none. */
bool staged_withdraw(struct tutti_group *group, struct call *call);
/* Moves what waits for streams; how many things moved. */
unsigned staged_move(struct tutti_group *group);
/* Whether something waits for a stream, which wakes nobody. */
bool staged_is_asked(const struct tutti_group *group);
/* Deadlines of works that are returning. */
void staged_look(struct tutti_group *group, int64_t now);

/* ---- advance.c ---- */

/* Whether a wrapper holds the call back still. */
bool group_holds(const struct tutti_group *group, const struct call *call);
/* Where the root of an inline call is among the local peers; 0 if it has none. */
static inline int group_root_place(const struct tutti_group *group,
                                   const struct call_fields *fields)
{
    return fields->root >= 0 ? group->layout.local_of[fields->root] : 0;
}

/* An inline call as its algorithm sees it. Always inlined: short calls would notice. */
static inline __attribute__((always_inline)) struct inline_call
group_inline_call(const struct tutti_group *group, const struct announce *announce,
                  const struct plan_entry *plan, const struct blocks *in, const struct blocks *out,
                  uint64_t bytes)
{
    return (struct inline_call){.announce = announce,
                                .in = *in,
                                .out = *out,
                                .bytes = bytes,
                                .count = plan->fields.count,
                                .root = group_root_place(group, &plan->fields),
                                .kernels = &plan->kernels};
}

/* The two halves of an inline call (algorithm/algorithm.h), with the waking of local peers. */
tutti_status group_inline_post(struct tutti_group *group, const struct algorithm *algorithm,
                               const struct inline_call *in);
tutti_status group_inline_poll(struct tutti_group *group, const struct algorithm *algorithm,
                               const struct inline_call *in);
/* Moves one collective; NOT_READY: again later. */
tutti_status group_advance(struct tutti_group *group, struct call *call);

/* ---- ahead.c ---- */

/* The run of a call that begins; NULL: no memory. */
struct run *group_take_run(struct tutti_group *group, const struct call *call);
void group_give_run(struct tutti_group *group, struct call *call);
/* The group has failed. */
void group_abandon_runs(struct tutti_group *group);
void group_runs_free(struct tutti_group *group);
/* Whether calls behind the first of the queue may run beside it. */
bool group_may_run_ahead(const struct tutti_group *group);
/* Moves them, and begins those that may. True: one of them could go on at once. */
bool group_run_ahead(struct tutti_group *group);
/* Whether a new call had better begin with those that are made after it. */
bool group_gathers(const struct tutti_group *group, const struct call *call);

/* ---- captured.c ---- */

/* The call's operation is recorded in the graph that captures its stream. */
void captured_add(struct tutti_group *group, struct call *call);
/* CAPTURED, with the thread's error: the end of a recorded call's work. */
tutti_status captured_status(const struct call *call);
/* Nothing of the group is watched for graphs any more: it has ended, or this member leaves it. Under the progress lock. */
void captured_drop(struct tutti_group *group);

/* ---- issued.c ---- */

/* The work of a call of the engine for devices is on its stream: the call leaves the queue. */
tutti_status issued_add(struct tutti_group *group, struct call *call, bool with_last);
/* Ends what streams have passed; how many. */
unsigned issued_move(struct tutti_group *group);
/* Called now and then: what has failed, what takes too long. */
void issued_look(struct tutti_group *group, int64_t now_ns);
/* The group has ended, and the team was aborted. */
void issued_drop(struct tutti_group *group);

/* ---- native_call.c ---- */

/* Moves the call at the head of the queue, whose plan is an engine's; NOT_READY: again later. */
tutti_status native_call_advance(struct tutti_group *group, struct call *call);
/* The group has ended; with `call`, which may be under way, or NULL. */
void native_call_fail(struct tutti_group *group, struct call *call);
/* Called now and then: announces a call that takes long. */
void native_call_look(struct tutti_group *group, int64_t now_ns);
/* Whether a sleeper would hear of news. */
bool native_call_may_sleep(const struct tutti_group *group);
/* The member that the call under way waits for: a neighbour that was asked and has not announced
 * it, else the one that the engine names; rank -1: not known. */
struct waiting native_call_waiting(const struct tutti_group *group, const struct call *call);
