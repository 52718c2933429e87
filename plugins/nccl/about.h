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
 * these which algorithm a call takes, how many channels it has, or how long its pieces and buffers are, and NCCL
 * compares none of them.
 *
 * X(plugin, variable, values, across, meaning)
 */
#define NCCL_CUTS "NCCL: the size of its buffers and pieces; the bits of float sums depend on it."
#define NCCL_SENDS "NCCL: the size of the pieces that gather, scatter and all_to_all send."
#define NCCL_ALGORITHMS "NCCL: which algorithm a call takes; the bits of float sums depend on it."
#define NCCL_THREADS                                                                               \
    "NCCL: how many threads and channels a call has; the bits of float sums depend on them."
#define NCCL_PATHS "NCCL: how ranks connect. Ranks that differ may fail to connect, or hang."
#define NCCL_CHANNELS                                                                              \
    "NCCL: the limits of a call's channels; the bits of float sums depend on them."
#define NCCL_SEND_CHANNELS "NCCL: the limits of the channels of gather, scatter and all_to_all."

#define NCCL_VARIABLES(X)                                                                          \
    X("nccl", "NCCL_ALGO", "<words>", ENV_COMPARED,                                                \
      "NCCL: which algorithms a call may take; the bits of float sums depend on them. From 2.24 "  \
      "on, a call that can take none of them fails.")                                              \
    X("nccl", "NCCL_PROTO", "<words>", ENV_COMPARED,                                               \
      "NCCL: which protocols a call may use; the bits of float sums depend on them. LL128 may "    \
      "corrupt data on hardware that does not support it.")                                        \
    X("nccl", "NCCL_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                                \
    X("nccl", "NCCL_LL_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                             \
    X("nccl", "NCCL_LL128_BUFFSIZE", "<number>", ENV_COMPARED, NCCL_CUTS)                          \
    X("nccl", "NCCL_NTHREADS", "<number>", ENV_COMPARED, NCCL_THREADS)                             \
    X("nccl", "NCCL_LL128_NTHREADS", "<number>", ENV_COMPARED, NCCL_THREADS)                       \
    X("nccl", "NCCL_THREAD_THRESHOLDS", "<words>", ENV_COMPARED, NCCL_THREADS)                     \
    X("nccl", "NCCL_NET_OVERHEAD", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                      \
    X("nccl", "NCCL_CHUNK_SIZE", "<number>", ENV_COMPARED, NCCL_SENDS)                             \
    X("nccl", "NCCL_P2P_NET_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_SENDS)                      \
    X("nccl", "NCCL_P2P_PCI_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_SENDS)                      \
    X("nccl", "NCCL_P2P_NVL_CHUNKSIZE", "<number>", ENV_COMPARED, NCCL_SENDS)                      \
    X("nccl", "NCCL_P2P_LL_THRESHOLD", "<number>", ENV_COMPARED,                                   \
      "NCCL: up to which size gather, scatter and all_to_all use the protocol LL.")                \
    X("nccl", "NCCL_PAT_ENABLE", "<number>", ENV_COMPARED, NCCL_ALGORITHMS)                        \
    X("nccl", "NCCL_TUNER_PLUGIN", "<words>", ENV_COMPARED, NCCL_ALGORITHMS)                       \
    X("nccl", "NCCL_COLLNET_ENABLE", "<number>", ENV_TO_MEET, NCCL_ALGORITHMS)                     \
    X("nccl", "NCCL_NVLS_ENABLE", "<number>", ENV_TO_MEET,                                         \
      "NCCL: `0` turns off NVLink SHARP, whose float sums may differ between equal calls. NCCL "   \
      "2.27 and 2.28 may hang if some ranks cannot set it up.")                                    \
    X("nccl", "NCCL_MIN_CTAS", "<number>", ENV_COMPARED, NCCL_CHANNELS)                            \
    X("nccl", "NCCL_MAX_CTAS", "<number>", ENV_COMPARED, NCCL_CHANNELS)                            \
    X("nccl", "NCCL_MIN_NCHANNELS", "<number>", ENV_COMPARED, NCCL_CHANNELS)                       \
    X("nccl", "NCCL_MAX_NCHANNELS", "<number>", ENV_COMPARED, NCCL_CHANNELS)                       \
    X("nccl", "NCCL_MIN_P2P_NCHANNELS", "<number>", ENV_COMPARED, NCCL_SEND_CHANNELS)              \
    X("nccl", "NCCL_MAX_P2P_NCHANNELS", "<number>", ENV_COMPARED, NCCL_SEND_CHANNELS)              \
    X("nccl", "NCCL_ALLOC_P2P_NET_LL_BUFFERS", "<number>", ENV_COMPARED,                           \
      "NCCL: `1` lets gather, scatter and all_to_all use the protocol LL between hosts.")          \
    X("nccl", "NCCL_LOCAL_REGISTER", "<number>", ENV_COMPARED,                                     \
      "NCCL 2.19: `0` registers no memory. Calls of ranks that differ are undefined.")             \
    X("nccl", "NCCL_NET", "<words>", ENV_TO_MEET, NCCL_PATHS)                                      \
    X("nccl", "NCCL_NET_PLUGIN", "<words>", ENV_TO_MEET, NCCL_PATHS)                               \
    X("nccl", "NCCL_IB_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                              \
    X("nccl", "NCCL_P2P_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                             \
    X("nccl", "NCCL_P2P_LEVEL", "<words>", ENV_TO_MEET, NCCL_PATHS)                                \
    X("nccl", "NCCL_SHM_DISABLE", "<number>", ENV_TO_MEET, NCCL_PATHS)                             \
    X("nccl", "NCCL_CUMEM_ENABLE", "<number>", ENV_TO_MEET,                                        \
      "NCCL: whether it allocates with CUDA's cuMem functions; from 2.19 on, it does where it "    \
      "can. "                                                                                      \
      "Ranks that differ may fail to connect, or hang.")                                           \
    X("nccl", "NCCL_OOB_NET_ENABLE", "<number>", ENV_TO_MEET,                                      \
      "NCCL 2.23: `1` sets communicators up over the data network instead of sockets. Ranks that " \
      "differ may hang.")                                                                          \
    X("nccl", "NCCL_IGNORE_NET_MISMATCH", "<number>", ENV_TO_MEET,                                 \
      "NCCL 2.30: `0` refuses ranks with different numbers of network devices. Otherwise their "   \
      "calls may hang.")                                                                           \
    X("nccl", "NCCL_COMM_ID", "<words>", ENV_TO_MEET,                                              \
      "NCCL: one address for all communicators. Groups that are made at the same time hang or "    \
      "fail. Leave it unset.")                                                                     \
    X("nccl", "NCCL_COMM_BLOCKING", "<number>", ENV_TO_MEET,                                       \
      "NCCL: `1` makes its functions wait for all members, so no deadline ends them. The backend " \
      "nccl refuses it.")                                                                          \
    X("nccl", "NCCL_LAUNCH_ORDER_IMPLICIT", "<number>", ENV_TO_MEET,                               \
      "NCCL 2.26: `1` runs calls of several groups on one GPU in the order in which they were "    \
      "made. Without it, calls on different streams may run in different orders on the ranks, "    \
      "and hang.")                                                                                 \
    X("nccl", "NCCL_GRAPH_MIXING_SUPPORT", "<number>", ENV_TO_MEET,                                \
      "NCCL: with `0`, a call may hang while a graph with calls of the same communicator runs.")   \
    X("nccl", "NCCL_ENV_PLUGIN", "<words>", ENV_TO_MEET,                                           \
      "NCCL 2.28: a library that gives NCCL its variables. The backend nccl does not see these. "  \
      "Not set: libnccl-env.so, if it is there.")                                                  \
    X("nccl", "NCCL_HOSTID", "<words>", ENV_MAY_DIFFER,                                            \
      "NCCL: the name of this host. Ranks with different values share no memory, and may share a " \
      "GPU.")                                                                                      \
    X("nccl", "NCCL_MULTI_RANK_GPU_ENABLE", "<number>", ENV_TO_MEET,                               \
      "NCCL 2.30: `1` lets several ranks use one GPU. Calls hang if their channels do not fit on " \
      "it: NCCL_MAX_CTAS limits them.")                                                            \
    X("nccl", "NCCL_SOCKET_IFNAME", "<words>", ENV_MAY_DIFFER,                                     \
      "NCCL: the network interfaces of its sockets. Not set: the backend nccl sets it to the one " \
      "of the route to the rendezvous.")                                                           \
    X("nccl", "NCCL_SOCKET_FAMILY", "<words>", ENV_MAY_DIFFER,                                     \
      "NCCL: AF_INET or AF_INET6, for its sockets. Not set: the backend nccl sets AF_INET6 if it " \
      "sets the interface, and the rendezvous is reached by IPv6.")                                \
    X("nccl", "NCCL_RAS_ENABLE", "<number>", ENV_MAY_DIFFER,                                       \
      "NCCL 2.24: `0` keeps its monitoring, RAS, from listening on sockets.")                      \
    X("nccl", "NCCL_CONF_FILE", "<file>", ENV_MAY_DIFFER,                                          \
      "NCCL 2.23: a file that sets variables that are not in the environment, in place of "        \
      ".nccl.conf in the user's home.")                                                            \
    X("nccl", "NCCL_DEBUG", "<words>", ENV_MAY_DIFFER,                                             \
      "NCCL: which lines it prints. Not set: WARN, from the backend nccl.")                        \
    X("nccl", "NCCL_DEBUG_FILE", "<file>", ENV_MAY_DIFFER,                                         \
      "NCCL: the file of its lines. Not set: they go to tutti's log.")
