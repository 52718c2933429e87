/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: calls that were checked once and are started again and again. A plan is a batch that is kept. It holds
 * copies of all that its calls refer to but the tensors' memory, so neither the program's descriptors nor the
 * group are needed to free it. A plan of one collective, the most frequent kind, runs as the call itself
 * would, without what comes before.
 */
#include <tutti/plan.h>

#include <stdlib.h>

#include "base/error.h"
#include "collective/batch.h"

struct tutti_plan {
    struct tutti_group *group;
    struct kept_call *first;
    bool has_stand_ins; /* that each run fills */
    bool is_direct;     /* an engine takes tensors of it where they lie, on a device */
};

/* A plan's tensors change between its runs, so nothing of them may have been copied for good. */
static tutti_status check_call(const struct kept_call *kept, int number)
{
    const struct collective *c = kept->is_message ? NULL : &kept->collective;
    const char *function = c ? c->function : kept->message.function;

    if (c && c->has_copied)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "call %d of the plan, %s, copies its input when it is made, since it "
                         "works in place or multiplies by a factor: make it without a plan",
                         number, function);
    if (!packed_may_repeat(kept_stand_ins(kept)->first))
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "call %d of the plan, %s, has a tensor that is not contiguous, in host "
                         "memory or for an engine that takes it on its device, or that such an "
                         "engine needs aligned to its elements: plans take contiguous, aligned "
                         "ones there",
                         number, function);
    return TUTTI_OK;
}

static tutti_status keep(const struct kept_call *first)
{
    tutti_status status = TUTTI_OK;
    int number = 0;

    for (const struct kept_call *kept = first; kept && !status; kept = kept->next)
        status = check_call(kept, ++number);
    for (const struct kept_call *kept = first; kept && !status; kept = kept->next)
        packed_keep(kept_stand_ins(kept)->first);
    return status;
}

tutti_status tutti_plan_create(tutti_group *group, tutti_plan **ret_plan)
{
    struct kept_call *first;
    tutti_plan *plan;

    tutti_status status = group_check(group);
    if (!status)
        status = batch_take(group, __func__, &first);
    if (status)
        return status;
    plan = malloc(sizeof *plan);
    if (!ret_plan)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_plan is NULL");
    else if (!plan)
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
    else
        status = keep(first);
    if (status) {
        kept_calls_free(first);
        free(plan);
        return error_of(__func__, status);
    }
    *plan = (struct tutti_plan){.group = group, .first = first};
    for (const struct kept_call *kept = first; kept; kept = kept->next) {
        plan->has_stand_ins |= kept_stand_ins(kept)->first != NULL;
        plan->is_direct |= kept_stand_ins(kept)->is_direct;
    }
    *ret_plan = plan;
    return TUTTI_OK;
}

/* The stand-ins. The others hear of a device that has failed before their call is begun here. */
static tutti_status fill(struct tutti_group *group, struct kept_call *first)
{
    const tutti_status status = kept_calls_again(group, first);

    return status == TUTTI_ERR_SYSTEM && call_others_wait(group, status)
               ? group_end_by_own(group, status)
               : status;
}

tutti_status tutti_plan_run(tutti_plan *plan, tutti_work **work)
{
    if (!plan)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "tutti_plan_run: plan is NULL");

    struct kept_call *first = plan->first;
    tutti_status status = group_check(plan->group);
    if (!status && batch_of(plan->group))
        status =
            error_set(TUTTI_ERR_BUSY, "a batch of this thread is open on the group: end it first");
    if (!status && plan->is_direct)
        status = capture_look_again(plan->group, first);
    if (!status && plan->has_stand_ins)
        status = fill(plan->group, first);
    if (status)
        return error_of(__func__, status);
    if (!first || first->next || first->is_message)
        return kept_calls_run(plan->group, first, true, work);
    first->is_renewed = false; /* the call ends them */
    return collective_repeat(plan->group, &first->collective, work);
}

void tutti_plan_free(tutti_plan *plan)
{
    if (!plan)
        return;
    kept_calls_free(plan->first);
    free(plan);
}
