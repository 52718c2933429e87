/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From no connection to exactly one.
 *
 * A member that has something to send dials and says hello. Both prove to be members (tcp_proof.c).
 * Then the other answers with a verdict, and only then do messages flow, so a connection that is given
 * up never carried one. When both dial at the same time, the dial of the smaller id is kept: the
 * smaller answers a crossing proof with YIELD, the larger drops its own dial for a crossing proof,
 * whichever it sees first.
 *
 * Where the group encrypts, SECURING comes before GREETING: the hello waits for the handshake of the channel.
 *
 *   IDLE -dial-> DIALING -connected, hello-> GREETING -challenge, proof-> PROVING -KEEP-> READY
 *                                            PROVING -YIELD-> YIELDED -their proof-> READY
 *   IDLE, and WAITING to PROVING of the larger id: -their proof-> READY
 *
 * A listener that has too many strangers closes the oldest connection that has proven nothing. So one that
 * is closed during the handshake is dialed again after a moment, for as long as a hello may take.
 */
#include "tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PROTOCOL = 2, KEEP = 1, YIELD = 2, REFUSE = 3 };
enum { REDIAL_MS = 10 };

/* The kernel of a stopped process answers these, also while it takes nothing in. A user time-out would end
 * the connection to one that takes nothing in, so what is sent and not answered is looked at by
 * tcp_connect_look(). */
enum { PROBE_SECONDS = 1, PROBES = 4, UNANSWERED_MS = 5000, UNANSWERED_TIMES = 3 };

static const int64_t NS_PER_MS = 1000000;

static const char answer_magic[8] = "tutti-a";
static const char stranger[] = "a process that is not part of this job answered at";

/* ---- the answer ----------------------------------------------------------------------------- */

/* magic 8, version 4, verdict 4, sender 8, receiver 8 */
static void make_answer(const tutti_peer *peer, uint32_t verdict,
                        uint8_t ret_answer[TCP_ANSWER_BYTES])
{
    memcpy(ret_answer, answer_magic, sizeof answer_magic);
    tcp_put(ret_answer + 8, PROTOCOL, 4);
    tcp_put(ret_answer + 12, verdict, 4);
    tcp_put(ret_answer + 16, peer->endpoint->address.id, 8);
    tcp_put(ret_answer + 24, peer->address.id, 8);
}

/* The verdict of the peer's whole answer, 0 when it is not an answer to our hello. */
static uint32_t read_answer(const tutti_peer *peer)
{
    uint8_t expected[TCP_ANSWER_BYTES];
    uint32_t verdict = (uint32_t)tcp_get(peer->answer + 12, 4);

    make_answer(peer, verdict, expected);
    tcp_put(expected + 16, peer->address.id, 8);
    tcp_put(expected + 24, peer->endpoint->address.id, 8);
    return memcmp(peer->answer, expected, sizeof expected) == 0 ? verdict : 0;
}

static bool say(const tutti_peer *peer, const uint8_t *message, size_t bytes)
{
    return tcp_link_say(peer->endpoint, tcp_link_of(&peer->source), message, bytes);
}

/* ---- states -------------------------------------------------------------------------------- */

static bool is_settling(enum tcp_state state)
{
    return state >= TCP_WAITING && state <= TCP_YIELDED;
}

static bool is_dialing(enum tcp_state state)
{
    return state >= TCP_WAITING && state <= TCP_PROVING;
}

/* Counts the states that progress() looks at and lists the ready peers while they are few. */
static void set_state(tutti_peer *peer, enum tcp_state state)
{
    tutti_endpoint *endpoint = peer->endpoint;
    uint32_t listed = 0;

    endpoint->settling += (uint32_t)is_settling(state) - (uint32_t)is_settling(peer->state);
    endpoint->ready += (uint32_t)(state == TCP_READY) - (uint32_t)(peer->state == TCP_READY);
    peer->state = state;
    for (int i = 0; i < TCP_DIRECT_PEERS; i++)
        endpoint->direct[i] = NULL;
    if (endpoint->ready > TCP_DIRECT_PEERS)
        return;
    for (tutti_peer *each = endpoint->peers; each && listed < endpoint->ready; each = each->next)
        if (each->state == TCP_READY)
            endpoint->direct[listed++] = each;
}

