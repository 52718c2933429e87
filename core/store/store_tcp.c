/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's way to the server: resolve, connect, handshake, all over again until the deadline.
 *
 * Pauses begin short, since ranks and the server are usually started together and a launch is to be
 * fast, grow by half, and are spread so that a thousand ranks do not come in step. What went wrong
 * in the last try is in the message when the time is up, and in one warning before.
 */
#include "store/store_tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/resolve.h"
#include "store/store_peer.h"
#include "store/store_proof.h"
#include "store/store_wire.h"

enum {
    FIRST_PAUSE_MS = 10,
    LAST_PAUSE_MS = 1000,
    ONE_OF_MANY_MS = 2000,    /* an address that does not answer leaves time for the next one */
    ONE_TRY_MS = 5 * 1000,    /* of the last one: then it is told, and tried again */
    WARN_AFTER_MS = 5 * 1000, /* without a connection */
    POLL_MS = 60 * 1000,
    MESSAGE_MAX = 256
};

static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    struct pollfd pollfd = {.fd = fd, .events = events};

    for (;;) {
        const int left = clock_left_ms(deadline_ns, POLL_MS);
        const int n = poll(&pollfd, 1, left);

        if (n > 0 || (n < 0 && errno != EINTR))
            return true; /* the next call on the socket says what it is */
        if (n == 0 && left < POLL_MS)
            return false;
    }
}

/* After a call that moved nothing: 0 to try again, or what store_tcp_send() returns. */
static int look_at_error(int fd, short events, int64_t deadline_ns)
{
    if (errno == EAGAIN)
        return wait_for(fd, events, deadline_ns) ? 0 : STORE_TCP_LATE;
    return errno == EINTR ? 0 : errno;
}

int store_tcp_send(int fd, const void *data, size_t size, int64_t deadline_ns, size_t *sent)
{
    int result = 0;

    while (!result && *sent < size) {
        const ssize_t n =
            send(fd, (const char *)data + *sent, size - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            *sent += (size_t)n;
        else
            result = look_at_error(fd, POLLOUT, deadline_ns);
    }
    return result;
}

int store_tcp_receive(int fd, void *ret_data, size_t size, int64_t deadline_ns, size_t *received)
{
    int result = 0;

    while (!result && *received < size) {
        const ssize_t n = recv(fd, (char *)ret_data + *received, size - *received, MSG_DONTWAIT);

        if (n > 0)
            *received += (size_t)n;
        else
            result = n ? look_at_error(fd, POLLIN, deadline_ns) : STORE_TCP_ENDED;
    }
    return result;
}

const char *store_tcp_message(int result)
{
    switch (result) {
    case STORE_TCP_ENDED:
        return "the server closed the connection";
    case STORE_TCP_LATE:
        return "the server did not answer in time";
    default:
        return strerrordesc_np(result);
    }
}

void store_tcp_tune(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5}, {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 5},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof(int));
}

/*
 * A client that knocks at a free port of its own host may be given that very port as its own and so
 * connect to itself, which would also keep the server from binding it.
 */
