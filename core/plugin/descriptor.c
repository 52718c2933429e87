/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/descriptor.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "plugin/plugin.h"

enum {
    PROVIDERS_MAX = 64, /* of one plugin; more is rubbish */
    LANES_MAX = 65536,
    THREADS_LAST = TUTTI_THREADS_MAIN_ONLY
};

bool descriptor_name_is_valid(const char *name)
{
    const size_t n = strlen(name);

    return n > 0 && n <= PLUGIN_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n && strcmp(name, "auto");
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

tutti_status descriptor_check_transport(const char *name, const tutti_transport_ops *ops)
{
#define REQUIRED(member)                                                                           \
    {                                                                                              \
#member, TUTTI_HAS(ops, member)                                                            \
    }
    const struct {
        const char *name;
        bool there;
    } required[] = {
        REQUIRED(open),  REQUIRED(address), REQUIRED(connect), REQUIRED(isend),
        REQUIRED(irecv), REQUIRED(test),    REQUIRED(close),
    };
#undef REQUIRED

    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if (!required[i].there)
            return error_set(TUTTI_ERR_PLUGIN, "transport %s lacks the required function %s", name,
                             required[i].name);
    }
    if (ops->lanes < 1 || ops->lanes > LANES_MAX || ops->threads > THREADS_LAST)
        return error_set(TUTTI_ERR_PLUGIN, "transport %s says %u lanes and thread rule %u", name,
                         ops->lanes, ops->threads);
    if ((ops->capabilities & TUTTI_CAP_MAP) &&
        !(TUTTI_HAS(ops, map_start) && TUTTI_HAS(ops, map_test) && TUTTI_HAS(ops, map_close)))
        return error_set(TUTTI_ERR_PLUGIN,
                         "transport %s says TUTTI_CAP_MAP and lacks one of map_start, map_test, "
                         "map_close",
                         name);
    return TUTTI_OK;
}

static tutti_status check_wrapper(const char *name, const tutti_wrapper_ops *ops)
{
    if (TUTTI_HAS(ops, open) && TUTTI_HAS(ops, close))
        return TUTTI_OK;
    return error_set(TUTTI_ERR_PLUGIN, "wrapper %s lacks the required function %s", name,
                     TUTTI_HAS(ops, open) ? "close" : "open");
}

/* `there`: which of the `count` required functions the table has. */
static tutti_status check_required(const char *kind, const char *name, const char *const *functions,
                                   const bool *there, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!there[i])
            return error_set(TUTTI_ERR_PLUGIN, "%s %s lacks the required function %s", kind, name,
                             functions[i]);
    return TUTTI_OK;
}

static tutti_status check_collectives(const char *name, const tutti_collectives_ops *ops)
{
    static const char *const functions[] = {"serves", "open", "address", "form", "form_test",
                                            "start",  "test", "abort",   "close"};
    const bool there[] = {
        TUTTI_HAS(ops, serves), TUTTI_HAS(ops, open),      TUTTI_HAS(ops, address),
        TUTTI_HAS(ops, form),   TUTTI_HAS(ops, form_test), TUTTI_HAS(ops, start),
        TUTTI_HAS(ops, test),   TUTTI_HAS(ops, abort),     TUTTI_HAS(ops, close)};
    tutti_status status =
        check_required("collectives", name, functions, there, sizeof there / sizeof there[0]);

    if (!status && ops->threads > THREADS_LAST)
        status =
            error_set(TUTTI_ERR_PLUGIN, "collectives %s say thread rule %u", name, ops->threads);
    return status;
}

static tutti_status check_bootstrap(const char *name, const tutti_bootstrap_ops *ops)
{
    static const char *const functions[] = {"detect", "open", "broadcast", "close"};
    const bool there[] = {TUTTI_HAS(ops, detect), TUTTI_HAS(ops, open), TUTTI_HAS(ops, broadcast),
                          TUTTI_HAS(ops, close)};

    return check_required("bootstrap", name, functions, there, sizeof there / sizeof there[0]);
}

static tutti_status check_provider(const tutti_provider *provider, unsigned index)
{
    if (!provider || !TUTTI_HAS(provider, ops) || !TUTTI_HAS(provider, kind) || !provider->name)
        return error_set(TUTTI_ERR_PLUGIN, "provider %u has no kind, name or operations", index);
    /* Kinds of later minors are left alone: who asks for them knows how to check them. */
    if (provider->kind == TUTTI_PROVIDER_TRANSPORT)
        return descriptor_check_transport(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_COLLECTIVES)
        return check_collectives(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_BOOTSTRAP)
        return check_bootstrap(provider->name, provider->ops);
    if (provider->kind == TUTTI_PROVIDER_WRAPPER)
        return check_wrapper(provider->name, provider->ops);
    return TUTTI_OK;
}

tutti_status descriptor_check(const tutti_plugin *plugin, const char *name)
{
    if (plugin->magic != TUTTI_PLUGIN_MAGIC)
        return error_set(TUTTI_ERR_PLUGIN,
                         TUTTI_PLUGIN_SYMBOL " is no plugin descriptor: its magic is 0x%016llx "
                                             "instead of 0x%016llx",
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
                         "\"%.64s\" is no backend's name: 1 to %d of a-z 0-9 _ -, a letter first, "
                         "and not \"auto\"",
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
    return status;
}
