/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_scatter of tensors on devices: the first half of all_reduce_kernels, with the blocks of the call as parts. */
#include "algorithm/algorithm.h"

COST(.messages = 1, .at_once = n - 2, .message_bytes = (n - 1) * bytes,
     .reduced_bytes = (n - 1) * bytes)

ALGORITHM(reduce_scatter_kernels, REDUCE_SCATTER, KERNELS, .cost = cost);
