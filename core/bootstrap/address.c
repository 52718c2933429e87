/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/address.h"

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/store.h"

_Static_assert((int)ADDRESS_MAX == (int)STORE_ADDRESS_ROOM, "one room for addresses");

/* The local end of the route to a numeric address; nothing is sent. */
static bool local_end(const char *to, char ret_address[ADDRESS_MAX])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;

    if (getaddrinfo(to, "9", &hints, &found))
        return false;
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen) &&
                 !getsockname(fd, (struct sockaddr *)&name, &length) &&
                 !getnameinfo((struct sockaddr *)&name, length, ret_address, ADDRESS_MAX, NULL, 0,
                              NI_NUMERICHOST);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return known;
}

void address_of_host(char ret_address[ADDRESS_MAX])
{
    /* Reserved for documentation (RFC 5737, RFC 3849), so that only a default route leads there. */
    static const char *const anywhere[] = {"192.0.2.1", "2001:db8::1"};
    char address[ADDRESS_MAX];

    *address = 0;
    for (size_t i = 0; !*address && i < sizeof anywhere / sizeof anywhere[0]; i++) {
        if (!local_end(anywhere[i], address))
            *address = 0;
    }
    strcpy(ret_address, *address ? address : "127.0.0.1");
}

void address_of_route(tutti_store *store, char ret_address[ADDRESS_MAX])
{
    store_local_address(store, ret_address);
    if (!*ret_address)
        address_of_host(ret_address);
}
