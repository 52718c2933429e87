/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that does nothing, and with one definition is wrong in one way. Its constructor leaves a
 * mark, so that tests see whether its code was run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tutti/plugin.h>

#ifndef VARIANT_CALLED
#define VARIANT_CALLED VARIANT_NAME
#endif
#ifndef VARIANT_MAGIC
#define VARIANT_MAGIC TUTTI_PLUGIN_MAGIC
#endif
#ifndef VARIANT_MAJOR
#define VARIANT_MAJOR TUTTI_PLUGIN_ABI_MAJOR
#endif
#ifndef VARIANT_NOTE_MAJOR
#define VARIANT_NOTE_MAJOR TUTTI_PLUGIN_ABI_MAJOR
#endif
#ifndef VARIANT_SIZE
#define VARIANT_SIZE sizeof(tutti_plugin)
#endif
#ifndef VARIANT_OPS_SIZE
#define VARIANT_OPS_SIZE sizeof(tutti_transport_ops)
#endif
#ifndef VARIANT_SYMBOL
#define VARIANT_SYMBOL tutti_plugin_v0
#endif
#ifndef VARIANT_ISEND
#define VARIANT_ISEND 1
#endif
#ifndef VARIANT_CAPABILITIES
#define VARIANT_CAPABILITIES 0
#endif
#ifndef VARIANT_LANES
#define VARIANT_LANES 1
#endif
#ifndef VARIANT_COUNT
#define VARIANT_COUNT 1
#endif

#ifndef VARIANT_KIND
#define VARIANT_KIND TUTTI_PROVIDER_TRANSPORT
#endif

#ifdef VARIANT_CALLS_UNDEFINED
extern void tutti_function_that_nobody_has(void);
#endif

__attribute__((constructor)) static void leave_mark(void)
{
    setenv("TUTTI_TEST_MARK", VARIANT_NAME, 1);
#ifdef VARIANT_CALLS_UNDEFINED
    tutti_function_that_nobody_has();
#endif
#ifdef VARIANT_WHEN_LOADED
    VARIANT_WHEN_LOADED;
#endif
}

static tutti_status do_open(const tutti_host *host, void *host_self,
                            const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    (void)host, (void)host_self, (void)options, (void)ret_endpoint;
    return TUTTI_ERR_UNSUPPORTED;
}

static tutti_status do_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                               uint64_t *ret_bytes)
{
    (void)endpoint, (void)ret_address, (void)capacity, (void)ret_bytes;
    return TUTTI_ERR_UNSUPPORTED;
}

static tutti_status do_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                               uint64_t label, tutti_peer **ret_peer)
{
    (void)endpoint, (void)address, (void)bytes, (void)label, (void)ret_peer;
    return TUTTI_ERR_UNSUPPORTED;
}

static tutti_status do_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                             const void *data, uint64_t bytes, uint32_t flags,
                             tutti_request *request)
{
    (void)endpoint, (void)peer, (void)lane, (void)data, (void)bytes, (void)flags, (void)request;
    return TUTTI_ERR_UNSUPPORTED;
}

static tutti_status do_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                             uint64_t capacity, tutti_request *request)
{
    (void)endpoint, (void)peer, (void)lane, (void)data, (void)capacity, (void)request;
    return TUTTI_ERR_UNSUPPORTED;
}

static tutti_status do_test(tutti_endpoint *endpoint, tutti_request *request)
{
    (void)endpoint, (void)request;
    return TUTTI_ERR_UNSUPPORTED;
}

#ifdef VARIANT_TAKE_PAIR
static tutti_status do_take_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 void *to, uint64_t bytes)
{
    (void)endpoint, (void)peer, (void)lane, (void)to, (void)bytes;
    return TUTTI_ERR_UNSUPPORTED;
}
#endif

static void do_close(tutti_endpoint *endpoint)
{
    (void)endpoint;
}

static const tutti_transport_ops transport = {
    .struct_size = VARIANT_OPS_SIZE,
    .capabilities = VARIANT_CAPABILITIES,
    .lanes = VARIANT_LANES,
    .open = do_open,
    .address = do_address,
    .connect = do_connect,
    .isend = VARIANT_ISEND ? do_isend : NULL,
    .irecv = do_irecv,
    .test = do_test,
    .close = do_close,
#ifdef VARIANT_TAKE_PAIR
    .take_pair = do_take_pair,
#endif
};

static const tutti_provider provider = {sizeof provider, VARIANT_KIND, VARIANT_NAME, &transport};
static const tutti_provider *const providers[] = {&provider};

/* What TUTTI_PLUGIN_EXPORT writes, with every value open to change. */
#ifndef VARIANT_NO_NOTE
__attribute__((section(".note.tutti"), used, aligned(4))) static const tutti_plugin_note note = {
    6, 8, 1, "tutti", {VARIANT_NOTE_MAJOR, TUTTI_PLUGIN_ABI_MINOR}};
#endif
TUTTI_API extern const tutti_plugin VARIANT_SYMBOL;
const tutti_plugin VARIANT_SYMBOL = {VARIANT_MAGIC, VARIANT_SIZE,
                                     VARIANT_MAJOR, TUTTI_PLUGIN_ABI_MINOR,
                                     VARIANT_COUNT, VARIANT_CALLED,
                                     "1.0",         "Apache-2.0",
                                     providers,     NULL,
                                     NULL,          NULL,
                                     NULL,          NULL};
