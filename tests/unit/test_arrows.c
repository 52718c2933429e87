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

static void check_folder(const char *folder, const GPtrArray *allowed)
{
    g_autofree char *path = g_build_filename("core", folder, NULL);
    g_autoptr(GPtrArray) sources = sources_of(path);

    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) includes = document_find(source, "^#include \"([^\"]+)\"");

        for (guint k = 0; k < includes->len; k++) {
            g_autofree char *other = g_path_get_dirname(includes->pdata[k]);

            cr_expect(!strcmp(other, folder) || document_has(allowed, other),
                      "%s includes \"%s\": docs/design.md has no such arrow",
                      (char *)sources->pdata[i], (char *)includes->pdata[k]);
        }
    }
}

Test(arrows, folders_of_core_include_what_the_design_allows, .timeout = 10)
{
    g_autofree char *design = document_read("docs/design.md");
    g_autoptr(GPtrArray) rows = document_table(design, "core/");
    g_autoptr(GPtrArray) above = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < rows->len; i++) {
        char **cells = rows->pdata[i];
        g_autoptr(GPtrArray) names = document_find(cells[0], "`([^`]+)`");
        g_autoptr(GPtrArray) allowed = document_find(cells[1], "`([^`]+)`");

        cr_assert_eq(names->len, 1, "row «%s»", cells[0]);
        for (guint k = 0; k < allowed->len; k++)
            cr_expect(document_has(above, allowed->pdata[k]), "%s comes before %s",
                      (char *)names->pdata[0], (char *)allowed->pdata[k]);
        check_folder(names->pdata[0], allowed);
        g_ptr_array_add(above, g_strdup(names->pdata[0]));
    }

    g_autoptr(GDir) core = g_dir_open(TUTTI_SOURCE_DIR "/core", 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(core))) {
        g_autofree char *path = g_build_filename(TUTTI_SOURCE_DIR, "core", name, NULL);

        if (g_file_test(path, G_FILE_TEST_IS_DIR))
            cr_expect(document_has(above, name), "docs/design.md has no row for core/%s", name);
    }
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
            "work/work\\.h|"
            "\\bengine\\b|work/engine\\.h|\\b(?:socket|memfd|futex|epoll|eventfd|sleep)\\w*\\(|"
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

Test(arrows, plugins_include_the_public_headers_and_their_own, .timeout = 10)
{
    check_apart("plugins", "../request.h");
}

Test(arrows, tools_include_the_public_headers_and_their_own, .timeout = 10)
{
    check_apart("tools", "base/distance.h base/ended.h base/exit_record.h");
}
