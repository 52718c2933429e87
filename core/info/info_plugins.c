/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>

#include "base/error.h"
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
        info.ready = 1;
    }
    if (!info.provides)
        info.provides = provides;
    fn(&info, user);
}

static void report_opened(tutti_plugin_info_fn fn, void *user, const char *path, const char *name)
{
    struct inspection inspection = {.plugin = NULL};
    char reason[ERROR_MESSAGE_MAX] = "";

    if (loaded_inspect(path, name, &inspection))
        snprintf(reason, sizeof reason, "%s", error_message());
    report(fn, user, inspection.plugin,
           (tutti_plugin_info){.name = name,
                               .path = path,
                               .reason = reason,
                               .abi_major = inspection.major,
                               .abi_minor = inspection.minor});
}

static void report_unopened(tutti_plugin_info_fn fn, void *user, const char *path, const char *name)
{
    report(
        fn, user, NULL,
        (tutti_plugin_info){
            .name = name, .path = path, .reason = "", .provides = plugin_usually_provides(name)});
}

/* Names that are taken, and by what, in the order in which they were. */
struct taken {
    struct strings names, places;
};

static const char *place_of(const struct taken *taken, const char *name)
{
    for (size_t i = 0; i < taken->places.count; i++)
        if (!strcmp(taken->names.at[i], name))
            return taken->places.at[i];
    return NULL;
}

/* Calls one(fn, user, path, name) for each file whose name is not taken, and fn for each other. */
static tutti_status each_file(struct taken *taken, const char *function, tutti_plugin_info_fn fn,
                              void *user,
                              void (*one)(tutti_plugin_info_fn, void *, const char *, const char *))
{
    STRINGS_AUTO(directories);
    STRINGS_AUTO(files);
    char name[PLUGIN_NAME_MAX + 1];

    search_directories(&directories);
    search_files(&directories, &files);
    for (size_t i = 0; i < files.count && search_name_of(files.at[i], name); i++) {
        const char *path = files.at[i], *first = place_of(taken, name);
        char reason[PATH_MAX + 64];

        if (first) {
            snprintf(reason, sizeof reason, "not used: %s comes first", first);
            report(fn, user, NULL,
                   (tutti_plugin_info){.name = name,
                                       .path = path,
                                       .reason = reason,
                                       .provides = plugin_usually_provides(name)});
            continue;
        }
        strings_add(&taken->names, "%s", name);
        strings_add(&taken->places, "%s", path);
        one(fn, user, path, name);
    }

    const bool failed = files.failed || taken->names.failed || taken->places.failed;
    strings_free(&taken->names);
    strings_free(&taken->places);
    return failed ? error_set(TUTTI_ERR_NO_MEMORY, "%s: no memory to list the plugins", function)
                  : TUTTI_OK;
}

tutti_status tutti_plugins_list(tutti_plugin_info_fn fn, void *user)
{
    struct taken taken = {.names = {0}};

    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    /* The callback may load plugins, which come before this one in the list. */
    for (const struct loaded *entry = loaded_first(); entry; entry = entry->next) {
        if (*entry->path)
            continue;
        strings_add(&taken.names, "%s", entry->plugin->name);
        strings_add(&taken.places, "the program itself");
        report(fn, user, entry->plugin,
               (tutti_plugin_info){
                   .name = entry->plugin->name, .path = "(linked into the program)", .reason = ""});
    }
    return each_file(&taken, __func__, fn, user, report_opened);
}

tutti_status tutti_plugin_files(tutti_plugin_info_fn fn, void *user)
{
    struct taken taken = {.names = {0}};

    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    return each_file(&taken, __func__, fn, user, report_unopened);
}

tutti_status tutti_plugin_probe(const char *path, tutti_plugin_info_fn fn, void *user)
{
    char reason[ERROR_MESSAGE_MAX] = "", name[PLUGIN_NAME_MAX + 1];
    const tutti_plugin *plugin = NULL;

    if (!path || !fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", path ? "fn" : "path");
    search_name_of(path, name);
    if (plugin_open(path, &plugin) != TUTTI_OK)
        snprintf(reason, sizeof reason, "%s", error_message());
    report(fn, user, plugin, (tutti_plugin_info){.name = name, .path = path, .reason = reason});
    return TUTTI_OK;
}
