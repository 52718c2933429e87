/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the tables of the core, which has them without opening the
 * plugin. <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define CHECK_OPTIONS(X)                                                                           \
    X("check", "TUTTI_CHECK", "<what>=<do>,<what>=<do>…", "nan=fail,inf=warn,checksum=fail",       \
      TUTTI_OPTION_MAY_DIFFER, "nothing is looked at",                                             \
      "What the wrapper check looks for, and whether it does nothing (off), warns (warn) or ends " \
      "the group (fail). Set-id programs ignore it.")
