/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for tutti in its seven required functions: messages between the processes of one host
 * over Unix sockets. Copy this folder and make it yours; README.md says how.
 *
 * Each process listens on an abstract socket with a random name. The name is its address, and leaves
 * no file behind. Of two processes, the one with the smaller name dials when it first has something to
 * send or to receive. The connection begins with a hello that has the job's token, to keep strangers
 * out. Then each direction is a stream of frames: 8 bytes of length, and the message.
 *
 * The transport does not match, reorder or keep messages: the core does. It must keep order and length,
 * and no call may block. When a peer ends, its sends complete at once, and its receives after everything
 * that the peer had sent.
 */
#define _GNU_SOURCE 1

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <tutti/plugin_queue.h>

enum {
    ID_BYTES = 16,
    FRAME_BYTES = sizeof(uint64_t), /* the machine's byte order: both ends are on one host */
    GUESTS_MAX = 64,
    GUEST_SECONDS = 10, /* to say hello */
    SKIP_BYTES = 4096
};

struct hello {
    uint8_t token[16];
    uint8_t from[ID_BYTES];
};

/* The transport's part of a request that is not complete. */
struct __attribute__((may_alias)) pending {
    tutti_request_place place; /* first */
    uint8_t *data;
    uint64_t bytes; /* of the message to send; the room to receive into */
    uint64_t done;  /* of these; when sending, frame included */
    uint64_t frame;
};
_Static_assert(sizeof(struct pending) <= sizeof(((tutti_request *)0)->opaque), "no room");

struct tutti_peer {
    tutti_peer *next;
    tutti_endpoint *endpoint;
    uint64_t label; /* the core's number for it */
    uint8_t id[ID_BYTES];
    int fd; /* -1: not connected */
    bool dials;
    bool told; /* the core knows that it is gone */
    bool deaf; /* sends are over */
    bool lost; /* receives are over, too */
    tutti_request_queue sends, receives;
    uint64_t frame; /* of the message that arrives */
    uint64_t frame_done;
};

/* A connected process that is not a peer yet. */
struct guest {
    int fd; /* -1: free */
    int64_t deadline_ns;
    bool greeted; /* with our token: it waits for connect() */
    uint8_t from[ID_BYTES];
};

struct tutti_endpoint {
    const tutti_host *host;
    void *self; /* for the host's functions */
    uint8_t token[16];
    uint8_t id[ID_BYTES];
    int listener;
    tutti_peer *peers;
    struct guest guests[GUESTS_MAX];
};

static tutti_status fail(const tutti_endpoint *endpoint, tutti_status status, int error,
                         const char *words)
{
    return endpoint->host->error(endpoint->self, status, error, words);
}

/* ---- requests: a queue for each direction of a peer ---------------------------------------- */

static struct pending *pending_of(tutti_request *request)
{
    return (struct pending *)(void *)request->opaque;
}

static void start(tutti_request_queue *queue, tutti_request *request, const void *data,
                  uint64_t bytes)
{
    request->status = TUTTI_ERR_NOT_READY;
    *pending_of(request) =
        (struct pending){.data = (uint8_t *)(uintptr_t)data, .bytes = bytes, .frame = bytes};
    tutti_queue_push(queue, request);
}

/* Completes the first of the queue. From here on the request and its memory are the core's. With `progress`
 * this becomes tutti_queue_finish(), which keeps the request until it is reported. */
static void finish(tutti_request_queue *queue, tutti_status status)
{
    tutti_request *request = queue->first;

    tutti_queue_remove(request);
    request->status = status;
}

/*
 * The peer has closed its end: sends are over. The connection stays open, because messages that the peer
 * sent before may still be unread. Only a read that finds the end of the stream ends the receives.
 */
static void stop_sending(tutti_peer *peer, const char *words)
{
    tutti_endpoint *endpoint = peer->endpoint;

    peer->deaf = true;
    while (peer->sends.first)
        finish(&peer->sends, TUTTI_ERR_PEER_LOST);
    if (!peer->told)
        endpoint->host->peer_lost(endpoint->self, peer->label, words);
    peer->told = true;
}

