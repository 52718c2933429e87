/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guide's table of reductions is what the library says. With TUTTI_TEST_WRITE=1 in the
 * environment the table is written into the guide instead.
 */
#include "documents.h"

#include <stdbool.h>

#include <tutti/tensor.h>

static const tutti_dtype dtypes[] = {
#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
};

static const tutti_reduce_op ops[] = {
#define OP(NAME, name, number) number,
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
};

static bool same_meanings(tutti_dtype a, tutti_dtype b)
{
    for (size_t i = 0; i < G_N_ELEMENTS(ops); i++)
        if (g_strcmp0(tutti_reduce_op_meaning(ops[i], a), tutti_reduce_op_meaning(ops[i], b)))
            return false;
    return true;
}

/* One column for neighbours of which all is the same. */
static bool is_column(size_t dtype)
{
    return dtype == 0 || !same_meanings(dtypes[dtype], dtypes[dtype - 1]);
}

static GString *table(void)
{
    GString *text = g_string_new("| operation |");

    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
        if (is_column(d) && d > 0)
            g_string_append(text, " |");
        g_string_append_printf(text, " %s", tutti_dtype_name(dtypes[d]));
    }
    g_string_append(text, " |\n| --- |");
    for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++)
        g_string_append(text, is_column(d) ? " --- |" : "");
    g_string_append_c(text, '\n');
    for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
        g_autofree char *name = g_ascii_strup(tutti_reduce_op_name(ops[i]), -1);

        g_string_append_printf(text, "| `TUTTI_%s` |", name);
        for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++) {
            const char *meaning = tutti_reduce_op_meaning(ops[i], dtypes[d]);

            if (is_column(d))
                g_string_append_printf(text, " %s |", meaning ? meaning : "–");
        }
        g_string_append_c(text, '\n');
    }
    return text;
}

static void write_into_guide(const char *guide, const char *wanted)
{
    const char *begin = strstr(guide, "| operation |"), *end = begin;
    g_autofree char *path = g_build_filename(TUTTI_SOURCE_DIR, "docs/guide.md", NULL);
    g_autoptr(GString) text = g_string_new(NULL);

    cr_assert_not_null(begin);
    while (*end == '|')
        end = strchr(end, '\n') + 1;
    g_string_append_len(text, guide, begin - guide);
    g_string_append_printf(text, "%s%s", wanted, end);
    cr_assert(g_file_set_contents(path, text->str, (gssize)text->len, NULL));
}

Test(meaning, the_guide_has_the_table_of_reductions, .timeout = 10)
{
    g_autofree char *guide = document_read("docs/guide.md");
    g_autoptr(GString) wanted = table();

    if (g_getenv("TUTTI_TEST_WRITE"))
        write_into_guide(guide, wanted->str);
    else
        cr_expect(strstr(guide, wanted->str) != NULL,
                  "write the table anew with TUTTI_TEST_WRITE=1; it must be:\n%s", wanted->str);
}
