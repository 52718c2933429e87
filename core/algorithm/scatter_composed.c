/* SPDX-License-Identifier: Apache-2.0 */
/* scatter, composed: the way of rooted.h from the root. */
#include "algorithm/rooted.h"

static tutti_status emit(struct schedule *sched, const struct request *req)
{
    return rooted_emit(sched, req, false);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return rooted_cost(layout, bytes, false);
}

const struct algorithm scatter_composed_algorithm = {
    "scatter_composed", OPERATION_SCATTER, ALGORITHM_COMPOSED, emit, cost, NULL, NULL};
