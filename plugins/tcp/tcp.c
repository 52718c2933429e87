/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp: messages between processes that a network connects, or one host's loopback.
 *
 * The operations of the plugin, and the turns of progress. While at most TCP_DIRECT_PEERS peers are
 * connected and nothing else is going on, progress reads them directly, one system call each; it
 * asks the epoll set otherwise, at every ASK_EVERY-th turn, and after arm().
 */
#include "tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <tutti/version.h>

enum { ASK_EVERY = 32, EVENTS_MAX = 32, CLOSE_MS = 100 };
static const int64_t LOOK_NS = 1000000000;

tutti_status tcp_error(tutti_endpoint *endpoint, tutti_status status, int32_t system_errno,
                       const char *format, ...)
{
    char words[320];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return endpoint->host->error(endpoint->host_self, status, system_errno, words);
}

bool tcp_watch(tutti_endpoint *endpoint, struct tcp_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (events == source->events)
        return true;
    int operation = !events ? EPOLL_CTL_DEL : source->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(endpoint->epoll, operation, source->fd, &event) != 0 && events)
        return false;
    source->events = events;
    return true;
}

/* ---- endpoint ------------------------------------------------------------------------------ */

static void tcp_disconnect(tutti_endpoint *endpoint, tutti_peer *peer);

/* Whether the peer's kernel lacks something that it could still get. */
static bool has_unsent(int fd)
{
    int unsent = 0, error = 0;
    socklen_t bytes = sizeof error;

    return ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

/* Waits, a bounded time, until the peers' kernels have what was sent: to close a socket while
 * something unread lies in it (a credit that nobody needs any more) resets the connection, and what
 * is still in our kernel would be thrown away, such as the end of the last barrier. The FIN goes
 * first, because its answer acknowledges everything before it; a bare acknowledgement may be
 * delayed by 40 ms. */
static void flush_sockets(tutti_endpoint *endpoint)
{
    const struct timespec pause = {.tv_nsec = 100000};
    int64_t deadline = endpoint->host->now_ns(endpoint->host_self) + CLOSE_MS * INT64_C(1000000);

    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (peer->state == TCP_READY)
            shutdown(peer->source.fd, SHUT_WR);
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        while (peer->state == TCP_READY && has_unsent(peer->source.fd) &&
               endpoint->host->now_ns(endpoint->host_self) < deadline)
            nanosleep(&pause, NULL);
}

static void tcp_close(tutti_endpoint *endpoint)
{
    flush_sockets(endpoint);
    while (endpoint->peers)
        tcp_disconnect(endpoint, endpoint->peers);
    tcp_listen_close(endpoint);
    if (endpoint->timer.fd >= 0)
        close(endpoint->timer.fd);
    if (endpoint->epoll >= 0)
        close(endpoint->epoll);
    tcp_release(endpoint, endpoint);
}

static tutti_status open_descriptors(tutti_endpoint *endpoint, const char *bind_address)
{
    tutti_status status = tcp_address_bind(endpoint, bind_address);

    if (status != TUTTI_OK)
        return status;
    endpoint->epoll = epoll_create1(EPOLL_CLOEXEC);
    endpoint->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (endpoint->epoll < 0 || endpoint->timer.fd < 0 ||
        !tcp_watch(endpoint, &endpoint->listener, EPOLLIN) ||
        !tcp_watch(endpoint, &endpoint->timer, EPOLLIN))
        return tcp_error(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot watch sockets");
    return TUTTI_OK;
}

static tutti_status tcp_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    if (!TUTTI_HAS(host, mac))
        return host->error(host_self, TUTTI_ERR_UNSUPPORTED, 0,
                           "this tcp plugin proves its peers by a service that libtutti has since "
                           "plugin ABI 0.6: use a newer libtutti, or the tcp plugin that came with "
                           "it");
    tutti_endpoint *endpoint = host->allocate(host_self, sizeof *endpoint);

    if (!endpoint)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    endpoint->host = host;
    endpoint->host_self = host_self;
    endpoint->encrypts = TUTTI_HAS(options, flags) && options->flags & TUTTI_ENDPOINT_ENCRYPT;
    endpoint->epoll = -1;
    for (int i = 0; i < TCP_HALF_OPEN_MAX; i++)
        endpoint->guests[i].source = (struct tcp_source){.kind = TCP_GUEST, .fd = -1};
    endpoint->listener = (struct tcp_source){.kind = TCP_LISTENER, .fd = -1};
    endpoint->timer = (struct tcp_source){.kind = TCP_TIMER, .fd = -1};
    tutti_status status = open_descriptors(endpoint, options->bind_address);
    if (status != TUTTI_OK) {
        tcp_close(endpoint);
        return status;
    }
    *ret_endpoint = endpoint;
    return TUTTI_OK;
}

static tutti_status tcp_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    if (capacity < TCP_ADDRESS_BYTES)
        return tcp_error(endpoint, TUTTI_ERR_INTERNAL, 0, "the address needs %d bytes",
                         TCP_ADDRESS_BYTES);
    tcp_address_pack(&endpoint->address, ret_address);
    *ret_bytes = TCP_ADDRESS_BYTES;
    return TUTTI_OK;
}

