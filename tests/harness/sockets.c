/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "harness/rank.h"

static void count(int fd, struct sockets *sockets)
{
    struct sockaddr_in at = {0}, peer;
    socklen_t bytes = sizeof at, peer_bytes = sizeof peer, of_flag = sizeof(int);
    int listens = 0;

    if (getsockname(fd, (struct sockaddr *)&at, &bytes) ||
        (at.sin_family != AF_INET && at.sin_family != AF_INET6) ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &of_flag))
        return;
    sockets->connected += !getpeername(fd, (struct sockaddr *)&peer, &peer_bytes);
    sockets->listening += listens;
    sockets->elsewhere +=
        listens && (at.sin_family != AF_INET || at.sin_addr.s_addr != htonl(INADDR_LOOPBACK));
}

struct sockets sockets_inherited(void)
{
    struct sockets sockets = {0};
    DIR *folder = opendir("/proc/self/fd");

    require(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const int fd = atoi(entry->d_name);

        if (*entry->d_name != '.' && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            count(fd, &sockets);
    }
    closedir(folder);
    return sockets;
}
