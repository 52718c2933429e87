/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that an engine carries out as a whole.
 *
 * As an engine compares nothing, a member whose operation takes longer than a millisecond announces
 * its call to its two neighbours in the ring of ranks, which compare it with theirs and answer. So a
 * mismatch is found where engines would wait for ever, and a deadline can name the members that
 * have not called. Calls in which no member waits are compared by samples (announced.c). With
 * TUTTI_DEBUG=DETAIL each is before it begins, and so is each that is captured into a graph.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "tensor/packed.h"

enum {
    ANNOUNCE_AFTER_NS = 1000000,
    /* A member that asks its neighbours before it begins waits so long for their answers. A
     * neighbour that has called and does not ask itself may not hear: it may be in a blocking call
     * of the engine, or outside of tutti. */
    ANSWERS_WITHIN_NS = 200000000,
    LOST_WAITS_MS = 6000 /* for whom: a host that vanished is found after 5 s */
};

/* Whether the neighbours are asked before the operation begins. A graph with other calls would hang each time. */
static bool asks(const struct native *n, const struct call *call)
{
    return n->asks || call->captured;
}

bool native_call_may_sleep(const struct tutti_group *group)
{
    const struct call *call = group->calls.queue.first;
    const struct native *n = native_of(group, call);

    if (!n || n->trouble || call_is_failing(call))
        return true;
    if (asks(n, call) && !n->laid_out) /* what it waits for comes by messages */
        return true;
    return n->under_way && n->wait_fd >= 0 && n->ops->arm(n->team) == TUTTI_ARMED;
}

/* ---- one operation ---- */

/* A better cause may be found: the control plane knows the lost members, and an engine that
 * complains of what it received may have met a member that called something else. */
static void hold_back(struct native *n, tutti_status status)
{
    n->trouble = status;
    n->trouble_ns = clock_now_ns();
    n->waits = true;
    snprintf(n->message, sizeof n->message, "%.*s", TEXT_CUT(error_message(), 900));
}

/* Whether the neighbours call the same, before an operation begins. All members
 * are in a ring: if each has asked its neighbours, all call the same; a member that has not asked
 * answers once it has called. If all ask, nothing comes from a member that has not compared, so a
 * member that begins without an answer gets no data of another call either. */
static bool neighbours_agree(struct tutti_group *group, const struct call *call)
{
    struct native *n = native_of(group, call);
    const uint64_t sequence = call->announce.sequence;
    const int64_t now_ns = clock_now_ns();

    n->asked_ns = n->asked_ns ? n->asked_ns : now_ns;
    announced_send_to_neighbours(group, &call->announce);
    p2p_hear(group->ways.p2p_engine);
    if (call_is_failing(call))
        return false;
    return (announced_agrees(group, native_neighbour(group, 0), sequence) &&
            announced_agrees(group, native_neighbour(group, 1), sequence)) ||
           now_ns - n->asked_ns > ANSWERS_WITHIN_NS;
}

/* Compares the calls that are launched together with those of other members, before the engine begins them. */
static bool may_begin(struct tutti_group *group, const struct call *first)
{
    const struct native *n = native_of(group, first);
    const struct call *last = first;

    for (const struct call *call = first; call; call = native_next(call)) {
        last = call;
        if (announced_is_sample(&group->comparing.announced, call->announce.sequence) &&
            !announced_sample(group, call))
            return false;
    }
    return !asks(n, first) || n->laid_out || neighbours_agree(group, last);
}

/* The operations are on their streams; copies back of stand-ins come behind them. */
static tutti_status put_back(struct native *n, const struct call *first)
{
    tutti_status status = TUTTI_OK;

    for (const struct call *call = first; call && !status; call = native_next(call)) {
        status = packed_put_back(call->packed);
        n->launched++;
    }
    return status;
}

static tutti_status issue(struct tutti_group *group, struct native *n, struct call *call)
{
    const bool is_first = !n->launched;
    tutti_status status = TUTTI_OK;

    if (is_first) {
        native_forget(n);
        status = put_back(n, call);
    } else {
        call_begins(call);
    }
    n->launched--;
    packed_end(&call->packed, false);
    if (!status && call->captured)
        captured_add(group, call);
    return status || call->captured ? status : issued_add(group, call, !is_first);
}

