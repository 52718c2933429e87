/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce of tensors on devices, for reductions that the engine there lacks, or means otherwise.
 *
 * The engine's all_to_all brings each member its part of all vectors, a kernel of the device reduces them in the
 * order of the ranks, and an all_gather hands out the results. core/provider/native_kernels.c does it.
 */
#include "algorithm/algorithm.h"

COST(.messages = 2, .at_once = 2 * (n - 2), .message_bytes = 2 * (bytes - bytes / n),
     .reduced_bytes = bytes - bytes / n)

ALGORITHM(all_reduce_kernels, ALL_REDUCE, KERNELS, .cost = cost);
