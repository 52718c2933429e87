/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/descriptor.h"

#include <stddef.h>
#include <string.h>

#include <tutti/plugin_device.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "plugin/plugin.h"

enum {
    PROVIDERS_MAX = 64, /* of one plugin; more is rubbish */
    LANES_MAX = 65536,
    THREADS_LAST = TUTTI_THREADS_MAIN_ONLY,
    OPTIONS_MAX = 64,
    VARIABLE_MAX = 64
};

/* So that the model's sums stay in range. */
static const uint64_t message_max = UINT64_C(1000) * 1000 * 1000 * 1000; /* picoseconds: 1 s */
static const uint64_t byte_max = UINT64_C(1000) * 1000 * 1000;           /* 1 ms */

bool descriptor_name_is_valid(const char *name)
{
    return text_is_name(name) && strcmp(name, "auto");
}

tutti_status descriptor_check_major(uint32_t major)
{
    if (major == TUTTI_PLUGIN_ABI_MAJOR)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_PLUGIN,
                     "built for plugin ABI %u, this libtutti speaks %d; install the plugin that "
                     "belongs to this libtutti",
                     major, TUTTI_PLUGIN_ABI_MAJOR);
}

/* A function that a table must have, and whether it does; one without a name ends a list. */
struct required {
    const char *name;
    bool there;
};

#define REQUIRED(member)                                                                           \
    {                                                                                              \
#member, TUTTI_HAS(ops, member)                                                            \
    }

static tutti_status check_required(const char *kind, const char *name, uint32_t struct_size,
                                   const struct required *functions)
{
    for (size_t i = 0; functions[i].name; i++)
        if (!functions[i].there)
            return error_set(TUTTI_ERR_PLUGIN,
                             "%s %s lacks the required function %s: it is NULL, or the table's "
                             "struct_size, %u, ends before it",
                             kind, name, functions[i].name, struct_size);
    return TUTTI_OK;
}

tutti_status descriptor_check_transport(const char *name, const tutti_transport_ops *ops)
{
    const struct required functions[] = {
        REQUIRED(open),  REQUIRED(address), REQUIRED(connect), REQUIRED(isend),
        REQUIRED(irecv), REQUIRED(test),    REQUIRED(close),   {NULL, false},
    };
    tutti_status status = check_required("transport", name, ops->struct_size, functions);

    if (status)
        return status;
    if (ops->lanes < 1 || ops->lanes > LANES_MAX || ops->threads > THREADS_LAST)
        return error_set(TUTTI_ERR_PLUGIN,
                         "transport %s declares %u lanes and thread rule %u; lanes must be 1 to "
                         "%d, and the rule a tutti_threads",
                         name, ops->lanes, ops->threads, LANES_MAX);
    if ((ops->capabilities & TUTTI_CAP_MAP) &&
        !(TUTTI_HAS(ops, map_start) && TUTTI_HAS(ops, map_test) && TUTTI_HAS(ops, map_close)))
        return error_set(
            TUTTI_ERR_PLUGIN,
            "transport %s declares TUTTI_CAP_MAP but lacks one of map_start, map_test, map_close",
            name);
    if (TUTTI_HAS(ops, short_bytes) &&
        !(TUTTI_HAS(ops, send_short) && TUTTI_HAS(ops, show) && TUTTI_HAS(ops, take)))
        return error_set(TUTTI_ERR_PLUGIN,
                         "transport %s sets short_bytes but lacks one of send_short, show, take",
                         name);
    if (TUTTI_HAS(ops, send_pair) != TUTTI_HAS(ops, take_pair) ||
        (TUTTI_HAS(ops, send_pair) && !TUTTI_HAS(ops, short_bytes)))
        return error_set(TUTTI_ERR_PLUGIN,
                         "transport %s has send_pair or take_pair but lacks the other, or "
                         "short_bytes",
                         name);
    return TUTTI_OK;
}

static tutti_status check_wrapper(const char *name, const tutti_wrapper_ops *ops)
{
    const struct required functions[] = {REQUIRED(open), REQUIRED(close), {NULL, false}};

    return check_required("wrapper", name, ops->struct_size, functions);
}

static tutti_status check_collectives(const char *name, const tutti_collectives_ops *ops)
{
    const struct required functions[] = {
        REQUIRED(serves), REQUIRED(open), REQUIRED(address), REQUIRED(form),  REQUIRED(form_test),
        REQUIRED(start),  REQUIRED(test), REQUIRED(abort),   REQUIRED(close), {NULL, false},
    };
    tutti_status status = check_required("collectives", name, ops->struct_size, functions);

    if (!status && ops->threads > THREADS_LAST)
        status =
            error_set(TUTTI_ERR_PLUGIN, "collectives %s say thread rule %u", name, ops->threads);
    return status;
}

static tutti_status check_bootstrap(const char *name, const tutti_bootstrap_ops *ops)
{
    const struct required functions[] = {
        REQUIRED(detect), REQUIRED(open), REQUIRED(broadcast), REQUIRED(close), {NULL, false}};

    return check_required("bootstrap", name, ops->struct_size, functions);
}

static tutti_status check_device(const char *name, const tutti_device_ops *ops)
{
    const struct required functions[] = {
        REQUIRED(open),          REQUIRED(close),       REQUIRED(describe),
        REQUIRED(device),        REQUIRED(locate),      REQUIRED(attach),
        REQUIRED(detach),        REQUIRED(allocate),    REQUIRED(release),
        REQUIRED(stream_create), REQUIRED(stream_free), REQUIRED(stream_check),
        REQUIRED(event_create),  REQUIRED(event_free),  REQUIRED(event_record),
        REQUIRED(event_query),   REQUIRED(event_wait),  REQUIRED(copy),
        REQUIRED(pack),          REQUIRED(unpack),      REQUIRED(reduce),
        REQUIRED(scale),         {NULL, false},
    };

    return check_required("devices", name, ops->struct_size, functions);
}

