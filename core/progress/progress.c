/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the calls of a group move on: the engine's source of a group. Everything here runs under the
 * progress lock.
 *
 * Collectives wait in a queue and complete in the order of their calls. The first one runs; short
 * ones that go by messages run beside it (ahead.c), as messages do. When something goes wrong the
 * cause is proposed to the control plane, and the calls stay where they are until the verdict
 * comes: it ends them all with the same message. What the end of a connection means is in
 * leavers.c.
 */
#include <tutti/p2p.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "group/groups.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/routes.h"
#include "provider/wrap.h"
#include "reduce/op.h"
#include "reduce/reduce.h"
#include "tensor/packed.h"

static const char *operation_of(const struct call *call)
{
    if (call->kind == CALL_COLLECTIVE)
        return operation_name(call->announce.fields.operation);
    return call->kind == CALL_SEND ? "send" : "recv";
}

/* 0: a message, which has no number. */
static uint64_t sequence_of(const struct call *call)
{
    return call->kind == CALL_COLLECTIVE ? call->announce.sequence : 0;
}

/* Whether the wrappers accept the result; if not, the verdict will end the call. */
static bool wrappers_accept(struct tutti_group *group, struct call *call, tutti_status status)
{
    if (!group->ways.wrappers || wrappers_end(group, call, status) == status)
        return true;
    call_fails(call);
    return false;
}

static void leave_queue(struct tutti_group *group, struct call *call, tutti_status status)
{
    call_list_remove(call->kind == CALL_COLLECTIVE ? &group->calls.queue : &group->calls.messages,
                     call);
    record_state(group, call->record,
                 status         ? RECORD_FAILED
                 : call->issued ? RECORD_RUNNING
                                : RECORD_DONE);
    if (!status && call->kind == CALL_COLLECTIVE)
        atomic_store_explicit(&group->calls.completed, call->announce.sequence,
                              memory_order_relaxed);
    if (call->run)
        group_give_run(group, call);
    if (call->moved)
        moved_forget(group, call);
    if (call->held)
        (void)staged_withdraw(group, call);
    if (call->plan) {
        call->plan->users--;
        if (call->registered)
            registered_release(call, status);
    }
}

/* Copies a packed result to the caller's tensor, too, when the call succeeded. True: a stream of a device does that,
 * or is still at it, and the call's end is staged_return()'s. */
static bool release_memory(struct tutti_group *group, struct call *call, tutti_status status)
{
    chain_free(&call->memory);
    reduce_op_release(call->op);
    call->op = NULL;
    if (!call->packed)
        return false;
    if (staged_return(group, call, status))
        return true;
    packed_end(&call->packed, !status);
    return false;
}

/* The caller may free the call once the engine has completed it: nothing reads it afterwards. */
void group_complete(struct tutti_group *group, struct call *call, tutti_status status)
{
    struct operation_state *state = &call->state;

    if (!wrappers_accept(group, call, status))
        return;
    leave_queue(group, call, status);
    if (status)
        error_where(group->rank, -1, sequence_of(call), operation_of(call));
    if (state->work) { /* for tutti_work_result() */
        state->work->bytes = call->bytes;
        state->work->sequence = sequence_of(call);
    }
    if (release_memory(group, call, status) && state->work)
        return;
    if (call->issued && !call->waited)
        return; /* until the stream has passed it */
    if (!status && call->captured && !call->waited)
        status = captured_status(call);
    if (status)
        error_keep(state->work ? &state->work->error : &call->error);
    engine_complete(&group->context->engine, state, status);
    if (group->source.polled && !group->calls.queue.first && !group->calls.messages.first)
        engine_calm(&group->context->engine);
}

/* ---- failure ---- */

void group_fail_all(struct tutti_group *group)
{
    tutti_status status = control_verdict_status(group->control);
    struct call *call;

    group->ending.told_end |= group->calls.queue.first || group->calls.messages.first;
    if (!atomic_exchange(&group->ending.failed, 1)) {
        group->upcalls->report_failure(group); /* before what the calls wait for is forgotten */
        routes_fail(group, status);
        group_abandon_runs(group);
        native_call_fail(group, group->calls.queue.first);
        moved_fail(group);
    }
    while ((call = group->calls.queue.first) || (call = group->calls.messages.first)) {
        group_verdict(group);
        group_complete(group, call, status);
    }
}

