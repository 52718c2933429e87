/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of the public API: arguments to call words, sequence and signature, then here and
 * now or into the queue.
 *
 * A blocking call whose plan is inline and that nothing is queued before ends under the baton that it
 * began with: post, a few spins, done. Whatever does not end there continues in the queue like every
 * other call.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collective/call.h"
#include "group/recorder.h"
#include "group/wrap.h"
#include "reduce/reduce.h"

enum { VERDICT_EVERY = 64 };

struct arguments {
    struct call_words words;
    const void *in;
    void *out;
    uint64_t bytes;
    int64_t timeout_ms;
};

/* Gives the call its number and its place in the chain of signatures. False: another member has
 * called something else as this number already. */
static bool next_announce(struct tutti_group *group, const struct call_words *words,
                          struct announce *ret_announce)
{
    group->signature = XXH3_64bits_withSeed(words, sizeof *words, group->signature);
    *ret_announce = (struct announce){++group->sequence, group->signature, *words};
    group->calls[group->sequence % GROUP_CALLS_KEPT] = *ret_announce;
    return !group->p2p || group_compare_futures(group, ret_announce);
}

/* With the baton: number, plan and record. */
static tutti_status begin(struct tutti_group *group, const struct arguments *args,
                          struct call *call)
{
    tutti_status status = group_plan(group, &args->words, &call->plan);

    if (status)
        return status;
    call->doomed = !next_announce(group, &args->words, &call->announce);
    call->in = args->in;
    call->out = args->out;
    call->bytes = args->bytes;
    call->timeout_ms = args->timeout_ms;
    call->peer = -1;
    call->plan->users++;
    call->record = record_collective(group, call);
    if (group->wrappers && !wrappers_begin(group, call))
        call->doomed = true;
    group->mapped_bytes += call->plan->mapped_bytes;
    call_list_append(&group->queue, call);
    return TUTTI_OK;
}

/*
 * Moves the call while the baton is held anyway; most small ones are complete afterwards. A schedule is
 * left to the general wait at once, which also progresses messages.
 */
static void spin(struct tutti_group *group, struct call *call)
{
    enum algorithm_kind kind = call->plan->plan.algorithm->kind;
    unsigned spins = kind == ALGORITHM_INLINE ? engine_spins(&group->context->engine) : 0;

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
        engine_relax();
    }
}

static tutti_status run_blocking(struct tutti_group *group, const struct arguments *args)
{
    struct engine *engine = &group->context->engine;
    struct call call;

    call.state = (struct operation_state){.status = TUTTI_ERR_NOT_READY};
    call.group = group;
    call.kind = CALL_COLLECTIVE;
    call.begun = call.doomed = false;
    call.deadline_ns = 0;
    call.error.message = NULL;
    engine_take(engine);
    if (group_ended(group)) {
        engine_release(engine);
        return group_verdict(group);
    }
    tutti_status status = begin(group, args, &call);
    if (!status)
        spin(group, &call);
    engine_release(engine);
    return status ? status : call_wait(&call);
}

static tutti_status run_async(struct tutti_group *group, const struct arguments *args,
                              tutti_work **ret_work)
{
    struct engine *engine = &group->context->engine;
    struct async_call *async;

    tutti_status status = call_allocate(group, &async);
    if (status)
        return status;
    async->call.kind = CALL_COLLECTIVE;
    engine_take(engine);
    status = group_ended(group) ? group_verdict(group) : begin(group, args, &async->call);
    return call_started(async, status, ret_work);
}

static tutti_status run(struct tutti_group *group, const struct arguments *args, tutti_work **work)
{
    return work ? run_async(group, args, work) : run_blocking(group, args);
}

static tutti_status all_reduce(tutti_group *group, const tutti_tensor *in, const tutti_tensor *out,
                               tutti_reduce_op op, const tutti_options *options, tutti_work **work)
{
    struct arguments args;
    uint64_t count, out_count = 0, out_bytes = 0;
    void *from, *to = NULL;

    tutti_status status = call_check(group, options, &args.timeout_ms);
    if (!status)
        status = call_tensor(out, "the tensor", &to, &out_count, &out_bytes);
    from = to;
    count = out_count;
    args.bytes = out_bytes;
    if (!status && in != out)
        status = call_tensor(in, "the input tensor", &from, &count, &args.bytes);
    if (!status)
        status = reduce_check(op, out->dtype);
    if (status)
        return status;
    if (in->dtype != out->dtype || count != out_count)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "input and output differ: %llu x %s and %llu x %s",
                         (unsigned long long)count, tutti_dtype_name(in->dtype),
                         (unsigned long long)out_count, tutti_dtype_name(out->dtype));
    if (from != to && (char *)from < (char *)to + out_bytes &&
        (char *)to < (char *)from + out_bytes)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "input and output overlap");
    args.words = (struct call_words){.count = count,
                                     .dtype = out->dtype,
                                     .op = op,
                                     .root = -1,
                                     .operation = OPERATION_ALL_REDUCE};
    args.in = from;
    args.out = to;
    return run(group, &args, work);
}

tutti_status tutti_all_reduce(tutti_group *group, const tutti_tensor *tensor, tutti_reduce_op op,
                              const tutti_options *options, tutti_work **work)
{
    return all_reduce(group, tensor, tensor, op, options, work);
}

tutti_status tutti_all_reduce_into(tutti_group *group, const tutti_tensor *in,
                                   const tutti_tensor *out, tutti_reduce_op op,
                                   const tutti_options *options, tutti_work **work)
{
    return all_reduce(group, in, out, op, options, work);
}

tutti_status tutti_broadcast(tutti_group *group, const tutti_tensor *tensor, int32_t root,
                             const tutti_options *options, tutti_work **work)
{
    struct arguments args;
    uint64_t count;

    tutti_status status = call_check(group, options, &args.timeout_ms);
    if (!status)
        status = call_tensor(tensor, "the tensor", &args.out, &count, &args.bytes);
    if (status)
        return status;
    if (root < 0 || root >= group->size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "root %d is not in a group of %d", root,
                         group->size);
    args.in = args.out;
    args.words = (struct call_words){.count = count,
                                     .dtype = tensor->dtype,
                                     .op = -1,
                                     .root = root,
                                     .operation = OPERATION_BROADCAST};
    return run(group, &args, work);
}

tutti_status tutti_barrier(tutti_group *group, const tutti_options *options, tutti_work **work)
{
    struct arguments args = {
        .words = {.op = -1, .root = -1, .operation = OPERATION_BARRIER},
    };

    tutti_status status = call_check(group, options, &args.timeout_ms);
    return status ? status : run(group, &args, work);
}