void tcp_connect_drop(tutti_peer *peer, enum tcp_state state)
{
    if (peer->source.fd >= 0)
        tcp_link_close(peer->endpoint, tcp_link_take(peer->endpoint, &peer->source));
    peer->answer_have = 0;
    set_state(peer, state);
}

static void fail_requests(tutti_peer *peer, tutti_request_queue *queue)
{
    while (queue->first)
        tutti_queue_finish(&peer->endpoint->done, queue->first, TUTTI_ERR_PEER_LOST, 0);
}

void tcp_connect_deafen(tutti_peer *peer, int system_errno, const char *what)
{
    char why[128];

    if (peer->deaf)
        return;
    peer->deaf = true;
    peer->unanswered = system_errno == ETIMEDOUT || system_errno == EHOSTUNREACH ||
                       system_errno == ENETUNREACH || system_errno == ENETDOWN;
    snprintf(peer->words, sizeof peer->words, "%s %s%s%s", what, peer->name,
             system_errno ? ": " : "",
             system_errno ? strerror_r(system_errno, why, sizeof why) : "");
    fail_requests(peer, &peer->sends);
    peer->held = peer->held_sent = 0;
    if (peer->endpoint->held == peer)
        peer->endpoint->held = NULL;
    peer->next_lost = peer->endpoint->lost;
    peer->endpoint->lost = peer;
}

void tcp_connect_lose(tutti_peer *peer, int system_errno, const char *what)
{
    if (peer->state == TCP_LOST)
        return;
    tcp_connect_drop(peer, TCP_LOST);
    tcp_connect_deafen(peer, system_errno, what);
    tcp_stream_consume(peer); /* whole messages that came before the end are still good */
    fail_requests(peer, &peer->receives);
    peer->receiving = false;
}

static bool is_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a,
                             *b4 = (const struct sockaddr_in *)b;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a,
                              *b6 = (const struct sockaddr_in6 *)b;

    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET
               ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
               : a->ss_family == AF_INET6 &&
                     !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr);
}

/*
 * Within a host nothing is lost and no link has a rate, but a congestion control that paces (bbr)
 * holds data back there: 2 MiB take up to twice as long. Reno is in every kernel, never paces, and
 * is open to all users. Between hosts the administrator's choice stays.
 */
static void choose_congestion_control(int fd)
{
    static const char unpaced[] = "reno";
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;

    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
        getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
        is_same_address(&here, &there))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
}

static void become_ready(tutti_peer *peer)
{
    choose_congestion_control(peer->source.fd);
    peer->inbound = tcp_allocate(peer->endpoint, TCP_INBOUND_BYTES + TCP_HELD_BYTES);
    if (!peer->inbound) {
        tcp_connect_lose(peer, ENOMEM, "no memory for the connection with");
        return;
    }
    peer->held_bytes = peer->inbound + TCP_INBOUND_BYTES;
    set_state(peer, TCP_READY);
    if (peer->sends.first)
        tcp_stream_send(peer);
    else
        tcp_stream_watch(peer);
}

/* ---- dialling ------------------------------------------------------------------------------ */

