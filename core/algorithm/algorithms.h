/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X(name): every algorithm. The rows make the declarations, the array and its length (algorithm.h).
 *
 * Of an operation and a kind the first row that fits is taken, so the last of them fits any call.
 */
#pragma once

#define ALGORITHM_LIST(X)                                                                          \
    X(all_reduce_inline)                                                                           \
    X(all_reduce_staged)                                                                           \
    X(all_reduce_staged_parts)                                                                     \
    X(all_reduce_composed)                                                                         \
    X(all_reduce_recursive_doubling)                                                               \
    X(all_reduce_ring)                                                                             \
    X(all_reduce_halving_doubling)                                                                 \
    X(all_reduce_direct)                                                                           \
    X(all_reduce_alone)                                                                            \
    X(broadcast_inline)                                                                            \
    X(broadcast_mapped)                                                                            \
    X(broadcast_composed)                                                                          \
    X(broadcast_scatter_all_gather)                                                                \
    X(broadcast_binomial)                                                                          \
    X(broadcast_alone)                                                                             \
    X(barrier_inline)                                                                              \
    X(barrier_composed)                                                                            \
    X(barrier_dissemination)                                                                       \
    X(barrier_alone)                                                                               \
    X(reduce_inline)                                                                               \
    X(reduce_staged)                                                                               \
    X(reduce_staged_parts)                                                                         \
    X(reduce_composed)                                                                             \
    X(reduce_parts)                                                                                \
    X(reduce_binomial)                                                                             \
    X(reduce_alone)                                                                                \
    X(all_gather_inline)                                                                           \
    X(all_gather_mapped)                                                                           \
    X(all_gather_composed)                                                                         \
    X(all_gather_ring)                                                                             \
    X(all_gather_bruck)                                                                            \
    X(all_gather_direct)                                                                           \
    X(all_gather_alone)                                                                            \
    X(gather_inline)                                                                               \
    X(gather_mapped)                                                                               \
    X(gather_composed)                                                                             \
    X(gather_binomial)                                                                             \
    X(gather_direct)                                                                               \
    X(gather_alone)                                                                                \
    X(scatter_inline)                                                                              \
    X(scatter_mapped)                                                                              \
    X(scatter_composed)                                                                            \
    X(scatter_binomial)                                                                            \
    X(scatter_direct)                                                                              \
    X(scatter_alone)                                                                               \
    X(reduce_scatter_inline)                                                                       \
    X(reduce_scatter_staged)                                                                       \
    X(reduce_scatter_composed)                                                                     \
    X(reduce_scatter_direct)                                                                       \
    X(reduce_scatter_alone)                                                                        \
    X(all_to_all_inline)                                                                           \
    X(all_to_all_mapped)                                                                           \
    X(all_to_all_composed)                                                                         \
    X(all_to_all_bruck)                                                                            \
    X(all_to_all_direct)                                                                           \
    X(all_to_all_alone)                                                                            \
    X(monitored_barrier_direct)                                                                    \
    X(monitored_barrier_alone)                                                                     \
    X(all_reduce_native)                                                                           \
    X(broadcast_native)                                                                            \
    X(barrier_native)                                                                              \
    X(reduce_native)                                                                               \
    X(all_gather_native)                                                                           \
    X(gather_native)                                                                               \
    X(scatter_native)                                                                              \
    X(reduce_scatter_native)                                                                       \
    X(all_to_all_native)
