/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective, moved on: its line and payload in mapped memory (inline), the schedule of its plan
 * over mapped memory and messages, or what an engine does of its own (native.h). What the runner
 * calls a wire is core/p2p here.
 */
#include "base/clock.h"
#include "base/error.h"
#include "group/group.h"
#include "progress/progress.h"
#include "provider/routes.h"

/* The space of messages that the call's plan goes by. */
static struct p2p_group *space_of(const struct call *call)
{
    return route_space(call->group, call->plan->route);
}

static tutti_status wire_send(void *user, int peer, void *ticket, const void *data, uint64_t bytes)
{
    struct call *call = user;
    struct p2p_op *op = ticket;

    *op = (struct p2p_op){.user = call};
    return p2p_collective_send(space_of(call), op, peer, &call->announce, data, bytes);
}

static tutti_status wire_recv(void *user, int peer, void *ticket, void *data, uint64_t bytes)
{
    struct call *call = user;
    struct p2p_op *op = ticket;

    *op = (struct p2p_op){.user = call};
    return p2p_collective_recv(space_of(call), op, peer, call->announce.sequence, data, bytes);
}

static tutti_status wire_test(void *user, void *ticket)
{
    struct p2p_op *op = ticket;

    (void)user;
    return op->status && op->status != TUTTI_ERR_NOT_READY ? p2p_op_error(op) : op->status;
}

/* Called after p2p_group_fail(), which has given every buffer back. */
static void wire_cancel(void *user, void *ticket)
{
    (void)user;
    (void)ticket;
}

static const struct wire message_wire = {
    .ticket_bytes = (sizeof(struct p2p_op) + 63) / 64 * 64,
    .send = wire_send,
    .recv = wire_recv,
    .test = wire_test,
    .cancel = wire_cancel,
};

static bool waits_for_others(const void *user, int local_peer)
{
    return mapped_still_waits(user, local_peer);
}

static void notify(void *user, bool counters)
{
    struct tutti_group *group = user;

    local_notify_but(group->local, counters ? waits_for_others : NULL, &group->ways.mapped);
}

/* The kernels of the plan; for a user's operation those of the call itself. */
static struct kernels kernels_of(const struct call *call)
{
    struct kernels kernels = call->plan->kernels;

    if (call->op)
        kernels.tree = reduce_tree_of_op(call->op, call->announce.fields.dtype);
    return kernels;
}

/* A local peer that sleeps in a later call than the one that ends here waits for others. */
static bool has_passed(const void *user, int local_peer)
{
    return mapped_has_passed(user, local_peer);
}

tutti_status group_inline_post(struct tutti_group *group, const struct algorithm *algorithm,
                               const struct inline_call *in)
{
    const tutti_status status = algorithm->post(&group->ways.mapped, in);

    if (!status && in->announce->fields.root >= 0)
        notify(group, false);
    return status;
}

/*
 * Where all wait for all, waking a sleeping local peer before everyone has arrived is wasted work:
 * the member that sees all lines wakes the others, and no member wakes only to find one missing.
 * The lines of an operation with a root are waited for one by one. In a round, the member that ends
 * it wakes the others.
 */
tutti_status group_inline_poll(struct tutti_group *group, const struct algorithm *algorithm,
                               const struct inline_call *in)
{
    const bool in_round = algorithm->flags & ALGORITHM_SHARES_CPUS;
    const tutti_status status = algorithm->poll(&group->ways.mapped, in);

    if (!status && in->announce->fields.root < 0 && (!in_round || group->ways.mapped.finished))
        local_notify_but(group->local, has_passed, &group->ways.mapped);
    return status;
}

static tutti_status advance_inline(struct tutti_group *group, struct call *call)
{
    const struct algorithm *algorithm = call->plan->plan.algorithm;
    struct inline_call in =
        group_inline_call(group, &call->announce, call->plan, &call->in, &call->out, call->bytes);
    struct kernels kernels;

    if (call->op) {
        kernels = kernels_of(call);
        in.kernels = &kernels;
    }
    if (!call_is_begun(call)) {
        tutti_status status = group_inline_post(group, algorithm, &in);

        if (status)
            return status;
        call_begins(call);
    }
    return group_inline_poll(group, algorithm, &in);
}

static tutti_status advance_schedule(struct tutti_group *group, struct call *call)
{
    if (!call_is_begun(call)) {
        struct run_call run = {
            .schedule = &call->plan->schedule,
            .mapped = group->ways.has_mapped ? &group->ways.mapped : NULL,
            .announce = &call->announce,
            .wire = &message_wire,
            .wire_user = call,
            .in = call->in,
            .out = call->out,
            .kernels = kernels_of(call),
            .notify = group->ways.has_mapped ? notify : NULL,
            .notify_user = group,
        };
        if (call->registered)
            registered_offer(call, &run);
        else if (call->packed)
            staged_pieces_of(call, &run);
        else if (call->plan->trial.may)
            run.trial = &call->plan->trial;
        if (!call->run && !(call->run = group_take_run(group, call)))
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory to run a collective");
        tutti_status status = run_start(call->run, &run);

        if (status)
            return status;
        call_begins(call);
        if (call->packed && call->in_pieces)
            staged_note_writes(call);
    }
    group->ways.mapped.culprit =
        -1; /* set anew by what goes wrong in mapped memory, not by messages */
    tutti_status status = run_advance(call->run);
    if (call->packed && call->in_pieces)
        status = staged_give(call, status);
    if (call->registered && run_is_registered(call->run))
        record_registered(group, call);
    /* Its receive may have met a kept message of another call: then the verdict ends it. */
    return !status && call_is_failing(call) ? TUTTI_ERR_NOT_READY : status;
}

bool group_holds(const struct tutti_group *group, const struct call *call)
{
    return group->ways.wrappers && !call_is_begun(call) && call->hold_until_ns &&
           clock_now_ns() < call->hold_until_ns;
}

tutti_status group_advance(struct tutti_group *group, struct call *call)
{
    if (group_holds(group, call))
        return TUTTI_ERR_NOT_READY;
    if (call->packed) {
        const tutti_status status = staged_fill(call);

        if (status)
            return status;
    }
    switch (call->plan->plan.algorithm->kind) {
    case ALGORITHM_ALONE:
        if (call->bytes > RUN_BUDGET_BYTES)
            return advance_schedule(group, call);
        run_alone(&call->plan->schedule, &call->in, &call->out, &call->plan->kernels);
        return TUTTI_OK;
    case ALGORITHM_INLINE:
        return advance_inline(group, call);
    case ALGORITHM_NATIVE:
    case ALGORITHM_KERNELS:
        return native_call_advance(group, call);
    default:
        return advance_schedule(group, call);
    }
}