/* ---- peers --------------------------------------------------------------------------------- */

static tutti_status check_address(tutti_endpoint *endpoint, const struct tcp_address *address)
{
    if (address->id == endpoint->address.id)
        return tcp_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0,
                         "the address is this endpoint's own");
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (peer->address.id == address->id)
            return tcp_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0,
                             "%s is a peer of this endpoint already", peer->name);
    return TUTTI_OK;
}

static tutti_status tcp_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    struct tcp_address to;

    if (!tcp_address_unpack(address, bytes, &to))
        return tcp_error(endpoint, TUTTI_ERR_MISMATCH, 0,
                         "the peer's address is of another kind or version");
    tutti_status status = check_address(endpoint, &to);
    if (status != TUTTI_OK)
        return status;
    tutti_peer *peer = tcp_allocate(endpoint, sizeof *peer);
    if (!peer)
        return tcp_error(endpoint, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    peer->source = (struct tcp_source){.kind = TCP_PEER, .fd = -1};
    peer->endpoint = endpoint;
    peer->label = label;
    peer->address = to;
    tcp_address_name(&to, peer->name, sizeof peer->name);
    peer->next = endpoint->peers;
    if (peer->next)
        peer->next->previous = peer;
    endpoint->peers = peer;
    *ret_peer = peer;

    const struct tcp_link link = tcp_listen_take(endpoint, to.id);
    if (link.fd >= 0)
        tcp_connect_admit(peer, link);
    return TUTTI_OK;
}

static void drop_reports(tutti_endpoint *endpoint, tutti_peer *peer)
{
    tutti_queue_remove_peer(&endpoint->done, peer);
    for (tutti_peer **at = &endpoint->lost; *at; at = &(*at)->next_lost) {
        if (*at != peer)
            continue;
        *at = peer->next_lost;
        break;
    }
    for (tutti_peer **at = &endpoint->unwatched; *at; at = &(*at)->next_unwatched) {
        if (*at != peer)
            continue;
        *at = peer->next_unwatched;
        break;
    }
    for (tutti_peer **at = &endpoint->unread; *at; at = &(*at)->next_unread) {
        if (*at != peer)
            continue;
        *at = peer->next_unread;
        break;
    }
    if (endpoint->held == peer)
        endpoint->held = NULL;
}

static void tcp_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    tutti_queue_clear(&peer->sends);
    tutti_queue_clear(&peer->receives);
    drop_reports(endpoint, peer);
    tcp_connect_drop(peer, TCP_LOST);
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        endpoint->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    tcp_release(endpoint, peer->inbound);
    tcp_release(endpoint, peer);
}

/* ---- requests ------------------------------------------------------------------------------ */

static tutti_status lost(tutti_peer *peer)
{
    return tcp_error(peer->endpoint, TUTTI_ERR_PEER_LOST, 0, "%s", peer->words);
}

static tutti_status check_lane(tutti_endpoint *endpoint, uint32_t lane)
{
    return lane == 0 ? TUTTI_OK
                     : tcp_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0, "there is only lane 0");
}

