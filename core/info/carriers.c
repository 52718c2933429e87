/* SPDX-License-Identifier: Apache-2.0 */
#include "info/carriers.h"

#include <string.h>

#include <tutti/plugin.h>

#include "base/error.h"

static const struct carriers of_auto = {
    .local = {"shm", TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY},
    .remote = {"tcp", 0},
};

static tutti_status find(const char *name, struct carrier *ret_carrier)
{
    const tutti_plugin *plugin;
    tutti_status status = plugin_find(name, &plugin);

    if (status)
        return status;
    const tutti_transport_ops *ops = plugin_transport(plugin);
    if (!ops)
        return error_set(TUTTI_ERR_UNSUPPORTED, "plugin %s offers no transport", name);
    memcpy(ret_carrier->name, name, strlen(name) + 1);
    ret_carrier->capabilities = ops->capabilities;
    return TUTTI_OK;
}

tutti_status carriers_find(const struct backend_choice *choice, struct carriers *ret_carriers)
{
    struct carriers carriers = of_auto;
    tutti_status status = choice->is_auto ? TUTTI_OK : find(choice->local, &carriers.local);

    if (!status && !choice->is_auto)
        status = find(choice->remote, &carriers.remote);
    if (!status)
        *ret_carriers = carriers;
    return status;
}

struct group_facts carriers_facts(const struct carriers *carriers, const struct layout *layout)
{
    const struct carrier *local = &carriers->local, *remote = &carriers->remote;
    const bool single = !strcmp(local->name, remote->name);
    const bool mates = layout->hosts < layout->size;
    /* One backend for everything maps memory only where it stays inside a host. */
    const bool uses_local = single ? local->capabilities & TUTTI_CAP_HOST_ONLY : mates;
    const bool mapped = uses_local && local->capabilities & TUTTI_CAP_MAP;
    const struct carrier *messages = layout->hosts > 1 || !mates ? remote : local;

    return (struct group_facts){.layout = layout,
                                .mapped = mapped,
                                .messages = layout->hosts == 1 ||
                                            !(messages->capabilities & TUTTI_CAP_HOST_ONLY),
                                .local_name = mapped ? local->name : NULL,
                                .remote_name = messages->name};
}
