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

/* TUTTI_NAME_KEY in the environment; TUTTI_NAME when the key is empty. */
const char *host_option(const char *name, const char *key)
{
    char variable[128];

    int n = snprintf(variable, sizeof variable, "TUTTI_%s%s%s", name, *key ? "_" : "", key);
    if (n < 0 || (size_t)n >= sizeof variable)
        return NULL;
    for (char *p = variable; *p; p++)
        *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p == '-' || *p == '.' ? '_' : *p;
    return secure_getenv(variable);
}

static void bare_log(void *self, int32_t level, const char *words)
{
    log_line((enum log_level)level, -1, "%s: %s", (const char *)self, words);
}

static const char *bare_config(void *self, const char *key)
{
    return host_option(self, key);
}

static tutti_status bare_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    return system_errno ? error_set_errno(status, system_errno, "%s: %s", (const char *)self, words)
                        : error_set(status, "%s: %s", (const char *)self, words);
}

const tutti_host host_bare = {
    .struct_size = sizeof(tutti_host),
    .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
    .log = bare_log,
    .now_ns = host_now,
    .allocate = host_allocate,
    .release = host_release,
    .config = bare_config,
    .error = bare_error,
};
