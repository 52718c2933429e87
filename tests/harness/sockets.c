/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

static struct sockets sockets_of(bool inherited_only)
{
    struct sockets sockets = {0};
    DIR *folder = opendir("/proc/self/fd");

    require(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const int fd = atoi(entry->d_name);

        if (*entry->d_name != '.' && !(inherited_only && fcntl(fd, F_GETFD) & FD_CLOEXEC))
            count(fd, &sockets);
    }
    closedir(folder);
    return sockets;
}

struct sockets sockets_inherited(void)
{
    return sockets_of(true);
}

struct sockets sockets_all(void)
{
    return sockets_of(false);
}

int descriptors_of_a_child(void)
{
    int ends[2], lines = 0, status;

    require(!pipe2(ends, O_CLOEXEC));
    const pid_t child = fork();
    if (!child) {
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            execlp("timeout", "timeout", "10", "ls", "/proc/self/fd", (char *)NULL);
        _exit(1);
    }
    require(child > 0);
    close(ends[1]);
    FILE *listed = fdopen(ends[0], "r");
    require(listed != NULL);
    for (int c; (c = fgetc(listed)) != EOF;)
        lines += c == '\n';
    fclose(listed);
    require(waitpid(child, &status, 0) == child);
    check_eq(status, 0);
    return lines;
}
