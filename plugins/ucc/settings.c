/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC reads UCX's settings from the environment while it makes a context, so the environment has some variables more
 * until UCC asks for its first gather (../common/environment.h). What the user has set stays.
 *
 * A UCX that reads from the memory of a process which has died ends its own process, so it is told to copy: ^cma.
 * Where all members of a context share memory, it goes without tcp, too. With it, UCX asks epoll_wait(2) in each call
 * of UCC, and sends long messages through sockets. All members must do the same, since without tcp UCX has no way to
 * a process whose memory it cannot map. Those are on one host by the core's layout, and in the same namespaces that
 * UCX's shared memory depends on: containers may have one network and one user, and yet memory of their own.
 *
 * A further context of members on one host has memory of System V (sysv) in place of 4.3 MiB of /dev/shm (posix), where
 * Docker has room for the world's contexts and not for more.
 *
 * Between hosts UCX's tcp listens on every interface that it may use. So it gets the interface of the route to the
 * rendezvous alone, and all devices without sockets.
 */
#include "settings.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/environment.h"
#include "../common/interface.h"
#include "ports.h"

enum { DEVICES_BYTES = 1024 };

static char without_cma[] = "UCC_UCX_TLS=^cma", without_tcp[] = "UCC_UCX_TLS=^cma,tcp",
            without_posix[] = "UCC_UCX_TLS=^cma,tcp,posix";

static struct environment environment;
static char *lent[2];
static bool has_lent;

static bool user_chooses_transports(void)
{
    return getenv("UCX_TLS") || getenv("UCC_UCX_TLS");
}

/* UCX's posix opens /proc/PID/fd/N of the other process, and its sysv segments of the same IPC namespace. */
void settings_key(uint8_t ret_key[SETTINGS_KEY_BYTES])
{
    static const char *const spaces[] = {"/proc/self/ns/ipc", "/proc/self/ns/pid",
                                         "/proc/self/ns/user"};
    uint64_t numbers[sizeof spaces / sizeof spaces[0]];
    struct stat info;

    _Static_assert(sizeof numbers == SETTINGS_KEY_BYTES, "a number for each namespace");
    memset(ret_key, 0, SETTINGS_KEY_BYTES);
    if (user_chooses_transports())
        return;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (stat(spaces[i], &info))
            return;
        numbers[i] = info.st_ino;
    }
    memcpy(ret_key, numbers, sizeof numbers);
}

bool settings_keys_fit(const uint8_t one[SETTINGS_KEY_BYTES],
                       const uint8_t other[SETTINGS_KEY_BYTES])
{
    static const uint8_t unknown[SETTINGS_KEY_BYTES];

    return memcmp(one, unknown, sizeof unknown) != 0 && !memcmp(one, other, sizeof unknown);
}

/* Never freed: another thread may be reading the environment. */
static char *name_devices(const struct caller *caller, const char *bind_address)
{
    char interface[IF_NAMESIZE], words[200];
    char *variable = NULL;

    if (interface_find(bind_address, interface, sizeof interface) &&
        ports_have_interface(PORTS_OF_NET, interface))
        variable = malloc(DEVICES_BYTES);
    if (variable) {
        snprintf(variable, DEVICES_BYTES, "UCC_UCX_NET_DEVICES=%s", interface);
        ports_add_fabric(PORTS_OF_FABRIC, variable, DEVICES_BYTES);
        return variable;
    }
    snprintf(words, sizeof words,
             "no device of UCX is known for %.64s, the address of this host: UCC may listen on "
             "every interface (UCX_NET_DEVICES chooses)",
             bind_address);
    caller->host->log(caller->self, 1, words);
    return NULL;
}

/* UCC_NET_DEVICES since UCC 1.4. */
static bool user_chooses_devices(void)
{
    return getenv("UCX_NET_DEVICES") || getenv("UCC_UCX_NET_DEVICES") || getenv("UCC_NET_DEVICES");
}

struct settings settings_choose(const struct caller *caller, bool on_one_host,
                                const char *bind_address)
{
    const bool chooses_devices = !on_one_host && *bind_address && !user_chooses_devices();

    return (struct settings){.on_one_host = on_one_host,
                             .devices =
                                 chooses_devices ? name_devices(caller, bind_address) : NULL};
}

void settings_lend(const struct settings *settings)
{
    size_t count = 0;

    if (!user_chooses_transports())
        lent[count++] = settings->is_further    ? without_posix
                        : settings->on_one_host ? without_tcp
                                                : without_cma;
    if (settings->devices)
        lent[count++] = settings->devices;
    has_lent = count && environment_lend_these(&environment, lent, count);
}

void settings_take_back(void)
{
    if (has_lent)
        environment_take_back(&environment);
    has_lent = false;
}
