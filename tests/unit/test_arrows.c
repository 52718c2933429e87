/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The house: which folder of core/ may include which. The table in docs/design.md is what is
 * checked, so that it stays true.
 */
#include "documents.h"

static GPtrArray *sources_of(const char *folder)
{
    GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);

    document_sources(folder, paths);
    return paths;
}

static char *without_comments(const char *source)
{
    g_autoptr(GRegex) comment =
        g_regex_new("/\\*.*?\\*/|//[^\\n]*", G_REGEX_DOTALL | G_REGEX_RAW, 0, NULL);

    return g_regex_replace_literal(comment, source, -1, 0, " ", 0, NULL);
}

/* `shared` holds headers from elsewhere that all may include. */
static void check_folder(const char *house, const char *folder, const GPtrArray *allowed,
                         const char *shared)
{
    g_autofree char *path =
        strcmp(folder, ".") ? g_build_filename(house, folder, NULL) : g_strdup(house);
    g_autoptr(GPtrArray) sources = sources_of(path);

    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *own = g_path_get_dirname(sources->pdata[i]);
        if (strcmp(own, path))
            continue; /* of a folder below */
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) includes = document_find(source, "^#include \"([^\"]+)\"");

        for (guint k = 0; k < includes->len; k++) {
            g_autofree char *other = g_path_get_dirname(includes->pdata[k]);

            cr_expect(!strcmp(other, folder) || document_has(allowed, other) ||
                          strstr(shared, includes->pdata[k]),
                      "%s includes \"%s\": docs/design.md has no such arrow",
                      (char *)sources->pdata[i], (char *)includes->pdata[k]);
        }
    }
}

/* The table of docs/design.md whose first heading is «house/» says what each folder there may include. */
static void check_house(const char *house, const char *shared)
{
    g_autofree char *design = document_read("docs/design.md");
    g_autofree char *heading = g_strconcat(house, "/", NULL);
    g_autoptr(GPtrArray) rows = document_table(design, heading);
    g_autoptr(GPtrArray) above = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < rows->len; i++) {
        char **cells = rows->pdata[i];
        g_autoptr(GPtrArray) names = document_find(cells[0], "`([^`]+)`");
        g_autoptr(GPtrArray) allowed = document_find(cells[1], "`([^`]+)`");

        cr_assert_eq(names->len, 1, "row «%s»", cells[0]);
        for (guint k = 0; k < allowed->len; k++)
            cr_expect(document_has(above, allowed->pdata[k]), "%s comes before %s",
                      (char *)names->pdata[0], (char *)allowed->pdata[k]);
        check_folder(house, names->pdata[0], allowed, shared);
        g_ptr_array_add(above, g_strdup(names->pdata[0]));
    }

    g_autofree char *path = g_build_filename(TUTTI_SOURCE_DIR, house, NULL);
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(folder))) {
        g_autofree char *there = g_build_filename(path, name, NULL);

        if (g_file_test(there, G_FILE_TEST_IS_DIR))
            cr_expect(document_has(above, name), "docs/design.md has no row for %s/%s", house,
                      name);
    }
}

/* A longer one holds several subjects: split it along them. */
Test(arrows, no_header_of_core_has_more_than_300_lines, .timeout = 10)
{
    g_autoptr(GPtrArray) sources = sources_of("core");

    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) lines = document_find(source, "(\n)");

        if (g_str_has_suffix(sources->pdata[i], ".h"))
            cr_expect_leq(lines->len, 300, "%s has %u lines", (char *)sources->pdata[i],
                          lines->len);
    }
}

Test(arrows, folders_of_core_include_what_the_design_allows, .timeout = 10)
{
    check_house("core", "");
}

Test(arrows, folders_of_the_command_include_what_the_design_allows, .timeout = 10)
{
    check_house("tools",
                "base/codec.h base/distance.h base/ended.h base/error.h base/exit_record.h "
                "base/text.h secret/key.h secret/seal.h secret/secret.h");
}

Test(arrows, calls_between_folders_of_core_go_one_way, .timeout = 60)
{
    char *argv[] = {TUTTI_SOURCE_DIR "/scripts/find-circles", TUTTI_BINARY_DIR, NULL};
    g_autofree char *told = NULL;
    int code = -1;

    cr_assert(g_spawn_sync(TUTTI_SOURCE_DIR, argv, NULL, 0, NULL, NULL, &told, NULL, &code, NULL));
    cr_expect_eq(code, 0, "%s", told);
}

Test(arrows, algorithms_know_members_bytes_and_places_only, .timeout = 10)
{
    g_autoptr(GPtrArray) sources = sources_of("core/algorithm");

    cr_expect_gt(sources->len, 10);
    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autofree char *code = without_comments(source);
        g_autoptr(GPtrArray) found = document_find(
            code,
            "(\\bdtype\\b|\\btutti_(?:dtype|work)\\b|\\bTUTTI_(?:BOOL|BF16|[UIFC]\\d+|F8E\\w+)\\b|"
            "engine/work\\.h|"
            "\\bengine\\b|engine/engine\\.h|\\b(?:socket|memfd|futex|epoll|eventfd|sleep)\\w*\\(|"
            "<sys/|<unistd\\.h>|<pthread\\.h>)");

        for (guint k = 0; k < found->len; k++)
            cr_expect_fail("%s names %s", (char *)sources->pdata[i], (char *)found->pdata[k]);
    }
}

/* Of another folder, sources of this one include nothing of ours but the public headers, and `shared`. */
static void check_apart(const char *folder, const char *shared)
{
    g_autoptr(GPtrArray) sources = sources_of(folder);

    cr_expect_gt(sources->len, 5);
    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) found = document_find(source, "^#include \"([^\"]*/[^\"]*)\"");

        for (guint k = 0; k < found->len; k++)
            cr_expect(strstr(shared, found->pdata[k]), "%s includes \"%s\"",
                      (char *)sources->pdata[i], (char *)found->pdata[k]);
    }
}

/* `auto`, and what an error says of a plugin that is not installed; the rest comes from descriptors. */
Test(arrows, one_file_of_core_names_backends, .timeout = 10)
{
    g_autoptr(GPtrArray) sources = sources_of("core");
    g_autoptr(GPtrArray) naming = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) found =
            document_find(source, "\"(shm|tcp|mpi|gloo|fault|check|trace)\"");

        if (found->len)
            g_ptr_array_add(naming, g_strdup(sources->pdata[i]));
    }
    cr_expect_eq(naming->len, 1);
    for (guint i = 0; i < naming->len; i++)
        cr_expect(g_str_has_suffix(naming->pdata[i], "core/plugin/known.c"), "%s names a backend",
                  (char *)naming->pdata[i]);
}

Test(arrows, plugins_include_the_public_headers_and_their_own, .timeout = 10)
{
    check_apart("plugins",
                "../about.h ../common/caller.h ../common/environment.h ../common/inherited.h "
                "../common/interface.h ../common/listeners.h ../common/loaded.h ../common/log.h");
}
