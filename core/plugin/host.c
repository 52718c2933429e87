/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

int64_t host_now(void *self)
{
    (void)self;
    return clock_now_ns();
}

void *host_allocate(void *self, uint64_t bytes)
{
    (void)self;
    return calloc(1, bytes ? bytes : 1);
}

void host_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

/* TUTTI_NAME_KEY in the environment, TUTTI_NAME when the key is empty; NULL: not set. */
const char *host_config(void *self, const char *key)
{
    char variable[128];

    int n = snprintf(variable, sizeof variable, "TUTTI_%s%s%s", (const char *)self, *key ? "_" : "",
                     key);
    if (n < 0 || (size_t)n >= sizeof variable)
        return NULL;
    for (char *p = variable; *p; p++)
        *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p == '-' || *p == '.' ? '_' : *p;
    return secure_getenv(variable);
}

void host_log(void *self, int32_t level, const char *message)
{
    const struct host_user *user = self;

    log_line((enum log_level)level, user->rank, "%s: %s", user->name, message);
}

static void bare_log(void *self, int32_t level, const char *message)
{
    log_line((enum log_level)level, -1, "%s: %s", (const char *)self, message);
}

static tutti_status bare_error(void *self, tutti_status status, int32_t system_errno,
                               const char *message)
{
    return system_errno
               ? error_set_errno(status, system_errno, "%s: %s", (const char *)self, message)
               : error_set(status, "%s: %s", (const char *)self, message);
}

static _Thread_local const struct host_user *borrowed;

void host_borrow(const struct host_user *user)
{
    borrowed = user;
}

tutti_status host_error(void *self, tutti_status status, int32_t system_errno, const char *message)
{
    struct host_user *user = self;

    if (user != borrowed)
        user->status = status;
    return bare_error(user->name, status, system_errno, message);
}

const tutti_host host_bare = {HOST_SERVICES(bare)};
