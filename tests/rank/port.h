/* SPDX-License-Identifier: Apache-2.0 */
/* For ranks that serve a store of their own. */
#pragma once

#include <netinet/in.h>
#include <stdio.h>
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

enum { INNER_URL = 128 };

/* `options` of another world of the same ranks, whose store its rank 0 serves; the text is in `url`. */
static inline void meet_at_rank_0(tutti_group *outside, tutti_init_options *options, char *url)
{
    snprintf(url, INNER_URL, "tcp://127.0.0.1:%d?rank=%d&world_size=%d", agree_on_port(outside),
             tutti_group_rank(outside), tutti_group_size(outside));
    options->init_url = url;
    options->group_name = "inner";
}
