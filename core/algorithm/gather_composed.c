/* SPDX-License-Identifier: Apache-2.0 */
/* gather, composed: the way of rooted.h to the root. */
#include "algorithm/rooted.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    return rooted_emit(sched, req, true);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return rooted_cost(layout, bytes, true);
}

const struct algorithm gather_composed_algorithm = {
    "gather_composed", OPERATION_GATHER, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
