/* SPDX-License-Identifier: Apache-2.0 */
/* Host services that need no group. */
#ifndef TUTTI_PLUGIN_HOST_H
#define TUTTI_PLUGIN_HOST_H

#include <stdint.h>

#include <tutti/plugin.h>

int64_t host_now(void *self);
void *host_allocate(void *self, uint64_t bytes);
void host_release(void *self, void *memory);
/* The value of option `key` of plugin `name`, NULL: not set. */
const char *host_option(const char *name, const char *key);

/* log, now_ns, allocate, release, config and error; `self` is the plugin's name (host_self_of). */
extern const tutti_host host_bare;

static inline void *host_self_of(const char *name)
{
    return (void *)(uintptr_t)name;
}

#endif
