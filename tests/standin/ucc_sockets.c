/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that UCX's tcp has for a context: a listener on each interface that it may use, and connections between
 * members, once these have told each other their addresses. Here both ends of one connection are in this process. A child inherits all of them, as from UCX.
 */
#include "ucc.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* UCC's variable, else UCX's. */
static const char *setting(const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "UCC_UCX_%s", name);
    return getenv(full) ?: getenv(full + strlen("UCC_")) ?: "all";
}

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && !strncmp(list, word, length))
            return true;
    return false;
}

static bool is_allowed(const char *list, const char *word)
{
    const bool negative = *list == '^';

    return negative != (has_word(list + negative, word) || has_word(list + negative, "all"));
}

static void keep(struct ucci_context *context, int fd)
{
    if (fd >= 0 && context->socket_count < SOCKETS_MAX)
        context->sockets[context->socket_count++] = fd;
    else if (fd >= 0)
        close(fd);
}

void sockets_connect(struct ucci_context *context)
{
    const int listener = context->socket_count ? context->sockets[0] : -1;
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) ||
        connect(fd, (struct sockaddr *)&at, bytes)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    keep(context, fd);
    keep(context, accept(listener, NULL, NULL));
}

static int listen_on(const struct sockaddr *address)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || (!bind(fd, address, sizeof(struct sockaddr_in)) && !listen(fd, 8)))
        return fd;
    close(fd);
    return -1;
}

void sockets_open(struct ucci_context *context)
{
    const char *devices = setting("NET_DEVICES");
    struct ifaddrs *all;

    if (!is_allowed(setting("TLS"), "tcp") || getifaddrs(&all))
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP) ||
            !is_allowed(devices, one->ifa_name) || context->socket_count + 3 > SOCKETS_MAX)
            continue;
        keep(context, listen_on(one->ifa_addr));
    }
    freeifaddrs(all);
}

void sockets_close(struct ucci_context *context)
{
    while (context->socket_count)
        close(context->sockets[--context->socket_count]);
}