static bool connected_to_itself(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_size = sizeof own, peer_size = sizeof peer;

    memset(&own, 0, sizeof own);
    memset(&peer, 0, sizeof peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own_size == peer_size &&
           memcmp(&own, &peer, own_size) == 0;
}

/* 0 or what went wrong. */
static int connect_within(int fd, const struct addrinfo *address, int64_t deadline_ns)
{
    int error = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;

    if (error == EINPROGRESS || error == EINTR) {
        socklen_t size = sizeof error;

        if (!wait_for(fd, POLLOUT, deadline_ns))
            return ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    return !error && connected_to_itself(fd) ? ECONNREFUSED : error;
}

void store_tcp_put_magic(struct buffer *request)
{
    buffer_put_uint(request, STORE_VALIDATE, 1);
    buffer_put_uint(request, STORE_WIRE_MAGIC, 4);
}

/* Shows the magic, unless it was `shown`, and sees a ping answered. 0 or what went wrong. */
static int shake_hands(int fd, bool shown, int64_t deadline_ns)
{
    struct buffer hello = {0};
    uint8_t answer[4];
    uint32_t nonce;
    size_t sent = 0, received = 0;
    int result;

    if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != (ssize_t)sizeof nonce)
        nonce = (uint32_t)getpid();
    if (!shown)
        store_tcp_put_magic(&hello);
    buffer_put_uint(&hello, STORE_PING, 1);
    buffer_put_uint(&hello, nonce, 4);
    result = hello.failed ? ENOMEM : store_tcp_send(fd, hello.data, hello.size, deadline_ns, &sent);
    buffer_free(&hello);
    if (!result)
        result = store_tcp_receive(fd, answer, sizeof answer, deadline_ns, &received);
    if (!result && uint_from_bytes(answer, 4) != nonce)
        result = EPROTO;
    return result;
}

static bool has_hung_up(int result)
{
    return result == STORE_TCP_ENDED || result == ECONNRESET || result == EPIPE;
}

static bool has_explicit_secret(struct store_tcp_place *place)
{
    if (!place->secret)
        place->secret = store_proof_secret(NULL);
    return place->secret && secret_is_explicit(place->secret->source);
}

/* Begins to talk. A server on another host, or of another user, may ask for a proof; one that has hung up
 * `must` be shown one. */
static int greet(int fd, bool must, struct store_tcp_place *place, int64_t deadline_ns)
{
    const bool proves = must || !store_peer_is_loopback(fd) ||
                        (store_peer_serves_another_user(fd) && has_explicit_secret(place));

    if (proves && !place->secret)
        place->secret = store_proof_secret(NULL);
    if (proves && !place->secret)
        return ENOMEM;

    const int result = proves ? store_proof_show(fd, place->secret, deadline_ns) : 0;

    return result ? result : shake_hands(fd, proves, deadline_ns);
}

/* One address. The socket, or -1 with the reason in `ret_message`. */
static int try_address(const struct addrinfo *address, bool must, struct store_tcp_place *place,
                       int64_t deadline_ns, int *ret_error, char ret_message[MESSAGE_MAX])
{
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        *ret_error = errno;
        (void)snprintf(ret_message, MESSAGE_MAX, "cannot make a socket: %s",
                       strerrordesc_np(errno));
        return -1;
    }
    fork_close_add(fd);

    int result = connect_within(fd, address, deadline_ns);

    if (result) {
        (void)snprintf(ret_message, MESSAGE_MAX, "cannot connect: %s", strerrordesc_np(result));
    } else {
        store_tcp_tune(fd);
        result = greet(fd, must, place, deadline_ns);
        if (result == STORE_PROOF_DENIED)
            (void)snprintf(ret_message, MESSAGE_MAX,
                           "its server takes only processes that have its secret, and this one has "
                           "%s%s; give all ranks the same TUTTI_SECRET or TUTTI_SECRET_FILE",
                           store_proof_is_there(place->secret) ? "another: " : "",
                           secret_source_words(place->secret->source));
        else if (has_hung_up(result))
            (void)snprintf(ret_message, MESSAGE_MAX,
                           "the process there closed the connection: it is not a store server, it "
                           "serves another user, or it takes only processes with its secret");
        else if (result)
            (void)snprintf(ret_message, MESSAGE_MAX, "the process there is not a store server: %s",
                           result == EPROTO ? "it sent something else" : store_tcp_message(result));
    }
    if (!result)
        return fd;
    *ret_error = result;
    fork_close_now(fd);
    return -1;
}

