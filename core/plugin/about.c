/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/about.h"

#include <own_plugins.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "plugin/host.h"
#include "plugin/loaded.h"
#include "plugin/plugin.h"

#define NS UINT64_C(1000) /* picoseconds */
#define US (1000 * NS)

/* Measured on two cores that share a cache: plugins/shm, and plugins/tcp over loopback. */
static const tutti_cost of_memory = {sizeof(tutti_cost), 0, 300 * NS, 200 * NS, 83};
static const tutti_cost of_network = {sizeof(tutti_cost), 0, 6 * US, 1500 * NS, 227};

const tutti_cost *plugin_usual_cost(uint64_t capabilities)
{
    return capabilities & (TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY) ? &of_memory : &of_network;
}

const tutti_cost *plugin_cost(const tutti_plugin *plugin)
{
    const tutti_transport_ops *ops = plugin_transport(plugin);

    if (TUTTI_HAS(plugin, cost))
        return plugin->cost;
    return plugin_usual_cost(ops ? ops->capabilities : 0);
}

bool plugin_launcher(size_t i, struct plugin_launcher *ret_launcher)
{
#define LAUNCHER(plugin, variable, launcher) {variable, launcher, plugin},
    static const struct plugin_launcher own[] = {OWN_LAUNCHERS(LAUNCHER){NULL, NULL, NULL}};
#undef LAUNCHER
    const size_t own_count = sizeof own / sizeof own[0] - 1;

    if (i < own_count) {
        *ret_launcher = own[i];
        return true;
    }
    i -= own_count;
    for (const struct loaded *entry = loaded_first(); entry; entry = entry->next) {
        const tutti_plugin *plugin = entry->plugin;
        const tutti_launcher_variable *row =
            TUTTI_HAS(plugin, launcher_variables) ? plugin->launcher_variables : NULL;

        for (; row && row->variable; row++)
            if (!i--) {
                *ret_launcher =
                    (struct plugin_launcher){row->variable, row->launcher, plugin->name};
                return true;
            }
    }
    return false;
}

static void warn(const char *name, const char *message, void *user)
{
    (void)name;
    (void)user;
    log_line(LOG_WARN, -1, "%s", message);
}

tutti_status plugin_check_options(const char *name)
{
    char names[1024];

    if (environment_has_new_names(name) && environment_warns_here()) {
        plugin_known_names(names, sizeof names);
        environment_strangers(names, name, warn, NULL);
    }
    return environment_check(name);
}

tutti_status plugin_engine(const tutti_plugin *plugin, tutti_engine_version *ret_version)
{
    const tutti_collectives_ops *collectives = plugin_collectives(plugin);
    const tutti_transport_ops *transport = plugin_transport(plugin);
    void *self = host_self_of(plugin->name);
    const uint64_t errors = error_number();
    tutti_status status = TUTTI_OK;

    *ret_version = (tutti_engine_version){.struct_size = sizeof *ret_version};
    if (collectives && TUTTI_HAS(collectives, engine))
        status = collectives->engine(&host_bare, self, ret_version);
    else if (transport && TUTTI_HAS(transport, engine))
        status = transport->engine(&host_bare, self, ret_version);
    if (status && !error_since(errors))
        error_set(status, "%s does not find the library that it drives and gave no reason",
                  plugin->name);
    return status;
}

bool plugin_has_fabric(const tutti_plugin *plugin)
{
    const tutti_transport_ops *ops = plugin_transport(plugin);

    return ops && TUTTI_HAS(ops, fabric) && ops->fabric(&host_bare, host_self_of(plugin->name));
}

void plugin_settings(const tutti_plugin *plugin, struct text *settings)
{
    const tutti_transport_ops *ops = plugin_transport(plugin);
    const tutti_cost *cost = plugin_cost(plugin);
    const tutti_cost *usual = plugin_usual_cost(ops ? ops->capabilities : 0);

    environment_settings_of(plugin->name, settings);
    if (cost->message_ps != usual->message_ps || cost->further_ps != usual->further_ps ||
        cost->byte_ps != usual->byte_ps)
        text_add(settings, "the cost of %s=%llu, %llu, %llu ps\n", plugin->name,
                 (unsigned long long)cost->message_ps, (unsigned long long)cost->further_ps,
                 (unsigned long long)cost->byte_ps);
}
