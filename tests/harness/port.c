/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* The socket is bound and never listens; it is left to the end of the process. */
uint16_t port_reserve(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        !bind(fd, (const struct sockaddr *)&address, size) &&
        !getsockname(fd, (struct sockaddr *)&address, &size))
        return ntohs(address.sin_port);
    const int error = errno;
    close(fd);
    errno = error;
    return 0;
}
