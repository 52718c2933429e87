/* SPDX-License-Identifier: Apache-2.0 */
/* scatter, composed: the way of rooted.h from the root. */
#include "algorithm/rooted.h"

static void emit(struct schedule *sched, const struct request *req)
{
    rooted_emit(sched, req, false);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return rooted_cost(layout, bytes, false);
}

ALGORITHM(scatter_composed, SCATTER, COMPOSED, .emit = emit, .cost = cost);