static void begin(tutti_request *request, tutti_peer *peer, const void *data, uint64_t bytes,
                  tutti_request_queue *queue)
{
    struct tcp_request *r = tcp_of(request);

    request->status = TUTTI_ERR_NOT_READY;
    *r = (struct tcp_request){
        .place = {.peer = peer}, .data = (uint8_t *)(uintptr_t)data, .bytes = bytes};
    tcp_put((uint8_t *)&r->frame, bytes, sizeof r->frame);
    tutti_queue_push(queue, request);
}

static tutti_status tcp_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *data, uint64_t bytes, uint32_t flags,
                              tutti_request *request)
{
    tutti_status status = check_lane(endpoint, lane);

    if (status == TUTTI_OK && peer->state == TCP_IDLE)
        status = tcp_connect_dial(peer);
    if (status != TUTTI_OK)
        return status;
    if (peer->deaf)
        return lost(peer);
    if (peer->cut)
        return tcp_error(endpoint, TUTTI_ERR_ABORTED, 0,
                         "a message to %s was cancelled half-way, nothing can follow it",
                         peer->name);
    const bool more = flags & TUTTI_SEND_MORE;
    if ((more || (bytes <= TCP_COPIED_MAX && tcp_stream_may_send(peer))) &&
        tcp_stream_hold(peer, data, bytes)) {
        tutti_queue_place(request)->queue = NULL;
        request->status = TUTTI_OK;
        if (!more)
            tcp_stream_send(peer);
        return TUTTI_OK;
    }
    begin(request, peer, data, bytes, &peer->sends);
    if (peer->sends.first == request && tcp_stream_may_send(peer))
        tcp_stream_send(peer);
    else if (!(peer->wanted & EPOLLOUT))
        tcp_stream_watch(peer);
    return tutti_queue_posted(request);
}

static tutti_status tcp_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                              uint64_t capacity, tutti_request *request)
{
    tutti_status status = check_lane(endpoint, lane);

    if (status != TUTTI_OK)
        return status;
    begin(request, peer, data, capacity, &peer->receives);
    if (peer->receives.first == request)
        tcp_stream_consume(peer);
    if (peer->state == TCP_LOST && request->status == TUTTI_ERR_NOT_READY) {
        tutti_queue_remove(request);
        return lost(peer);
    }
    if (!(peer->wanted & EPOLLIN))
        tcp_stream_watch(peer); /* there was no room to read into before */
    return tutti_queue_posted(request);
}

static void tcp_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    struct tcp_request *r = tcp_of(request);
    tutti_peer *peer = r->place.peer;

    if (!r->place.queue)
        return;
    if (r->place.queue == &endpoint->done) {
        tutti_queue_remove(request);
        return;
    }
    tcp_stream_forget(peer, request);
    tutti_queue_remove(request);
    tcp_stream_watch(peer);
}

/* ---- progress ------------------------------------------------------------------------------ */

static void advance_peer(tutti_peer *peer, uint32_t events)
{
    if (peer->state != TCP_READY) {
        tcp_connect_event(peer);
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        tcp_stream_receive(peer);
    if (events & EPOLLOUT && tcp_stream_may_send(peer))
        tcp_stream_send(peer);
}

static void advance_directly(tutti_endpoint *endpoint)
{
    for (int i = 0; i < TCP_DIRECT_PEERS && endpoint->direct[i]; i++) {
        tutti_peer *peer = endpoint->direct[i];

        if (peer->receives.first || peer->skip)
            tcp_stream_receive(peer);
        if (peer->wanted & EPOLLOUT && tcp_stream_may_send(peer))
            tcp_stream_send(peer);
    }
}

static void advance_by_events(tutti_endpoint *endpoint)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(endpoint->epoll, events, EVENTS_MAX, 0);

    for (int i = 0; i < count; i++) {
        struct tcp_source *source = events[i].data.ptr;

        switch (source->kind) {
        case TCP_LISTENER:
            tcp_listen_accept(endpoint);
            break;
        case TCP_TIMER:
            tcp_listen_timer(endpoint);
            break;
        case TCP_GUEST:
            tcp_listen_guest(endpoint, (struct tcp_guest *)(void *)source);
            break;
        case TCP_EARLY:
            tcp_listen_early(endpoint, (struct tcp_early *)(void *)source);
            break;
        case TCP_PEER:
            advance_peer((tutti_peer *)(void *)source, events[i].events);
        }
    }
    tcp_listen_sweep(endpoint);
    endpoint->turns = 0;
    const int64_t now = endpoint->host->now_ns(endpoint->host_self);
    if (now - endpoint->looked_ns >= LOOK_NS) {
        endpoint->looked_ns = now;
        tcp_connect_look(endpoint, now);
    }
}

