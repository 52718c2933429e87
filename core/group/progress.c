/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the calls of a group move on: the engine's source of a group. Everything here runs under the
 * baton.
 *
 * Collectives wait in a queue and run one at a time, in the order of their calls; messages run
 * beside them. When something goes wrong the cause is proposed to the control plane, and the calls
 * stay where they are until the verdict comes: it ends them all with the same words. What the end of
 * a connection means is in leavers.c.
 */
#include <tutti/p2p.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "group/dump.h"
#include "group/exit_record.h"
#include "group/group.h"
#include "group/native.h"
#include "group/recorder.h"
#include "group/wrap.h"
#include "reduce/op.h"
#include "reduce/reduce.h"
#include "tensor/packed.h"

enum { IDLE_TURNS = 8 };

static const char *operation_of(const struct call *call)
{
    if (call->kind == CALL_COLLECTIVE)
        return operation_name(call->announce.words.operation);
    return call->kind == CALL_SEND ? "send" : "recv";
}

void group_complete(struct tutti_group *group, struct call *call, tutti_status status)
{
    struct operation_state *state = &call->state;

    if (group->wrappers) {
        tutti_status said = wrappers_end(group, call, status);

        call->doomed |= said != status;
        if (said != status)
            return; /* the verdict will end it */
    }
    call_list_remove(call->kind == CALL_COLLECTIVE ? &group->queue : &group->messages, call);
    record_state(group, call->record, status ? RECORD_FAILED : RECORD_DONE);
    if (!status && call->kind == CALL_COLLECTIVE)
        atomic_store_explicit(&group->completed, call->announce.sequence, memory_order_relaxed);
    if (status)
        error_where(group->rank, -1, call->kind == CALL_COLLECTIVE ? call->announce.sequence : 0,
                    operation_of(call));
    if (call->plan)
        call->plan->users--;
    if (state->work) {
        state->work->bytes = call->bytes;
        state->work->sequence = call->kind == CALL_COLLECTIVE ? call->announce.sequence : 0;
    }
    chain_free(&call->memory);
    packed_end(&call->packed, !status);
    reduce_op_release(call->op);
    call->op = NULL;
    if (status)
        error_keep(state->work ? &state->work->error : &call->error);
    engine_complete(&group->context->engine, state, status);
    if (group->source.polled && !group->queue.first && !group->messages.first)
        engine_calm(&group->context->engine);
}

/* ---- failure ---- */

/* The verdict is in: every call ends with it, and its memory is the caller's again. */
void group_fail_all(struct tutti_group *group)
{
    tutti_status status = control_verdict_status(group->control);

    group->told_end |= group->queue.first || group->messages.first;
    if (!atomic_exchange(&group->failed, 1)) {
        exit_record_failed(group);
        dump_failure(group); /* before what the calls wait for is forgotten */
        if (group->p2p)
            p2p_group_fail(group->p2p, status);
        routes_fail(group, status);
        run_abandon(&group->run);
        native_fail(group, group->queue.first);
    }
    while (group->queue.first) {
        group_verdict(group);
        group_complete(group, group->queue.first, status);
    }
    while (group->messages.first) {
        group_verdict(group);
        group_complete(group, group->messages.first, status);
    }
}

tutti_status group_refuse(struct tutti_group *group, const struct call_words *words, uint64_t bytes)
{
    if (!group->told_end)
        record_refused(group, words, bytes);
    group->told_end = true;
    return group_verdict(group);
}

void group_call_failed(struct tutti_group *group, struct call *call, tutti_status status)
{
    call->doomed = true;
    if (status == TUTTI_ERR_MISMATCH && group->has_mapped && group->mapped.culprit >= 0) {
        group_mapped_mismatch(group);
        return;
    }
    if (status == TUTTI_ERR_INTERNAL && group->has_mapped && group->mapped.culprit >= 0)
        error_set(status, "shared memory with rank %d is corrupt",
                  group->mapped.ranks[group->mapped.culprit]);
    if (status == TUTTI_ERR_PEER_LOST)
        return; /* suspected already: the control plane knows more about it */
    group_propose_own(group, status);
}

/* ---- what moves ---- */

