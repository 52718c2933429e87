/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of this process and of its directories, in the order of the search: the first file of a name
 * is used, a later one is listed with the reason why it is not.
 *
 * tutti_plugins_list() opens files as loading them does, tutti_plugin_files() opens none and gives what is
 * known by name, and tutti_plugin_probe() also asks a plugin whether its engine or driver is installed.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>

#include "base/error.h"
#include "info/info.h"
#include "plugin/about.h"
#include "plugin/host.h"
#include "plugin/loaded.h"
#include "plugin/plugin.h"
#include "plugin/search.h"

/* Calls fn with what a plugin says of itself, if it was opened, and `info` for the rest. */
static void report(tutti_plugin_info_fn fn, void *user, const tutti_plugin *plugin,
                   tutti_plugin_info info)
{
    char provides[PLUGIN_PROVIDES_MAX] = "";

    info.version = info.license = "";
    if (plugin) {
        plugin_provides(plugin, provides);
        info.version = plugin->version;
        info.license = plugin->license;
        info.abi_major = plugin->abi_major;
        info.abi_minor = plugin->abi_minor;
        info.ready = !info.lacks_library;
        info.options = TUTTI_HAS(plugin, options) ? plugin->options : NULL;
        info.cost = TUTTI_HAS(plugin, cost) ? plugin->cost : NULL;
    }
    if (!info.provides)
        info.provides = provides;
    if (!info.finds)
        info.finds = "";
    fn(&info, user);
}

/* Whether the engine that the plugin drives is not installed; then with a message. Another failure than PLUGIN
 * says nothing of that: no launcher may have started this process. */
static bool lacks_engine(const tutti_plugin *plugin)
{
    tutti_engine_version version;

    return plugin_engine(plugin, &version) == TUTTI_ERR_PLUGIN;
}

/* What a transport or an engine tells of the library behind it; nothing where a device provider has told. */
static void describe(const tutti_plugin *plugin, char ret_line[INFO_DEVICES_TEXT])
{
    const tutti_transport_ops *ops = plugin_transport(plugin);
    const tutti_collectives_ops *engine = plugin_collectives(plugin);
    void *self = host_self_of(plugin->name);

    if (!*ret_line && ops && TUTTI_HAS(ops, describe))
        ops->describe(&host_bare, self, ret_line, INFO_DEVICES_TEXT);
    if (!*ret_line && engine && TUTTI_HAS(engine, describe))
        engine->describe(&host_bare, self, NULL, ret_line, INFO_DEVICES_TEXT);
}

/* `probes`: a plugin without its engine or driver is not ready. */
static void report_file(tutti_plugin_info_fn fn, void *user, const char *path, const char *name,
                        bool probes)
{
    struct inspection inspection = {.plugin = NULL};
    char reason[ERROR_MESSAGE_MAX] = "", finds[INFO_DEVICES_TEXT] = "";
    const bool refused = loaded_inspect(path, name, &inspection);
    const bool lacks = refused ? inspection.lacks_library
                               : probes && (lacks_engine(inspection.plugin) ||
                                            !info_devices(inspection.plugin, finds));

    if (refused || lacks)
        snprintf(reason, sizeof reason, "%s", error_message());
    else if (probes)
        describe(inspection.plugin, finds);
    report(fn, user, inspection.plugin,
           (tutti_plugin_info){.name = name,
                               .path = path,
                               .reason = reason,
                               .lacks_library = lacks,
                               .finds = finds,
                               .abi_major = inspection.major,
                               .abi_minor = inspection.minor});
}

/* What comes before file `i` of the search under its name: a plugin from `registered` on, or a file; NULL:
 * nothing. */
static const char *used_instead(const struct loaded *registered, const struct strings *files,
                                size_t i, const char *name)
{
    char other[PLUGIN_NAME_MAX + 1];

    for (; registered; registered = registered->next)
        if (!*registered->path && !strcmp(registered->plugin->name, name))
            return "the program itself";
    for (size_t k = 0; k < i; k++)
        if (search_name_of(files->at[k], other) && !strcmp(other, name))
            return files->at[k];
    return NULL;
}

/* Reports each file. With `opens` it opens those that are used. */
static tutti_status report_files(const struct loaded *registered, const char *function,
                                 tutti_plugin_info_fn fn, void *user, bool opens)
{
    STRINGS_AUTO(directories);
    STRINGS_AUTO(files);
    char name[PLUGIN_NAME_MAX + 1];

    search_directories(&directories);
    search_files(&directories, &files);
    for (size_t i = 0; i < files.count && search_name_of(files.at[i], name); i++) {
        const char *path = files.at[i], *first = used_instead(registered, &files, i, name);
        char reason[PATH_MAX + 64] = "";

        if (first)
            snprintf(reason, sizeof reason, "not used: %s comes first", first);
        if (opens && !first)
            report_file(fn, user, path, name, false);
        else
            report(fn, user, NULL,
                   (tutti_plugin_info){.name = name,
                                       .path = path,
                                       .reason = reason,
                                       .provides = plugin_usually_provides(name)});
    }
    return files.failed
               ? error_set(TUTTI_ERR_NO_MEMORY, "%s: no memory to list the plugins", function)
               : TUTTI_OK;
}

tutti_status tutti_plugins_list(tutti_plugin_info_fn fn, void *user)
{
    const struct loaded *loaded = loaded_first();

    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    /* The callback may load plugins, which come before this one in the list. */
    for (const struct loaded *entry = loaded; entry; entry = entry->next)
        if (!*entry->path)
            report(fn, user, entry->plugin,
                   (tutti_plugin_info){.name = entry->plugin->name,
                                       .path = "(linked into the program)",
                                       .reason = ""});
    return report_files(loaded, __func__, fn, user, true);
}

tutti_status tutti_plugin_files(tutti_plugin_info_fn fn, void *user)
{
    return fn ? report_files(NULL, __func__, fn, user, false)
              : error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
}

tutti_status tutti_plugin_probe(const char *path, tutti_plugin_info_fn fn, void *user)
{
    char name[PLUGIN_NAME_MAX + 1];
    const tutti_plugin *plugin;

    if (!path || !fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", path ? "fn" : "path");
    if (search_name_of(path, name)) {
        report_file(fn, user, path, name, true);
        return TUTTI_OK;
    }
    plugin_open(path, &plugin); /* for its words: it refuses the name */
    report(fn, user, NULL,
           (tutti_plugin_info){.name = "", .path = path, .reason = error_message()});
    return TUTTI_OK;
}
