/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin template with a library, as it were, whose members tell each other things while it starts: a thread
 * does three all-gathers as soon as an endpoint is open, and connect needs their result. KIT_GATHERS_TWICE starts one
 * while another is under way, KIT_GATHERS_UNLIKE gives another number of bytes on one member.
 */
#include "compat/template_alone.h"

#include "native/gathers.h"

enum { ENDPOINTS_MAX = 16, GATHERS = 3, PATIENCE_MS = 400 };

static struct gathering {
    tutti_endpoint *endpoint; /* NULL: it is free */
    struct gathers gathers;
} gatherings[ENDPOINTS_MAX];

static struct gathering *find(const tutti_endpoint *endpoint)
{
    struct gathering *at = gatherings;

    while (at->endpoint != endpoint)
        at++;
    return at;
}

static tutti_status gathering_open(const tutti_host *host, void *self,
                                   const tutti_endpoint_options *options,
                                   tutti_endpoint **ret_endpoint)
{
    struct gathering *gathering = find(NULL);
    struct gathers *g = &gathering->gathers;

    if (!TUTTI_HAS(host, gather_start))
        return host->error(self, TUTTI_ERR_UNSUPPORTED, 0, "the core has no gathers");
    tutti_status status = open_endpoint(host, self, options, ret_endpoint);
    if (status)
        return status;
    gathering->endpoint = *ret_endpoint;
    *g = (struct gathers){
        .host = host, .self = self, .rank = options->rank, .size = options->size, .count = GATHERS};
#ifdef KIT_GATHERS_UNLIKE
    if (options->rank == 1)
        strcpy(g->fault, "wide");
#endif
#ifdef KIT_GATHERS_TWICE
    tutti_exchange *exchange;
    (void)host->gather_start(self, "", 1, &exchange);
#endif
    g->runs = !pthread_create(&g->thread, NULL, gathers_run, g);
    return g->runs ? TUTTI_OK : host->error(self, TUTTI_ERR_SYSTEM, 0, "cannot start a thread");
}

static tutti_status gathering_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                      uint64_t label, tutti_peer **ret_peer)
{
    const struct gathers *g = &find(endpoint)->gathers;
    const int64_t end_ns = g->host->now_ns(g->self) + PATIENCE_MS * INT64_C(1000000);

    while (gathers_test(g) == TUTTI_ERR_NOT_READY && g->host->now_ns(g->self) < end_ns)
        gathers_nap();
    if (gathers_test(g))
        return g->host->error(g->self, TUTTI_ERR_INTERNAL, 0, "the gathers have failed");
    return connect_peer(endpoint, address, bytes, label, ret_peer);
}

static void gathering_close(tutti_endpoint *endpoint)
{
    struct gathering *gathering = find(endpoint);

    gathers_end(&gathering->gathers);
    gathering->endpoint = NULL;
    close_endpoint(endpoint);
}

static const tutti_transport_ops gathering_ops = {
    .struct_size = sizeof gathering_ops,
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .capabilities = TUTTI_CAP_HOST_ONLY,
    .lanes = 1,
    .open = gathering_open,
    .address = write_address,
    .connect = gathering_connect,
    .isend = start_send,
    .irecv = start_receive,
    .test = test_request,
    .close = gathering_close,
};

static const tutti_provider gathering_transport = {.struct_size = sizeof(tutti_provider),
                                                   .kind = TUTTI_PROVIDER_TRANSPORT,
                                                   .name = "template",
                                                   .ops = &gathering_ops};
static const tutti_provider *const gathering_providers[] = {&gathering_transport};

TUTTI_PLUGIN_EXPORT("template", "1.0, with gathers", "Apache-2.0", gathering_providers, 1);
