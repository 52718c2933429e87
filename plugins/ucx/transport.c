/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints and peers of the transport ucx. */
#include "transport.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

enum { DRAIN_MS = 50 };

static void *allocate(const struct caller *caller, uint64_t bytes)
{
    return caller->host->allocate(caller->self, bytes);
}

static void release(const tutti_endpoint *endpoint, void *memory)
{
    endpoint->caller.host->release(endpoint->caller.self, memory);
}

/* ---- endpoints ----------------------------------------------------------------------------- */

static void enter(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    worker_lock(worker);
    endpoint->last_landed = &endpoint->landed;
    endpoint->next = worker->endpoints;
    worker->endpoints = endpoint;
    endpoint->losses = worker->losses;
    worker_unlock(worker);
}

static void leave(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;
    tutti_endpoint **at = &worker->endpoints;

    worker_lock(worker);
    while (*at != endpoint)
        at = &(*at)->next;
    *at = endpoint->next;
    worker->unserved -= endpoint->unserved;
    worker_unlock(worker);
}

static tutti_status ucx_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    const struct caller caller = {host, host_self};
    tutti_endpoint *endpoint = allocate(&caller, sizeof *endpoint);

    if (!endpoint)
        return fail(&caller, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    endpoint->caller = caller;
    endpoint->wait_fd = -1;
    tutti_status status = getrandom(&endpoint->id, sizeof endpoint->id, 0) == sizeof endpoint->id
                              ? worker_open(&caller, options->bind_address, &endpoint->worker)
                              : fail(&caller, TUTTI_ERR_INTERNAL, errno, "getrandom() failed");
    if (status) {
        release(endpoint, endpoint);
        return status;
    }
    enter(endpoint);
    *ret_endpoint = endpoint;
    return TUTTI_OK;
}

/* ---- addresses and peers ------------------------------------------------------------------- */

static void own_address(const tutti_endpoint *endpoint, struct ucx_address *ret_address)
{
    const struct worker *worker = endpoint->worker;

    *ret_address = (struct ucx_address){.major = (uint16_t)worker->library->major,
                                        .minor = (uint16_t)worker->library->minor,
                                        .process = worker->process,
                                        .endpoint = endpoint->id,
                                        .blob = worker->blob,
                                        .blob_bytes = worker->blob_bytes};
    address_of_this_host(ret_address);
}

static tutti_status ucx_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    struct ucx_address own;

    own_address(endpoint, &own);
    return address_write(&endpoint->caller, &own, ret_address, capacity, ret_bytes);
}

/* Different for both directions, and for each pair of endpoints. */
static uint64_t tag_of(uint64_t sender, uint64_t receiver)
{
    return sender * UINT64_C(0x9e3779b97f4a7c15) + receiver;
}

static tutti_status check_peer(const tutti_endpoint *endpoint, const struct ucx_address *to)
{
    if (to->endpoint == endpoint->id)
        return fail(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "the address is this endpoint's own");
    for (const tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (peer->id == to->endpoint)
            return fail(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                        "the address is that of a peer of this endpoint already");
    return TUTTI_OK;
}

static tutti_status ucx_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    const struct caller *caller = &endpoint->caller;
    struct ucx_address own, to;
    struct link *link;

    own_address(endpoint, &own);
    tutti_status status = address_read(caller, &own, address, bytes, &to);
    if (!status)
        status = check_peer(endpoint, &to);
    if (!status)
        status = worker_link(caller, endpoint->worker, &own, &to, &link);
    if (status)
        return status;
    tutti_peer *peer = allocate(caller, sizeof *peer);
    if (!peer)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    *peer = (tutti_peer){.endpoint = endpoint,
                         .next = endpoint->peers,
                         .label = label,
                         .link = link,
                         .losses = losses_of(&link->losses),
                         .id = to.endpoint,
                         .send_tag = tag_of(endpoint->id, to.endpoint),
                         .receive_tag = tag_of(to.endpoint, endpoint->id)};
    if (peer->next)
        peer->next->previous = peer;
    endpoint->peers = peer;
    *ret_peer = peer;
    return TUTTI_OK;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* A copy, since a thread may wait for the descriptors of several endpoints. */
static tutti_status ucx_wait_fd(tutti_endpoint *endpoint, int32_t *ret_fd)
{
    if (endpoint->wait_fd < 0)
        endpoint->wait_fd = fcntl(endpoint->worker->event_fd, F_DUPFD_CLOEXEC, 0);
    if (endpoint->wait_fd < 0)
        return fail(&endpoint->caller, TUTTI_ERR_INTERNAL, errno,
                    "cannot copy the descriptor of UCX's events");
    *ret_fd = endpoint->wait_fd;
    return TUTTI_OK;
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void ucx_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    messages_forget(endpoint, peer);
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        endpoint->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    release(endpoint, peer);
}

static bool has_frames(const tutti_endpoint *endpoint)
{
    for (const tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        for (const struct flight *flight = peer->flights; flight; flight = flight->next)
            if (flight->kind == FRAME_OUT && !peer->lost)
                return true;
    return false;
}

/* Frames that UCX had no room for have been reported as sent, and go on for a moment. */
static void drain(tutti_endpoint *endpoint)
{
    const struct caller *caller = &endpoint->caller;
    const int64_t deadline = caller->host->now_ns(caller->self) + DRAIN_MS * INT64_C(1000000);
    tutti_request *ignored[16];

    messages_let_out(endpoint);
    while (has_frames(endpoint) && caller->host->now_ns(caller->self) < deadline)
        (void)messages_progress(endpoint, ignored, 16);
}

static void ucx_close(tutti_endpoint *endpoint)
{
    drain(endpoint);
    while (endpoint->peers)
        ucx_disconnect(endpoint, endpoint->peers);
    leave(endpoint);
    flights_leave(endpoint);
    if (endpoint->wait_fd >= 0)
        close(endpoint->wait_fd);
    worker_close(&endpoint->caller, endpoint->worker);
    release(endpoint, endpoint);
}

static void ucx_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    ret_counters[0] = endpoint->sent_bytes;
    ret_counters[1] = endpoint->received_bytes;
    ret_counters[2] = endpoint->sent_messages;
    ret_counters[3] = endpoint->received_messages;
    ret_counters[4] = 0; /* nothing is mapped */
}

const tutti_transport_ops ucx_transport_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .lanes = 1,
    .open = ucx_open,
    .address = ucx_address,
    .connect = ucx_connect,
    .isend = messages_isend,
    .irecv = messages_irecv,
    .test = messages_test,
    .close = ucx_close,
    .progress = messages_progress,
    .cancel = messages_cancel,
    .wait_fd = ucx_wait_fd,
    .arm = messages_arm,
    .disconnect = ucx_disconnect,
    .traffic = ucx_traffic,
    .short_bytes = FRAME_MESSAGE_BYTES,
    .send_short = messages_send_short,
    .show = messages_show,
    .take = messages_take,
    .engine = ucx_engine,
    .fabric = ucx_fabric,
    .describe = ucx_describe,
};
