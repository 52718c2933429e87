/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper `spoil`: rank 1's result of the call number TUTTI_SPOIL of a group gets one wrong bit, in
 * its last block where it lies in several. */
#include <stdlib.h>

#include <tutti/plugin.h>

struct tutti_wrapper {
    uint64_t sequence;
};

static tutti_status spoil_open(const tutti_host *host, void *host_self,
                               const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper)
{
    static struct tutti_wrapper one;
    const char *which = host->config(host_self, "");

    (void)options;
    one.sequence = which ? strtoull(which, NULL, 10) : 1;
    *ret_wrapper = &one;
    return TUTTI_OK;
}

static void spoil_close(tutti_wrapper *wrapper)
{
    (void)wrapper;
}

static tutti_status spoil_end(tutti_wrapper *wrapper, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    unsigned char *result = call->out;

    (void)end_ns;
    if (TUTTI_HAS(call, out_blocks))
        result = call->out_blocks[call->group->size - 1];
    if (!status && call->sequence == wrapper->sequence && call->group->rank == 1 && result)
        *result ^= 1;
    return TUTTI_OK;
}

static const tutti_wrapper_ops ops = {.struct_size = sizeof(tutti_wrapper_ops),
                                      .open = spoil_open,
                                      .close = spoil_close,
                                      .end = spoil_end};
static const tutti_provider wrapper = {sizeof wrapper, TUTTI_PROVIDER_WRAPPER, "spoil", &ops};
static const tutti_provider *const providers[] = {&wrapper};

TUTTI_PLUGIN_EXPORT("spoil", "1", "Apache-2.0", providers, 1);
