/* SPDX-License-Identifier: Apache-2.0 */
#include "info/carriers.h"

#include <stdio.h>
#include <string.h>

#include <tutti/plugin.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "plugin/about.h"
#include "plugin/host.h"
#include "plugin/known.h"

/* `auto`, whose plugins need not be opened. */
static struct carriers of_auto(void)
{
    const uint64_t memory = TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY;
    struct carriers carriers = {
        .each[BACKEND_LOCAL] = {.capabilities = memory, .cost = plugin_usual_cost(memory)},
        .each[BACKEND_REMOTE] = {.cost = plugin_usual_cost(0)},
    };

    snprintf(carriers.each[BACKEND_LOCAL].name, PLUGIN_NAME_MAX + 1, "%s", known_auto_local);
    snprintf(carriers.each[BACKEND_REMOTE].name, PLUGIN_NAME_MAX + 1, "%s", known_auto_remote);
    return carriers;
}

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
    ret_carrier->cost = plugin_cost(plugin);
    return TUTTI_OK;
}

/* One that carries no messages; "": none. */
static tutti_status find_engine(const char *name, struct carrier *ret_carrier)
{
    const tutti_plugin *plugin;

    if (!*name)
        return TUTTI_OK;
    const tutti_status status = plugin_find(name, &plugin);
    snprintf(ret_carrier->name, sizeof ret_carrier->name, "%s", name);
    ret_carrier->engine = status ? NULL : plugin_collectives(plugin);
    return status;
}

tutti_status carriers_find(const struct backend_choice *choice, struct carriers *ret_carriers)
{
    struct carriers carriers = of_auto();
    const char *names[BACKEND_NAMES_MAX + 2];

    backend_candidates(choice, names);
    tutti_status status = find_engine(names[BACKEND_NAMES_MAX], &carriers.alone);
    if (!status)
        status = find_engine(names[BACKEND_NAMES_MAX + 1], &carriers.on_devices);
    if (!status && !*carriers.alone.name && !choice->is_auto) {
        for (int i = 0; i < BACKEND_NAMES_MAX && !status; i++)
            if (*backend_name(choice, i))
                status = find(backend_name(choice, i), &carriers.each[i]);
    }
    if (!status)
        *ret_carriers = carriers;
    return status;
}

bool carriers_take_fabric(struct carriers *carriers, char ret_rule[CARRIERS_WORDS_MAX])
{
    const bool encrypts = environment_encrypts() != ENVIRONMENT_PLAIN;
    const tutti_plugin *plugin;
    tutti_status status = encrypts ? TUTTI_OK : plugin_find(known_auto_fabric, &plugin);
    const bool has = !encrypts && !status && plugin_has_fabric(plugin);
    struct text rule = text_in(ret_rule, CARRIERS_WORDS_MAX);

    text_add(&rule,
             "auto uses %s between hosts if every member has a device for it that is no plain "
             "socket, ",
             known_auto_fabric);
    if (encrypts)
        text_add(&rule, "and not with TUTTI_TLS");
    else if (status)
        text_add(&rule, "and its plugin is not here");
    else
        text_add(&rule, has ? "as this host has" : "and this host has none");
    return has && !find(known_auto_fabric, &carriers->each[BACKEND_REMOTE]);
}

/* The engine that reaches all members; NULL: there is none. */
static const struct native_facts *engine_of(const struct carriers *carriers, bool uses_local,
                                            bool uses_remote, struct native_facts *ret_native)
{
    const struct carrier *carrier = *carriers->alone.name       ? &carriers->alone
                                    : uses_local && uses_remote ? NULL
                                    : uses_local                ? &carriers->each[BACKEND_LOCAL]
                                                                : &carriers->each[BACKEND_REMOTE];

    if (!carrier || !carrier->engine)
        return NULL;
    *ret_native = (struct native_facts){carrier->name, carrier->engine, &host_bare,
                                        host_self_of(carrier->name), 0};
    return ret_native;
}

