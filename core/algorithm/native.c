/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole operations of an engine. The core neither emits nor reduces anything; how the engine does it is
 * not known, so the cost is that of a tree there and back.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

COST(.messages = 2 * log2_ceil(n), .message_bytes = 2 * bytes)

#define NATIVE(NAME, name) ALGORITHM(name##_native, NAME, NATIVE, .cost = cost);

NATIVE(ALL_REDUCE, all_reduce)
NATIVE(BROADCAST, broadcast)
NATIVE(BARRIER, barrier)
NATIVE(REDUCE, reduce)
NATIVE(ALL_GATHER, all_gather)
NATIVE(GATHER, gather)
NATIVE(SCATTER, scatter)
NATIVE(REDUCE_SCATTER, reduce_scatter)
NATIVE(ALL_TO_ALL, all_to_all)
