/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/search.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/distance.h"
#include "base/error.h"
#include "plugin/descriptor.h"
#include "plugin/known.h"
#include "plugin/loaded.h"
#include "plugin/trust.h"

#define PREFIX "libtutti-"
#define SUFFIX ".so"

enum { FILES_MAX = 1024 }; /* plugins in one directory; further ones are found by name only */

/* `length` bytes of `path` and what lies below it. */
static void add_directory(struct strings *directories, size_t length, const char *path,
                          const char *below)
{
    STRINGS_AUTO(given);

    strings_add(&given, "%.*s%s", (int)length, path, below);
    if (given.failed) {
        directories->failed = true;
        return;
    }
    AUTOFREE char *real = realpath(given.at[0], NULL);
    const char *directory = real ? real : given.at[0];

    if (!strings_have(directories, directory))
        strings_add(directories, "%s", directory);
}

void search_directories(struct strings *directories)
{
    const char *part = secure_getenv("TUTTI_PLUGIN_PATH");
    const char *library = trust_library_path(), *slash = strrchr(library, '/');

    for (size_t length; part && *part; part += length + (part[length] == ':')) {
        length = strcspn(part, ":");
        if (length)
            add_directory(directories, length, part, "");
    }
    if (slash)
        add_directory(directories, (size_t)(slash - library), library, "/tutti/0");
    if (*TUTTI_INSTALL_PLUGIN_DIR) /* a wheel is installed in no place that the build knows */
        add_directory(directories, strlen(TUTTI_INSTALL_PLUGIN_DIR), TUTTI_INSTALL_PLUGIN_DIR, "");
}

