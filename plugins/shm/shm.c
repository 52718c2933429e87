/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm: messages and mapped memory between processes, or threads, of one host.
 *
 * Everything lies in the members' memfds (shm_map.c): the memory that mapped collectives work on
 * and the rings that carry messages (shm_stream.c). No system call is made while local peers are awake.
 * There is no descriptor to wait on: a member that publishes something wakes its local peer through
 * the core's doorbell, and arm() says what has come meanwhile. A local peer that dies just stops;
 * the core, which watches processes, tells.
 */
#include "shm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tutti/version.h>

/* The result of address(). Local peers find each other through the core, so it only lets both check
 * that they have the same layout. */
struct shm_address {
    char magic[8];
    uint32_t layout;
    uint32_t reserved;
};

static const struct shm_address own_address = {.magic = "tuttishm", .layout = 4};

tutti_status shm_error(tutti_endpoint *endpoint, tutti_status status, int32_t system_errno,
                       const char *format, ...)
{
    char words[256];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return endpoint->host->error(endpoint->host_self, status, system_errno, words);
}

/* ---- endpoint and peers -------------------------------------------------------------------- */

static tutti_status shm_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    tutti_endpoint *endpoint = host->allocate(host_self, sizeof *endpoint);

    if (!endpoint)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    endpoint->host = host;
    endpoint->host_self = host_self;
    endpoint->rank = options->rank;
    *ret_endpoint = endpoint;
    return TUTTI_OK;
}

static tutti_status shm_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    if (capacity < sizeof own_address)
        return shm_error(endpoint, TUTTI_ERR_INTERNAL, 0, "the address needs %zu bytes",
                         sizeof own_address);
    memcpy(ret_address, &own_address, sizeof own_address);
    *ret_bytes = sizeof own_address;
    return TUTTI_OK;
}

static tutti_status shm_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    (void)label; /* a local peer's death is for the core to notice */
    if (bytes != sizeof own_address || memcmp(address, &own_address, sizeof own_address) != 0)
        return shm_error(endpoint, TUTTI_ERR_MISMATCH, 0,
                         "the peer's address is of another kind or version");
    tutti_peer *peer = shm_allocate(endpoint, sizeof *peer);
    if (!peer)
        return shm_error(endpoint, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    peer->endpoint = endpoint;
    peer->next = endpoint->peers;
    if (peer->next)
        peer->next->previous = peer;
    endpoint->peers = peer;
    *ret_peer = peer;
    return TUTTI_OK;
}

static void shm_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    tutti_queue_clear(&peer->sends);
    tutti_queue_clear(&peer->receives);
    tutti_queue_remove_peer(&endpoint->done, peer);
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        endpoint->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    shm_map_leave(peer);
    shm_release(endpoint, peer);
}

static void shm_close(tutti_endpoint *endpoint)
{
    while (endpoint->peers)
        shm_disconnect(endpoint, endpoint->peers);
    shm_map_close_all(endpoint);
    shm_release(endpoint, endpoint);
}

/* ---- requests ------------------------------------------------------------------------------ */

static tutti_status check_peer(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane)
{
    if (lane != 0)
        return shm_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0, "there is only lane 0");
    if (!peer->map)
        return shm_error(endpoint, TUTTI_ERR_UNSUPPORTED, 0,
                         "no memory is mapped with this peer: it is not a local peer, or "
                         "map_test has not succeeded yet");
    if (peer->broken)
        return shm_error(endpoint, TUTTI_ERR_INTERNAL, 0,
                         "the memory shared with local peer %u is corrupt", peer->index);
    return TUTTI_OK;
}

static void begin(tutti_request *request, tutti_peer *peer, const void *data, uint64_t bytes,
                  tutti_request_queue *queue)
{
    request->status = TUTTI_ERR_NOT_READY;
    *shm_of(request) = (struct shm_request){
        .place = {.peer = peer}, .data = (uint8_t *)(uintptr_t)data, .bytes = bytes};
    tutti_queue_push(queue, request);
}

static tutti_status shm_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *data, uint64_t bytes, uint32_t flags,
                              tutti_request *request)
{
    tutti_status status = check_peer(endpoint, peer, lane);

    if (status != TUTTI_OK)
        return status;
    if (peer->cut)
        return shm_error(endpoint, TUTTI_ERR_ABORTED, 0,
                         "a message to local peer %u was cancelled half-way, nothing can "
                         "follow it",
                         peer->index);
    if (shm_stream_send_now(peer, NULL, 0, data, bytes, flags & TUTTI_SEND_MORE)) {
        tutti_queue_place(request)->queue = NULL;
        request->status = TUTTI_OK;
        return TUTTI_OK;
    }
    begin(request, peer, data, bytes, &peer->sends);
    if (peer->sends.first == request)
        shm_stream_send(peer);
    return tutti_queue_posted(request);
}

