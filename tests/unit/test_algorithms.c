/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of algorithms and the files of core/algorithm: an algorithm that one of them lacks would never be
 * chosen, simulated or explained, and nothing would say so.
 */
#include "documents.h"

#include "algorithm/algorithm.h"

/* The names that the sources define: by ALGORITHM(), and where a file has one for each operation, by its macro. */
static GPtrArray *defined_algorithms(void)
{
    g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    document_sources("core/algorithm", sources);
    g_autofree char *list = document_read("core/algorithm/algorithms.h");
    g_autoptr(GPtrArray) operations = document_find(list, "X\\((\\w+)##way,");
    for (guint i = 0; i < sources->len; i++) {
        g_autofree char *source = document_read(sources->pdata[i]);
        g_autofree char *file = g_path_get_basename(sources->pdata[i]);
        g_autoptr(GPtrArray) one = document_find(source, "^ALGORITHM\\((\\w+),");
        g_autoptr(GPtrArray) each = document_find(source, "^ALGORITHM_OF_EACH\\(\\w+, (\\w+)\\)");
        g_autoptr(GPtrArray) alone = document_find(source, "^ALONE\\((\\w+),");

        *strrchr(file, '.') = 0;
        cr_expect_leq(one->len, 1, "%s defines several", file);
        for (guint k = 0; k < one->len; k++) {
            cr_expect_str_eq(one->pdata[k], file, "a file has the name of its algorithm");
            g_ptr_array_add(names, g_strdup(one->pdata[k]));
        }
        for (guint k = 0; k < each->len * operations->len; k++)
            g_ptr_array_add(names, g_strconcat(operations->pdata[k % operations->len],
                                               each->pdata[k / operations->len], NULL));
        for (guint k = 0; k < alone->len; k++)
            g_ptr_array_add(names, g_strdup(alone->pdata[k]));
    }
    return names;
}

Test(algorithms, every_file_has_a_row_and_every_row_a_file, .timeout = 10)
{
    g_autoptr(GPtrArray) defined = defined_algorithms();
    g_autoptr(GPtrArray) rows = g_ptr_array_new();

    for (int i = 0; i < ALGORITHMS; i++) {
        cr_expect_not(document_has(rows, algorithm_table[i]->name), "%s has two rows",
                      algorithm_table[i]->name);
        g_ptr_array_add(rows, (char *)algorithm_table[i]->name);
        cr_expect(document_has(defined, algorithm_table[i]->name), "%s has a row and no file",
                  algorithm_table[i]->name);
    }
    for (guint i = 0; i < defined->len; i++)
        cr_expect(document_has(rows, defined->pdata[i]),
                  "%s has a file and no row in core/algorithm/algorithms.h",
                  (char *)defined->pdata[i]);
}

Test(algorithms, an_algorithm_is_named_after_its_operation_and_can_run, .timeout = 5)
{
    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *a = algorithm_table[i];
        const bool is_inline = a->kind == ALGORITHM_INLINE;

        cr_expect(g_str_has_prefix(a->name, operation_name(a->operation)), "%s", a->name);
        cr_expect_not_null(a->cost, "%s", a->name);
        cr_expect_eq(!a->emit, is_inline || algorithm_by_engine(a->kind), "%s", a->name);
        cr_expect_eq(a->post && a->poll, is_inline, "%s", a->name);
    }
}

static bool is_bounded(const struct algorithm *a)
{
    return a->fits || a->members.least || a->members.most || a->least || a->most;
}

/* Else a row behind one that fits every call would never be taken, and some calls would fit none. */
Test(algorithms, each_row_is_taken_by_some_call_and_each_call_fits_one, .timeout = 10)
{
    const uint32_t flags =
        ALGORITHM_ROUNDS_ON_THE_WAY | ALGORITHM_NEEDS_EQUAL_BLOCKS | ALGORITHM_SHARES_CPUS;
    const struct algorithm *last[OPERATION_COUNT][ALGORITHM_NATIVE + 1] = {0};
    g_autoptr(GHashTable) taken = g_hash_table_new(NULL, NULL);

    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *a = algorithm_table[i];

        last[a->operation][a->kind] = a;
        for (int members = 1; members <= 64; members++)
            for (int bit = 0; bit < 40; bit++)
                for (uint32_t without = 0; without <= flags; without++)
                    g_hash_table_add(taken, (gpointer)algorithm_find(&thresholds_standard,
                                                                     a->operation, a->kind, members,
                                                                     UINT64_C(1) << bit, without));
    }
    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *a = algorithm_table[i];

        cr_expect(g_hash_table_contains(taken, a), "no call takes %s", a->name);
        cr_expect(a != last[a->operation][a->kind] || !is_bounded(a), "%s: the last has bounds",
                  a->name);
    }
}
