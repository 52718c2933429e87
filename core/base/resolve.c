/* SPDX-License-Identifier: Apache-2.0 */
#include "base/resolve.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/thread.h"

struct lookup { /* shared by the asker and the thread; the last of them frees it */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    int users;
    bool done;
    int code;
    struct addrinfo *addresses;
    struct addrinfo hints;
    char port[8];
    char host[NI_MAXHOST];
};

static void leave(struct lookup *lookup)
{
    bool last = --lookup->users == 0;

    pthread_mutex_unlock(&lookup->mutex);
    if (!last)
        return;
    if (lookup->addresses)
        freeaddrinfo(lookup->addresses);
    pthread_cond_destroy(&lookup->ended);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

static void *look_up(void *argument)
{
    struct lookup *lookup = argument;
    struct addrinfo *addresses = NULL;
    int code = getaddrinfo(lookup->host, lookup->port, &lookup->hints, &addresses);

    pthread_mutex_lock(&lookup->mutex);
    lookup->code = code;
    lookup->addresses = code ? NULL : addresses;
    lookup->done = true;
    pthread_cond_signal(&lookup->ended);
    leave(lookup);
    return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port, const struct addrinfo *hints)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);

    if (!lookup)
        return NULL;
    thread_condition_init(&lookup->ended);
    pthread_mutex_init(&lookup->mutex, NULL);
    lookup->users = 2;
    lookup->hints = *hints;
    (void)snprintf(lookup->host, sizeof lookup->host, "%s", host);
    (void)snprintf(lookup->port, sizeof lookup->port, "%s", port);
    return lookup;
}

static int resolve_name(const char *host, const char *port, const struct addrinfo *hints,
                        int64_t deadline_ns, struct addrinfo **ret_addresses)
{
    struct lookup *lookup = lookup_new(host, port, hints);
    pthread_t thread;

    if (!lookup)
        return EAI_MEMORY;
    if (thread_start(&thread, "tutti-resolve", look_up, lookup) != 0) {
        lookup->users = 1;
        pthread_mutex_lock(&lookup->mutex);
        leave(lookup);
        return EAI_MEMORY;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->done && thread_condition_wait(&lookup->ended, &lookup->mutex, deadline_ns))
        ;

    int code = lookup->done ? lookup->code : EAI_AGAIN;

    if (!code) {
        *ret_addresses = lookup->addresses;
        lookup->addresses = NULL;
    }
    leave(lookup);
    return code;
}

int resolve(const char *host, uint16_t port, bool passive, int64_t deadline_ns,
            struct addrinfo **ret_addresses)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags =
                                 AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    char number[8];

    if (strnlen(host, NI_MAXHOST) >= NI_MAXHOST)
        return EAI_NONAME;
    (void)snprintf(number, sizeof number, "%u", port);

    int code = getaddrinfo(host, number, &hints, ret_addresses);

    if (code != EAI_NONAME)
        return code;
    hints.ai_flags &= ~AI_NUMERICHOST;
    return resolve_name(host, number, &hints, deadline_ns, ret_addresses);
}
