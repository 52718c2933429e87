/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/search.h"

#include <stdlib.h>
#include <string.h>

#include "plugin/descriptor.h"
#include "plugin/trust.h"

#define PREFIX "libtutti-"
#define SUFFIX ".so"

enum { FILES_MAX = 1024 }; /* plugins in one directory; further ones are found by name only */

static void add_directory(GPtrArray *directories, const char *path)
{
    char *real = realpath(path, NULL);
    char *directory = g_strdup(real ? real : path);

    free(real);
    if (g_ptr_array_find_with_equal_func(directories, directory, g_str_equal, NULL))
        g_free(directory);
    else
        g_ptr_array_add(directories, directory);
}

GPtrArray *search_directories(void)
{
    GPtrArray *directories = g_ptr_array_new_with_free_func(g_free);
    const char *path = secure_getenv("TUTTI_PLUGIN_PATH");
    const char *library = trust_library_path();

    g_auto(GStrv) parts = g_strsplit(path ? path : "", ":", -1);
    for (char **part = parts; *part; part++) {
        if (**part)
            add_directory(directories, *part);
    }
    if (*library) {
        g_autofree char *folder = g_path_get_dirname(library);
        g_autofree char *beside = g_build_filename(folder, "tutti", "0", NULL);
        add_directory(directories, beside);
    }
    add_directory(directories, TUTTI_INSTALL_PLUGIN_DIR);
    return directories;
}

char *search_name_of(const char *path)
{
    g_autofree char *file = g_path_get_basename(path);

    if (!g_str_has_prefix(file, PREFIX) || !g_str_has_suffix(file, SUFFIX) ||
        strlen(file) < strlen(PREFIX) + strlen(SUFFIX))
        return NULL;

    char *name = g_strndup(file + strlen(PREFIX), strlen(file) - strlen(PREFIX) - strlen(SUFFIX));
    if (!descriptor_name_is_valid(name))
        g_clear_pointer(&name, g_free);
    return name;
}

static int by_words(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_files(GPtrArray *files, const char *directory)
{
    g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
    g_autoptr(GPtrArray) here = g_ptr_array_new();
    const char *file;

    while (dir && (file = g_dir_read_name(dir)) && here->len < FILES_MAX) {
        g_autofree char *name = search_name_of(file);

        if (name)
            g_ptr_array_add(here, g_build_filename(directory, file, NULL));
    }
    g_ptr_array_sort(here, by_words);
    for (guint i = 0; i < here->len; i++)
        g_ptr_array_add(files, here->pdata[i]);
}

GPtrArray *search_files(const GPtrArray *directories)
{
    GPtrArray *files = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < directories->len; i++)
        add_files(files, directories->pdata[i]);
    return files;
}