static void move_collective(struct tutti_group *group)
{
    struct call *call = group->queue.first;

    if (!call || call->doomed)
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

/* p2p's callback: op is inside the call. */
void group_message_done(struct p2p_op *op)
{
    struct call *call = op->user;
    struct tutti_group *group = call->group;

    if (atomic_load(&group->failed) || control_verdict_status(group->control))
        return; /* fail_all() ends it with the verdict's words */
    if (op->status == TUTTI_ERR_PEER_LOST && call->kind != CALL_COLLECTIVE) {
        call->doomed = true; /* left in order, or lost: leavers_judge() finds out */
        return;
    }
    if (op->status)
        p2p_op_error(op);
    else
        call->bytes = op->bytes;
    if (call->state.work)
        call->state.work->source = call->kind == CALL_RECV ? op->source : -1;
    if (call->kind == CALL_RECV && op->source >= 0)
        record_source(group, call->record, op->source);
    group_complete(group, call, op->status);
}

/* ---- events of p2p; noted, since nothing of p2p may be called from them ---- */

static void on_announce(void *user, int source, const struct announce *a)
{
    announced_hear(user, source, a->sequence);
    group_compare(user, source, a);
}

static void on_peer_failed(void *user, int source, tutti_status status, const char *words)
{
    struct tutti_group *group = user;
    char text[CONTROL_WORDS_MAX];

    if (status == TUTTI_ERR_PEER_LOST) {
        group_suspect(group, source, NULL, NULL); /* its transport has the words */
        return;
    }
    snprintf(text, sizeof text, "rank %d cannot go on with rank %d: %.*s", group->rank, source,
             TEXT_CUT(words, 800));
    control_propose(group->control, status, source, text);
}

static void on_announced(void *user, int source, uint64_t sequence)
{
    announced_ask(user, source, sequence);
}

const struct p2p_events group_events = {
    .announce = on_announce, .peer_failed = on_peer_failed, .announced = on_announced};

/* ---- the source ---- */

/*
 * Whether the group may be passed over this time: nothing of this member is under way, and what
 * others send can wait for some turns. A program may have a hundred groups and wait in one.
 */
static bool may_skip(struct tutti_group *group)
{
    return !group->queue.first && !group->messages.first && ++group->idle_turns % IDLE_TURNS &&
           (!group->p2p || p2p_idle(group->p2p_engine));
}

/*
 * Takes an inline call, which only looks at its mates' lines, before the lanes to every member: after
 * a sleep those are in no cache, and a look at all takes as long as the rest of the wake. True when
 * nothing of this member is left to move.
 */
static bool ends_at_a_look(struct tutti_group *group)
{
    const struct call *call = group->queue.first;

    if (!call || group->messages.first || call->plan->plan.algorithm->kind != ALGORITHM_INLINE)
        return false;
    move_collective(group);
    return !group->queue.first;
}

static unsigned progress(struct engine_source *source)
{
    struct tutti_group *group = (struct tutti_group *)source;
    unsigned moved = 0;

    if (control_verdict_status(group->control)) {
        group_fail_all(group);
        return 0;
    }
    if (may_skip(group))
        return 0;
    if (ends_at_a_look(group))
        return 1;
    if (group->p2p)
        moved += p2p_progress(group->p2p_engine);
    moved += announced_answer(group);
    while (group->queue.first) {
        struct call *before = group->queue.first;

        move_collective(group);
        if (group->queue.first == before)
            return moved + group->run.exhausted;
        moved++;
    }
    return moved;
}

static bool tell_sleep(struct engine_source *source)
{
    struct tutti_group *group = (struct tutti_group *)source;

    if (group->mates)
        mates_sleep(group->mates);
    return group->mates != NULL;
}

static void tell_awake(struct engine_source *source)
{
    struct tutti_group *group = (struct tutti_group *)source;

    if (group->mates)
        mates_awake(group->mates);
}

static bool may_sleep(struct engine_source *source)
{
    struct tutti_group *group = (struct tutti_group *)source;

    return (!group->p2p || p2p_arm(group->p2p_engine)) && native_may_sleep(group);
}

void group_source_init(struct tutti_group *group)
{
    group->source = (struct engine_source){
        .progress = progress,
        .look = group_look,
        .sleep = tell_sleep,
        .may_sleep = may_sleep,
        .polled = (group->p2p && p2p_is_polled(group->p2p_engine)) || native_is_polled(group),
        .awake = tell_awake};
}
