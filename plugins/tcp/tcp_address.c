/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an endpoint is reached: opens its listener, and packs what the core passes to the others.
 *
 * On the wire, little-endian: "tttcp" and two zeros, version (1 byte), family (2: 4 or 6), port
 * (2), zero (4), IP (16, IPv4 in the first 4), endpoint id (8).
 */
#include "tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char address_magic[8] = {'t', 't', 't', 'c', 'p', 0, 0, 1};

void tcp_put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

uint64_t tcp_get(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

void tcp_address_pack(const struct tcp_address *address, uint8_t ret_packed[TCP_ADDRESS_BYTES])
{
    bool v6 = address->socket.ss_family == AF_INET6;

    memset(ret_packed, 0, TCP_ADDRESS_BYTES);
    memcpy(ret_packed, address_magic, sizeof address_magic);
    tcp_put(ret_packed + 8, v6 ? 6 : 4, 2);
    if (v6) {
        const struct sockaddr_in6 *in6 = (const void *)&address->socket;

        tcp_put(ret_packed + 10, ntohs(in6->sin6_port), 2);
        memcpy(ret_packed + 16, &in6->sin6_addr, 16);
    } else {
        const struct sockaddr_in *in = (const void *)&address->socket;

        tcp_put(ret_packed + 10, ntohs(in->sin_port), 2);
        memcpy(ret_packed + 16, &in->sin_addr, 4);
    }
    tcp_put(ret_packed + 32, address->id, 8);
}

bool tcp_address_unpack(const uint8_t *packed, uint64_t bytes, struct tcp_address *ret_address)
{
    if (bytes != TCP_ADDRESS_BYTES || memcmp(packed, address_magic, sizeof address_magic) != 0)
        return false;
    uint64_t family = tcp_get(packed + 8, 2);
    uint16_t port = (uint16_t)tcp_get(packed + 10, 2);
    struct tcp_address address = {.id = tcp_get(packed + 32, 8)};

    if (port == 0)
        return false;
    if (family == 6) {
        struct sockaddr_in6 *in6 = (void *)&address.socket;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, packed + 16, 16);
        address.socket_bytes = sizeof *in6;
    } else if (family == 4) {
        struct sockaddr_in *in = (void *)&address.socket;

        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, packed + 16, 4);
        address.socket_bytes = sizeof *in;
    } else {
        return false;
    }
    *ret_address = address;
    return true;
}

void tcp_address_name(const struct tcp_address *address, char *ret_name, size_t capacity)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (address->socket.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)&address->socket;

        inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof ip);
        snprintf(ret_name, capacity, "[%s]:%u", ip, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const void *)&address->socket;

        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof ip);
        snprintf(ret_name, capacity, "%s:%u", ip, ntohs(in->sin_port));
    }
}

/* Reads a numeric address. The wildcard is refused: others could not use it, and it would listen
 * where nobody asked for it. */
static bool parse(const char *text, struct tcp_address *ret_address)
{
    struct sockaddr_in *in = (void *)&ret_address->socket;
    struct sockaddr_in6 *in6 = (void *)&ret_address->socket;

    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        ret_address->socket_bytes = sizeof *in;
        return in->sin_addr.s_addr != htonl(INADDR_ANY);
    }
    memset(&ret_address->socket, 0, sizeof ret_address->socket);
    if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1)
        return false;
    in6->sin6_family = AF_INET6;
    ret_address->socket_bytes = sizeof *in6;
    return !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

/* Opens the endpoint's listener and fills its own address. */
tutti_status tcp_address_bind(tutti_endpoint *endpoint, const char *bind_address)
{
    struct tcp_address *own = &endpoint->address;
    const char *text = bind_address ? bind_address : "127.0.0.1";

    if (!parse(text, own))
        return tcp_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0,
                         "cannot listen on '%s': a numeric address of one interface is needed",
                         text);
    if (getrandom(&own->id, sizeof own->id, 0) != (ssize_t)sizeof own->id)
        return tcp_error(endpoint, TUTTI_ERR_SYSTEM, errno, "no random numbers");
    int fd = socket(own->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tcp_error(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot open a socket");
    endpoint->listener.fd = fd;
    if (bind(fd, (struct sockaddr *)&own->socket, own->socket_bytes) != 0 ||
        listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&own->socket, &own->socket_bytes) != 0)
        return tcp_error(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot listen on %s%s", text,
                         errno == EADDRINUSE
                             ? ": no port of net.ipv4.ip_local_port_range is free there; a "
                               "connection that has ended keeps its port for a minute"
                             : "");
    return TUTTI_OK;
}
