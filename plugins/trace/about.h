/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the
 * plugin. <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define TRACE_OPTIONS(X)                                                                           \
    X("trace", "TUTTI_TRACE_DIR", "<directory>", "", TUTTI_OPTION_MAY_DIFFER,                      \
      "nothing is written",                                                                        \
      "Where the wrapper trace writes its files. Not set: the current directory. Set-id programs " \
      "ignore it.")
