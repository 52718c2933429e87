/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the plugin.
 * <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define CUDA_OPTIONS(X)                                                                            \
    X("cuda", "TUTTI_CUDA", "<path>", "libcuda.so.1", TUTTI_OPTION_MAY_DIFFER, NULL,               \
      "The file of the CUDA driver's library. Not set: the one that the process has loaded, else " \
      "the one that the dynamic linker finds. Set-id programs ignore it.")