/* Whose memory a group with rules maps: as core/group finds it. -1: nobody's. */
static int mapping_of(const struct carriers *carriers, const struct backend_choice *choice,
                      const struct layout *layout)
{
    const struct backend_rule *rule = NULL;

    for (uint32_t i = 0; i <= choice->rule_count; i++) {
        const int number = backend_way_in(rule, layout->hosts, layout->size).inside;

        if (carriers->each[number].capabilities & TUTTI_CAP_MAP)
            return number;
        rule = &choice->rules[i];
    }
    return -1;
}

struct group_facts carriers_rule_facts(const struct carriers *carriers,
                                       const struct backend_choice *choice,
                                       const struct backend_rule *rule, const struct layout *layout,
                                       struct native_facts *ret_native)
{
    const struct backend_way way = backend_way_in(rule, layout->hosts, layout->size);
    const struct carrier *inside = &carriers->each[way.inside];
    const struct carrier *between = &carriers->each[way.between];
    const bool mapped = mapping_of(carriers, choice, layout) == way.inside;
    const bool served = way.inside == way.between &&
                        backend_engine(choice, layout->hosts, layout->size) == way.between;

    const struct carrier *engine = between;
    int32_t device_type = 0;

    if (rule && rule->on_device && *carriers->on_devices.name) {
        engine = &carriers->on_devices;
        device_type = choice->device_type;
    }
    *ret_native = (struct native_facts){engine->name, engine->engine, &host_bare,
                                        host_self_of(engine->name), device_type};
    return (struct group_facts){.layout = layout,
                                .mapped = mapped,
                                .messages = true,
                                .local_name = mapped ? inside->name : NULL,
                                .remote_name = between->name,
                                .remote_cost = between->cost,
                                .native =
                                    engine->engine && (served || device_type) ? ret_native : NULL};
}

tutti_status carriers_check_hosts(const struct carriers *carriers,
                                  const struct backend_choice *choice, const struct layout *layout)
{
    uint32_t host_only = 0;

    if (layout->size == 1)
        return TUTTI_OK;
    for (int i = 0; i < BACKEND_NAMES_MAX; i++)
        if (carriers->each[i].capabilities & TUTTI_CAP_HOST_ONLY)
            host_only |= UINT32_C(1) << i;
    if (layout->hosts > 1 && host_only >> BACKEND_REMOTE & 1)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "backend %s reaches members of one host only, and the members are on %d "
                         "hosts; use auto",
                         carriers->each[BACKEND_REMOTE].name, layout->hosts);
    return backend_check_hosts(choice, layout->hosts, layout->size, host_only);
}

struct group_facts carriers_facts(const struct carriers *carriers, const struct layout *layout,
                                  struct native_facts *ret_native)
{
    const struct carrier *local = &carriers->each[BACKEND_LOCAL];
    const struct carrier *remote = &carriers->each[BACKEND_REMOTE];
    const bool single = !strcmp(local->name, remote->name);
    const bool shares_host = layout->hosts < layout->size;
    /* One backend for everything maps memory only where it stays inside a host. */
    const bool uses_local = single ? local->capabilities & TUTTI_CAP_HOST_ONLY : shares_host;
    const bool mapped = uses_local && local->capabilities & TUTTI_CAP_MAP;
    const struct carrier *messages = layout->hosts > 1 || !shares_host ? remote : local;

    return (struct group_facts){
        .layout = layout,
        .mapped = mapped,
        .messages = layout->hosts == 1 || !(messages->capabilities & TUTTI_CAP_HOST_ONLY),
        .local_name = mapped ? local->name : NULL,
        .remote_name = messages->name,
        .remote_cost = messages->cost,
        .native = engine_of(carriers, uses_local, !uses_local || (layout->hosts > 1 && !single),
                            ret_native)};
}
