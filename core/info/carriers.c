/* SPDX-License-Identifier: Apache-2.0 */
#include "info/carriers.h"

#include <stdio.h>
#include <string.h>

#include <tutti/plugin.h>

#include "base/error.h"
#include "plugin/host.h"

static const struct carriers of_auto = {
    .local = {"shm", TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY, NULL},
    .remote = {"tcp", 0, NULL},
};

static tutti_status find(const char *name, struct carrier *ret_carrier)
{
    const tutti_plugin *plugin;
    tutti_status status = plugin_find(name, &plugin);

    if (status)
        return status;
    const tutti_transport_ops *ops = plugin_transport(plugin);
    ret_carrier->engine = plugin_collectives(plugin);
    if (!ops)
        return error_set(TUTTI_ERR_UNSUPPORTED, "backend %s offers no transport", name);
    memcpy(ret_carrier->name, name, strlen(name) + 1);
    ret_carrier->capabilities = ops->capabilities;
    return TUTTI_OK;
}

tutti_status carriers_find(const struct backend_choice *choice, struct carriers *ret_carriers)
{
    struct carriers carriers = of_auto;
    const char *names[3];
    tutti_status status = TUTTI_OK;

    backend_candidates(choice, names);
    if (*names[2]) {
        const tutti_plugin *plugin;

        status = plugin_find(names[2], &plugin);
        snprintf(carriers.alone.name, sizeof carriers.alone.name, "%s", names[2]);
        carriers.alone.engine = status ? NULL : plugin_collectives(plugin);
    } else if (!choice->is_auto) {
        status = find(choice->local, &carriers.local);
        if (!status)
            status = find(choice->remote, &carriers.remote);
        if (choice->rule_count) /* rules choose who carries, not whose engine serves */
            carriers.local.engine = carriers.remote.engine = NULL;
    }
    if (!status)
        *ret_carriers = carriers;
    return status;
}

/* The engine that reaches all members; NULL: there is none. */
static const struct native_facts *engine_of(const struct carriers *carriers, bool uses_local,
                                            bool uses_remote, struct native_facts *ret_native)
{
    const struct carrier *carrier = *carriers->alone.name       ? &carriers->alone
                                    : uses_local && uses_remote ? NULL
                                    : uses_local                ? &carriers->local
                                                                : &carriers->remote;

    if (!carrier || !carrier->engine)
        return NULL;
    *ret_native = (struct native_facts){carrier->name, carrier->engine, &host_bare,
                                        host_self_of(carrier->name)};
    return ret_native;
}

struct group_facts carriers_wide_facts(const struct carriers *carriers, const struct layout *layout)
{
    return (struct group_facts){.layout = layout,
                                .messages = layout->hosts == 1 ||
                                            !(carriers->remote.capabilities & TUTTI_CAP_HOST_ONLY),
                                .remote_name = carriers->remote.name};
}

struct group_facts carriers_facts(const struct carriers *carriers, const struct layout *layout,
                                  struct native_facts *ret_native)
{
    const struct carrier *local = &carriers->local, *remote = &carriers->remote;
    const bool single = !strcmp(local->name, remote->name);
    const bool mates = layout->hosts < layout->size;
    /* One backend for everything maps memory only where it stays inside a host. */
    const bool uses_local = single ? local->capabilities & TUTTI_CAP_HOST_ONLY : mates;
    const bool mapped = uses_local && local->capabilities & TUTTI_CAP_MAP;
    const struct carrier *messages = layout->hosts > 1 || !mates ? remote : local;

    return (struct group_facts){
        .layout = layout,
        .mapped = mapped,
        .messages = layout->hosts == 1 || !(messages->capabilities & TUTTI_CAP_HOST_ONLY),
        .local_name = mapped ? local->name : NULL,
        .remote_name = messages->name,
        .native = engine_of(carriers, uses_local, !uses_local || (layout->hosts > 1 && !single),
                            ret_native)};
}
