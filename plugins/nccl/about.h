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
