/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ESTABLISHED = 1, LISTEN = 10 }; /* as the kernel writes them */

/* A line of /proc/net/tcp. */
struct row {
    unsigned port, state;
    unsigned long inode;
};

static int next_row(FILE *file, struct row *ret_row)
{
    char line[512];

    while (fgets(line, sizeof line, file))
        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x %*s %*s %*s %*s %*s %lu", &ret_row->port,
                   &ret_row->state, &ret_row->inode) == 3)
            return 1;
    return 0;
}

/* The inodes of the sockets of a process, as " 123 456 ". */
static void list_sockets(int pid, char *ret_list, size_t size)
{
    char folder[64], path[320], target[64];
    size_t used = 1;

    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    strcpy(ret_list, " ");
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        unsigned long inode;

        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (sscanf(target, "socket:[%lu]", &inode) == 1)
            used += (size_t)snprintf(ret_list + used, size - used, "%lu ", inode);
    }
    if (dir)
        closedir(dir);
}

int ports_add(int pid, uint16_t ports[PORTS_MAX], int count)
{
    static char sockets[16384];
    char inode[32];
    struct row row;
    FILE *file = fopen("/proc/net/tcp", "re");

    list_sockets(pid, sockets, sizeof sockets);
    while (file && count < PORTS_MAX && next_row(file, &row)) {
        snprintf(inode, sizeof inode, " %lu ", row.inode);
        if (row.state == LISTEN && strstr(sockets, inode))
            ports[count++] = (uint16_t)row.port;
    }
    if (file)
        fclose(file);
    return count;
}

int ports_connections(uint16_t port)
{
    FILE *file = fopen("/proc/net/tcp", "re");
    struct row row;
    int count = 0;

    while (file && next_row(file, &row))
        count += row.port == port && row.state == ESTABLISHED;
    if (file)
        fclose(file);
    return count;
}
