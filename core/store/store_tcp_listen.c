/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a tcp store's server: bound by address or name, and made to listen. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/resolve.h"
#include "base/text.h"
#include "store/store.h"
#include "store/store_tcp.h"

enum { RESOLVE_MS = 10 * 1000 };

/* A socket bound to the first of the addresses that can be bound. -1: errno says why. */
static int bind_first(const struct addrinfo *addresses)
{
    const int on = 1, off = 0;
    int fd = -1, error = EADDRNOTAVAIL;

    for (const struct addrinfo *address = addresses; address && fd < 0;
         address = address->ai_next) {
        fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            error = errno;
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (address->ai_family == AF_INET6)
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, address->ai_addr, address->ai_addrlen) != 0) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    errno = error;
    return fd;
}

tutti_status store_tcp_listen(int fd, uint16_t *ret_port)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "the store server cannot listen");
    if (address.ss_family == AF_INET)
        *ret_port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    else if (address.ss_family == AF_INET6)
        *ret_port = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    else
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the store server needs a TCP socket");
    return TUTTI_OK;
}

tutti_status store_server_start(const char *address, uint16_t port, const struct key *handed,
                                tutti_store_server **ret_server)
{
    struct addrinfo *addresses;

    const int code = resolve(address, port, true, clock_deadline_ms(RESOLVE_MS), &addresses);

    if (code)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a store server cannot bind to \"%.*s\": %s",
                         TEXT_CUT(address, 200), gai_strerror(code));

    const int fd = bind_first(addresses);
    const int error = errno;

    freeaddrinfo(addresses);
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_STORE, error, "a store server cannot bind to %.*s:%u",
                               TEXT_CUT(address, 200), port);
    return store_server_start_on(fd, handed, ret_server);
}

tutti_status tutti_store_server_start(const char *address, uint16_t port,
                                      tutti_store_server **ret_server)
{
    if (!address || !*address || !ret_server)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "address and ret_server must not be NULL");
    return error_named(store_server_start(address, port, NULL, ret_server));
}