/* All addresses of the host, once. */
static int try_host(bool must, struct store_tcp_place *place, int64_t deadline_ns, int *ret_error,
                    char ret_message[MESSAGE_MAX])
{
    struct addrinfo *addresses;
    const int code = resolve(place->host, place->port, false, deadline_ns, &addresses);
    int fd = -1;

    *ret_error = 0;
    if (code) {
        (void)snprintf(ret_message, MESSAGE_MAX, "cannot find the host: %s", gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *address = addresses; address && fd < 0;
         address = address->ai_next) {
        const int64_t share = clock_deadline_ms(address->ai_next ? ONE_OF_MANY_MS : ONE_TRY_MS);
        char message[MESSAGE_MAX];
        int error;

        fd = try_address(address, must, place, share < deadline_ns ? share : deadline_ns, &error,
                         message);
        /* A family that this host lacks tells nothing of the server: other reasons are better. */
        if (fd < 0 && (!*ret_error || error != EAFNOSUPPORT)) {
            *ret_error = error;
            memcpy(ret_message, message, MESSAGE_MAX);
        }
    }
    freeaddrinfo(addresses);
    return fd;
}

/* Whether another try may end otherwise: not when this process is the one that lacks something. */
static bool worth_retrying(int error)
{
    return error != EMFILE && error != ENFILE && error != ENOMEM && error != EAFNOSUPPORT &&
           error != EACCES && error != EPERM && error != STORE_PROOF_DENIED;
}

static void pause_before_retry(int *pause_ms, int64_t deadline_ns)
{
    uint32_t random = 0;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint32_t)clock_now_ns();

    /* half to one and a half of the pause, and never beyond the deadline */
    const int spread = *pause_ms / 2 + (int)(random % (uint32_t)*pause_ms);

    poll(NULL, 0, clock_left_ms(deadline_ns, spread));
    *pause_ms += *pause_ms / 2;
    if (*pause_ms > LAST_PAUSE_MS)
        *pause_ms = LAST_PAUSE_MS;
}

/* Whether the server's end is not there, rather than the way to it. */
static bool nobody_serves(int error)
{
    return error == ECONNREFUSED || has_hung_up(error);
}

/* The advice for a host name that users often take for another host's. */
static const char *hint(const char *host)
{
    return strncmp(host, "127.", 4) != 0 && strcmp(host, "localhost") != 0 &&
                   strcmp(host, "::1") != 0
               ? ""
               : " (this host itself; if another host serves the store, give its address)";
}

tutti_status store_tcp_connect(struct store_tcp_place *place, const char *server,
                               const struct store_time *time, int *ret_fd)
{
    const char *host = place->host;
    const uint16_t port = place->port;
    const int64_t warn_ns = clock_deadline_ms(WARN_AFTER_MS);
    int pause_ms = FIRST_PAUSE_MS, error = 0;
    bool warned = false, must = false;
    char message[MESSAGE_MAX] = "";

    for (;;) {
        char words[MESSAGE_MAX];
        int reason;
        const int fd = try_host(must, place, time->deadline_ns, &reason, words);

        if (fd >= 0) {
            *ret_fd = fd;
            return TUTTI_OK;
        }
        /* A try that the deadline cut short says less than the one before. */
        if (!*message || clock_now_ns() < time->deadline_ns) {
            error = reason;
            memcpy(message, words, sizeof message);
        }
        if (!worth_retrying(error))
            return error_set(error == STORE_PROOF_DENIED ? TUTTI_ERR_STORE : TUTTI_ERR_SYSTEM,
                             "store at %s:%u: %s", host, port, message);
        if (clock_now_ns() >= time->deadline_ns && server && nobody_serves(error))
            return store_server_lost(server);
        if (clock_now_ns() >= time->deadline_ns)
            return error_set(
                TUTTI_ERR_TIMEOUT,
                "no store at %s:%u within %" PRId64
                " ms; the last try: %s. Is its server running, and is this its address?",
                host, port, time->ms, message);
        if (!warned && clock_now_ns() >= warn_ns) {
            log_line(LOG_WARN, place->rank,
                     "still trying to reach the store at %s:%u%s, for at most %d s more: %s", host,
                     port, hint(host), clock_left_ms(time->deadline_ns, INT_MAX) / 1000, message);
            warned = true;
        }
        must |= has_hung_up(error) && has_explicit_secret(place);
        pause_before_retry(&pause_ms, time->deadline_ns);
    }
}
