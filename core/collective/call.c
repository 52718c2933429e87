/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every call goes through: its options and tensors are checked, one that is not waited for gets
 * memory, and a wait ends with the call's own message.
 *
 * Memory of calls is the engine's, and given back when both the operation and its handle are through with
 * it. So a handle may outlive its group.
 */
#include "collective/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/options.h"
#include "progress/progress.h"

tutti_status call_check_closely(const struct tutti_group *group, const tutti_options *options,
                                int64_t *ret_timeout_ms)
{
    tutti_status status = group_check(group);

    if (status)
        return status;
    *ret_timeout_ms = group->timeout_ms;
    if (!options)
        return TUTTI_OK;
    tutti_options known;
    status = options_copy(&known, sizeof known, options, "tutti_options");
    if (status)
        return status;
    if (known.timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "timeout_ms is %lld; it must not be negative",
                         (long long)known.timeout_ms);
    if (known.flags & ~(TUTTI_FIXED_ORDER | TUTTI_WAITS_NEXT))
        return error_set(
            TUTTI_ERR_UNSUPPORTED,
            "options.flags 0x%x: only TUTTI_FIXED_ORDER and TUTTI_WAITS_NEXT are known",
            known.flags);
    if (known.timeout_ms)
        *ret_timeout_ms = known.timeout_ms;
    return TUTTI_OK;
}

tutti_status call_check_root(const struct tutti_group *group, int32_t root)
{
    if (root >= 0 && root < group->size)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "root %d is not in a group of %d", root,
                     group->size);
}

tutti_status call_tensor_closely(struct tutti_group *group, const tutti_tensor *tensor,
                                 const char *what, enum tensor_use use, struct stand_ins *stand_ins,
                                 void **ret_data, uint64_t *ret_count, uint64_t *ret_bytes)
{
    struct tensor_size size;

    if (!tensor)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", what);
    tutti_status status = tensor_measure(tensor, &size);
    if (status)
        return strcmp(what, "the tensor") ? error_prefix("%s", what) : status;
    const int32_t device = tensor->device.type & ~TUTTI_DEVICE_READ_ONLY;
    if (use & TENSOR_WRITTEN && tensor->device.type & TUTTI_DEVICE_READ_ONLY)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s is read-only, but the operation writes it here; give it a copy", what);
    stand_ins->has_host |= device == TUTTI_DEVICE_CPU;
    status = device == TUTTI_DEVICE_CPU
                 ? packed_use(tensor, &size, what, use, &stand_ins->first, ret_data)
                 : call_device_tensor(group, tensor, &size, what, use, stand_ins, ret_data);
    if (status)
        return status;
    *ret_count = size.count;
    *ret_bytes = size.bytes;
    return TUTTI_OK;
}

tutti_status call_memory(struct tutti_group *group, struct async_call **ret_call)
{
    struct progress_engine *engine = &group->context->engine;
    struct tutti_work *work = work_memory_take(engine, sizeof(struct async_call));

    if (!work)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an operation");
    *ret_call = call_of_work(work);
    return TUTTI_OK;
}

void call_work_init(struct tutti_group *group, struct async_call *async)
{
    async->work = (struct tutti_work){.engine = &group->context->engine,
                                      .state = &async->call.state,
                                      .release = work_memory_give_back,
                                      .references = 1,
                                      .fork_generation = fork_current(),
                                      .source = -1};
}

tutti_status call_allocate(struct tutti_group *group, struct async_call **ret_call)
{
    tutti_status status = call_memory(group, ret_call);

    if (!status)
        call_work_init(group, *ret_call);
    return status;
}

void call_give_back(struct async_call *async)
{
    engine_count_unattended(async->work.engine, -1);
    work_memory_give_back(&async->work);
}

tutti_status call_started(struct async_call *async, tutti_status status, bool moves, bool waited,
                          tutti_work **ret_work)
{
    struct tutti_group *group = async->call.group;
    struct progress_engine *engine = async->work.engine;

    if (!status)
        (void)p2p_finish(group->ways.p2p_engine);
    if (!status && moves && atomic_load(&async->call.state.status) == TUTTI_ERR_NOT_READY &&
        !group_gathers(group, &async->call))
        (void)group->source.progress(&group->source);
    if (status)
        call_give_back(async);
    engine_release(engine);
    if (status)
        return status;
    *ret_work = &async->work;
    if (!waited && atomic_load(&async->call.state.status) == TUTTI_ERR_NOT_READY)
        engine_visit(engine);
    return TUTTI_OK;
}

tutti_status call_wait_for(struct call *call)
{
    tutti_status status = atomic_load_explicit(&call->state.status, memory_order_acquire);

    if (status == TUTTI_ERR_NOT_READY) {
        engine_wait(&call->group->context->engine, &call->state, INT64_MAX);
        status = atomic_load_explicit(&call->state.status, memory_order_acquire);
    }
    const tutti_status back = call->packed ? staged_put_back(call, status) : status;
    if (status) {
        error_give(status, &call->error);
        error_forget(&call->error);
        return status;
    }
    return back ? group_end_by_own(call->group, back) : TUTTI_OK;
}
