/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the
 * plugin. <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define FAULT_OPTIONS(X)                                                                           \
    X("fault", "TUTTI_FAULT", "<rule>;<rule>…", "", TUTTI_OPTION_MAY_DIFFER,                       \
      "nothing is injected",                                                                       \
      "What the wrapper fault delays, drops, corrupts, closes and kills, and a seed. Set-id "      \
      "programs ignore it.")
