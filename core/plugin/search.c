/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/search.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugin/descriptor.h"
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
