/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a group on one member. Destroying waits for this member's own calls and for what it has sent to
 * leave, says bye, and returns the verdict if there is one; who serves the store gives the others time to say
 * bye.
 *
 * A member that leaves passes on what its neighbours tell in the same moment. Where its last call met not
 * all members, it also stays until that call is compared with theirs. All of this has limits, so a member
 * that computes holds nobody up for long.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "group/dump.h"
#include "group/exit_record.h"
#include "group/group.h"
#include "group/native.h"
#include "group/wrap.h"

enum {
    STORE_HOST_WAITS_MS = 5000,
    VERDICT_WAITS_MS = 2000,
    SENDS_LEAVE_MS = 5000,
    LINGER_MS = 50,
    COMPARE_ROOTED_MS = 200, /* instead, after a call with a root */
    COMPARE_MS = 500, /* instead, where last calls are compared: a busy host keeps 50 ms seldom */
    PASSED_ON_MS = 200
};

/* Groups of several members that this process began to make, and that it destroyed without a verdict. */
static _Atomic uint32_t begun, ended_well;

bool groups_ended_well(void)
{
    return atomic_load(&begun) == atomic_load(&ended_well);
}

void groups_begin(const struct tutti_group *group)
{
    atomic_fetch_add(&begun, group->size > 1);
}

/* Own operations end first: there is nothing that another call could wait for afterwards. Then
 * what was sent has to leave, because closing the endpoints drops what they still hold. */
static void finish_own_calls(struct tutti_group *group)
{
    struct engine *engine = &group->context->engine;
    int64_t patience = INT64_MAX; /* with peers that take nothing in, once the calls are over */

    for (;;) {
        struct operation_state last = {.status = TUTTI_ERR_NOT_READY};

        engine_take(engine);
        if (group->native && !atomic_load(&group->failed))
            group_hear(group);
        bool idle = !group->queue.first && !group->messages.first;
        bool sent = !group->p2p || p2p_idle(group->p2p_engine) || atomic_load(&group->failed);
        engine_release(engine);
        if (idle && patience == INT64_MAX)
            patience = clock_deadline_ms(SENDS_LEAVE_MS);
        if ((idle && (sent || clock_now_ns() > patience)) ||
            engine_wait(engine, &last, clock_now_ns() + CLOCK_NS_PER_MS))
            return;
    }
}

/* Whether all members read the page in which this one has said bye, no notes pass through it, and nothing is
 * compared with the others' last calls. */
static bool needs_nobody(const struct tutti_group *group, const struct announce *last)
{
    return !group->wrappers && !group->native && !operation_has_root(last->words.operation) &&
           group->mates && group->mates->count == group->size;
}

/* Of a group that has ended only the number, as others may not know of the verdict yet. */
static struct announce last_call(const struct tutti_group *group)
{
    const uint64_t completed = atomic_load(&group->completed);
    const struct announce *own = group_own_call(group, completed);

    if (completed != group->sequence || control_verdict_status(group->control))
        return (struct announce){.sequence = completed};
    if (!completed)
        return (struct announce){.signature = CONTROL_NO_CALL};
    return own ? *own : (struct announce){.sequence = completed};
}

/* What nobody has met in a call is told by the last calls. Whoever finds it waits for the verdict. */
static void compare_last(struct tutti_group *group)
{
    if (control_has_uncompared(group->control))
        group_compare_last(group, true);
    if (control_has_proposed(group->control))
        control_await_verdict(group->control, VERDICT_WAITS_MS);
}

/* How long others may need to learn of the bye, and this member of theirs. */
static int64_t farewell_ms(const struct tutti_group *group, const struct announce *last)
{
    if (control_verdict_status(group->control))
        return LINGER_MS;
    return group->native                               ? COMPARE_MS
           : operation_has_root(last->words.operation) ? COMPARE_ROOTED_MS
                                                       : LINGER_MS;
}

/*
 * Says bye, and is there for some 50 ms to pass on what comes from neighbours that leave in the same
 * moment; those who do not answer that they know, and will tell others then. After a call with a root it is
 * for 200 ms, over an engine for 500 ms, and for all members, to compare last calls: a root only sends, and
 * does not meet members that called something else. Whoever is asked for its call stays for the verdict. All
 * groups are moved meanwhile, as another member may leave them in another order, and waits here for an answer
 * there.
 */
static void leave(struct tutti_group *group)
{
    struct engine *engine = &group->context->engine;
    struct operation_state known = {.status = TUTTI_ERR_NOT_READY};

    const struct announce last = last_call(group);
    control_bye(group->control, &last);
    if (!needs_nobody(group, &last) && !control_bye_is_known(group->control)) {
        const int64_t until = clock_deadline_ms(farewell_ms(group, &last));

        engine_take(engine);
        group->farewell = &known;
        group->farewell_until_ns = until;
        engine_release(engine);
        if (!engine_wait(engine, &known, until) && control_has_proposed(group->control))
            (void)engine_wait(engine, &known, clock_deadline_ms(VERDICT_WAITS_MS));
        control_flush(group->control, PASSED_ON_MS);
    }
    engine_remove(engine, &group->source);
}

/* Who stops the store waits until every living member has said bye, for 5 s at most. */
static void await_byes(struct tutti_group *group)
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
        exit_record_failed(group);
        dump_failure(group);
        engine_release(&group->context->engine);
    }
    context_drop_default(group);
    leave(group);
    /* The world's server lives as long as the world or a group made from it, here. */
    tutti_store_server *server = bootstrap_take_server(&group->bootstrap);
    if (server)
        await_byes(group);
    compare_last(group);
    status = control_verdict_status(group->control);
    if (status) {
        exit_record_failed(group); /* the last calls may have brought it */
        status = group_verdict(group);
    }
    atomic_fetch_add(&ended_well, group->size > 1 && !status);
    group_free(group);
    tutti_store_server_stop(server);
    return status;
}
