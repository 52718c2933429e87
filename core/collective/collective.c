/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective, from its arguments in their final form to the queue: sequence and signature, then
 * here and now or later.
 *
 * A blocking call whose plan is inline and that nothing is queued before ends under the progress lock that it
 * began with: post, a few spins, done. Whatever does not end there continues in the queue like every
 * other call. A small one in a group of one ends where it begins, and never becomes a struct call.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "collective/batch.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/wrap.h"
#include "reduce/op.h"

/* Gives a call its number and its place in the chain of signatures. Kept, so that it can be compared. */
static inline const struct announce *next_announce(struct tutti_group *group,
                                                   const struct call_fields *fields)
{
    const uint64_t sequence = ++group->calls.sequence;
    struct announce *announce = &group->comparing.calls[sequence % GROUP_CALLS_KEPT];

    group->calls.signature = XXH3_64bits_withSeed(fields, sizeof *fields, group->calls.signature);
    announce->sequence = sequence;
    announce->signature = group->calls.signature;
    announce->fields = *fields;
    return announce;
}

/* False: another member has called something else as this number already. */
static bool is_agreed(struct tutti_group *group, const struct announce *announce)
{
    return announce->sequence > group->comparing.last_future ||
           group_compare_futures(group, announce);
}

tutti_status collective_begin(struct tutti_group *group, struct collective *c, struct call *call)
{
    tutti_status status = group_plan(group, &c->fields,
                                     c->fields.flags & CALL_UNEVEN ? &c->sizes : NULL, &call->plan);

    if (status)
        return status;
    call->in = c->in;
    call->out = c->out;
    call->bytes = c->bytes;
    call->registered = false;
    if (group->memories.made) {
        status = registered_refer(group, call);
        if (status)
            return status;
    }
    call->announce = *next_announce(group, &c->fields);
    call->stage = is_agreed(group, &call->announce) ? CALL_QUEUED : CALL_FAILING;
    call->memory = c->memory;
    call->packed = c->packed;
    c->memory.first = NULL; /* the call's from here on */
    c->packed = NULL;
    call->op = c->op;
    c->op = NULL;
    call->timeout_ms = c->timeout_ms;
    call->state.no_spin = group->needs.no_spin;
    call->kind = CALL_COLLECTIVE;
    call->peer = -1;
    call->plan->users++;
    call->record = record_collective(group, call->plan, call->announce.sequence, call->bytes);
    if (group->ways.wrappers && !wrappers_begin(group, call))
        call_fails(call);
    group->calls.mapped_bytes += call->plan->mapped_bytes;
    call_list_append(&group->calls.queue, call);
    return TUTTI_OK;
}

/* How often a call is moved at once. A schedule is left to the general wait, which also progresses messages,
 * and so is what an engine's threads need the cores for. */
static unsigned spins_for(const struct tutti_group *group, enum algorithm_kind kind)
{
    const unsigned all = engine_spins(&group->context->engine);

    if (kind == ALGORITHM_NATIVE)
        return group->needs.no_spin ? 0 : all / WAITING_TESTS_IN_A_ROW;
    return kind == ALGORITHM_INLINE ? all : 0;
}

/* Moves the call while the progress lock is held anyway; most small ones are complete afterwards. Another thread
 * that wants the lock ends it. */
static void spin(struct tutti_group *group, struct call *call)
{
    const struct progress_engine *engine = &group->context->engine;
    const enum algorithm_kind kind = call->plan->plan.algorithm->kind;
    const unsigned spins = spins_for(group, kind);

    for (unsigned i = 0; group->calls.queue.first == call && !call_is_failing(call); i++) {
        tutti_status status = group_advance(group, call);

        if (!status) {
            group_complete(group, call, TUTTI_OK);
            return;
        }
        if (status != TUTTI_ERR_NOT_READY) {
            group_call_failed(group, call, status);
            return;
        }
        if (i >= spins || engine_is_wanted(engine) ||
            (i % WAITING_VERDICT_EVERY == 0 && control_verdict_status(group->control)))
            return;
        if (kind != ALGORITHM_NATIVE) /* an engine's tests take longer than the pause already */
            engine_relax();
    }
}

