/* SPDX-License-Identifier: Apache-2.0 */
/* For ranks that serve a store of their own. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/rank.h"

/* A port that is free now; told by rank 0. */
static inline int agree_on_port(tutti_group *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int64_t shape;
    int32_t port = 0;
    tutti_tensor t = tutti_tensor_1d(&port, TUTTI_I32, &shape, 1);

    if (tutti_group_rank(world) == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        require(!bind(fd, (struct sockaddr *)&address, bytes) &&
                !getsockname(fd, (struct sockaddr *)&address, &bytes));
        port = ntohs(address.sin_port);
        close(fd);
    }
    require_ok(tutti_broadcast(world, &t, 0, NULL, NULL));
    return port;
}
