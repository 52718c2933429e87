/* SPDX-License-Identifier: Apache-2.0 */
/* The options, for the descriptor and for the table of the core, which has them without opening the plugin.
 * <tutti/plugin.h> says what each value means. */
#pragma once

/* X(plugin, variable, values, standard, across, idle, meaning) */
#define UCX_OPTIONS(X)                                                                             \
    X("ucx", "TUTTI_UCX", "<file>", "", TUTTI_OPTION_MAY_DIFFER, NULL,                             \
      "The libucp.so.0 of the backend ucx. Not set: the one that is loaded already, else the one " \
      "that the dynamic linker finds. Set-id programs ignore it.")                                 \
    X("ucx", "TUTTI_UCX_<SETTING>", "<anything>", "", TUTTI_OPTION_MAY_DIFFER, NULL,               \
      "A setting of UCX, such as TUTTI_UCX_TLS or TUTTI_UCX_NET_DEVICES, for the backend ucx "     \
      "alone; `ucx_info -cf` lists them as UCX_SETTING. Set-id programs ignore it.")
