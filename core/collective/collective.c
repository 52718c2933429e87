/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective, from its arguments in their final form to the queue: sequence and signature, then
 * here and now or later.
 *
 * A blocking call whose plan is inline and that nothing is queued before ends under the baton that it
 * began with: post, a few spins, done. Whatever does not end there continues in the queue like every
 * other call.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "collective/batch.h"
#include "collective/call.h"
#include "collective/collective.h"
#include "group/native.h"
#include "group/recorder.h"
#include "group/wrap.h"
#include "reduce/op.h"

enum { VERDICT_EVERY = 64 };

/* Gives the call its number and its place in the chain of signatures. False: another member has
 * called something else as this number already. */
static bool next_announce(struct tutti_group *group, const struct call_words *words,
                          struct announce *ret_announce)
{
    const struct announce announce = {
        group->sequence + 1, XXH3_64bits_withSeed(words, sizeof *words, group->signature), *words};

    group->sequence = announce.sequence;
    group->signature = announce.signature;
    group->calls[announce.sequence % GROUP_CALLS_KEPT] = announce;
    *ret_announce = announce;
    return group->sequence > group->last_future || group_compare_futures(group, ret_announce);
}

tutti_status collective_begin(struct tutti_group *group, struct collective *c, struct call *call)
{
    tutti_status status =
        group_plan(group, &c->words, c->words.flags & CALL_UNEVEN ? &c->sizes : NULL, &call->plan);

    if (status)
        return status;
    call->doomed = !next_announce(group, &c->words, &call->announce);
    call->in = c->in;
    call->out = c->out;
    call->bytes = c->bytes;
    call->memory = c->memory;
    call->packed = c->packed;
    c->memory.first = NULL; /* the call's from here on */
    c->packed = NULL;
    call->op = c->op;
    c->op = NULL;
    call->timeout_ms = c->timeout_ms;
    call->state.rests = group->rests;
    call->kind = CALL_COLLECTIVE;
    call->peer = -1;
    call->plan->users++;
    call->record = record_collective(group, call);
    if (group->wrappers && !wrappers_begin(group, call))
        call->doomed = true;
    group->mapped_bytes += call->plan->mapped_bytes;
    call_list_append(&group->queue, call);
    return TUTTI_OK;
}

static tutti_status begin_or_refuse(struct tutti_group *group, struct collective *c,
                                    struct call *call)
{
    return group_ended(group) ? group_refuse(group, &c->words, c->bytes)
                              : error_of(c->function, collective_begin(group, c, call));
}

/* How often a call is moved at once. A schedule is left to the general wait, which also progresses messages,
 * and so is what an engine's threads need the cores for. */
static unsigned spins_for(const struct tutti_group *group, enum algorithm_kind kind)
{
    const unsigned all = engine_spins(&group->context->engine);

    if (kind == ALGORITHM_NATIVE)
        return group->rests ? 0 : all / NATIVE_TESTS_IN_A_ROW;
    return kind == ALGORITHM_INLINE ? all : 0;
}

/* Moves the call while the baton is held anyway; most small ones are complete afterwards. */
static void spin(struct tutti_group *group, struct call *call)
{
    const enum algorithm_kind kind = call->plan->plan.algorithm->kind;
    const unsigned spins = spins_for(group, kind);

    for (unsigned i = 0; group->queue.first == call && !call->doomed; i++) {
        tutti_status status = group_advance(group, call);

        if (!status) {
            group_complete(group, call, TUTTI_OK);
            return;
        }
        if (status != TUTTI_ERR_NOT_READY) {
            group_call_failed(group, call, status);
            return;
        }
        if (i >= spins || (i % VERDICT_EVERY == 0 && control_verdict_status(group->control)))
            return;
        if (kind != ALGORITHM_NATIVE) /* an engine's tests take longer than the pause already */
            engine_relax();
    }
}

static tutti_status run_blocking(struct tutti_group *group, struct collective *c)
{
    struct engine *engine = &group->context->engine;
    struct call call;

    call.state = (struct operation_state){.status = TUTTI_ERR_NOT_READY};
    call.group = group;
    call.begun = call.doomed = false;
    call.deadline_ns = 0;
    call.memory.first = NULL;
    call.packed = NULL;
    call.op = NULL;
    error_init(&call.error);
    engine_take(engine);
    tutti_status status = begin_or_refuse(group, c, &call);
    if (!status)
        spin(group, &call);
    engine_release(engine);
    return status ? status : call_wait(&call);
}

static tutti_status run_async(struct tutti_group *group, struct collective *c,
                              tutti_work **ret_work)
{
    struct async_call *async;

    tutti_status status = call_allocate(group, &async);
    if (status)
        return status;
    engine_take(&group->context->engine);
    status = begin_or_refuse(group, c, &async->call);
    return call_started(async, status, ret_work);
}

/*
 * The others are in a call that this member has no memory to begin. They hear it at once: its number is not
 * taken here, so a later call of the same kind would meet theirs, and nobody would notice.
 */
static tutti_status lacks_memory(struct tutti_group *group, const struct collective *c)
{
    return group_end_by_own(group, error_prefix("%s", call_name(&c->words)));
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
    if (group_others_wait(group, status))
        status = lacks_memory(group, c);
    chain_free(&c->memory);
    packed_end(&c->packed, false);
    reduce_op_release(c->op);
    return status;
}

tutti_status collective_check_root(const struct tutti_group *group, int32_t root)
{
    if (root >= 0 && root < group->size)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "root %d is not in a group of %d", root,
                     group->size);
}
