/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin template with one fault that `tutti check` has to name: FAULT_ORDER, FAULT_TRUNCATES,
 * FAULT_LOSES, FAULT_SIZE (of a struct), FAULT_NAME (of the provider), FAULT_CAPABILITIES, FAULT_OPEN
 * (for strangers), FAULT_MORE (is exported), FAULT_PIECES (their bytes),
 * FAULT_REACH (of other hosts, which it has not), FAULT_SHORTENS (messages of more than 1 MiB), or a statement: FAULT_WHEN_LOADED, FAULT_WHEN_OPENED,
 * FAULT_WHEN_CONNECTED, FAULT_WHEN_CLOSED. The template's file is untouched: its functions are wrapped here.
 */
#define _GNU_SOURCE 1

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compat/template_alone.h"

enum { PERIOD = 7, PHASE = 3 };

#ifdef FAULT_ORDER
static struct held {
    tutti_peer *peer;
    const void *data;
    uint64_t bytes;
    tutti_request *request; /* NULL: none is held back */
} held;

static void let_go(tutti_endpoint *endpoint)
{
    const struct held late = held;

    held.request = NULL;
    if (late.request)
        start_send(endpoint, late.peer, 0, late.data, late.bytes, 0, late.request);
}

static tutti_status faulty_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *data, uint64_t bytes, uint32_t flags,
                                 tutti_request *request)
{
    static int count;

    if (++count % PERIOD == PHASE && !held.request) {
        held = (struct held){peer, data, bytes, request};
        request->status = TUTTI_ERR_NOT_READY;
        return TUTTI_OK;
    }
    tutti_status status = start_send(endpoint, peer, lane, data, bytes, flags, request);
    let_go(endpoint);
    return status;
}

static tutti_status faulty_test(tutti_endpoint *endpoint, tutti_request *request)
{
    let_go(endpoint);
    return test_request(endpoint, request);
}
#else
#define faulty_test test_request
#endif

#ifdef FAULT_TRUNCATES
static tutti_status faulty_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *data, uint64_t bytes, uint32_t flags,
                                 tutti_request *request)
{
    return start_send(endpoint, peer, lane, data, bytes > 1000 ? bytes - 8 : bytes, flags, request);
}
#endif

#ifdef FAULT_LOSES
static tutti_status faulty_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *data, uint64_t bytes, uint32_t flags,
                                 tutti_request *request)
{
    static int count;

    if (++count % PERIOD == PHASE) {
        request->status = TUTTI_OK;
        return TUTTI_OK;
    }
    return start_send(endpoint, peer, lane, data, bytes, flags, request);
}
#endif

#ifdef FAULT_SHORTENS
static tutti_status faulty_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *data, uint64_t bytes, uint32_t flags,
                                 tutti_request *request)
{
    return start_send(endpoint, peer, lane, data, bytes > 1 << 20 ? bytes - 8 : bytes, flags,
                      request);
}

static void faulty_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    (void)endpoint;
    (void)request;
}
#define FAULT_CANCEL faulty_cancel
#else
#define FAULT_CANCEL NULL
#endif

#if !defined(FAULT_ORDER) && !defined(FAULT_SHORTENS) && !defined(FAULT_TRUNCATES) &&              \
    !defined(FAULT_LOSES)
#define faulty_isend start_send
#endif

/* A job's token that is no secret at all. */
static tutti_status faulty_open(const tutti_host *host, void *self,
                                const tutti_endpoint_options *options,
                                tutti_endpoint **ret_endpoint)
{
    tutti_endpoint_options given = *options;

#ifdef FAULT_OPEN
    memset(given.token, 0, sizeof given.token);
#endif
#ifdef FAULT_WHEN_OPENED
    FAULT_WHEN_OPENED;
#endif
    return open_endpoint(host, self, &given, ret_endpoint);
}

static tutti_status faulty_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                   uint64_t label, tutti_peer **ret_peer)
{
#ifdef FAULT_WHEN_CONNECTED
    FAULT_WHEN_CONNECTED;
#endif
    return connect_peer(endpoint, address, bytes, label, ret_peer);
}

static void faulty_close(tutti_endpoint *endpoint)
{
    close_endpoint(endpoint);
#ifdef FAULT_WHEN_CLOSED
    FAULT_WHEN_CLOSED;
#endif
}

#ifdef FAULT_MORE
TUTTI_API void another_name(void);

void another_name(void)
{
    exit(1);
}
#endif

#ifdef FAULT_WHEN_LOADED
__attribute__((constructor)) static void when_loaded(void)
{
    FAULT_WHEN_LOADED;
}
#endif

#ifndef FAULT_SIZE
#define FAULT_SIZE sizeof(tutti_transport_ops)
#endif

#ifndef FAULT_NAME
#define FAULT_NAME "template"
#endif

#ifndef FAULT_PIECES
#define FAULT_PIECES 0
#endif

#ifdef FAULT_REACH
#define FAULT_CAPABILITIES 0
#elif !defined(FAULT_CAPABILITIES)
#define FAULT_CAPABILITIES TUTTI_CAP_HOST_ONLY
#endif

static const tutti_transport_ops faulty_ops = {
    .struct_size = FAULT_SIZE,
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .capabilities = FAULT_CAPABILITIES,
    .lanes = 1,
    .open = faulty_open,
    .address = write_address,
    .connect = faulty_connect,
    .isend = faulty_isend,
    .irecv = start_receive,
    .test = faulty_test,
    .close = faulty_close,
    .cancel = FAULT_CANCEL,
    .piece_bytes = FAULT_PIECES,
};

static const tutti_provider faulty_transport = {.struct_size = sizeof(tutti_provider),
                                                .kind = TUTTI_PROVIDER_TRANSPORT,
                                                .name = FAULT_NAME,
                                                .ops = &faulty_ops};
static const tutti_provider *const faulty_providers[] = {&faulty_transport};

TUTTI_PLUGIN_EXPORT("template", "1.0, with a fault", "Apache-2.0", faulty_providers, 1);