tutti_status group_refuse_message(struct tutti_group *group)
{
    if (group_verdict(group)) /* a local peer's page may have told alone */
        group_fail_all(group);
    return group_verdict(group);
}

tutti_status group_refuse(struct tutti_group *group, const struct call_fields *fields,
                          uint64_t bytes)
{
    if (!group->ending.told_end)
        record_refused(group, fields, bytes);
    group->ending.told_end = true;
    return group_refuse_message(group);
}

void group_call_failed(struct tutti_group *group, struct call *call, tutti_status status)
{
    call_fails(call);
    if (status == TUTTI_ERR_MISMATCH && group->ways.has_mapped && group->ways.mapped.culprit >= 0) {
        group_mapped_mismatch(group);
        return;
    }
    if (status == TUTTI_ERR_INTERNAL && group->ways.has_mapped && group->ways.mapped.culprit >= 0)
        error_set(status,
                  "shared memory with rank %d is corrupt: it or this process wrote beyond its own "
                  "memory; run the program with AddressSanitizer",
                  group->ways.mapped.ranks[group->ways.mapped.culprit]);
    if (status == TUTTI_ERR_PEER_LOST)
        return; /* suspected already: the control plane knows more about it */
    group_propose_own(group, status);
}

/* ---- what moves ---- */

static void move_collective(struct tutti_group *group)
{
    struct call *call = group->calls.queue.first;

    if (!call || call_is_failing(call))
        return;
    record_state(group, call->record, RECORD_RUNNING);
    tutti_status status = group_advance(group, call);
    if (status == TUTTI_ERR_NOT_READY)
        return;
    if (status)
        group_call_failed(group, call, status);
    else
        group_complete(group, call, TUTTI_OK);
}

/* How many calls have completed; one more if the first could go on at once. */
static unsigned move_queue(struct tutti_group *group)
{
    unsigned moved = 0;

    while (group->calls.queue.first) {
        const struct call *before = group->calls.queue.first;

        move_collective(group);
        if (group->calls.queue.first == before)
            return moved + (before->run && before->run->exhausted);
        moved++;
    }
    return moved;
}

/* p2p's callback: op is inside the call. */
void group_message_done(struct p2p_op *op)
{
    struct call *call = op->user;
    struct tutti_group *group = call->group;

    if (!call->issued &&
        (atomic_load(&group->ending.failed) || control_verdict_status(group->control)))
        return; /* fail_all() ends it with the verdict's message */
    if (op->status == TUTTI_ERR_PEER_LOST && call->kind != CALL_COLLECTIVE) {
        call_fails(call); /* left in order, or lost: leavers_judge() finds out */
        return;
    }
    if (op->status) {
        p2p_op_error(op);
    } else {
        call->bytes = op->bytes;
        if (call->packed)
            packed_shorten(call->packed, op->bytes);
    }
    if (call->state.work)
        call->state.work->source = call->kind == CALL_RECV ? op->source : -1;
    if (call->kind == CALL_RECV && op->source >= 0)
        record_source(group, call->record, op->source);
    if (call->issued)
        record_moved(group, call->record, group->ways.device_native->user.name);
    group_complete(group, call, op->status);
}

/* ---- events of p2p; noted, since nothing of p2p may be called from them ---- */

static void on_announce(void *user, int source, const struct announce *a)
{
    announced_received(user, source, a->sequence);
    group_compare(user, source, a);
}

static void on_peer_failed(void *user, int source, tutti_status status, const char *message)
{
    struct tutti_group *group = user;
    char text[CONTROL_MESSAGE_MAX];

    if (status == TUTTI_ERR_PEER_LOST) {
        group_suspect(group, source, NULL, NULL, false); /* its transport has the message */
        return;
    }
    snprintf(text, sizeof text, "rank %d cannot go on with rank %d: %.*s", group->rank, source,
             TEXT_CUT(message, 800));
    control_propose(group->control, status, source, text);
}

