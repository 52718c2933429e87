/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the project's documents and sources in tests, so that what is written stays true. */
#pragma once

#include <criterion/criterion.h>
#include <glib.h>
#include <string.h>

/* The contents of a file of the source tree; g_free(). */
static inline char *document_read(const char *path)
{
    g_autofree char *full = g_build_filename(TUTTI_SOURCE_DIR, path, NULL);
    g_autoptr(GMappedFile) file = g_mapped_file_new(full, FALSE, NULL);

    cr_assert(file != NULL, "cannot read %s", path);
    return g_strndup(g_mapped_file_get_contents(file), g_mapped_file_get_length(file));
}

static inline void document_free_row(gpointer row)
{
    g_strfreev(row);
}

/* The rows of the table whose first heading is `heading`: a GStrv of cells each. */
static inline GPtrArray *document_table(const char *text, const char *heading)
{
    g_autofree char *begin = g_strdup_printf("\n| %s |", heading);
    GPtrArray *rows = g_ptr_array_new_with_free_func(document_free_row);
    const char *at = strstr(text, begin);

    cr_assert_not_null(at, "no table that begins with \"%s\"", heading);
    g_auto(GStrv) lines = g_strsplit(at + 1, "\n", -1);
    for (size_t i = 2; lines[i] && lines[i][0] == '|'; i++) {
        const size_t n = strlen(lines[i]);

        cr_assert(n > 2 && lines[i][n - 1] == '|', "unfinished row: %s", lines[i]);
        lines[i][n - 1] = 0;
        char **cells = g_strsplit(lines[i] + 1, "|", -1);
        for (char **cell = cells; *cell; cell++)
            g_strstrip(*cell);
        g_ptr_array_add(rows, cells);
    }
    return rows;
}

/* Every match of the first group of `pattern`; strings. */
static inline GPtrArray *document_find(const char *text, const char *pattern)
{
    GPtrArray *found = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GRegex) regex = g_regex_new(pattern, G_REGEX_MULTILINE | G_REGEX_RAW, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;

    cr_assert_not_null(regex, "bad pattern %s", pattern);
    g_regex_match(regex, text, 0, &match);
    for (; g_match_info_matches(match); g_match_info_next(match, NULL))
        g_ptr_array_add(found, g_match_info_fetch(match, 1));
    return found;
}

static inline gboolean document_has(const GPtrArray *words, const char *word)
{
    for (guint i = 0; i < words->len; i++)
        if (!strcmp(words->pdata[i], word))
            return TRUE;
    return FALSE;
}

static inline gboolean document_is_source(const char *name)
{
    static const char *const ends[] = {".c", ".h", ".cc", ".hh"};
    gboolean is = FALSE;

    for (gsize i = 0; i < G_N_ELEMENTS(ends); i++)
        is |= g_str_has_suffix(name, ends[i]);
    return is;
}

/* The sources in C and C++ below a folder, as paths from the root of the tree; appended. */
static inline void document_sources(const char *folder, GPtrArray *paths)
{
    g_autofree char *full = g_build_filename(TUTTI_SOURCE_DIR, folder, NULL);
    g_autoptr(GDir) dir = g_dir_open(full, 0, NULL);
    const char *name;

    cr_assert_not_null(dir, "no folder %s", folder);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_autofree char *there = g_build_filename(TUTTI_SOURCE_DIR, path, NULL);

        if (g_file_test(there, G_FILE_TEST_IS_DIR))
            document_sources(path, paths);
        else if (document_is_source(name))
            g_ptr_array_add(paths, g_steal_pointer(&path));
    }
}
