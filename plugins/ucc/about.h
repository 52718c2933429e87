/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the plugin.
 * <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define UCC_OPTIONS(X)                                                                             \
    X("ucc", "TUTTI_UCC", "<path>", "", TUTTI_OPTION_MAY_DIFFER, NULL,                             \
      "The file libucc.so.1 that the backend ucc opens. Not set: the one that the dynamic linker " \
      "finds. Set-id programs ignore it.")
