/* SPDX-License-Identifier: Apache-2.0 */
/* What a group says of itself without asking anybody, and the one setting that may change. */
#include "base/error.h"
#include "group/group.h"

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
    tutti_status status = error_named(group_check(group));

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
    tutti_status status = error_named(group_check(group));

    if (!status && !ret_ranks)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_ranks is NULL");
    for (int i = 0; i < (status ? 0 : group->size); i++)
        ret_ranks[i] = group->lineage.world_ranks ? group->lineage.world_ranks[i] : i;
    return status;
}

const char *tutti_group_backend(const tutti_group *group)
{
    return group ? group->backend : "";
}