static tutti_status shm_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                              uint64_t capacity, tutti_request *request)
{
    tutti_status status = check_peer(endpoint, peer, lane);

    if (status != TUTTI_OK)
        return status;
    begin(request, peer, data, capacity, &peer->receives);
    if (peer->receives.first == request)
        shm_stream_receive(peer);
    return tutti_queue_posted(request);
}

/* What cannot be sent, or not in order, is isend's to tell. With all that it calls in one function: a third of a
 * short message's way would be calls otherwise. */
static __attribute__((flatten)) tutti_status shm_send_short(tutti_endpoint *endpoint,
                                                            tutti_peer *peer, uint32_t lane,
                                                            const void *head, uint64_t head_bytes,
                                                            const void *body, uint64_t body_bytes)
{
    (void)endpoint;
    if (lane != 0 || !peer->map || peer->broken || peer->cut ||
        !shm_stream_send_now(peer, head, head_bytes, body, body_bytes, false))
        return TUTTI_ERR_BUSY;
    return TUTTI_OK;
}

static tutti_status shm_send_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                  const void *head, uint64_t head_bytes, const void *body,
                                  uint64_t body_bytes)
{
    (void)endpoint;
    if (lane != 0 || !peer->map || peer->broken || peer->cut ||
        !shm_stream_send_pair(peer, head, head_bytes, body, body_bytes))
        return TUTTI_ERR_BUSY;
    return TUTTI_OK;
}

static tutti_status shm_show(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                             tutti_shown *ret_message)
{
    tutti_status status = check_peer(endpoint, peer, lane);

    return status != TUTTI_OK ? status : shm_stream_show(peer, ret_message);
}

static void shm_take(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane)
{
    (void)endpoint;
    (void)lane;
    shm_stream_take(peer);
}

static tutti_status shm_take_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                  void *to, uint64_t bytes)
{
    (void)endpoint;
    (void)lane;
    return shm_stream_take_pair(peer, to, bytes) ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

static void advance(tutti_endpoint *endpoint)
{
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next) {
        if (peer->receives.first || peer->skip)
            shm_stream_receive(peer);
        if (peer->sends.first)
            shm_stream_send(peer);
        shm_stream_publish(peer);
    }
}

static uint32_t shm_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    advance(endpoint);
    return tutti_queue_report(&endpoint->done, ret_done, capacity);
}

static tutti_status shm_test(tutti_endpoint *endpoint, tutti_request *request)
{
    advance(endpoint);
    tutti_queue_posted(request);
    return request->status;
}

static void shm_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    struct shm_request *r = shm_of(request);

    (void)endpoint;
    if (!r->place.queue)
        return;
    if (r->place.queue == &r->place.peer->sends || r->place.queue == &r->place.peer->receives)
        shm_stream_forget(r->place.peer, r, r->place.queue == &r->place.peer->sends);
    tutti_queue_remove(request);
}

static int32_t shm_arm(tutti_endpoint *endpoint)
{
    if (endpoint->done.first)
        return TUTTI_EVENTS_PENDING;
    /* The core stored that it will sleep before this read: either the local peer sees that, or its
     * message is seen here. */
    atomic_thread_fence(memory_order_seq_cst);
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (peer->map && !peer->broken && shm_stream_pending(peer))
            return TUTTI_EVENTS_PENDING;
    return TUTTI_ARMED;
}

static void shm_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    ret_counters[0] = 0; /* there are no connections */
    ret_counters[1] = 0;
    ret_counters[2] = endpoint->sent_messages;
    ret_counters[3] = endpoint->received_messages;
    ret_counters[4] = endpoint->mapped_bytes;
}

/* ---- what is exported ---------------------------------------------------------------------- */

static const tutti_transport_ops shm_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .capabilities = TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY,
    .lanes = 1,
    .open = shm_open,
    .address = shm_address,
    .connect = shm_connect,
    .isend = shm_isend,
    .irecv = shm_irecv,
    .test = shm_test,
    .close = shm_close,
    .progress = shm_progress,
    .cancel = shm_cancel,
    .arm = shm_arm,
    .disconnect = shm_disconnect,
    .traffic = shm_traffic,
    .map_start = shm_map_start,
    .map_test = shm_map_test,
    .map_close = shm_map_close,
    .short_bytes = SHM_WHOLE,
    .send_short = shm_send_short,
    .show = shm_show,
    .take = shm_take,
    .send_pair = shm_send_pair,
    .take_pair = shm_take_pair,
};

static const tutti_provider shm_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "shm",
                                             .ops = &shm_ops};
static const tutti_provider *const providers[] = {&shm_transport};

/* Measured on two cores that share a cache. */
static const tutti_cost cost = {.struct_size = sizeof(tutti_cost),
                                .message_ps = 300 * 1000,
                                .further_ps = 200 * 1000,
                                .byte_ps = 83};

TUTTI_PLUGIN_EXPORT_ABOUT("shm", TUTTI_VERSION ", Linux memfd", "Apache-2.0", providers, 1, NULL,
                          NULL, NULL, NULL, &cost);