tutti_status native_call_advance(struct tutti_group *group, struct call *call)
{
    struct native *n = native_of(group, call);
    tutti_status status = TUTTI_OK;

    if (n->trouble || n->lent)
        return TUTTI_ERR_NOT_READY;
    if (n->launched)
        return issue(group, n, call);
    if (!call_is_begun(call)) {
        if (!may_begin(group, call)) {
            n->waits = true;
            return TUTTI_ERR_NOT_READY;
        }
        status = native_start(group, call);
        if (!status) {
            call_begins(call);
            status = n->request.status;
        }
    } else if (n->under_way) {
        status = native_test(group, n);
    }
    status = native_failed(n, status, "complete an operation");
    if (!status && n->kernels.steps)
        status = native_kernels_go_on(n, call);
    if (status == TUTTI_ERR_NOT_READY) {
        n->waits = true;
        return status;
    }
    if (status) {
        hold_back(n, status);
        return TUTTI_ERR_NOT_READY;
    }
    if (n->device)
        return issue(group, n, call);
    native_memory_give_back(&n->memory);
    native_forget(n);
    engine_calm(&group->context->engine);
    return TUTTI_OK;
}

static void withdraw(struct tutti_group *group, struct native *n, struct call *call)
{
    char what[192];

    if (!n || n->aborted || !n->team || native_withdraw(n, call) != TUTTI_ERR_NOT_READY)
        return;
    group_describe_call(call, what, sizeof what);
    log_line(LOG_WARN, group->rank,
             "group %s: %s cannot withdraw %s: its tensors may still be written until the group "
             "is destroyed",
             group->name, n->user.name, what);
}

/* Also the team that the call does not use: its members must not meet in it again, and streams must go on. */
void native_call_fail(struct tutti_group *group, struct call *call)
{
    struct native *of_call = native_of(group, call);

    withdraw(group, group->ways.device_native, of_call == group->ways.device_native ? call : NULL);
    withdraw(group, group->ways.native, of_call == group->ways.native ? call : NULL);
    issued_drop(group);
    captured_drop(group);
}

/* ---- announcements ---- */

/* The engine has failed, and no better cause was found in time, or all have called the same. */
static void look_at_trouble(struct tutti_group *group, int64_t now_ns)
{
    struct native *n = native_of(group, group->calls.queue.first);
    const bool lost = n->trouble == TUTTI_ERR_PEER_LOST;
    char message[CONTROL_MESSAGE_MAX], what[192];
    struct call *call = group->calls.queue.first;

    if (!n->trouble || call_is_failing(call))
        return;
    if ((lost || !announced_all_agree(group, &call->announce)) &&
        now_ns < n->trouble_ns + LOST_WAITS_MS * CLOCK_NS_PER_MS)
        return;
    if (lost) {
        group_describe_call(call, what, sizeof what);
        snprintf(message, sizeof message,
                 "rank %d: a member was lost during %s, yet all members answer (%.*s)", group->rank,
                 what, TEXT_CUT(n->message, 600));
    } else {
        snprintf(message, sizeof message, "rank %d: %.*s", group->rank, TEXT_CUT(n->message, 900));
    }
    call_fails(call);
    control_propose(group->control, n->trouble, group->rank, message);
}

/* A neighbour that has not announced the call under way, though it was asked; -1: all have, or it is not
 * known. */
static int missing(const struct tutti_group *group, const struct call *call)
{
    for (int i = 0; i < 2; i++)
        if (announced_is_missing(group, native_neighbour(group, i), call->announce.sequence))
            return native_neighbour(group, i);
    return -1;
}

/* When it begins to wait, and again when the late member has come. */
static void be_eager(struct tutti_group *group, const struct call *call, int64_t now_ns)
{
    struct native *n = native_of(group, call);
    const int operation = call->announce.fields.operation;
    const bool blocks = operation_takes_blocks(operation) || operation_gives_blocks(operation);
    const bool was_late = n->late;

    n->late = missing(group, call) >= 0;
    if (n->wait_fd >= 0 || (n->since_ns && !(was_late && !n->late)))
        return;
    engine_be_eager(&group->context->engine, now_ns,
                    call->bytes * (blocks ? (uint64_t)group->size : 1));
}

void native_call_look(struct tutti_group *group, int64_t now_ns)
{
    const struct call *call = group->calls.queue.first;
    struct native *n = native_of(group, call);

    if (!n || !n->waits)
        return;
    look_at_trouble(group, now_ns);
    be_eager(group, call, now_ns);
    if (!n->since_ns)
        n->since_ns = now_ns;
    else if (now_ns - n->since_ns >= ANNOUNCE_AFTER_NS)
        announced_send_to_neighbours(group, &call->announce);
}

struct waiting native_call_waiting(const struct tutti_group *group, const struct call *call)
{
    const struct native *n = native_of(group, call);
    const int neighbour = missing(group, call);

    if (neighbour >= 0)
        return (struct waiting){.kind = WAITING_ANSWER, .rank = neighbour};
    int rank = n->under_way && TUTTI_HAS(n->ops, waits_for) ? n->ops->waits_for(n->team) : -1;
    if (rank < 0 || rank >= group->size || rank == group->rank)
        return (struct waiting){.kind = WAITING_ANSWER, .rank = -1};
    return (struct waiting){.kind = WAITING_RECEIVE, .rank = rank};
}
