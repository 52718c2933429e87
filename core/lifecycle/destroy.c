/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a group on one member. Destroying waits for this member's own calls and for what it has sent to
 * leave, sends its leave message, and returns the verdict if there is one. The member that serves
 * the store gives the others time to leave.
 *
 * A member that leaves passes on what its neighbours tell in the same moment. Where its last call met not
 * all members, it also stays until that call is compared with theirs. All of this has limits, so a member
 * that computes holds nobody up for long.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "group/exit_record.h"
#include "group/group.h"
#include "lifecycle/lifecycle.h"
#include "plugin/plugin.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/wrap.h"

enum {
    STORE_HOST_WAITS_MS = 5000,
    SENDS_LEAVE_MS = 5000,
    LINGER_MS = 50,
    COMPARE_ROOTED_MS = 200, /* instead, after a call with a root */
    COMPARE_MS = 500,        /* instead, over an engine: a busy host often needs more than 50 ms */
    PASSED_ON_MS = 200
};

/* Own operations end first: there is nothing that another call could wait for afterwards. Then
 * what was sent has to leave, because closing the endpoints drops what they still hold. */
static void finish_own_calls(struct tutti_group *group)
{
    struct progress_engine *engine = &group->context->engine;
    int64_t patience = INT64_MAX; /* with peers that take nothing in, once the calls are over */

    for (;;) {
        struct operation_state last = {.status = TUTTI_ERR_NOT_READY};

        engine_take(engine);
        if (ways_have_engine(&group->ways) && !atomic_load(&group->ending.failed))
            group_hear(group);
        bool idle = !group->calls.queue.first && !group->calls.messages.first &&
                    !group->calls.returning.first && !group->calls.issued &&
                    !group->calls.moving.under_way;
        bool sent = p2p_idle(group->ways.p2p_engine) || atomic_load(&group->ending.failed);
        engine_release(engine);
        if (idle && patience == INT64_MAX)
            patience = clock_deadline_ms(SENDS_LEAVE_MS);
        if ((idle && (sent || clock_now_ns() > patience)) ||
            engine_wait(engine, &last, clock_now_ns() + CLOCK_NS_PER_MS))
            return;
    }
}

/* Whether all members read the page in which this one has said that it leaves, no notes pass through it, and nothing
 * is compared with the others' last calls. */
static bool needs_nobody(const struct tutti_group *group, const struct announce *last)
{
    return !group->ways.wrappers && !ways_have_engine(&group->ways) &&
           !operation_has_root(last->fields.operation) && group->local &&
           group->local->count == group->size;
}

/* This member's last call. Of a group that has ended it gives the number alone, as others may not
 * know the verdict yet. */
static struct announce last_call(const struct tutti_group *group)
{
    const uint64_t completed = atomic_load(&group->calls.completed);
    const struct announce *own = group_own_call(group, completed);

    if (completed != group->calls.sequence || control_verdict_status(group->control))
        return (struct announce){.sequence = completed};
    if (!completed)
        return (struct announce){.signature = CONTROL_NO_CALL};
    return own ? *own : (struct announce){.sequence = completed};
}

/* A mismatch that no call has shown is found by comparing the last calls. A member that finds one
 * waits for the verdict. */
static void compare_last(struct tutti_group *group)
{
    if (control_has_uncompared(group->control))
        group_compare_last(group, true);
    if (control_has_proposed(group->control))
        control_await_verdict(group->control, GROUP_VERDICT_MS);
}

/* How long others may need to learn of the leave message, and this member of theirs: 50 ms; 200 after a
 * call with a root; 500 over an engine. */
static int64_t leave_ms(const struct tutti_group *group, const struct announce *last)
{
    if (control_verdict_status(group->control))
        return LINGER_MS;
    return ways_have_engine(&group->ways)               ? COMPARE_MS
           : operation_has_root(last->fields.operation) ? COMPARE_ROOTED_MS
                                                        : LINGER_MS;
}

/*
 * Leaves, and stays until the leave message is confirmed, or for leave_ms(). Neighbours that leave in
 * the same moment do not confirm it; what they tell is passed on here. After a call with a root, and
 * over an engine, all members must confirm, to compare last calls: a root only sends, and does not
 * meet members that called something else. A member that is asked for its call stays for the verdict.
 * All groups are moved meanwhile: another member may leave them in another order, and wait here for an
 * answer there.
 */
static void leave(struct tutti_group *group)
{
    struct progress_engine *engine = &group->context->engine;
    struct operation_state known = {.status = TUTTI_ERR_NOT_READY};

    const struct announce last = last_call(group);
    control_leave(group->control, &last);
    if (!needs_nobody(group, &last) && !control_leave_is_known(group->control)) {
        const int64_t until = clock_deadline_ms(leave_ms(group, &last));

        engine_take(engine);
        group->ending.leaving = &known;
        group->ending.leaving_until_ns = until;
        engine_release(engine);
        if (!engine_wait(engine, &known, until) && control_has_proposed(group->control))
            (void)engine_wait(engine, &known, clock_deadline_ms(GROUP_VERDICT_MS));
        control_flush(group->control, PASSED_ON_MS);
    }
    engine_take(engine);
    captured_drop(group);
    engine_release(engine);
    engine_remove(engine, &group->source);
}

/* The member that stops the store waits until every living member has left, for 5 s at most. */
static void await_leaves(struct tutti_group *group)
{
    struct control *control = group->control;
    int64_t deadline = clock_deadline_ms(STORE_HOST_WAITS_MS);
    bool all = false;
    struct epoll_event event;

    while (!all && clock_now_ns() < deadline) {
        control_poll(control);
        pthread_mutex_lock(&control->lock);
        all = true;
        for (int r = 0; r < group->size; r++)
            all &= r == group->rank || control->members[r].left || control->members[r].dead;
        pthread_mutex_unlock(&control->lock);
        if (!all)
            (void)epoll_wait(control->epoll_fd, &event, 1, 20);
    }
}

tutti_status tutti_group_destroy(tutti_group *group)
{
    if (!group)
        return TUTTI_OK;
    tutti_status status = group_check(group);
    if (status)
        return status;
    finish_own_calls(group);
    wrappers_finish(group);
    if (control_verdict_status(group->control)) { /* nobody may have looked yet */
        engine_take(&group->context->engine);
        group->upcalls->report_failure(group);
        engine_release(&group->context->engine);
    }
    context_drop_default(group);
    leave(group);
    /* The world's server lives as long as the world or a group made from it, here. */
    tutti_store_server *server = bootstrap_take_server(&group->bootstrap);
    if (server)
        await_leaves(group);
    compare_last(group);
    status = control_verdict_status(group->control);
    if (status) {
        exit_record_failed(group); /* the last calls may have brought it */
        status = group_verdict(group);
    }
    if (group->size > 1 && !status)
        plugins_group_ended_well();
    group_free(group);
    tutti_store_server_stop(server);
    return status;
}