/* Whether a call may be over before a struct call is made of it: nobody else is in it, and nothing is before it. */
static bool may_be_short(const struct tutti_group *group, const struct collective *c)
{
    return group->size == 1 && !group->calls.queue.first && !c->packed && !c->op &&
           !(c->fields.flags & CALL_UNEVEN) && c->bytes <= RUN_BUDGET_BYTES &&
           !group->ways.wrappers && !group->memories.made && !group_ended(group);
}

/* Does a small call in a group of one, if it can be, with its number, signature and record. Under the progress lock. */
static inline bool is_over_now(struct tutti_group *group, const struct collective *c)
{
    struct plan_entry *plan;

    if (!may_be_short(group, c) || group_plan(group, &c->fields, NULL, &plan) ||
        plan->plan.algorithm->kind != ALGORITHM_ALONE)
        return false;

    const uint64_t sequence = next_announce(group, &c->fields)->sequence;
    record_at(group, record_collective(group, plan, sequence, c->bytes))->state = RECORD_DONE;
    run_alone(&plan->schedule, &c->in, &c->out, &plan->kernels);
    atomic_store_explicit(&group->calls.completed, sequence, memory_order_relaxed);
    return true;
}

static tutti_status run_blocking(struct tutti_group *group, struct collective *c)
{
    struct progress_engine *engine = &group->context->engine;
    struct call call;
    tutti_status status;

    engine_take(engine);
    if (is_over_now(group, c)) {
        engine_release(engine);
        return TUTTI_OK;
    }
    call_init(&call, group, NULL);
    if (group_ended(group)) {
        status = group_refuse(group, &c->fields, c->bytes);
    } else {
        status = error_of(c->function, collective_begin(group, c, &call));
        if (!status)
            spin(group, &call);
    }
    engine_release(engine);
    return status ? status : call_wait(&call);
}

static tutti_status run_async(struct tutti_group *group, struct collective *c,
                              tutti_work **ret_work)
{
    struct progress_engine *engine = &group->context->engine;
    struct async_call *async;

    engine_take(engine);
    tutti_status status = call_allocate(group, &async);
    if (status) {
        engine_release(engine);
        return status;
    }
    call_prepare(group, async);
    status = group_ended(group) ? group_refuse(group, &c->fields, c->bytes)
                                : error_of(c->function, collective_begin(group, c, &async->call));
    return call_started(async, status, true, ret_work);
}

tutti_status collective_run(struct tutti_group *group, struct collective *c, tutti_status status,
                            tutti_work **work)
{
    struct batch *batch = batch_of(group);

    status = error_of(c->function, status);
    if (batch)
        status = batch_add_collective(batch, c, status, work != NULL);
    else if (!status)
        status = work ? run_async(group, c, work) : run_blocking(group, c);
    /* The others are in a call that this member has no memory to begin. They hear it at once: its number is
     * not taken here, so a later call of the same kind would meet theirs, and nobody would notice. */
    if (group_others_wait(group, status))
        status = group_end_by_own(group, error_prefix("%s", call_name(&c->fields)));
    chain_free(&c->memory);
    packed_end(&c->packed, false);
    reduce_op_release(c->op);
    return status;
}

tutti_status collective_repeat(struct tutti_group *group, const struct collective *kept,
                               tutti_work **work)
{
    struct progress_engine *engine = &group->context->engine;

    if (!work && group->size == 1) {
        engine_take(engine);
        const bool over = is_over_now(group, kept);
        engine_release(engine);
        if (over)
            return TUTTI_OK;
    }
    struct collective c = collective_again(kept);
    return collective_run(group, &c, TUTTI_OK, work);
}