static void on_announced(void *user, int source, uint64_t sequence)
{
    announced_queried(user, source, sequence);
}

const struct p2p_events group_events = {.announce = on_announce,
                                        .peer_failed = on_peer_failed,
                                        .announced = on_announced,
                                        .place = registered_place,
                                        .unplace = registered_unplace,
                                        .find = registered_find};

/* ---- the source ---- */

/*
 * Whether the group may be passed over this time: nothing of this member is under way, and what
 * others send can wait for some turns. A program may have a hundred groups and wait in one.
 */
static bool may_skip(struct tutti_group *group)
{
    return !group->calls.queue.first && !group->calls.messages.first &&
           !group->calls.returning.first && !group->calls.issued &&
           !group->calls.moving.under_way && ++group->calls.idle_turns % WAITING_IDLE_TURNS &&
           p2p_idle(group->ways.p2p_engine);
}

/*
 * Takes an inline call, which only looks at its local peers' lines, before the lanes to every member: after
 * a sleep those are in no cache, and a look at all takes as long as the rest of the wake. True when
 * nothing of this member is left to move.
 */
static bool ends_at_a_look(struct tutti_group *group)
{
    const struct call *call = group->calls.queue.first;

    if (!call || group->calls.messages.first ||
        call->plan->plan.algorithm->kind != ALGORITHM_INLINE)
        return false;
    move_collective(group);
    return !group->calls.queue.first;
}

static unsigned progress(struct engine_source *source)
{
    struct tutti_group *group = group_of_source(source);
    unsigned moved = 0;

    if (group->calls.returning.first || group->calls.held)
        moved = staged_move(group);
    if (group->calls.issued)
        moved += issued_move(group);
    if (group->calls.moving.under_way)
        moved += moved_move(group);
    if (control_verdict_status(group->control)) {
        group_fail_all(group);
        return 0;
    }
    if (may_skip(group))
        return moved;
    if (ends_at_a_look(group))
        return moved + 1;
    moved += p2p_progress(group->ways.p2p_engine);
    moved += announced_answer(group);
    if (!group_may_run_ahead(group))
        return moved + move_queue(group);
    p2p_gather(group->ways.p2p_engine);
    moved += move_queue(group);
    moved += group_run_ahead(group);
    p2p_release(group->ways.p2p_engine);
    return moved;
}

static bool tell_sleep(struct engine_source *source)
{
    struct tutti_group *group = group_of_source(source);

    if (group->local)
        local_sleep(group->local);
    return group->local != NULL;
}

static void tell_awake(struct engine_source *source)
{
    struct tutti_group *group = group_of_source(source);

    if (group->local)
        local_awake(group->local);
}

/* The members of a group that has failed may be dead. */
static bool shares_cpu(struct engine_source *source, bool asks)
{
    struct tutti_group *group = group_of_source(source);

    return group->local && !control_verdict_status(group->control) &&
           local_shares_cpu(group->local, asks);
}

static bool may_sleep(struct engine_source *source)
{
    struct tutti_group *group = group_of_source(source);

    const bool may = p2p_arm(group->ways.p2p_engine) && native_call_may_sleep(group);

    source->naps =
        may && (staged_is_asked(group) || group->calls.issued || group->calls.moving.under_way);
    return may && !source->naps;
}

void group_source_init(struct tutti_group *group)
{
    group->calls.last_issued = &group->calls.issued;
    group->calls.moving.last_met = &group->calls.moving.met;
    group->source = (struct engine_source){.progress = progress,
                                           .look = group_look,
                                           .sleep = tell_sleep,
                                           .may_sleep = may_sleep,
                                           .polled = p2p_is_polled(group->ways.p2p_engine) ||
                                                     native_is_polled(group),
                                           .awake = tell_awake,
                                           .shares_cpu = shares_cpu};
}
