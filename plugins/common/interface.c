/* SPDX-License-Identifier: Apache-2.0 */
#include "interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool has_address(const struct sockaddr *at, const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (!at)
        return false;
    if (at->sa_family == AF_INET && inet_pton(AF_INET, address, &v4) == 1)
        return !memcmp(&((const struct sockaddr_in *)(const void *)at)->sin_addr, &v4, sizeof v4);
    return at->sa_family == AF_INET6 && inet_pton(AF_INET6, address, &v6) == 1 &&
           !memcmp(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr, &v6, sizeof v6);
}

bool interface_find(const char *address, char *ret_interface, size_t capacity)
{
    struct ifaddrs *all;
    bool found = false;

    if (getifaddrs(&all))
        return false;
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        if (has_address(one->ifa_addr, address)) { /* «eth0:1» is another address of eth0 */
            snprintf(ret_interface, capacity, "%.*s", (int)strcspn(one->ifa_name, ":"),
                     one->ifa_name);
            found = true;
        }
    freeifaddrs(all);
    return found;
}
