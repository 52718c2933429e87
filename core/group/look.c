/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls of a group wait for, judged by the clock: deadlines, warnings of calls that stall,
 * members that left or may have died, the farewell of a group that is destroyed. The engine calls
 * group_look() now and then while something waits, under the baton, after everything has been moved.
 *
 * The order in group_look() is that of evidence: a verdict that is there ends all calls; a member that
 * has said bye, or was compared, is judged before one whose connection only ended; deadlines come last, so
 * that a cause that is known by then is told instead.
 */
#include <tutti/p2p.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "group/group.h"
#include "group/native.h"
#include "group/wrap.h"

enum { TELL_MS = 20, STALL_WARNING_S = 30 };

static void time_out(struct tutti_group *group, struct call *call)
{
    struct control_timeout timeout = {
        .sequence = call->kind == CALL_COLLECTIVE ? call->announce.sequence : 0};
    char what[192], who[512];
    const char *words = timeout.verdict.words;
    int rank = group_describe_wait(group, call, who, sizeof who);

    group_describe_call(call, what, sizeof what);
    snprintf(timeout.verdict.words, sizeof timeout.verdict.words,
             "%s timed out after %lld ms on rank %d: waiting for %s", what,
             (long long)call->timeout_ms, group->rank, who);
    /* A message that nothing has been exchanged for is withdrawn: the group goes on. */
    if (call->kind != CALL_COLLECTIVE && p2p_cancel(&call->message) == TUTTI_OK) {
        error_set(TUTTI_ERR_TIMEOUT, "group %s: %s", group->name, words);
        error_where(group->rank, rank, 0, NULL);
        if (rank >= 0)
            error_missing(&(int32_t){rank}, 1);
        group_complete(group, call, TUTTI_ERR_TIMEOUT);
        return;
    }
    call->doomed = true;
    group_note_missing(group, call, rank);
    timeout.verdict.culprit = rank;
    group_heard_in(group, call, timeout.heard);
    control_time_out(group->control, &timeout);
}

/* After how long a call that waits is warned of; INT64_MAX: never. */
static int64_t stall_warning_ns(void)
{
    static _Atomic int64_t known;
    int64_t ns = atomic_load_explicit(&known, memory_order_relaxed), seconds = STALL_WARNING_S;
    const char *value;

    if (ns)
        return ns;
    value = getenv("TUTTI_STALL_WARNING");
    if (value && !number_parse(value, 0, ENVIRONMENT_SECONDS_MAX, &seconds))
        seconds = STALL_WARNING_S; /* changed since tutti_init() looked at it */
    ns = seconds ? seconds * CLOCK_NS_PER_S : INT64_MAX;
    atomic_store_explicit(&known, ns, memory_order_relaxed);
    return ns;
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
    if (call->doomed)
        return;
    if (!call->deadline_ns) {
        call->deadline_ns = clock_deadline_ms(call->timeout_ms);
        call->since_ns = now;
        call->warned = false;
    } else if (now >= call->deadline_ns) {
        time_out(group, call);
    } else if (!call->warned && now - call->since_ns >= stall_warning_ns()) {
        warn_of_stall(group, call, now);
    }
}

/*
 * Members of which all wait for a message would never hear that they called different things. So who
 * has waited for a little tells whom it waits for what it is in, and hears whether that one is in it.
 */
static void tell_what_waits(struct tutti_group *group, struct call *call, int64_t now)
{
    if (call->doomed || !call->begun || now - call->since_ns < TELL_MS * CLOCK_NS_PER_MS)
        return;
    const struct waiting waiting = group_waits_for(group, call);
    if ((waiting.kind != WAITING_RECEIVE && waiting.kind != WAITING_SEND) || waiting.rank < 0 ||
        waiting.rank == group->rank)
        return;
    announced_tell(group, waiting.rank, &call->announce);
}

/* A member that left in order cannot take part in what comes after its last call. */
static void look_at_byes(struct tutti_group *group)
{
    char words[128], text[CONTROL_WORDS_MAX], what[192];
    struct call *call = group->queue.first;

    if (!call)
        return;
    int rank = control_left_before(group->control, call->announce.sequence, words, sizeof words);
    if (rank < 0)
        return;
    group_describe_call(call, what, sizeof what);
    snprintf(text, sizeof text, "%s, and %s needs it", words, what);
    call->doomed = true;
    control_propose(group->control, TUTTI_ERR_PEER_LOST, rank, text);
}

static void look_at_transfers(struct tutti_group *group, int64_t now)
{
    const uint64_t begun = p2p_begun(group->p2p_engine);

    if (begun && p2p_is_polled(group->p2p_engine))
        engine_be_eager(&group->context->engine, now, begun);
}

/* Nothing else is left to do. */
static void look_at_farewell(struct tutti_group *group, int64_t now)
{
    struct control *control = group->control;

    if (control_has_uncompared(control))
        group_compare_last(group, true);
    if (!group->native)
        group_compare_mates(group);
    if (!control_has_proposed(control) &&
        (control_bye_is_known(control) || now > group->farewell_until_ns))
        engine_complete(&group->context->engine, group->farewell, TUTTI_OK);
}

void group_hear(struct tutti_group *group)
{
    control_poll(group->control);
    if (group->p2p) {
        p2p_progress(group->p2p_engine);
        announced_answer(group);
    }
    if (group->native)
        group_compare_last(group, false);
}

/* A call that is only not made yet is waited for: members that differ in it may have been faster. */
static void answer_roll(struct tutti_group *group)
{
    const uint64_t asked = control_asked_call(group->control);
    const struct announce *call = asked ? group_own_call(group, asked) : NULL;

    if (!asked || call || group->sequence >= asked || group->farewell)
        control_answer(group->control, group->sequence, call);
}

void group_look(struct engine_source *source, int64_t now)
{
    struct tutti_group *group = (struct tutti_group *)source;

    control_poll(group->control);
    if (control_is_asked(group->control))
        answer_roll(group);
    if (group->farewell) {
        look_at_farewell(group, now);
        return;
    }
    if (group->wrappers)
        wrappers_hear(group);
    if (control_verdict_status(group->control)) {
        group_fail_all(group);
        return;
    }
    leavers_look(group, now);
    if (control_has_uncompared(group->control))
        group_compare_last(group, false);
    look_at_byes(group);
    leavers_judge(group, now);
    native_look(group, now);
    if (group->p2p)
        look_at_transfers(group, now);
    if (group->queue.first)
        look_at_deadline(group, group->queue.first, now);
    if (group->queue.first && group->p2p)
        tell_what_waits(group, group->queue.first, now);
    for (struct call *call = group->messages.first, *next; call; call = next) {
        next = call->next;
        look_at_deadline(group, call, now);
    }
}
