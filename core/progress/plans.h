/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: how a call that was made before goes again. */
#pragma once

#include "group/group.h"

/* The plan of a call, made when it is new; under the progress lock. `sizes`: NULL unless it is uneven. */
tutti_status group_plan(struct tutti_group *group, const struct call_fields *fields,
                        const struct call_sizes *sizes, struct plan_entry **ret_plan);
void group_plans_free(struct tutti_group *group);
