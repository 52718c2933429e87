/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls of a group wait for, judged by the clock: deadlines, warnings of calls that stall,
 * members that left or may have died, the leaving of a group that is destroyed. The engine calls
 * group_look() now and then while something waits, under the progress lock, after everything has been moved.
 *
 * The order in group_look() is that of evidence: a verdict that is there ends all calls; a member that
 * has left, or was compared, is judged before one whose connection only ended; deadlines come last, so
 * that a cause that is known by then is told instead.
 */
#include <tutti/p2p.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/without.h"
#include "group/groups.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "provider/wrap.h"

enum { TELL_MS = 20 };

static void time_out(struct tutti_group *group, struct call *call)
{
    struct control_timeout timeout = {
        .sequence = call->kind == CALL_COLLECTIVE ? call->announce.sequence : 0};
    char what[192], who[512];
    const char *message = timeout.verdict.message;
    int rank = group_describe_wait(group, call, who, sizeof who);

    group_describe_call(call, what, sizeof what);
    snprintf(timeout.verdict.message, sizeof timeout.verdict.message,
             "%s timed out after %lld ms on rank %d: waiting for %s", what,
             (long long)call->timeout_ms, group->rank, who);
    /* A message that nothing has been exchanged for is withdrawn: the group goes on. */
    if (call->kind != CALL_COLLECTIVE &&
        (staged_withdraw(group, call) || p2p_cancel(&call->message) == TUTTI_OK)) {
        error_set(TUTTI_ERR_TIMEOUT, "group %s: %s", group->name, message);
        error_where(group->rank, rank, 0, NULL);
        if (rank >= 0)
            error_missing(&(int32_t){rank}, 1);
        group_complete(group, call, TUTTI_ERR_TIMEOUT);
        return;
    }
    call_fails(call);
    group_note_missing(group, call, rank);
    timeout.verdict.culprit = rank;
    group_heard_in(group, call, timeout.heard);
    control_time_out(group->control, &timeout);
}

static void warn_of_stall(struct tutti_group *group, struct call *call, int64_t now)
{
    char what[192], who[512];

    call->warned = true;
    group_describe_call(call, what, sizeof what);
    group_describe_wait(group, call, who, sizeof who);
    log_line(LOG_WARN, group->rank, "group %s: %s has waited for %lld s for %s", group->name, what,
             (long long)((now - call->since_ns) / CLOCK_NS_PER_S), who);
}

static void look_at_deadline(struct tutti_group *group, struct call *call, int64_t now)
{
    if (WITHOUT_DEADLINE || call_is_failing(call))
        return;
    if (!call->deadline_ns) {
        call->deadline_ns = clock_deadline_ms(call->timeout_ms);
        call->since_ns = now;
        call->warned = false;
    } else if (now >= call->deadline_ns) {
        time_out(group, call);
    } else if (!call->warned && now - call->since_ns >= group->stall_warning_ns) {
        warn_of_stall(group, call, now);
    }
}

/*
 * Members that all wait for a message would never learn that they called different things. So a
 * member that has waited for a little announces its call to the peer that it waits for, and hears
 * whether the peer is in the same call.
 */
static void tell_what_waits(struct tutti_group *group, struct call *call, int64_t now)
{
    if (call_is_failing(call) || !call_is_begun(call) ||
        now - call->since_ns < TELL_MS * CLOCK_NS_PER_MS)
        return;
    const struct waiting waiting = group_waits_for(group, call);
    if ((waiting.kind != WAITING_RECEIVE && waiting.kind != WAITING_SEND) || waiting.rank < 0 ||
        waiting.rank == group->rank)
        return;
    announced_send(group, waiting.rank, &call->announce);
}

/* A member that left in order cannot take part in what comes after its last call. */
static void look_at_leavers(struct tutti_group *group)
{
    char message[128], text[CONTROL_MESSAGE_MAX], what[192];
    struct call *call = group->calls.queue.first;

    if (!call)
        return;
    int rank =
        control_left_before(group->control, call->announce.sequence, message, sizeof message);
    if (rank < 0)
        return;
    group_describe_call(call, what, sizeof what);
    snprintf(text, sizeof text, "%s, and %s needs it", message, what);
    call_fails(call);
    control_propose(group->control, TUTTI_ERR_PEER_LOST, rank, text);
}

static void look_at_transfers(struct tutti_group *group, int64_t now)
{
    const uint64_t begun = p2p_begun(group->ways.p2p_engine);

    if (begun && p2p_is_polled(group->ways.p2p_engine))
        engine_be_eager(&group->context->engine, now, begun);
}

/* Nothing else is left to do. */
static void look_at_leaving(struct tutti_group *group, int64_t now)
{
    struct control *control = group->control;

    if (control_has_uncompared(control))
        group_compare_last(group, true);
    if (!ways_have_engine(&group->ways))
        group_compare_local(group);
    if (!control_has_proposed(control) &&
        (control_leave_is_known(control) || now > group->ending.leaving_until_ns))
        engine_complete(&group->context->engine, group->ending.leaving, TUTTI_OK);
}

void group_hear(struct tutti_group *group)
{
    control_poll(group->control);
    p2p_hear(group->ways.p2p_engine);
    announced_answer(group);
    if (ways_have_engine(&group->ways))
        group_compare_last(group, false);
}

/* A call that is only not made yet is waited for: members that differ in it may have been faster. */
static void answer_query(struct tutti_group *group)
{
    const uint64_t asked = control_asked_call(group->control);
    const struct announce *call = asked ? group_own_call(group, asked) : NULL;
    const struct call *first = group->calls.queue.first;
    struct control_answer answer = {.called = group->calls.sequence, .waits_for = -1};

    if (asked && !call && group->calls.sequence < asked && !group->ending.leaving)
        return;
    if (first) {
        answer.waits_in = first->announce.sequence;
        answer.waits_for = group_waits_for(group, first).rank;
    }
    control_answer(group->control, &answer, call);
}

/* Takes in the messages of others. False: the group has failed, or this member leaves, so nothing
 * is judged any more. */
static bool hear(struct tutti_group *group, int64_t now)
{
    control_poll(group->control);
    if (control_is_asked(group->control))
        answer_query(group);
    if (group->ending.leaving) {
        look_at_leaving(group, now);
        return false;
    }
    if (group->ways.wrappers)
        wrappers_hear(group);
    if (!control_verdict_status(group->control))
        return true;
    group_fail_all(group);
    return false;
}

/* Members that left, called something else, or may have died. */
static void judge(struct tutti_group *group, int64_t now)
{
    leavers_look(group, now);
    if (control_has_uncompared(group->control))
        group_compare_last(group, false);
    look_at_leavers(group);
    leavers_judge(group, now);
    native_call_look(group, now);
    issued_look(group, now);
    if (group->calls.moving.under_way)
        moved_look(group, now);
    look_at_transfers(group, now);
}

/* Calls that take long: their deadlines, warnings, and what is told to whom they wait for. */
static void look_at_clock(struct tutti_group *group, int64_t now)
{
    if (group->calls.queue.first) {
        look_at_deadline(group, group->calls.queue.first, now);
        tell_what_waits(group, group->calls.queue.first, now);
    }
    for (struct call *call = group->calls.messages.first, *next; call; call = next) {
        next = call->next;
        look_at_deadline(group, call, now);
    }
}

void group_look(struct engine_source *source, int64_t now)
{
    struct tutti_group *group = group_of_source(source);

    staged_look(group, now);
    if (!hear(group, now))
        return;
    judge(group, now);
    look_at_clock(group, now);
}
