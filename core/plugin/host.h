/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core does for plugins: the services that need no group, and the table of all.
 *
 * `self` of a service begins with the plugin's name. Before there is a group it is the name alone, and the
 * table host_bare; later it is a struct host_user, and the table begins with HOST_SERVICES.
 */
#pragma once

#include <stdint.h>

#include <tutti/plugin.h>

#include "plugin/plugin.h"

struct tls_keys;
struct tutti_group;

/* On whose behalf a plugin asks: a transport, a team or a wrapper. */
struct host_user {
    char name[PLUGIN_NAME_MAX + 1]; /* the plugin's */
    int rank;                       /* of this process, in lines of the log */
    int place;                      /* of the provider in the group: a level, or NATIVE */
    tutti_status status;            /* that the plugin has told error() last; OK: none */
    struct tutti_group *group;
    struct tls_keys *keys; /* of its connections; NULL: it has asked for none */
};

int64_t host_now(void *self);
void *host_allocate(void *self, uint64_t bytes);
void host_release(void *self, void *memory);
const char *host_config(void *self, const char *key);
void host_log(void *self, int32_t level, const char *message);
tutti_status host_error(void *self, tutti_status status, int32_t system_errno, const char *message);
/* This thread uses the plugin without the progress lock, until it is called with NULL: what the plugin tells error()
 * meanwhile is the thread's error alone (error_since()), and leaves `status` to the others. */
void host_borrow(const struct host_user *user);

/* HOST_SERVICES(host): `self` is a struct host_user. */
#define HOST_SERVICES(kind)                                                                        \
    .struct_size = sizeof(tutti_host), .abi_minor = TUTTI_PLUGIN_ABI_MINOR, .log = kind##_log,     \
    .now_ns = host_now, .allocate = host_allocate, .release = host_release, .config = host_config, \
    .error = kind##_error

/* `self` is the plugin's name (host_self_of). */
extern const tutti_host host_bare;

static inline void *host_self_of(const char *name)
{
    return (void *)(uintptr_t)name;
}
