/* SPDX-License-Identifier: Apache-2.0 */
/* reduce of tensors on devices: as all_reduce_kernels, but the root alone gathers the results. */
#include "algorithm/algorithm.h"

COST(.messages = 2, .at_once = 2 * (n - 2), .message_bytes = 2 * (bytes - bytes / n),
     .reduced_bytes = bytes - bytes / n)

ALGORITHM(reduce_kernels, REDUCE, KERNELS, .cost = cost);
