/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi: messages through Open MPI or MPICH, whichever this process runs under.
 *
 * What the plugin exports is constant, and which engine serves it comes out when the first endpoint
 * is opened; so these functions hand each call on. An endpoint exists only once an engine does.
 */
#include <tutti/version.h>

#include "choose.h"

static const struct mpi_engine *engine;

static tutti_status mpi_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    const struct mpi_engine *chosen;
    tutti_status status = choose_engine(host, host_self, &chosen);

    if (status)
        return status;
    __atomic_store_n(&engine, chosen, __ATOMIC_RELEASE);
    return chosen->transport->open(host, host_self, options, ret_endpoint);
}

static const tutti_transport_ops *transport(void)
{
    return __atomic_load_n(&engine, __ATOMIC_RELAXED)->transport;
}

static tutti_status mpi_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    return transport()->address(endpoint, ret_address, capacity, ret_bytes);
}

static tutti_status mpi_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    return transport()->connect(endpoint, address, bytes, label, ret_peer);
}

static tutti_status mpi_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *data, uint64_t bytes, uint32_t flags,
                              tutti_request *request)
{
    return transport()->isend(endpoint, peer, lane, data, bytes, flags, request);
}

static tutti_status mpi_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                              uint64_t capacity, tutti_request *request)
{
    return transport()->irecv(endpoint, peer, lane, data, capacity, request);
}

static tutti_status mpi_test(tutti_endpoint *endpoint, tutti_request *request)
{
    return transport()->test(endpoint, request);
}

static void mpi_close(tutti_endpoint *endpoint)
{
    transport()->close(endpoint);
}

static uint32_t mpi_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    return transport()->progress(endpoint, ret_done, capacity);
}

static void mpi_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    transport()->cancel(endpoint, request);
}

static void mpi_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    transport()->disconnect(endpoint, peer);
}

static void mpi_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    transport()->traffic(endpoint, ret_counters);
}

static const tutti_transport_ops mpi_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .max_message =
        UINT64_C(1) << 30, /* MPI counts in int; the core sends what is longer in pieces */
    .lanes = 1,
    .open = mpi_open,
    .address = mpi_address,
    .connect = mpi_connect,
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .close = mpi_close,
    .progress = mpi_progress,
    .cancel = mpi_cancel,
    .disconnect = mpi_disconnect,
    .traffic = mpi_traffic,
};

static const tutti_provider mpi_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "mpi",
                                             .ops = &mpi_ops};
static const tutti_provider *const providers[] = {&mpi_transport};

TUTTI_PLUGIN_EXPORT("mpi", TUTTI_VERSION ", Open MPI 4 and MPICH 4", "Apache-2.0", providers, 1);
