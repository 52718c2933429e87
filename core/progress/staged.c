/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with tensors on devices: the operation runs on stand-ins in host memory (tensor/packed.h), and streams
 * copy between these and the tensors.
 *
 * A collective waits in the queue until its stand-ins are filled; the others wait for it as for a late member. Where a
 * schedule does it, it begins with the first pieces of long ones (tensor/pieces.h), its steps wait for the others, and
 * finished pieces go back meanwhile. A receive is posted at once. A send that has to wait is *held*, with all sends behind
 * it, so that messages leave in the order of their calls. A long message is held until its first piece has come, reads the
 * others as they come, and goes back on the other side in pieces, too.
 *
 * A blocking call has its results in the stand-ins when it is complete, and its own thread puts the copies back on its
 * stream. A work is *returning* from then on until its copies back are done, in a list of its own: the next call
 * of the queue begins meanwhile. So is a work that failed while pieces went back: they write to the caller's memory.
 * Nothing here waits: each thread that moves the group asks.
 */
#include "base/clock.h"
#include "base/error.h"
#include "progress/progress.h"
#include "provider/routes.h"
#include "tensor/pieces.h"

/* Whether a schedule does it, whose steps can wait for pieces. */
static bool may_be_in_pieces(const struct call *call)
{
    const enum algorithm_kind kind = call->plan->plan.algorithm->kind;

    return !algorithm_by_engine(kind) && kind != ALGORITHM_INLINE && kind != ALGORITHM_ALONE &&
           !call->registered;
}

tutti_status staged_fill(struct call *call)
{
    if (call_is_begun(call))
        return TUTTI_OK;
    call->in_pieces = call->starves = false;
    return may_be_in_pieces(call) ? pieces_may_begin(call->packed) : packed_fill(call->packed);
}

bool staged_waits(const struct call *call)
{
    if (!call->packed || !(call->held || call->moved == MOVED_MET || call->kind == CALL_COLLECTIVE))
        return false;
    return call_is_begun(call) ? call->starves : packed_awaits(call->packed);
}

/* ---- pieces ---- */

static tutti_status reach(void *user, const void *first, uint64_t bytes)
{
    struct call *call = user;
    const tutti_status status = pieces_reach(call->packed, first, bytes);

    call->starves = status == TUTTI_ERR_NOT_READY;
    return status;
}

void staged_pieces_of(struct call *call, struct run_call *run)
{
    call->in_pieces = may_be_in_pieces(call) && pieces_are_in(call->packed);
    if (!call->in_pieces)
        return;
    run->reach = reach;
    run->reach_user = call;
}

static void note_write(void *user, const void *first, uint64_t bytes, uint32_t until)
{
    pieces_note_write(user, first, bytes, until);
}

void staged_note_writes(struct call *call)
{
    run_tell_writes(call->run, note_write, call->packed);
}

tutti_status staged_give(struct call *call, tutti_status status)
{
    if (status != TUTTI_ERR_NOT_READY)
        return status;
    const tutti_status given = pieces_give(call->packed, call->run->next);
    return given ? given : status;
}

/* ---- results ---- */

bool staged_return(struct tutti_group *group, struct call *call, tutti_status status)
{
    if (status ? !pieces_are_going(call->packed) : !packed_is_staged(call->packed))
        return false;
    if (!call->state.work)
        return true;
    if (status) {
        error_keep(&call->state.work->error);
        pieces_stop(call->packed);
    }
    call->outcome = status;
    call_list_append(&group->calls.returning, call);
    return true;
}

/* The copies back are done, or have failed, of which the others are to hear unless the call had failed before. */
static void returned(struct tutti_group *group, struct call *call, tutti_status status)
{
    call_list_remove(&group->calls.returning, call);
    packed_end(&call->packed, !status && !call->outcome);
    if (status && !call->outcome) {
        error_keep(&call->state.work->error);
        if (!control_verdict_status(group->control))
            group_propose_own(group, status);
    }
    engine_complete(&group->context->engine, &call->state, call->outcome ? call->outcome : status);
}

static unsigned move_returning(struct tutti_group *group)
{
    unsigned moved = 0;

    for (struct call *call = group->calls.returning.first, *next; call; call = next) {
        next = call->next;
        const tutti_status status = packed_bring_back(call->packed);

        if (status == TUTTI_ERR_NOT_READY)
            continue;
        returned(group, call, status);
        moved++;
    }
    return moved;
}