/* The connection has ended, and nothing in it is unread. */
static void lose(tutti_peer *peer, const char *words)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    peer->lost = true;
    stop_sending(peer, words);
    while (peer->receives.first)
        finish(&peer->receives, TUTTI_ERR_PEER_LOST);
}

/* ---- the stream ---------------------------------------------------------------------------- */

/* Returns the number of bytes read; 0: none now, or the stream has ended. `bytes` is not 0. */
static uint64_t read_some(tutti_peer *peer, void *to, uint64_t bytes)
{
    ssize_t n = recv(peer->fd, to, bytes, MSG_DONTWAIT);

    if (n > 0)
        return (uint64_t)n;
    if (n == 0)
        lose(peer, "it closed its connection");
    else if (errno != EAGAIN && errno != EINTR)
        lose(peer, strerror(errno));
    return 0;
}

/* Continues the first receive; false: no more bytes can be read now. Reads a message that is too long for
 * its receive to its end, to find the next one. */
static bool receive_more(tutti_peer *peer)
{
    struct pending *p = pending_of(peer->receives.first);
    uint8_t skipped[SKIP_BYTES];
    uint64_t n;

    if (peer->frame_done < FRAME_BYTES) {
        n = read_some(peer, (uint8_t *)&peer->frame + peer->frame_done,
                      FRAME_BYTES - peer->frame_done);
        peer->frame_done += n;
        return n > 0;
    }
    const uint64_t left = peer->frame - p->done;
    const bool fits = peer->frame <= p->bytes;
    if (left > 0) {
        n = fits ? read_some(peer, p->data + p->done, left)
                 : read_some(peer, skipped, left < SKIP_BYTES ? left : SKIP_BYTES);
        p->done += n;
        return n > 0;
    }
    peer->frame_done = 0;
    peer->receives.first->bytes = peer->frame;
    finish(&peer->receives, fits ? TUTTI_OK
                                 : fail(peer->endpoint, TUTTI_ERR_INTERNAL, 0,
                                        "a message is longer than the receive that it met"));
    return true;
}

/* Continues the first send; false: the socket is full, or gone. */
static bool send_more(tutti_peer *peer)
{
    struct pending *p = pending_of(peer->sends.first);
    const uint64_t framed = p->done < FRAME_BYTES ? p->done : FRAME_BYTES;
    struct iovec pieces[2] = {
        {(uint8_t *)&p->frame + framed, FRAME_BYTES - framed},
        {p->data + (p->done - framed), p->bytes - (p->done - framed)},
    };
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t n = sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            stop_sending(peer, strerror(errno));
        return false;
    }
    p->done += (uint64_t)n;
    if (p->done == FRAME_BYTES + p->bytes)
        finish(&peer->sends, TUTTI_OK);
    return true;
}

/* ---- connections --------------------------------------------------------------------------- */

static struct sockaddr_un name_of(const uint8_t id[ID_BYTES], socklen_t *ret_bytes)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* a NUL first: abstract */
    const size_t offset = offsetof(struct sockaddr_un, sun_path);
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tutti-template-");

    for (int i = 0; i < ID_BYTES; i++)
        n += snprintf(name.sun_path + 1 + n, sizeof name.sun_path - 1 - (size_t)n, "%02x", id[i]);
    *ret_bytes = (socklen_t)(offset + 1 + (size_t)n);
    return name;
}

