/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole operations of an engine. The core neither emits nor reduces anything; how the engine does it is
 * not known, so the cost is that of a tree there and back.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

COST(.messages = 2 * log2_ceil(n), .message_bytes = 2 * bytes)

#define NATIVE(name, NAME) ALGORITHM(name, NAME, NATIVE, .cost = cost);
ALGORITHM_OF_EACH(NATIVE, _native)
