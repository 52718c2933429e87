/* SPDX-License-Identifier: Apache-2.0 */
/* ucx: messages through UCP, the protocols of UCX, by its tag interface. */
#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "transport.h"

static const tutti_provider ucx_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "ucx",
                                             .ops = &ucx_transport_ops};
static const tutti_provider *const providers[] = {&ucx_transport};

static const tutti_plugin_option options[] = {UCX_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("ucx", TUTTI_VERSION ", UCX 1.13 or later", "Apache-2.0", providers, 1,
                          NULL, NULL, options, NULL, NULL);
