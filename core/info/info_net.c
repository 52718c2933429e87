/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces, and the address that this host would show to the other members: the source address of
 * the route to the rendezvous (connect and getsockname on a UDP socket, which sends nothing), never
 * what the host's name resolves to. Without a rendezvous in the environment the default route
 * stands for it; a host without one has loopback only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "info/info.h"

/* Addresses for documentation (RFC 5737, RFC 3849): they take the default route. */
#define SOMEWHERE_V4 "198.51.100.1"
#define SOMEWHERE_V6 "2001:db8::1"

/* The bytes of an address or a mask; NULL: it is neither IPv4 nor IPv6. */
static const unsigned char *bytes_of(const struct sockaddr *address, size_t *ret_count)
{
    const bool is_v4 = address && address->sa_family == AF_INET;

    *ret_count = is_v4 ? sizeof(struct in_addr) : sizeof(struct in6_addr);
    if (is_v4)
        return (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr;
    if (address && address->sa_family == AF_INET6)
        return (const unsigned char *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    return NULL;
}

static int prefix_length(const struct sockaddr *mask)
{
    size_t count;
    const unsigned char *bytes = bytes_of(mask, &count);
    int bits = 0;

    for (size_t i = 0; bytes && i < count; i++)
        bits += __builtin_popcount(bytes[i]);
    return bits;
}

static bool address_text(const struct sockaddr *address, char text[static INET6_ADDRSTRLEN])
{
    size_t count;
    const unsigned char *bytes = bytes_of(address, &count);

    return bytes && inet_ntop(address->sa_family, bytes, text, INET6_ADDRSTRLEN);
}

static const char *interface_of(const struct ifaddrs *all, const char *address)
{
    char text[INET6_ADDRSTRLEN];

    for (; all; all = all->ifa_next)
        if (address_text(all->ifa_addr, text) && strcmp(text, address) == 0)
            return all->ifa_name;
    return "an interface";
}

/* The source address of packets to `host`, or why there is none. */
static bool route_to(const char *host, char text[static INET6_ADDRSTRLEN], const char **ret_why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    int error = getaddrinfo(host, "9", &hints, &found);
    bool ok = false;

    if (error) {
        *ret_why = gai_strerror(error);
        return false;
    }
    for (const struct addrinfo *to = found; to && !ok; to = to->ai_next) {
        struct sockaddr_storage mine = {0};
        socklen_t size = sizeof mine;
        int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        ok = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)&mine, &size) == 0 &&
             address_text((const struct sockaddr *)&mine, text);
        if (!ok)
            *ret_why = strerrordesc_np(errno);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return ok;
}

static void choice(const struct info_rows *rows, const struct ifaddrs *all)
{
    const char *master = getenv("MASTER_ADDR"), *why = "";
    char text[INET6_ADDRSTRLEN];

    if (master && *master) {
        if (route_to(master, text, &why))
            info_row(rows, "chosen", "%s on %s: the route to MASTER_ADDR=%s", text,
                     interface_of(all, text), master);
        else
            info_row(rows, "chosen", "none: MASTER_ADDR=%s cannot be reached: %s", master, why);
        return;
    }
    if (route_to(SOMEWHERE_V4, text, &why) || route_to(SOMEWHERE_V6, text, &why))
        info_row(rows, "chosen", "%s on %s: the default route, as MASTER_ADDR is not set", text,
                 interface_of(all, text));
    else
        info_row(rows, "chosen",
                 "127.0.0.1 on lo: no default route (%s), members on this host only", why);
}

void info_net(const struct info_rows *rows)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) < 0) {
        info_row(rows, "interfaces", "cannot be listed: %s", strerrordesc_np(errno));
        return;
    }
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN];

        if (address_text(one->ifa_addr, text))
            info_row(rows, one->ifa_name, "%s/%d%s%s", text, prefix_length(one->ifa_netmask),
                     one->ifa_flags & IFF_UP ? "" : " (down)",
                     one->ifa_flags & IFF_LOOPBACK ? " (this host only)" : "");
    }
    choice(rows, all);
    freeifaddrs(all);
}