static void tell_lost(const tutti_peer *peer)
{
    const tutti_host *host = peer->endpoint->host;

    if (peer->unanswered && TUTTI_HAS(host, link_lost))
        host->link_lost(peer->endpoint->host_self, peer->label, peer->words);
    else
        host->peer_lost(peer->endpoint->host_self, peer->label, peer->words);
}

static void advance(tutti_endpoint *endpoint)
{
    endpoint->turn++;
    if (endpoint->held)
        tcp_stream_send(endpoint->held);
    if (endpoint->unread)
        tcp_stream_receive_unread(endpoint);
    if (endpoint->direct[0] && !endpoint->settling && !endpoint->half_open &&
        ++endpoint->turns < ASK_EVERY)
        advance_directly(endpoint);
    else
        advance_by_events(endpoint);
    while (endpoint->lost) {
        tutti_peer *peer = endpoint->lost;

        endpoint->lost = peer->next_lost;
        tell_lost(peer);
    }
}

static uint32_t tcp_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    advance(endpoint);
    return tutti_queue_report(&endpoint->done, ret_done, capacity);
}

static tutti_status tcp_test(tutti_endpoint *endpoint, tutti_request *request)
{
    advance(endpoint);
    tutti_queue_posted(request);
    return request->status;
}

static tutti_status tcp_wait_fd(tutti_endpoint *endpoint, int32_t *ret_fd)
{
    *ret_fd = endpoint->epoll;
    return TUTTI_OK;
}

static int32_t tcp_arm(tutti_endpoint *endpoint)
{
    if (endpoint->held)
        tcp_stream_send(endpoint->held);
    tcp_stream_unwatch(endpoint);
    endpoint->turns = ASK_EVERY; /* whatever ends the sleep is asked for first */
    return endpoint->done.first || endpoint->lost || endpoint->unread ? TUTTI_EVENTS_PENDING
                                                                      : TUTTI_ARMED;
}

static void tcp_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    ret_counters[0] = endpoint->sent_bytes;
    ret_counters[1] = endpoint->received_bytes;
    ret_counters[2] = endpoint->sent_messages;
    ret_counters[3] = endpoint->received_messages;
    ret_counters[4] = 0; /* nothing is mapped */
}

/* ---- what is exported ---------------------------------------------------------------------- */

static const tutti_transport_ops tcp_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .capabilities = TUTTI_CAP_ENCRYPTS,
    .lanes = 1,
    .open = tcp_open,
    .address = tcp_address,
    .connect = tcp_connect,
    .isend = tcp_isend,
    .irecv = tcp_irecv,
    .test = tcp_test,
    .close = tcp_close,
    .progress = tcp_progress,
    .cancel = tcp_cancel,
    .wait_fd = tcp_wait_fd,
    .arm = tcp_arm,
    .disconnect = tcp_disconnect,
    .traffic = tcp_traffic,
};

static const tutti_provider tcp_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "tcp",
                                             .ops = &tcp_ops};
static const tutti_provider *const providers[] = {&tcp_transport};

/* Measured over loopback, on two cores that share a cache. */
static const tutti_cost cost = {.struct_size = sizeof(tutti_cost),
                                .message_ps = 6 * 1000 * 1000,
                                .further_ps = 1500 * 1000,
                                .byte_ps = 227};

TUTTI_PLUGIN_EXPORT_ABOUT("tcp", TUTTI_VERSION ", Linux sockets and epoll", "Apache-2.0", providers,
                          1, NULL, NULL, NULL, NULL, &cost);
