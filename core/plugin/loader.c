/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, checks and opens plugins, and remembers them. The order of the checks is the point: first
 * the users that could have written the file, then what the file says of itself, and only then is
 * its code run.
 *
 * What is loaded is kept in a list that only grows, under one mutex that is never held while a
 * plugin's constructors run. Two threads that load the same file at once get the same descriptor
 * from the dynamic loader; the second finds the first one's entry. A refusal is not remembered, so
 * that it can be cured while the process lives.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/environment.h"
#include "base/error.h"
#include "plugin/descriptor.h"
#include "plugin/known.h"
#include "plugin/loaded.h"
#include "plugin/note.h"
#include "plugin/search.h"
#include "plugin/trust.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loaded *loaded_plugins;

struct loaded *loaded_first(void)
{
    LOCK_SCOPE(&lock);
    return loaded_plugins;
}

/* Finds a plugin from `entry` on: with path "" the registered one of that name, else the one loaded from that
 * file. */
static const tutti_plugin *find_loaded(const struct loaded *entry, const char *path,
                                       const char *name)
{
    while (entry && (strcmp(entry->path, path) || (!*path && strcmp(entry->plugin->name, name))))
        entry = entry->next;
    return entry ? entry->plugin : NULL;
}

/* Keeps `plugin` unless one is there already; returns the one that is kept, NULL: no memory. */
static const tutti_plugin *keep(const tutti_plugin *plugin, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    AUTOFREE struct loaded *entry = calloc(1, sizeof *entry + bytes);

    if (!entry)
        return NULL;
    entry->plugin = plugin;
    entry->pid = getpid();
    memcpy(entry->path, path, bytes);

    LOCK_SCOPE(&lock);
    const tutti_plugin *kept = find_loaded(loaded_plugins, path, plugin->name);
    if (kept)
        return kept;
    if (TUTTI_HAS(plugin, options) && environment_learn(plugin->name, plugin->options))
        return NULL;
    entry->next = loaded_plugins;
    loaded_plugins = TAKE(entry);
    return plugin;
}

/* Never waits for a writer when the path is a FIFO. */
static tutti_status read_note(const char *real, struct inspection *inspection)
{
    int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot open the file");

    tutti_status status = note_read(fd, &inspection->major, &inspection->minor);
    close(fd);
    return status ? status : descriptor_check_major(inspection->major);
}

/* `missing`: a library that the plugin is linked with is not installed. */
static tutti_status refused_by_loader(const char *name, bool *missing)
{
    const char *message = dlerror();
    const tutti_known_plugin *known = known_plugin(name);

    *missing = message && strstr(message, "cannot open shared object file");
    if (*missing)
        return error_set(TUTTI_ERR_PLUGIN, "a library that it needs is not installed: %s%s%s",
                         message, known && *known->install ? "; " : "",
                         known ? known->install : "");
    return error_set(TUTTI_ERR_PLUGIN, "the dynamic loader refuses it: %s",
                     message ? message : "no reason given");
}

static tutti_status run_and_check(const char *real, const char *name, struct inspection *inspection,
                                  const tutti_plugin **ret_plugin)
{
    void *handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return refused_by_loader(name, &inspection->lacks_library);
    const tutti_plugin *plugin = dlsym(handle, TUTTI_PLUGIN_SYMBOL);
    if (!plugin)
        return error_set(TUTTI_ERR_PLUGIN,
                         "it does not export the symbol " TUTTI_PLUGIN_SYMBOL
                         "; plugins write it with TUTTI_PLUGIN_EXPORT of <tutti/plugin.h>");

    tutti_status status = descriptor_check(plugin, name);
    if (!status)
        *ret_plugin = plugin;
    /* A refused library stays loaded too: its threads, if any, would lose their code. */
    return status;
}

