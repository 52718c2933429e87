/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_crowd.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

void store_crowd_init(struct store_crowd *crowd)
{
    struct rlimit files = {.rlim_cur = 2 * STORE_CROWD_MAX};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    *crowd = (struct store_crowd){.limit = files.rlim_cur / 2 < STORE_CROWD_MAX
                                               ? (unsigned)(files.rlim_cur / 2)
                                               : STORE_CROWD_MAX};
}

uint8_t store_crowd_group(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } name = {.six = {0}};
    socklen_t size = sizeof name;
    uint32_t hash = 0;

    (void)getpeername(fd, &name.any, &size);
    const uint32_t *words = name.six.sin6_addr.s6_addr32;
    if (name.any.sa_family != AF_INET6)
        hash = name.four.sin_addr.s_addr;
    else if (IN6_IS_ADDR_V4MAPPED(&name.six.sin6_addr))
        hash = words[3];
    else
        hash = words[0] * 31 + words[1];
    return (uint8_t)((hash * UINT32_C(2654435761)) >> 24); /* Knuth's multiplicative hash */
}

void store_crowd_enter(struct store_crowd *crowd, uint8_t group)
{
    crowd->count++;
    crowd->of_group[group]++;
}

void store_crowd_leave(struct store_crowd *crowd, uint8_t group)
{
    crowd->count--;
    crowd->of_group[group]--;
}

uint8_t store_crowd_largest(const struct store_crowd *crowd)
{
    int largest = 0;

    for (int i = 1; i < STORE_CROWD_GROUPS; i++)
        if (crowd->of_group[i] > crowd->of_group[largest])
            largest = i;
    return (uint8_t)largest;
}