bool search_name_of(const char *path, char ret_name[PLUGIN_NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const size_t around = strlen(PREFIX) + strlen(SUFFIX), length = strlen(file);

    *ret_name = 0;
    if (length <= around || length - around > PLUGIN_NAME_MAX ||
        strncmp(file, PREFIX, strlen(PREFIX)) || strcmp(file + length - strlen(SUFFIX), SUFFIX))
        return false;
    memcpy(ret_name, file + strlen(PREFIX), length - around);
    ret_name[length - around] = 0;
    if (!descriptor_name_is_valid(ret_name))
        *ret_name = 0;
    return *ret_name;
}

static void add_files(struct strings *files, const char *directory)
{
    const size_t first = files->count;
    char name[PLUGIN_NAME_MAX + 1];
    DIR *dir = opendir(directory);
    const struct dirent *entry;

    if (!dir)
        return;
    while (files->count - first < FILES_MAX && !files->failed && (entry = readdir(dir)))
        if (search_name_of(entry->d_name, name))
            strings_add(files, "%s/%s", directory, entry->d_name);
    closedir(dir);
    strings_sort(files, first);
}

void search_files(const struct strings *directories, struct strings *files)
{
    for (size_t i = 0; i < directories->count; i++)
        add_files(files, directories->at[i]);
    files->failed = files->failed || directories->failed;
}

/* ---- names: of the files that are there, which are not opened for it, and of registered plugins ---- */

/* The uses of a name. That of a third party's file that was not opened is unknown. */
enum kinds { ANY_KIND, BACKENDS, WRAPPERS, DEVICES, UNKNOWN_KIND };

void plugin_provides(const tutti_plugin *plugin, char ret_words[PLUGIN_PROVIDES_MAX])
{
    static const char *const kinds[] = {[TUTTI_PROVIDER_TRANSPORT] = "transport",
                                        [TUTTI_PROVIDER_COLLECTIVES] = "collectives",
                                        [TUTTI_PROVIDER_DEVICE] = "device",
                                        [TUTTI_PROVIDER_BOOTSTRAP] = "bootstrap",
                                        [TUTTI_PROVIDER_WRAPPER] = "wrapper"};
    struct text text = text_in(ret_words, PLUGIN_PROVIDES_MAX);

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (kinds[kind] && plugin_provider(plugin, (enum tutti_provider_kind)kind))
            text_add(&text, "%s%s", text.used ? ", " : "", kinds[kind]);
}

const char *plugin_usually_provides(const char *name)
{
    const tutti_known_plugin *known = known_plugin(name);

    return known ? known->provides : "";
}

static enum kinds kind_of(const char *provides)
{
    if (!*provides)
        return UNKNOWN_KIND;
    if (!strcmp(provides, "device"))
        return DEVICES;
    return strcmp(provides, "wrapper") ? BACKENDS : WRAPPERS;
}

/* The names of a kind that are there, sorted, each once. */
static void known_names(enum kinds kind, const struct strings *directories, struct strings *names)
{
    STRINGS_AUTO(files);
    char name[PLUGIN_NAME_MAX + 1], provides[PLUGIN_PROVIDES_MAX];

    search_files(directories, &files);
    for (size_t i = 0; i < files.count; i++)
        if (search_name_of(files.at[i], name) && !strings_have(names, name) &&
            (!kind || kind_of(plugin_usually_provides(name)) == kind))
            strings_add(names, "%s", name);
    for (const struct loaded *entry = loaded_first(); entry; entry = entry->next) {
        plugin_provides(entry->plugin, provides);
        if (!*entry->path && !strings_have(names, entry->plugin->name) &&
            (!kind || kind_of(provides) == kind))
            strings_add(names, "%s", entry->plugin->name);
    }
    strings_sort(names, 0);
    names->failed = names->failed || files.failed;
}

static void add_joined(struct text *text, const struct strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        text_add(text, "%s%s", i ? ", " : "", list->at[i]);
    if (!list->count)
        text_add(text, "none");
}

static void list_known(enum kinds kind, char *ret_names, size_t size)
{
    STRINGS_AUTO(directories);
    STRINGS_AUTO(names);
    struct text text = text_in(ret_names, size);

    search_directories(&directories);
    known_names(kind, &directories, &names);
    add_joined(&text, &names);
}

void plugin_known_names(char *ret_names, size_t size)
{
    list_known(ANY_KIND, ret_names, size);
}

/* Adds those of `names` that `name` may be a typing error for. */
static void add_nearest(const char *name, const struct strings *names, struct text *nearest)
{
    for (size_t i = 0; i < names->count; i++)
        if (word_is_near(name, names->at[i]))
            text_add(nearest, "%s\"%s\"", nearest->used ? " or " : ": did you mean ", names->at[i]);
}

/* "; searched for libtutti-NAME.so in /usr/lib/tutti/0" */
static void add_searched(struct text *text, const char *name, const struct strings *directories)
{
    text_add(text, "; searched for libtutti-%.*s.so in ", TEXT_CUT(name, 64));
    add_joined(text, directories);
}

/* A plugin that tutti knows and that is not here: what to do. */
static void add_absent(struct text *text, const char *what, const tutti_known_plugin *known)
{
    text_add(text, "%s \"%s\" is known to tutti, but not installed here: %s; installed: ", what,
             known->name, known->get);
}

tutti_status search_not_found(const char *what, const char *name, const struct strings *directories)
{
    STRINGS_AUTO(names);
    STRINGS_AUTO(others);
    char guess[256], message[ERROR_MESSAGE_MAX];
    struct text nearest = text_in(guess, sizeof guess), text = text_in(message, sizeof message);
    const tutti_known_plugin *known = known_plugin(name);

    known_names(strcmp(what, "wrapper") ? BACKENDS : WRAPPERS, directories, &names);
    known_names(UNKNOWN_KIND, directories, &others);
    if (names.failed || others.failed)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to look for %s \"%.*s\"", what,
                         TEXT_CUT(name, 64));
    add_nearest(name, &names, &nearest);
    add_nearest(name, &others, &nearest);

    if (known)
        add_absent(&text, what, known);
    else
        text_add(&text, "unknown %s \"%.*s\"%s%s: ", what, TEXT_CUT(name, 64), guess,
                 *guess ? "? Known" : "; known");
    add_joined(&text, &names);
    if (others.count && !known) {
        text_add(&text, "; others, not opened for this: ");
        add_joined(&text, &others);
    }
    add_searched(&text, name, directories);
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s", message);
}

tutti_status search_check_backend(const tutti_plugin *plugin, const char *name)
{
    char provides[PLUGIN_PROVIDES_MAX], known[1024];

    plugin_provides(plugin, provides);
    if (kind_of(provides) != WRAPPERS)
        return TUTTI_OK;
    list_known(BACKENDS, known, sizeof known);
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "%s is a wrapper, not a backend; use TUTTI_WRAP=%s; known backends: %s", name,
                     name, known);
}