tutti_status loaded_inspect(const char *path, const char *name, struct inspection *inspection)
{
    struct trust_rules rules;

    if (!realpath(path, inspection->real))
        return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot resolve its path");

    tutti_status status = trust_rules_of_process(&rules);
    if (!status)
        status = trust_check(&rules, inspection->real);
    if (!status)
        status = read_note(inspection->real, inspection);
    if (status)
        return status;

    const tutti_plugin *plugin = find_loaded(loaded_first(), inspection->real, name);
    if (plugin)
        status = descriptor_check(plugin, name); /* a link to it may be called otherwise */
    else
        status = run_and_check(inspection->real, name, inspection, &plugin);
    if (status)
        return status;
    inspection->plugin = keep(plugin, inspection->real);
    return inspection->plugin ? TUTTI_OK
                              : error_set(TUTTI_ERR_NO_MEMORY, "no memory to remember the plugin");
}

/* `what` the name was given for: "backend", "wrapper". */
static tutti_status open_file(const char *what, const char *path, const char *name,
                              const tutti_plugin **ret_plugin)
{
    struct inspection inspection = {.plugin = NULL};

    if (loaded_inspect(path, name, &inspection))
        return error_prefix("%s \"%s\": %s", what, name, path);
    *ret_plugin = inspection.plugin;
    return TUTTI_OK;
}

tutti_status plugin_open(const char *path, const tutti_plugin **ret_plugin)
{
    char name[PLUGIN_NAME_MAX + 1];

    if (!search_name_of(path, name))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s: a plugin's file is called libtutti-NAME.so, NAME being 1 to %d of "
                         "a-z 0-9 _ -, a letter first",
                         path, PLUGIN_NAME_MAX);
    return open_file("backend", path, name, ret_plugin);
}

static tutti_status find(const char *what, const char *name, const tutti_plugin **ret_plugin)
{
    const tutti_plugin *registered = find_loaded(loaded_first(), "", name);

    if (registered) {
        *ret_plugin = registered;
        return TUTTI_OK;
    }
    STRINGS_AUTO(directories);
    char file[sizeof "libtutti-.so" + PLUGIN_NAME_MAX];
    struct stat st;

    search_directories(&directories);
    snprintf(file, sizeof file, "libtutti-%.*s.so", PLUGIN_NAME_MAX, name);
    for (size_t i = 0; descriptor_name_is_valid(name) && i < directories.count; i++) {
        STRINGS_AUTO(path);

        strings_add(&path, "%s/%s", directories.at[i], file);
        if (path.failed)
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory to look for the plugin %s", file);
        if (!lstat(path.at[0], &st))
            return open_file(what, path.at[0], name, ret_plugin);
    }
    return search_not_found(what, name, &directories);
}

tutti_status plugin_find(const char *name, const tutti_plugin **ret_plugin)
{
    const tutti_plugin *plugin;
    tutti_status status = find("backend", name, &plugin);

    if (!status)
        status = search_check_backend(plugin, name);
    if (!status)
        *ret_plugin = plugin;
    return status;
}

tutti_status plugin_find_wrapper(const char *name, const tutti_plugin **ret_plugin)
{
    return find("wrapper", name, ret_plugin);
}

tutti_status plugin_find_device(const char *name, const tutti_plugin **ret_plugin)
{
    return find("device", name, ret_plugin);
}

const tutti_provider *plugin_provider(const tutti_plugin *plugin, enum tutti_provider_kind kind)
{
    for (uint32_t i = 0; i < plugin->provider_count; i++) {
        if (plugin->providers[i]->kind == (uint32_t)kind)
            return plugin->providers[i];
    }
    return NULL;
}

const void *plugin_ops(const tutti_plugin *plugin, enum tutti_provider_kind kind)
{
    const tutti_provider *provider = plugin_provider(plugin, kind);

    return provider ? provider->ops : NULL;
}

tutti_status tutti_plugin_register(const tutti_plugin *plugin)
{
    if (!plugin)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "plugin is NULL");
    if (descriptor_check(plugin, NULL))
        return error_prefix("tutti_plugin_register");

    const tutti_plugin *kept = keep(plugin, "");
    if (!kept)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to remember plugin %s", plugin->name);
    if (kept != plugin)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "another plugin is registered as \"%s\"",
                         plugin->name);
    return TUTTI_OK;
}