#undef REQUIRED

/* One line of words in messages; which bytes above ASCII, is not looked at. */
static tutti_status check_provider(const tutti_provider *provider, unsigned index)
{
    if (!provider || !TUTTI_HAS(provider, ops) || !TUTTI_HAS(provider, kind) || !provider->name)
        return error_set(TUTTI_ERR_PLUGIN,
                         "provider %u has no kind, name or operations, or a struct_size, %u, that "
                         "ends before them",
                         index, provider ? provider->struct_size : 0);
    if (!*provider->name || !text_is_printable(provider->name))
        return error_set(TUTTI_ERR_PLUGIN,
                         "provider %u has a name that is empty or has control characters or "
                         "invalid UTF-8; it must be text for messages, on one line",
                         index);
    /* Kinds of later minors are left alone: the code that asks for them knows how to check them. */
    if (provider->kind == TUTTI_PROVIDER_TRANSPORT)
        return descriptor_check_transport(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_COLLECTIVES)
        return check_collectives(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_BOOTSTRAP)
        return check_bootstrap(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_WRAPPER)
        return check_wrapper(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_DEVICE)
        return check_device(provider->name, provider->ops);
    return TUTTI_OK;
}

static tutti_status check_options(const tutti_plugin *plugin)
{
    const tutti_plugin_option *option = TUTTI_HAS(plugin, options) ? plugin->options : NULL;

    for (unsigned i = 0; option && option[i].variable; i++) {
        const tutti_plugin_option *o = &option[i];

        if (i == OPTIONS_MAX)
            return error_set(TUTTI_ERR_PLUGIN, "the descriptor says more than %d options",
                             OPTIONS_MAX);
        if (strlen(o->variable) >= VARIABLE_MAX ||
            !environment_is_option_of(plugin->name, strlen(plugin->name), o->variable))
            return error_set(
                TUTTI_ERR_PLUGIN,
                "option \"%.64s\" is not the plugin's: call it TUTTI_ and the plugin's "
                "name in capitals, or that, '_' and more",
                o->variable);
        if (!o->values || !*o->values || !o->standard || !o->meaning || !*o->meaning ||
            !text_is_printable(o->values) || !text_is_printable(o->standard) ||
            !text_is_printable(o->meaning) || (o->idle && !text_is_printable(o->idle)))
            return error_set(TUTTI_ERR_PLUGIN,
                             "option %s lacks its values, default or meaning, or one of them has "
                             "control characters or invalid UTF-8",
                             o->variable);
    }
    return TUTTI_OK;
}

static tutti_status check_cost(const tutti_plugin *plugin)
{
    const tutti_cost *cost = TUTTI_HAS(plugin, cost) ? plugin->cost : NULL;

    if (!cost)
        return TUTTI_OK;
    if (cost->struct_size < sizeof *cost)
        return error_set(TUTTI_ERR_PLUGIN, "the descriptor's cost has %u bytes of %zu",
                         cost->struct_size, sizeof *cost);
    if (cost->message_ps > message_max || cost->further_ps > message_max ||
        cost->byte_ps > byte_max)
        return error_set(TUTTI_ERR_PLUGIN,
                         "the descriptor's cost says %llu, %llu and %llu ps; at most 1 s for a "
                         "message and 1 ms for a byte are possible",
                         (unsigned long long)cost->message_ps, (unsigned long long)cost->further_ps,
                         (unsigned long long)cost->byte_ps);
    return TUTTI_OK;
}

tutti_status descriptor_check(const tutti_plugin *plugin, const char *name)
{
    if (plugin->magic != TUTTI_PLUGIN_MAGIC)
        return error_set(TUTTI_ERR_PLUGIN,
                         TUTTI_PLUGIN_SYMBOL
                         " is not a plugin descriptor: its magic is 0x%016llx instead of 0x%016llx",
                         (unsigned long long)plugin->magic, (unsigned long long)TUTTI_PLUGIN_MAGIC);

    tutti_status status = descriptor_check_major(plugin->abi_major);
    if (status)
        return status;
    if (!TUTTI_HAS(plugin, providers) || !plugin->name || !plugin->version || !plugin->license)
        return error_set(TUTTI_ERR_PLUGIN,
                         "the descriptor is incomplete: %u bytes of %zu, or no name, version, "
                         "license or providers",
                         plugin->struct_size, sizeof *plugin);
    if (!descriptor_name_is_valid(plugin->name))
        return error_set(TUTTI_ERR_PLUGIN,
                         "\"%.64s\" is not a valid plugin name: 1 to %d of a-z 0-9 _ -, a letter "
                         "first, and not \"auto\"",
                         plugin->name, PLUGIN_NAME_MAX);
    if (name && strcmp(plugin->name, name))
        return error_set(TUTTI_ERR_PLUGIN,
                         "the plugin calls itself \"%s\" and its file \"%s\"; rename the file "
                         "libtutti-%s.so",
                         plugin->name, name, plugin->name);
    if (plugin->provider_count < 1 || plugin->provider_count > PROVIDERS_MAX)
        return error_set(TUTTI_ERR_PLUGIN, "the descriptor says %u providers; 1 to %d are possible",
                         plugin->provider_count, PROVIDERS_MAX);
    for (unsigned i = 0; !status && i < plugin->provider_count; i++)
        status = check_provider(plugin->providers[i], i);
    if (!status)
        status = check_options(plugin);
    return status ? status : check_cost(plugin);
}
