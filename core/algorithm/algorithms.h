/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X(name): every algorithm. The rows make the declarations, the array and its length (algorithm.h).
 *
 * Of an operation and a kind the first row that fits is taken, so the last of them fits any call.
 */
#pragma once

/* X(name, OPERATION): an algorithm for each operation that engines may do whole. */
#define ALGORITHM_OF_EACH(X, way)                                                                  \
    X(all_reduce##way, ALL_REDUCE)                                                                 \
    X(broadcast##way, BROADCAST)                                                                   \
    X(barrier##way, BARRIER)                                                                       \
    X(reduce##way, REDUCE)                                                                         \
    X(all_gather##way, ALL_GATHER)                                                                 \
    X(gather##way, GATHER)                                                                         \
    X(scatter##way, SCATTER)                                                                       \
    X(reduce_scatter##way, REDUCE_SCATTER)                                                         \
    X(all_to_all##way, ALL_TO_ALL)

#define ALGORITHM_LIST(X)                                                                          \
    X(all_reduce_inline_rounds)                                                                    \
    X(all_reduce_inline)                                                                           \
    X(all_reduce_registered)                                                                       \
    X(all_reduce_rounds)                                                                           \
    X(all_reduce_staged)                                                                           \
    X(all_reduce_staged_parts)                                                                     \
    X(all_reduce_composed)                                                                         \
    X(all_reduce_recursive_doubling)                                                               \
    X(all_reduce_ring)                                                                             \
    X(all_reduce_halving_doubling)                                                                 \
    X(all_reduce_direct)                                                                           \
    X(broadcast_inline)                                                                            \
    X(broadcast_registered)                                                                        \
    X(broadcast_mapped)                                                                            \
    X(broadcast_composed)                                                                          \
    X(broadcast_scatter_all_gather)                                                                \
    X(broadcast_binomial)                                                                          \
    X(barrier_inline_rounds)                                                                       \
    X(barrier_inline)                                                                              \
    X(barrier_composed)                                                                            \
    X(barrier_dissemination)                                                                       \
    X(reduce_inline)                                                                               \
    X(reduce_registered)                                                                           \
    X(reduce_staged)                                                                               \
    X(reduce_staged_parts)                                                                         \
    X(reduce_composed)                                                                             \
    X(reduce_parts)                                                                                \
    X(reduce_binomial)                                                                             \
    X(all_gather_inline)                                                                           \
    X(all_gather_registered)                                                                       \
    X(all_gather_mapped)                                                                           \
    X(all_gather_composed)                                                                         \
    X(all_gather_ring)                                                                             \
    X(all_gather_bruck)                                                                            \
    X(all_gather_direct)                                                                           \
    X(gather_inline)                                                                               \
    X(gather_registered)                                                                           \
    X(gather_mapped)                                                                               \
    X(gather_composed)                                                                             \
    X(gather_binomial)                                                                             \
    X(gather_direct)                                                                               \
    X(scatter_inline)                                                                              \
    X(scatter_registered)                                                                          \
    X(scatter_mapped)                                                                              \
    X(scatter_composed)                                                                            \
    X(scatter_binomial)                                                                            \
    X(scatter_direct)                                                                              \
    X(reduce_scatter_inline)                                                                       \
    X(reduce_scatter_registered)                                                                   \
    X(reduce_scatter_staged)                                                                       \
    X(reduce_scatter_composed)                                                                     \
    X(reduce_scatter_halving)                                                                      \
    X(reduce_scatter_direct)                                                                       \
    X(all_to_all_inline)                                                                           \
    X(all_to_all_registered)                                                                       \
    X(all_to_all_mapped)                                                                           \
    X(all_to_all_composed)                                                                         \
    X(all_to_all_bruck)                                                                            \
    X(all_to_all_direct)                                                                           \
    X(monitored_barrier_direct)                                                                    \
    X(monitored_barrier_alone)                                                                     \
    X(all_reduce_kernels)                                                                          \
    X(reduce_kernels)                                                                              \
    X(reduce_scatter_kernels)                                                                      \
    ALGORITHM_OF_EACH(X, _alone)                                                                   \
    ALGORITHM_OF_EACH(X, _native)
