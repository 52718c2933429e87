/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include <tutti/info.h>

#include "base/error.h"
#include "plugin/plugin.h"
#include "plugin/search.h"

tutti_status tutti_plugin_files(tutti_plugin_info_fn fn, void *user)
{
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");

    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) directories = search_directories();
    g_autoptr(GPtrArray) files = search_files(directories);

    for (guint i = 0; i < files->len; i++) {
        const char *path = files->pdata[i];
        g_autofree char *name = search_name_of(path);
        const char *first = g_hash_table_lookup(seen, name);
        g_autofree char *reason =
            first ? g_strdup_printf("not used: %s comes first", first) : g_strdup("");

        if (!first)
            g_hash_table_insert(seen, g_strdup(name), files->pdata[i]);
        fn(&(tutti_plugin_info){.name = name,
                                .path = path,
                                .version = "",
                                .license = "",
                                .reason = reason,
                                .provides = plugin_usually_provides(name)},
           user);
    }
    return TUTTI_OK;
}

tutti_status tutti_plugin_probe(const char *path, tutti_plugin_info_fn fn, void *user)
{
    if (!path || !fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", path ? "fn" : "path");

    g_autofree char *name = search_name_of(path);
    const tutti_plugin *plugin = NULL;
    char reason[ERROR_MESSAGE_MAX] = "", provides[PLUGIN_PROVIDES_MAX] = "";

    if (plugin_open(path, &plugin) != TUTTI_OK)
        g_strlcpy(reason, error_message(), sizeof reason);
    if (plugin)
        plugin_provides(plugin, provides);
    fn(&(tutti_plugin_info){.name = name ? name : "",
                            .path = path,
                            .version = plugin ? plugin->version : "",
                            .license = plugin ? plugin->license : "",
                            .reason = reason,
                            .abi_major = plugin ? plugin->abi_major : 0,
                            .abi_minor = plugin ? plugin->abi_minor : 0,
                            .ready = plugin != NULL,
                            .provides = provides},
       user);
    return TUTTI_OK;
}
