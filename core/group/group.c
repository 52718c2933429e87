/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for a group at any time of its life: whether it may be used, how it ended, what it says
 * of itself, and how this member ends it for all.
 */
#include "group/group.h"

#include <stdio.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/options.h"
#include "base/text.h"

tutti_status group_check_in(const char *function, const struct tutti_group *group)
{
    if (!group)
        return error_set_in(function, TUTTI_ERR_INVALID_ARGUMENT, "the group is NULL");
    if (group->fork_generation != fork_current())
        return error_set_in(
            function, TUTTI_ERR_FORKED,
            "the group belongs to the parent of this process; a child of fork() must "
            "call tutti_init() itself, as a member of its own");
    return TUTTI_OK;
}

/* Whether the verdict is about one of those for whom this member's own call waited. */
static bool is_missing(const struct tutti_group *group, int count)
{
    for (int i = 0; i < count; i++)
        if (group->calls.missing[i] == group->control->verdict.culprit)
            return true;
    return false;
}

tutti_status group_verdict(struct tutti_group *group)
{
    if (!control_verdict_status(group->control))
        control_poll(group->control); /* a local peer's page has told */
    tutti_status status = control_verdict_error(group->control);
    const int count = atomic_load_explicit(&group->calls.missing_count, memory_order_acquire);
    if (status == TUTTI_ERR_TIMEOUT && is_missing(group, count))
        error_missing(group->calls.missing, count);
    else if (status == TUTTI_ERR_TIMEOUT && group->control->verdict.culprit >= 0)
        error_missing(&(int32_t){group->control->verdict.culprit}, 1);
    return status;
}

void group_propose_own(struct tutti_group *group, tutti_status status)
{
    char message[CONTROL_MESSAGE_MAX];

    snprintf(message, sizeof message, "rank %d: %.*s", group->rank, TEXT_CUT(error_message(), 900));
    control_propose(group->control, status, group->rank, message);
}

tutti_status group_end_by_own(struct tutti_group *group, tutti_status status)
{
    struct kept_error kept = {0};

    error_keep(&kept);
    group_propose_own(group, status);
    control_await_verdict(group->control, GROUP_VERDICT_MS);
    error_give(status, &kept);
    error_forget(&kept);
    return status;
}

int32_t tutti_group_rank(const tutti_group *group)
{
    return group ? group->rank : -1;
}

int32_t tutti_group_size(const tutti_group *group)
{
    return group ? group->size : 0;
}

tutti_status tutti_group_set_timeout(tutti_group *group, int64_t timeout_ms)
{
    tutti_status status = group_check(group);

    if (!status && timeout_ms <= 0)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "timeout_ms is %lld; it must be 1 or more",
                           (long long)timeout_ms);
    if (!status)
        atomic_store_explicit(&group->timeout_ms, timeout_ms, memory_order_relaxed);
    return status;
}

int64_t tutti_group_timeout(const tutti_group *group)
{
    return group ? atomic_load_explicit(&group->timeout_ms, memory_order_relaxed) : 0;
}

const char *tutti_group_name(const tutti_group *group)
{
    return group ? group->name : "";
}

tutti_status tutti_group_world_ranks(const tutti_group *group, int32_t *ret_ranks)
{
    tutti_status status = group_check(group);

    if (!status && !ret_ranks)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_ranks is NULL");
    for (int i = 0; i < (status ? 0 : group->size); i++)
        ret_ranks[i] = group->origin.world_ranks ? group->origin.world_ranks[i] : i;
    return status;
}

const char *tutti_group_backend(const tutti_group *group)
{
    return group ? group->backend : "";
}

_Static_assert((int)TUTTI_PROOF_NONE == SECRET_NONE && (int)TUTTI_PROOF_FILE == SECRET_FROM_FILE &&
                   (int)TUTTI_PROOF_VARIABLE == SECRET_FROM_VARIABLE &&
                   (int)TUTTI_PROOF_LAUNCHER == SECRET_FROM_LAUNCHER &&
                   (int)TUTTI_PROOF_OWN_FILE == SECRET_OWN_FILE,
               "one numbering of sources");

tutti_status tutti_group_status(const tutti_group *group, tutti_group_info *ret_info)
{
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (!ret_info || ret_info->struct_size < sizeof(uint32_t))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_info and its struct_size must be set");
    control_poll(group->control);
    tutti_status verdict = control_verdict_status(group->control);
    tutti_group_info info = {
        .state = verdict ? TUTTI_GROUP_FAILED : TUTTI_GROUP_READY,
        .verdict = verdict,
        .culprit = verdict ? group->control->verdict.culprit : -1,
        .completed = atomic_load(&((tutti_group *)group)->calls.completed),
        .hosts = group->layout.hosts,
        .local_size = layout_host_size(&group->layout, group->layout.host),
        .local_rank = group->layout.local,
        .words = verdict ? group->control->verdict.message : "",
        .proof = group->bootstrap.secret ? (int32_t)group->bootstrap.secret->source : 0,
        .encryption = group->encryption,
    };
    options_give(&info, sizeof info, ret_info);
    return TUTTI_OK;
}

tutti_status tutti_group_abort(tutti_group *group, const char *reason)
{
    tutti_status status = group_check(group);
    char message[CONTROL_MESSAGE_MAX];

    if (status)
        return status;
    snprintf(message, sizeof message, "aborted by rank %d: %s", group->rank,
             reason && *reason ? reason : "no reason given");
    control_propose(group->control, TUTTI_ERR_ABORTED, group->rank, message);
    /* The lowest living member fixes it; calls that begin after this one find the group ended. */
    control_await_verdict(group->control, GROUP_VERDICT_MS);
    engine_ring(&group->context->engine);
    return TUTTI_OK;
}