tutti_status staged_put_back(struct call *call, tutti_status status)
{
    const bool going = pieces_are_going(call->packed);

    if (status && going) {
        pieces_stop(call->packed);
        (void)packed_put_back(call->packed);
    } else if (!status) {
        status = packed_put_back(call->packed);
    }
    packed_end(&call->packed, !status);
    return status;
}

/* ---- sends ---- */

/* What fails here, a device, fails the group: the receiver waits for the rest. */
static bool may_read(struct p2p_op *op, uint64_t bytes)
{
    struct call *call = op->user;
    const tutti_status status =
        call_is_failing(call) ? TUTTI_ERR_NOT_READY : pieces_reach(call->packed, op->buffer, bytes);

    if (status && status != TUTTI_ERR_NOT_READY)
        group_call_failed(call->group, call, status);
    return !status;
}

static void arrived(struct p2p_op *op, uint64_t offset, uint64_t bytes)
{
    const struct call *call = op->user;

    pieces_arrived(call->packed, offset, bytes);
}

/* A message to oneself is copied in one go, and wrappers see one that has come whole. */
void staged_message(const struct tutti_group *group, struct call *call)
{
    if (!call->packed->pieces || call->peer == group->rank || group->ways.wrappers)
        return;
    if (call->kind == CALL_SEND)
        call->message.may_read = may_read;
    else
        call->message.arrived = arrived;
}

tutti_status staged_may_leave(struct call *call)
{
    return call->message.may_read ? pieces_may_begin(call->packed) : packed_fill(call->packed);
}

bool staged_hold(struct tutti_group *group, struct call *call)
{
    call->held =
        call->kind == CALL_SEND && (group->calls.held || (call->packed && staged_may_leave(call)));
    group->calls.held += call->held;
    return call->held;
}

bool staged_withdraw(struct tutti_group *group, struct call *call)
{
    const bool was_held = call->held;

    group->calls.held -= was_held;
    call->held = false;
    return was_held;
}

/* The first send that is held; there is one. */
static struct call *first_held(struct tutti_group *group)
{
    struct call *call = group->calls.messages.first;

    while (!call->held)
        call = call->next;
    return call;
}

static void fail_send(struct tutti_group *group, struct call *call, tutti_status status)
{
    if (status == TUTTI_ERR_PEER_LOST) /* its verdict, or its leave message, is on the way */
        call_fails(call);
    else
        group_complete(group, call, status);
}

static unsigned move_held(struct tutti_group *group)
{
    unsigned moved = 0;

    while (group->calls.held) {
        struct call *call = first_held(group);
        tutti_status status = staged_may_leave(call);

        if (status == TUTTI_ERR_NOT_READY)
            break;
        (void)staged_withdraw(group, call);
        moved++;
        if (status) { /* the receiver waits, and knows of no message yet */
            group_call_failed(group, call, status);
            continue;
        }
        status = p2p_send(route_messages(group), &call->message, call->peer, call->tag,
                          call->in.base, call->bytes);
        if (status)
            fail_send(group, call, status);
    }
    return moved;
}

/* ---- the group ---- */

unsigned staged_move(struct tutti_group *group)
{
    return move_returning(group) +
           (group->calls.held && !control_verdict_status(group->control) ? move_held(group) : 0);
}

bool staged_is_asked(const struct tutti_group *group)
{
    return group->calls.returning.first || group->calls.held ||
           (group->calls.queue.first && staged_waits(group->calls.queue.first));
}

void staged_look(struct tutti_group *group, int64_t now)
{
    for (struct call *call = group->calls.returning.first, *next; call; call = next) {
        next = call->next;
        if (!call->deadline_ns) {
            call->deadline_ns = clock_deadline_ms(call->timeout_ms);
        } else if (now >= call->deadline_ns) {
            error_set(TUTTI_ERR_TIMEOUT,
                      "timed out after %lld ms: the result is in host memory, and cannot be copied "
                      "to its "
                      "tensor before the work on the call's stream is done",
                      (long long)call->timeout_ms);
            returned(group, call, TUTTI_ERR_TIMEOUT);
        }
    }
}