static void set_options(int fd)
{
    int on = 1, seconds = PROBE_SECONDS, probes = PROBES;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static bool read_info(const tutti_peer *peer, struct tcp_info *ret_info)
{
    socklen_t bytes = sizeof *ret_info;

    *ret_info = (struct tcp_info){0};
    return getsockopt(peer->source.fd, IPPROTO_TCP, TCP_INFO, ret_info, &bytes) == 0;
}

/* Something was sent again and again, and nothing has come for as long as keepalive would have waited. */
static bool is_unanswered(const tutti_peer *peer)
{
    struct tcp_info info;

    return (peer->state == TCP_READY || peer->state == TCP_SECURING ||
            peer->state == TCP_GREETING || peer->state == TCP_PROVING) &&
           read_info(peer, &info) && info.tcpi_last_ack_recv >= UNANSWERED_MS &&
           info.tcpi_retransmits + info.tcpi_probes >= UNANSWERED_TIMES;
}

/* The kernel would go on for two minutes. It connects to a process that is stopped or computes, unless as
 * many as its listener's backlog holds wait there. */
static bool is_dialed_too_long(const tutti_peer *peer, int64_t now_ns)
{
    struct tcp_info info;

    return peer->state == TCP_DIALING && now_ns - peer->dialed_ns >= UNANSWERED_MS * NS_PER_MS &&
           read_info(peer, &info) && info.tcpi_state == TCP_SYN_SENT;
}

void tcp_connect_look(tutti_endpoint *endpoint, int64_t now_ns)
{
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (is_dialed_too_long(peer, now_ns))
            tcp_connect_lose(peer, ETIMEDOUT, "cannot connect to");
        else if (is_unanswered(peer))
            tcp_connect_lose(peer, ETIMEDOUT, "lost the connection with");
}

static void redial_at(tutti_endpoint *endpoint, int64_t when_ns)
{
    if (!endpoint->redial_ns || when_ns < endpoint->redial_ns)
        endpoint->redial_ns = when_ns;
}

/* The listener has closed the connection, or had closed it before our message came. */
static void closed_in_handshake(tutti_peer *peer, int system_errno)
{
    tutti_endpoint *endpoint = peer->endpoint;
    const int64_t now = endpoint->host->now_ns(endpoint->host_self);

    if (now - peer->first_dialed_ns >= TCP_HELLO_MS * NS_PER_MS) {
        tcp_connect_lose(peer, system_errno, "the connection was closed during the handshake with");
        return;
    }
    tcp_connect_drop(peer, TCP_WAITING);
    peer->redial_ns = now + REDIAL_MS * NS_PER_MS;
    redial_at(endpoint, peer->redial_ns);
    tcp_listen_set_timer(endpoint);
}

static void greet(tutti_peer *peer)
{
    tutti_endpoint *endpoint = peer->endpoint;
    uint8_t hello[TCP_HELLO_BYTES];

    set_state(peer, TCP_GREETING);
    if (tcp_link_secure(endpoint, &peer->source, false))
        tcp_connect_lose(peer, 0, "cannot begin to encrypt the connection to");
    else if (!tcp_proof_hello(peer, hello) || !tcp_watch(endpoint, &peer->source, EPOLLIN))
        tcp_connect_lose(peer, errno, "cannot greet");
    else if (say(peer, hello, sizeof hello))
        return;
    else if (errno == EINPROGRESS)
        set_state(peer, TCP_SECURING);
    else if (errno == EBADMSG)
        tcp_connect_lose(peer, 0, stranger);
    else
        closed_in_handshake(peer, errno);
}

tutti_status tcp_connect_dial(tutti_peer *peer)
{
    const struct sockaddr *to = (const struct sockaddr *)&peer->address.socket;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return tcp_error(peer->endpoint, TUTTI_ERR_SYSTEM, errno,
                         "cannot open a socket to reach %s%s", peer->name,
                         errno == EMFILE || errno == ENFILE ? " (raise 'ulimit -n')" : "");
    set_options(fd);
    peer->source.fd = fd;
    peer->dialed_ns = peer->endpoint->host->now_ns(peer->endpoint->host_self);
    if (!peer->first_dialed_ns)
        peer->first_dialed_ns = peer->dialed_ns;
    set_state(peer, TCP_DIALING);
    if (connect(fd, to, peer->address.socket_bytes) == 0)
        greet(peer);
    else if (errno != EINPROGRESS)
        tcp_connect_lose(peer, errno, "cannot connect to");
    else if (!tcp_watch(peer->endpoint, &peer->source, EPOLLOUT))
        tcp_connect_lose(peer, errno, "cannot watch the connection to");
    return TUTTI_OK;
}

static void dial_event(tutti_peer *peer)
{
    int error = 0;
    socklen_t bytes = sizeof error;

    if (getsockopt(peer->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error)
        tcp_connect_lose(peer, error, "cannot connect to");
    else
        greet(peer);
}

void tcp_connect_again(tutti_endpoint *endpoint)
{
    const int64_t now = endpoint->host->now_ns(endpoint->host_self);

    if (!endpoint->redial_ns || now < endpoint->redial_ns)
        return;
    endpoint->redial_ns = 0;
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next) {
        if (peer->state != TCP_WAITING)
            continue;
        if (peer->redial_ns > now)
            redial_at(endpoint, peer->redial_ns);
        else if (tcp_connect_dial(peer) != TUTTI_OK)
            tcp_connect_lose(peer, errno, "cannot dial again");
    }
}

/* Reads this message of the handshake and nothing after it: others may follow at once. Whether it is whole. */
static bool read_message(tutti_peer *peer, uint32_t bytes)
{
    const ssize_t got = tcp_link_hear(peer->endpoint, &peer->source,
                                      peer->answer + peer->answer_have, bytes - peer->answer_have);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got < 0 && errno == EBADMSG) {
        tcp_connect_lose(peer, 0, stranger);
        return false;
    }
    if (got <= 0) {
        closed_in_handshake(peer, got < 0 ? errno : 0);
        return false;
    }
    peer->answer_have += (uint32_t)got;
    if (peer->answer_have < bytes)
        return false;
    peer->answer_have = 0;
    return true;
}

