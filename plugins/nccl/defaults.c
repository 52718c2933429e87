/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL reads these variables when it makes the first id or begins the first communicator of a process, and in a thread
 * that makes the communicator, which needs some 0.3 s. There is no function that sets them. So the environment has them
 * for so long (../common/environment.h). Once a communicator is ready, NCCL has read all of them, and no later group changes
 * the environment.
 *
 * By itself NCCL takes InfiniBand's interfaces, else all but those of loopback and containers. The one of `bind_address`
 * is that by which the members reach the rendezvous, so they reach each other there, too. NCCL takes the first address of
 * an interface, of IPv4 where there is one, so the family is named, too. But it never takes ::1.
 *
 * A value of a file nccl.conf is the user's, too.
 */
#include "defaults.h"

#include <net/if.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../common/environment.h"
#include "../common/interface.h"
#include "lines.h"
#include "settings.h"

enum { LENT_MAX = 4, VARIABLE_BYTES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct environment environment;
static char *lent[LENT_MAX];
static int holders;
static bool has_lent, is_read;

static bool user_sets(const char *variable)
{
    return *setting(variable);
}

/* Never freed: another thread may be reading the environment. */
static size_t add(size_t count, const char *variable, const char *value)
{
    char *words = user_sets(variable) ? NULL : malloc(VARIABLE_BYTES);

    if (!words)
        return count;
    (void)snprintf(words, VARIABLE_BYTES, "%s=%s", variable, value);
    lent[count] = words;
    return count + 1;
}

static size_t add_network(size_t count, const struct caller *caller, const char *bind_address)
{
    char interface[IF_NAMESIZE], name[IF_NAMESIZE + 1], words[200];

    if (!*bind_address || user_sets("NCCL_SOCKET_IFNAME"))
        return count;
    if (!interface_find(bind_address, interface, sizeof interface)) {
        (void)snprintf(words, sizeof words,
                       "no network interface has %.64s, the address of this host: NCCL chooses "
                       "those that it listens on (NCCL_SOCKET_IFNAME names them)",
                       bind_address);
        caller->host->log(caller->self, 1, words);
        return count;
    }
    (void)snprintf(name, sizeof name, "=%s", interface); /* else all that begin so */
    count = add(count, "NCCL_SOCKET_IFNAME", name);
    if (strchr(bind_address, ':') && strcmp(bind_address, "::1") != 0)
        count = add(count, "NCCL_SOCKET_FAMILY", "AF_INET6");
    return count;
}

/* Without a level NCCL prints nothing at all, and no file where it has none of its own. */
static size_t add_lines(size_t count)
{
    const char *name = user_sets("NCCL_DEBUG_FILE") ? NULL : lines_file(user_sets("NCCL_DEBUG"));

    if (!name)
        return count;
    count = add(count, "NCCL_DEBUG", "WARN");
    return add(count, "NCCL_DEBUG_FILE", name);
}

bool defaults_lend(const struct caller *caller, const char *bind_address)
{
    bool holds;

    pthread_mutex_lock(&lock);
    holds = !is_read;
    if (holds && holders++ == 0) {
        const size_t count = add_lines(add_network(0, caller, bind_address));

        has_lent = count && environment_lend_these(&environment, lent, count);
    }
    pthread_mutex_unlock(&lock);
    return holds;
}

void defaults_take_back(bool has_made)
{
    pthread_mutex_lock(&lock);
    is_read = is_read || has_made;
    if (--holders == 0 && has_lent) {
        environment_take_back(&environment);
        has_lent = false;
    }
    pthread_mutex_unlock(&lock);
}
