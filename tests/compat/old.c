/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin template as it was compiled in the days of minor 1, with that header. Its table ends with
 * the last required function; what a newer core believed to be behind it would not be a function.
 */
#include "template_alone.h"

#if TUTTI_PLUGIN_ABI_MINOR != 1
#error "this has to be compiled with the frozen header"
#endif

/* The table's known members, so that a size can be given to what comes before the optional ones. */
static const union {
    tutti_transport_ops ops;
    uintptr_t words[sizeof(tutti_transport_ops) / sizeof(uintptr_t) + 8];
} old = {.ops = {
             .struct_size = offsetof(tutti_transport_ops, progress),
             .threads = TUTTI_THREADS_ONE_AT_A_TIME,
             .capabilities = TUTTI_CAP_HOST_ONLY,
             .lanes = 1,
             .open = open_endpoint,
             .address = write_address,
             .connect = connect_peer,
             .isend = start_send,
             .irecv = start_receive,
             .test = test_request,
             .close = close_endpoint,
             .progress = (uint32_t(*)(tutti_endpoint *, tutti_request **, uint32_t))16,
             .cancel = (void (*)(tutti_endpoint *, tutti_request *))16,
             .wait_fd = (tutti_status(*)(tutti_endpoint *, int32_t *))16,
             .arm = (int32_t(*)(tutti_endpoint *))16,
             .disconnect = (void (*)(tutti_endpoint *, tutti_peer *))16,
             .traffic = (void (*)(tutti_endpoint *, uint64_t[5]))16,
         }};

static const tutti_provider old_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "template",
                                             .ops = &old};
static const tutti_provider *const old_providers[] = {&old_transport};

TUTTI_PLUGIN_EXPORT("template", "of minor 1", "Apache-2.0", old_providers, 1);
