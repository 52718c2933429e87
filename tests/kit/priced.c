/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third party's transport that says all of itself: the template with two options and what its messages
 * cost. The core has never heard of it.
 */
#include "compat/template_alone.h"

static tutti_status priced_open(const tutti_host *host, void *host_self,
                                const tutti_endpoint_options *options,
                                tutti_endpoint **ret_endpoint)
{
    const char *mode = host->config(host_self, "mode");

    host->log(host_self, 2, mode && *mode ? mode : "no mode");
    return open_endpoint(host, host_self, options, ret_endpoint);
}

static const tutti_transport_ops priced_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .lanes = 1,
    .open = priced_open,
    .address = write_address,
    .connect = connect_peer,
    .isend = start_send,
    .irecv = start_receive,
    .test = test_request,
    .close = close_endpoint,
};
static const tutti_provider priced_transport = {.struct_size = sizeof(tutti_provider),
                                                .kind = TUTTI_PROVIDER_TRANSPORT,
                                                .name = "priced",
                                                .ops = &priced_ops};
static const tutti_provider *const priced_providers[] = {&priced_transport};

static const tutti_plugin_option options[] = {
    {.variable = "TUTTI_PRICED_MODE",
     .values = "fast | safe",
     .standard = "safe",
     .meaning = "What it takes care of.",
     .across = TUTTI_OPTION_COMPARED},
    {.variable = "TUTTI_PRICED_NOTE",
     .values = "<words>",
     .standard = "",
     .meaning = "What it says of itself."},
    {.variable = NULL},
};
static const tutti_cost cost = {.struct_size = sizeof(tutti_cost),
                                .message_ps = 42 * 1000 * 1000,
                                .further_ps = PRICED_FURTHER,
                                .byte_ps = 1000};

TUTTI_PLUGIN_EXPORT_ABOUT("priced", "1.0, the template at a price", "Apache-2.0", priced_providers,
                          1, NULL, NULL, options, NULL, &cost);
