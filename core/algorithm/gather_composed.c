/* SPDX-License-Identifier: Apache-2.0 */
/* gather, composed: the way of rooted.h to the root. */
#include "algorithm/rooted.h"

static void emit(struct schedule *sched, const struct request *req)
{
    rooted_emit(sched, req, true);
}

static struct cost cost(const struct layout *layout, uint64_t bytes)
{
    return rooted_cost(layout, bytes, true);
}

ALGORITHM(gather_composed, GATHER, COMPOSED, .emit = emit, .cost = cost);
