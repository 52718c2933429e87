/* SPDX-License-Identifier: Apache-2.0 */
/*
 * README, guide and design name programs, files, functions, variables and statuses. They must be
 * there, and what a user may set or get must be in the guide.
 */
#include "documents.h"

#include <tutti/status.h>

static const char *const documents[] = {"README.md",
                                        "CHANGELOG.md",
                                        "CONTRIBUTING.md",
                                        "SECURITY.md",
                                        "docs/design.md",
                                        "docs/guide.md",
                                        "docs/writing-a-plugin.md",
                                        "docs/matrix.md",
                                        "docs/coming-from.md",
                                        "docs/parity.md",
                                        "docs/python.md",
                                        "docs/formats.md",
                                        "docs/engines.md",
                                        "bench/README.md",
                                        "examples/plugin-template/README.md",
                                        "examples/train_digits/data/README.md"};

Test(documents, the_readme_shows_the_program_that_is_built, .timeout = 10)
{
    g_autofree char *readme = document_read("README.md");
    g_autofree char *program = document_read("examples/hello/hello.c");
    g_autofree char *block = g_strdup_printf("\n```c\n%s```\n", program);

    cr_expect_not_null(strstr(readme, block), "README.md does not show examples/hello/hello.c");
}

static gboolean defines(const char *source, const char *function)
{
    g_autofree char *pattern =
        g_strdup_printf("^[A-Za-z_][^;{}\\n]*\\b(%s)\\([^;{}]*\\)\\s*\\{", function);
    g_autoptr(GPtrArray) found = document_find(source, pattern);

    return found->len > 0;
}

Test(documents, the_way_of_a_call_names_functions_that_exist, .timeout = 10)
{
    g_autofree char *design = document_read("docs/design.md");
    g_autoptr(GPtrArray) rows = document_table(design, "line of the way");

    cr_expect_geq(rows->len, 25);
    for (guint i = 0; i < rows->len; i++) {
        char **cells = rows->pdata[i];
        g_autoptr(GPtrArray) files = NULL, functions = NULL;

        cr_assert_eq(g_strv_length(cells), 3, "row «%s»", cells[0]);
        files = document_find(cells[1], "`([^`]+)`");
        functions = document_find(cells[2], "`([^`]+)`");
        cr_assert(files->len == 1 && functions->len > 0, "row «%s»", cells[0]);
        g_autofree char *source = document_read(files->pdata[0]);
        for (guint k = 0; k < functions->len; k++)
            cr_expect(defines(source, functions->pdata[k]), "%s has no function %s",
                      (char *)files->pdata[0], (char *)functions->pdata[k]);
    }
}

static void expect_there(const char *document, const char *folder, const char *path)
{
    g_autofree char *full = g_build_filename(TUTTI_SOURCE_DIR, folder, path, NULL);

    cr_expect(g_file_test(full, G_FILE_TEST_EXISTS), "%s names %s, which is not there", document,
              path);
}

/* As GitHub makes the anchor of a heading: small letters, no marks, a hyphen for each blank. */
static void add_anchor(GPtrArray *anchors, const char *heading)
{
    GString *anchor = g_string_new(NULL);

    for (const char *at = heading; *at; at = g_utf8_next_char(at)) {
        gunichar letter = g_unichar_tolower(g_utf8_get_char(at));

        if (letter == ' ')
            g_string_append_c(anchor, '-');
        else if (g_unichar_isalnum(letter) || letter == '-' || letter == '_')
            g_string_append_unichar(anchor, letter);
    }
    g_ptr_array_add(anchors, g_string_free(anchor, FALSE));
}

static void expect_anchor(const char *document, const char *file, const char *anchor)
{
    g_autofree char *text = document_read(file);
    g_autoptr(GPtrArray) headings = document_find(text, "(?m)^#+ (.+)$");
    g_autoptr(GPtrArray) anchors = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < headings->len; i++)
        add_anchor(anchors, headings->pdata[i]);
    cr_expect(document_has(anchors, anchor), "%s: %s has no heading for #%s", document, file,
              anchor);
}

Test(documents, links_to_headings_find_them, .timeout = 10)
{
    guint found = 0;

    for (size_t d = 0; d < G_N_ELEMENTS(documents); d++) {
        g_autofree char *text = document_read(documents[d]);
        g_autofree char *folder = g_path_get_dirname(documents[d]);
        g_autoptr(GPtrArray) links = document_find(text, "\\]\\(([^):]*#[^):]+)\\)");

        for (guint i = 0; i < links->len; i++) {
            g_auto(GStrv) parts = g_strsplit(links->pdata[i], "#", 2);
            g_autofree char *beside = g_build_filename(folder, parts[0], NULL);

            expect_anchor(documents[d], *parts[0] ? beside : documents[d], parts[1]);
        }
        found += links->len;
    }
    cr_expect_gt(found, 5);
}

Test(documents, paths_and_links_lead_somewhere, .timeout = 10)
{
    guint all_links = 0, all_paths = 0;

    for (size_t d = 0; d < G_N_ELEMENTS(documents); d++) {
        g_autofree char *text = document_read(documents[d]);
        g_autofree char *folder = g_path_get_dirname(documents[d]);
        g_autoptr(GPtrArray) links = document_find(text, "\\]\\(([^)#:]+)\\)");
        g_autoptr(GPtrArray) paths =
            document_find(text, "`((?:api|bench|cmake|core|docs|examples|plugins|tests|tools)/"
                                "[A-Za-z0-9_./-]*)`");

        for (guint i = 0; i < links->len; i++)
            expect_there(documents[d], folder, links->pdata[i]);
        for (guint i = 0; i < paths->len; i++)
            expect_there(documents[d], "", paths->pdata[i]);
        all_links += links->len;
        all_paths += paths->len;
    }
    cr_expect_gt(all_links, 30);
    cr_expect_gt(all_paths, 30);
}

