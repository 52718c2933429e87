/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the plugin.
 * <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define NCCL_OPTIONS(X)                                                                            \
    X("nccl", "TUTTI_NCCL", "<path>", "", TUTTI_OPTION_MAY_DIFFER, NULL,                           \
      "The file libnccl.so.2 that the backend nccl opens. Not set: the one that the process has "  \
      "already, as torch brings one, else the one that the dynamic linker finds. Set-id programs " \
      "ignore it.")

/*
 * NCCL's own variables that decide about results, hangs or connections. ENV_COMPARED: each member decides by itself by
 * these which algorithm a call takes, or how long its pieces and buffers are, and NCCL compares none of them.
 *
 * X(plugin, variable, values, across, meaning)
 */
#define NCCL_CUTS "NCCL: how long its buffers and pieces are."
#define NCCL_ALGORITHMS "NCCL: which algorithm a call takes; the bits of float sums depend on it."
#define NCCL_PATHS "NCCL: by what ranks connect. Ranks that differ may not connect, or hang."
#define NCCL_CHANNELS "NCCL: how many channels a call has; the bits of float sums depend on it."

#define NCCL_VARIABLES(X)                                                                          \
    X("nccl", "NCCL_ALGO", "<words>", ENV_COMPARED, NCCL_ALGORITHMS)                               \
    X("nccl", "NCCL_PROTO", "<words>", ENV_COMPARED, NCCL_ALGORITHMS)                              \
    X("nccl", "NCCL_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                                \
    X("nccl", "NCCL_LL_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                             \
    X("nccl", "NCCL_LL128_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                          \
    X("nccl", "NCCL_NTHREADS", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                          \
    X("nccl", "NCCL_LL128_NTHREADS", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                    \
    X("nccl", "NCCL_THREAD_THRESHOLDS", "<words>", ENV_COMPARED, NCCL_ALGORITHMS)                  \
    X("nccl", "NCCL_NET_OVERHEAD", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                      \
    X("nccl", "NCCL_CHUNK_SIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                              \
    X("nccl", "NCCL_P2P_NET_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                       \
    X("nccl", "NCCL_P2P_PCI_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                       \
    X("nccl", "NCCL_P2P_NVL_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                       \
    X("nccl", "NCCL_P2P_LL_THRESHOLD", "<number>", ENV_COMPARED, NCCL_CUTS)                        \
    X("nccl", "NCCL_PAT_ENABLE", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                        \
    X("nccl", "NCCL_TUNER_PLUGIN", "<words>", ENV_COMPARED, NCCL_ALGORITHMS)                       \
    X("nccl", "NCCL_COLLNET_ENABLE", "<number>", ENV_TO_MEET, NCCL_ALGORITHMS)                     \
    X("nccl", "NCCL_NVLS_ENABLE", "<number>", ENV_TO_MEET, NCCL_ALGORITHMS)                        \
    X("nccl", "NCCL_MIN_CTAS", "<number>", ENV_TO_MEET, NCCL_CHANNELS)                             \
    X("nccl", "NCCL_MAX_CTAS", "<number>", ENV_TO_MEET, NCCL_CHANNELS)                             \
    X("nccl", "NCCL_MIN_NCHANNELS", "<number>", ENV_TO_MEET, NCCL_CHANNELS)                        \
    X("nccl", "NCCL_MAX_NCHANNELS", "<number>", ENV_TO_MEET, NCCL_CHANNELS)                        \
    X("nccl", "NCCL_NET", "<words>", ENV_TO_MEET, NCCL_PATHS)                                      \
    X("nccl", "NCCL_NET_PLUGIN", "<words>", ENV_TO_MEET, NCCL_PATHS)                               \
    X("nccl", "NCCL_IB_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                              \
    X("nccl", "NCCL_P2P_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                             \
    X("nccl", "NCCL_SHM_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                             \
    X("nccl", "NCCL_CUMEM_ENABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                            \
    X("nccl", "NCCL_COMM_ID", "<words>", ENV_TO_MEET,                                              \
      "NCCL: the address of every communicator, in place of one of its own. Groups that are made " \
      "at the same time hang. Leave it unset.")                                                    \
    X("nccl", "NCCL_COMM_BLOCKING", "<number>", ENV_TO_MEET,                                       \
      "NCCL: `1` makes its functions wait for all members, so no deadline ends them. The backend " \
      "nccl refuses it.")                                                                          \
    X("nccl", "NCCL_LAUNCH_ORDER_IMPLICIT", "<number>", ENV_TO_MEET,                               \
      "NCCL: `1` orders calls of several groups on one GPU as they were made. Without it, calls "  \
      "on different streams that ranks run in different orders may hang.")                         \
    X("nccl", "NCCL_GRAPH_MIXING_SUPPORT", "<number>", ENV_TO_MEET,                                \
      "NCCL: with `0`, calls that overlap with a graph's give wrong results or hang.")             \
    X("nccl", "NCCL_HOSTID", "<words>", ENV_MAY_DIFFER,                                            \
      "NCCL: what tells hosts apart. Ranks with different values share no memory, and may share "  \
      "a GPU.")                                                                                    \
    X("nccl", "NCCL_MULTI_RANK_GPU_ENABLE", "<number>", ENV_TO_MEET,                               \
      "NCCL 2.30: `1` lets several ranks use one GPU.")                                            \
    X("nccl", "NCCL_SOCKET_IFNAME", "<words>", ENV_MAY_DIFFER,                                     \
      "NCCL: the network interfaces of its sockets. Not set: the backend nccl sets it to the one " \
      "of the route to the rendezvous.")                                                           \
    X("nccl", "NCCL_SOCKET_FAMILY", "<words>", ENV_MAY_DIFFER,                                     \
      "NCCL: AF_INET or AF_INET6, for its sockets. Set by the backend nccl as the interface.")     \
    X("nccl", "NCCL_RAS_ENABLE", "<number>", ENV_MAY_DIFFER,                                       \
      "NCCL 2.24: `0` keeps its monitoring, RAS, from listening on sockets.")                      \
    X("nccl", "NCCL_CONF_FILE", "<file>", ENV_MAY_DIFFER,                                          \
      "NCCL: a file that sets variables which the environment has not, in place of .nccl.conf in " \
      "the user's home.")                                                                          \
    X("nccl", "NCCL_DEBUG", "<words>", ENV_MAY_DIFFER,                                             \
      "NCCL: which lines it prints. Not set: WARN, from the backend nccl.")                        \
    X("nccl", "NCCL_DEBUG_FILE", "<file>", ENV_MAY_DIFFER,                                         \
      "NCCL: the file of its lines. Not set: they go to tutti's log.")
