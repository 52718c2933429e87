/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC reads UCX's settings from the environment while it makes a context, so the environment has some variables more
 * until UCC asks for its first gather (../ucx/environment.h). What the user has set stays.
 *
 * A UCX that reads from the memory of a process which has died ends its own process, so it is told to copy: ^cma.
 * Where all members of a context share memory, it goes without tcp, too. With it, UCX asks epoll_wait(2) in each call
 * of UCC, and sends long messages through sockets. All members must do the same, since without tcp UCX has no way to
 * a process whose memory it cannot map. Those are on one host by the core's layout, and in the same namespaces that
 * UCX's shared memory depends on: containers may have one network and one user, and yet memory of their own.
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../ucx/environment.h"

static char without_cma[] = "UCC_UCX_TLS=^cma", without_tcp[] = "UCC_UCX_TLS=^cma,tcp";

static struct environment environment;
static char *lent[1];
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

void settings_lend(const struct settings *settings)
{
    if (user_chooses_transports())
        return;
    lent[0] = settings->on_one_host ? without_tcp : without_cma;
    has_lent = environment_lend_these(&environment, lent, 1);
}

void settings_take_back(void)
{
    if (has_lent)
        environment_take_back(&environment);
    has_lent = false;
}
