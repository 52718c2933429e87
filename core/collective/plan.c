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
};

/* A stand-in is filled once, and a plan's tensors change between its runs. */
static tutti_status check_contiguous(const struct kept_call *first)
{
    int number = 1;

    for (const struct kept_call *kept = first; kept; kept = kept->next, number++)
        if (kept->is_message ? kept->message.packed.first : kept->collective.packed.first)
            return error_set(
                TUTTI_ERR_UNSUPPORTED,
                "call %d of the plan, %s, has a tensor that is not contiguous, or not in "
                "host memory: plans take contiguous ones in host memory alone",
                number, kept->is_message ? kept->message.function : kept->collective.function);
    return TUTTI_OK;
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
        status = check_contiguous(first);
    if (status) {
        kept_calls_free(first);
        free(plan);
        return error_of(__func__, status);
    }
    *plan = (struct tutti_plan){.group = group, .first = first};
    *ret_plan = plan;
    return TUTTI_OK;
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
    if (status)
        return error_of(__func__, status);
    if (!first || first->next || first->is_message)
        return kept_calls_run(plan->group, first, true, work);
    return collective_repeat(plan->group, &first->collective, work);
}

void tutti_plan_free(tutti_plan *plan)
{
    if (!plan)
        return;
    kept_calls_free(plan->first);
    free(plan);
}
