/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendezvous URLs:
 *
 *     env://  tcp://HOST:PORT  file:///PATH    each with ?rank=R&world_size=N, either or both
 *
 * HOST is a name or an address, IPv6 in brackets. Nothing is percent-decoded, as in torch.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include <tutti/status.h>

enum { URL_HOST_MAX = 253, URL_MEMBERS_MAX = 65535 };

enum url_kind { URL_ENVIRONMENT, URL_TCP, URL_FILE };

struct url {
    enum url_kind kind;
    int rank;                    /* -1: not said */
    int world_size;              /* 0: not said */
    uint16_t port;               /* tcp */
    char host[URL_HOST_MAX + 1]; /* tcp; without brackets */
    char path[PATH_MAX];         /* file; absolute */
};

/* `source` ("init_url", "TUTTI_STORE") begins the error's message. */
tutti_status url_parse(const char *source, const char *text, struct url *ret_url);

/* Checks a host on its own (MASTER_ADDR) and copies it. */
tutti_status url_take_host(const char *source, const char *host, char ret_host[URL_HOST_MAX + 1]);