static void challenge_event(tutti_peer *peer)
{
    uint8_t proof[TCP_MAC_BYTES];

    if (!read_message(peer, TCP_CHALLENGE_BYTES))
        return;
    if (!tcp_proof_answer(peer, peer->answer, proof)) {
        tcp_connect_lose(peer, 0, stranger);
        return;
    }
    set_state(peer, TCP_PROVING);
    if (!say(peer, proof, sizeof proof))
        closed_in_handshake(peer, errno);
}

static void answer_event(tutti_peer *peer)
{
    if (!read_message(peer, TCP_ANSWER_BYTES))
        return;
    switch (read_answer(peer)) {
    case KEEP:
        become_ready(peer);
        break;
    case YIELD:
        tcp_connect_drop(peer, TCP_YIELDED);
        break;
    case REFUSE:
        tcp_connect_lose(peer, 0, "the connection was refused by");
        break;
    default:
        tcp_connect_lose(peer, 0, stranger);
    }
}

void tcp_connect_event(tutti_peer *peer)
{
    if (peer->state == TCP_DIALING)
        dial_event(peer);
    else if (peer->state == TCP_SECURING)
        greet(peer);
    else if (peer->state == TCP_GREETING)
        challenge_event(peer);
    else if (peer->state == TCP_PROVING)
        answer_event(peer);
}

/* ---- being dialled ------------------------------------------------------------------------- */

void tcp_connect_admit(tutti_peer *peer, struct tcp_link link)
{
    bool ours_is_kept = is_dialing(peer->state) && peer->endpoint->address.id < peer->address.id;
    uint8_t answer[TCP_ANSWER_BYTES];

    if (peer->state == TCP_READY || peer->state == TCP_LOST || ours_is_kept) {
        make_answer(peer, ours_is_kept ? YIELD : REFUSE, answer);
        (void)tcp_link_say(peer->endpoint, link, answer, sizeof answer);
        tcp_link_close(peer->endpoint, link);
        return;
    }
    tcp_connect_drop(peer, peer->state);
    peer->source.fd = link.fd;
    peer->source.channel = link.channel;
    set_options(link.fd);
    make_answer(peer, KEEP, answer);
    if (say(peer, answer, sizeof answer))
        become_ready(peer);
    else
        tcp_connect_lose(peer, errno, "cannot answer");
}
