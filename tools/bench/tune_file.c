/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tune_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/report.h"
#include "cli.h"

struct tune_file {
    GString *text;  /* with comments */
    GString *lines; /* without */
};

struct tune_file *tune_file_new(void)
{
    struct tune_file *file = g_new(struct tune_file, 1);

    *file = (struct tune_file){.text = g_string_new(NULL), .lines = g_string_new(NULL)};
    return file;
}

void tune_file_free(struct tune_file *file)
{
    g_string_free(file->text, TRUE);
    g_string_free(file->lines, TRUE);
    g_free(file);
}

static void add_line(GString *text, const char *name, uint64_t value)
{
    g_string_append_printf(text, "%s = %llu\n", name, (unsigned long long)value);
}

void tune_file_set(struct tune_file *file, const char *name, uint64_t standard, uint64_t value,
                   const char *why)
{
    g_string_append_printf(file->text, "\n# %s; default %llu\n", why, (unsigned long long)standard);
    add_line(file->text, name, value);
    add_line(file->lines, name, value);
}

void tune_file_keep(struct tune_file *file, const char *name, uint64_t standard, const char *why)
{
    g_string_append_printf(file->text, "\n# %s\n# ", why);
    add_line(file->text, name, standard);
}

void tune_file_note(struct tune_file *file, const char *words)
{
    g_string_append_printf(file->text, "\n# %s\n", words);
}

char *tune_file_lines(const struct tune_file *file, const char *name, uint64_t value)
{
    GString *lines = g_string_new(file->lines->str);

    add_line(lines, name, value);
    return g_string_free(lines, FALSE);
}

bool tune_file_write(const struct tune_file *file, const struct bench_settings *settings,
                     const struct bench_facts *facts)
{
    g_autofree char *origin = report_origin(facts);
    g_autofree char *text = g_strdup_printf(
        "# Thresholds between algorithms, in bytes, written by `tutti bench --tune` for:\n"
        "# %s\n"
        "# %s, %s\n"
        "# Measure again for other machines, ranks, backends or versions: the file works there, "
        "but its\n"
        "# thresholds may be worse than the default ones. See tutti-bench(1).\n%s",
        origin, settings->dtype_name, settings->op_name, file->text->str);
    /* The file that a link leads to, so that the link is not replaced; free() is g_free(). */
    g_autofree char *target = realpath(settings->tune, NULL);
    g_autoptr(GError) error = NULL;

    if (!g_file_set_contents(target ? target : settings->tune, text, -1, &error)) {
        cli_say("bench", "the tuning file could not be written: %s", error->message);
        return false;
    }
    if (settings->tune_is_found)
        printf("# wrote %s, which tutti_init() reads\n", settings->tune);
    else
        printf("# wrote %s; set TUTTI_TUNING to it on all ranks\n", settings->tune);
    fflush(stdout);
    return true;
}