/* What plugins read by host->config(): an option of theirs is a variable. */
static void options_of_plugins(GPtrArray *names)
{
    g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func(g_free);

    document_sources("plugins", sources);
    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) keys = document_find(source, "->config\\([^,()]*, \"([^\"]*)\"\\)");
        g_auto(GStrv) parts = g_strsplit(sources->pdata[i], "/", 3); /* plugins/NAME/… */

        for (guint k = 0; k < keys->len; k++) {
            const char *key = keys->pdata[k];
            g_autofree char *option =
                g_strdup_printf("TUTTI_%s%s%s", parts[1], *key ? "_" : "", key);

            g_ptr_array_add(names, g_ascii_strup(g_strdelimit(option, ".-", '_'), -1));
        }
    }
}

/* Every literal that looks like the name of a variable; errors' names aside. */
static GPtrArray *variables_in_the_code(void)
{
    static const char *const folders[] = {"core", "examples", "plugins", "tools"};
    g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (size_t f = 0; f < G_N_ELEMENTS(folders); f++)
        document_sources(folders[f], sources);
    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) found =
            document_find(source, "\"((?!TUTTI_ERR_|TUTTI_OK)[A-Z][A-Z0-9_]*[A-Z0-9])\"");

        for (guint k = 0; k < found->len; k++)
            if (!document_has(names, found->pdata[k]))
                g_ptr_array_add(names, g_strdup(found->pdata[k]));
    }
    options_of_plugins(names);
    return names;
}

/* TUTTI_STORE may name a host, too: core/bootstrap/identity.c refuses a file there. */
static void expect_read_securely(const char *name, const GPtrArray *sources)
{
    g_autofree char *pattern = g_strdup_printf("((?<!_)getenv\\(\"%s\"\\))", name);

    for (guint i = 0; i < sources->len && strcmp(name, "TUTTI_STORE"); i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autoptr(GPtrArray) reads = document_find(source, pattern);

        cr_expect_eq(reads->len, 0, "%s reads %s, which names a file, also in a set-id program",
                     (char *)sources->pdata[i], name);
    }
}

Test(documents, set_id_programs_ignore_variables_that_name_a_file, .timeout = 10)
{
    g_autofree char *guide = document_read("docs/guide.md");
    g_autoptr(GPtrArray) rows = document_table(guide, "variable");
    g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func(g_free);
    guint files = 0;

    document_sources("core", sources);
    document_sources("plugins", sources);
    for (guint i = 0; i < rows->len; i++) {
        char **cells = rows->pdata[i];
        g_autoptr(GPtrArray) names = document_find(cells[0], "`(TUTTI_[^`]+)`");
        g_autoptr(GPtrArray) paths = document_find(cells[1], "(<(?:directory|file|path)>)");

        if (!paths->len)
            continue;
        files++;
        cr_expect(strstr(cells[4], "Set-id programs"),
                  "the guide does not say that set-id programs ignore %s", (char *)names->pdata[0]);
        expect_read_securely(names->pdata[0], sources);
    }
    cr_expect_geq(files, 5);
}

Test(documents, the_guide_lists_the_variables_that_are_read, .timeout = 10)
{
    g_autofree char *guide = document_read("docs/guide.md");
    g_autoptr(GPtrArray) code = variables_in_the_code();
    g_autoptr(GPtrArray) listed = g_ptr_array_new_with_free_func(g_free);
    static const char *const tables[] = {"variable", "variable of others"};

    for (size_t t = 0; t < G_N_ELEMENTS(tables); t++) {
        g_autoptr(GPtrArray) rows = document_table(guide, tables[t]);

        for (guint i = 0; i < rows->len; i++) {
            g_autoptr(GPtrArray) names = document_find(((char **)rows->pdata[i])[0], "`([^`]+)`");

            for (guint k = 0; k < names->len; k++)
                g_ptr_array_add(listed, g_strdup(names->pdata[k]));
        }
    }
    cr_expect_geq(listed->len, 15);
    for (guint i = 0; i < listed->len; i++)
        cr_expect(strchr(listed->pdata[i], '<') || document_has(code, listed->pdata[i]),
                  "the guide lists %s, which nothing reads", (char *)listed->pdata[i]);
    for (guint i = 0; i < code->len; i++)
        if (g_str_has_prefix(code->pdata[i], "TUTTI_"))
            cr_expect(
                document_has(listed, code->pdata[i]),
                "the guide does not list %s: write a row in core/base/environment.h, or in the "
                "plugin's about.h, and run "
                "scripts/generate-docs",
                (char *)code->pdata[i]);
}

Test(documents, the_guide_explains_every_status, .timeout = 10)
{
    g_autofree char *guide = document_read("docs/guide.md");
    g_autoptr(GPtrArray) rows = document_table(guide, "status");
    static const char *const names[] = {
#define STATUS_CELL(NAME, number, words) "`TUTTI_" #NAME "`",
        TUTTI_STATUS_LIST(STATUS_CELL)
#undef STATUS_CELL
    };

    cr_expect_eq(rows->len, G_N_ELEMENTS(names));
    for (size_t n = 0; n < G_N_ELEMENTS(names); n++) {
        gboolean found = FALSE;

        for (guint i = 0; i < rows->len; i++)
            found |= !strcmp(((char **)rows->pdata[i])[0], names[n]);
        cr_expect(found, "the guide does not explain %s", names[n]);
    }
}
