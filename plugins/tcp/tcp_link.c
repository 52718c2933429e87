/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its socket, and where the group encrypts, a channel of the core's on it
 * (tutti_host.channel_open). The channel does its handshake when a message is first sent or received.
 *
 * A channel reads ahead, so the epoll set does not tell of everything that can be read: tcp_stream_watch()
 * asks the channel besides.
 */
#include "tcp.h"

#include <errno.h>
#include <unistd.h>

struct tcp_link tcp_link_take(tutti_endpoint *endpoint, struct tcp_source *source)
{
    const struct tcp_link link = tcp_link_of(source);

    tcp_watch(endpoint, source, 0);
    source->fd = -1;
    source->channel = NULL;
    return link;
}

void tcp_link_close(tutti_endpoint *endpoint, struct tcp_link link)
{
    if (link.channel)
        endpoint->host->channel_close(link.channel);
    close(link.fd);
}

tutti_status tcp_link_secure(tutti_endpoint *endpoint, struct tcp_source *source, bool listens)
{
    if (!endpoint->encrypts || source->channel)
        return TUTTI_OK;
    return endpoint->host->channel_open(endpoint->host_self, source->fd, listens, &source->channel);
}

bool tcp_link_say(tutti_endpoint *endpoint, struct tcp_link link, const void *message, size_t bytes)
{
    const tutti_piece piece = {message, bytes};
    const ssize_t sent = link.channel ? endpoint->host->channel_send(link.channel, &piece, 1)
                                      : send(link.fd, message, bytes, MSG_NOSIGNAL);

    if (sent >= 0 && (size_t)sent != bytes)
        errno = EAGAIN;
    return sent == (ssize_t)bytes;
}

ssize_t tcp_link_hear(tutti_endpoint *endpoint, const struct tcp_source *source, void *message,
                      size_t bytes)
{
    return source->channel ? endpoint->host->channel_recv(source->channel, message, bytes)
                           : recv(source->fd, message, bytes, 0);
}

ssize_t tcp_link_send(tutti_peer *peer, const struct iovec *pieces, size_t count)
{
    tutti_piece given[TCP_GATHER];

    for (size_t i = 0; i < count; i++)
        given[i] = (tutti_piece){pieces[i].iov_base, pieces[i].iov_len};
    return peer->endpoint->host->channel_send(peer->source.channel, given, (uint32_t)count);
}

ssize_t tcp_link_receive(tutti_peer *peer, const struct iovec pieces[2])
{
    const tutti_host *host = peer->endpoint->host;
    tutti_channel *channel = peer->source.channel;
    ssize_t got = 0;

    if (pieces[0].iov_len)
        got = host->channel_recv(channel, pieces[0].iov_base, pieces[0].iov_len);
    if (got < 0 || (size_t)got < pieces[0].iov_len || !pieces[1].iov_len ||
        (got && !host->channel_has_unread(channel)))
        return got;
    const ssize_t more = host->channel_recv(channel, pieces[1].iov_base, pieces[1].iov_len);
    return got && more < 0 ? got : got + more;
}