/* Whether a process of our own user is at the other end. */
static bool is_ours(int fd)
{
    struct ucred other;
    socklen_t bytes = sizeof other;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

/* Leaves the peer as it is when its listener has no room: the next call tries again. */
static void dial(tutti_peer *peer)
{
    struct hello hello;
    socklen_t bytes;
    const struct sockaddr_un name = name_of(peer->id, &bytes);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, bytes) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            lose(peer, strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    peer->fd = fd;
    memcpy(hello.token, peer->endpoint->token, sizeof hello.token);
    memcpy(hello.from, peer->endpoint->id, sizeof hello.from);
    if (!is_ours(fd))
        lose(peer, "a process of another user answers at its address");
    else if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        lose(peer, "it does not take the hello");
}

static void accept_guests(tutti_endpoint *endpoint)
{
    const int64_t now = endpoint->host->now_ns(endpoint->self);

    for (int i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &endpoint->guests[i];

        if (guest->fd >= 0)
            continue;
        int fd = accept4(endpoint->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (is_ours(fd))
            *guest = (struct guest){.fd = fd, .deadline_ns = now + GUEST_SECONDS * 1000000000LL};
        else
            close(fd);
    }
}

static void show_out(struct guest *guest)
{
    close(guest->fd);
    guest->fd = -1;
}

/* A hello is read as a whole or not at all. */
static void listen_to(tutti_endpoint *endpoint, struct guest *guest)
{
    struct hello hello;
    ssize_t n = recv(guest->fd, &hello, sizeof hello, MSG_PEEK);
    const bool more = n > 0 ? n < (ssize_t)sizeof hello : n < 0 && errno == EAGAIN;

    if (more && endpoint->host->now_ns(endpoint->self) < guest->deadline_ns)
        return;
    if (more || n <= 0 || memcmp(hello.token, endpoint->token, sizeof hello.token) != 0 ||
        recv(guest->fd, &hello, sizeof hello, 0) != (ssize_t)sizeof hello) {
        show_out(guest);
        return;
    }
    guest->greeted = true;
    memcpy(guest->from, hello.from, sizeof guest->from);
}

/* Turns guests into peers. */
static void admit(tutti_endpoint *endpoint)
{
    accept_guests(endpoint);
    for (int i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &endpoint->guests[i];

        if (guest->fd >= 0 && !guest->greeted)
            listen_to(endpoint, guest);
        for (tutti_peer *peer = endpoint->peers; peer && guest->fd >= 0; peer = peer->next) {
            if (!guest->greeted || memcmp(peer->id, guest->from, ID_BYTES) != 0)
                continue;
            if (peer->fd >= 0 || peer->dials || peer->lost) {
                show_out(guest);
                break;
            }
            peer->fd = guest->fd;
            guest->fd = -1;
        }
    }
}

static void move(tutti_peer *peer)
{
    if (peer->fd < 0 && !peer->lost) {
        if (peer->dials)
            dial(peer);
        else
            admit(peer->endpoint);
    }
    while (peer->fd >= 0 && peer->receives.first && receive_more(peer))
        ;
    while (peer->fd >= 0 && peer->sends.first && send_more(peer))
        ;
}

/* ---- the seven functions ------------------------------------------------------------------- */

static void close_endpoint(tutti_endpoint *endpoint)
{
    while (endpoint->peers) {
        tutti_peer *peer = endpoint->peers;

        endpoint->peers = peer->next;
        if (peer->fd >= 0)
            close(peer->fd); /* what was written is still delivered */
        endpoint->host->release(endpoint->self, peer);
    }
    for (int i = 0; i < GUESTS_MAX; i++)
        if (endpoint->guests[i].fd >= 0)
            close(endpoint->guests[i].fd);
    if (endpoint->listener >= 0)
        close(endpoint->listener);
    endpoint->host->release(endpoint->self, endpoint);
}

static tutti_status listen_somewhere(tutti_endpoint *endpoint)
{
    socklen_t bytes;

    if (getrandom(endpoint->id, sizeof endpoint->id, 0) != (ssize_t)sizeof endpoint->id)
        return fail(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot get random bytes");
    const struct sockaddr_un name = name_of(endpoint->id, &bytes);
    endpoint->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (endpoint->listener < 0 ||
        bind(endpoint->listener, (const struct sockaddr *)&name, bytes) != 0 ||
        listen(endpoint->listener, SOMAXCONN) != 0)
        return fail(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot listen on a Unix socket");
    return TUTTI_OK;
}

static tutti_status open_endpoint(const tutti_host *host, void *self,
                                  const tutti_endpoint_options *options,
                                  tutti_endpoint **ret_endpoint)
{
    tutti_endpoint *endpoint = host->allocate(self, sizeof *endpoint);

    if (!endpoint)
        return host->error(self, TUTTI_ERR_NO_MEMORY, 0, "no memory for an endpoint");
    endpoint->host = host;
    endpoint->self = self;
    endpoint->listener = -1;
    memcpy(endpoint->token, options->token, sizeof endpoint->token);
    for (int i = 0; i < GUESTS_MAX; i++)
        endpoint->guests[i].fd = -1;

    tutti_status status = listen_somewhere(endpoint);
    if (status)
        close_endpoint(endpoint);
    else
        *ret_endpoint = endpoint;
    return status;
}

static tutti_status write_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                  uint64_t *ret_bytes)
{
    if (capacity < ID_BYTES)
        return fail(endpoint, TUTTI_ERR_INTERNAL, 0, "an address has 16 bytes");
    memcpy(ret_address, endpoint->id, ID_BYTES);
    *ret_bytes = ID_BYTES;
    return TUTTI_OK;
}

static tutti_status connect_peer(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                 uint64_t label, tutti_peer **ret_peer)
{
    if (bytes != ID_BYTES)
        return fail(endpoint, TUTTI_ERR_MISMATCH, 0, "the address of a peer has 16 bytes");
    const int order = memcmp(endpoint->id, address, ID_BYTES);
    if (order == 0)
        return fail(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0, "that is our own address");

    tutti_peer *peer = endpoint->host->allocate(endpoint->self, sizeof *peer);
    if (!peer)
        return fail(endpoint, TUTTI_ERR_NO_MEMORY, 0, "no memory for a peer");
    peer->endpoint = endpoint;
    peer->label = label;
    peer->fd = -1;
    peer->dials = order < 0;
    memcpy(peer->id, address, ID_BYTES);
    peer->next = endpoint->peers;
    endpoint->peers = peer;
    *ret_peer = peer;
    return TUTTI_OK;
}

static tutti_status check(tutti_endpoint *endpoint, bool ended, uint32_t lane)
{
    if (lane != 0)
        return fail(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0, "there is one lane, number 0");
    if (ended)
        return fail(endpoint, TUTTI_ERR_PEER_LOST, 0, "the connection has ended");
    return TUTTI_OK;
}

/* TUTTI_SEND_MORE is a hint, and not needed here: a header costs one more write. */
static tutti_status start_send(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                               const void *data, uint64_t bytes, uint32_t flags,
                               tutti_request *request)
{
    tutti_status status = check(endpoint, peer->deaf, lane);

    (void)flags;
    if (status)
        return status;
    start(&peer->sends, request, data, bytes);
    move(peer);
    return TUTTI_OK;
}

static tutti_status start_receive(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                  void *data, uint64_t capacity, tutti_request *request)
{
    tutti_status status = check(endpoint, peer->lost, lane);

    if (status)
        return status;
    start(&peer->receives, request, data, capacity);
    move(peer);
    return TUTTI_OK;
}

static tutti_status test_request(tutti_endpoint *endpoint, tutti_request *request)
{
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        move(peer);
    return request->status;
}

/* ---- what is exported ---------------------------------------------------------------------- */

static const tutti_transport_ops transport_ops = {
    .struct_size = sizeof(tutti_transport_ops),
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
};

static const tutti_provider transport_provider = {.struct_size = sizeof(tutti_provider),
                                                  .kind = TUTTI_PROVIDER_TRANSPORT,
                                                  .name = "template",
                                                  .ops = &transport_ops};
static const tutti_provider *const all_providers[] = {&transport_provider};

TUTTI_PLUGIN_EXPORT("template", "1.0, Unix sockets", "Apache-2.0", all_providers, 1);
