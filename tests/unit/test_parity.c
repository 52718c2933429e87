/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/parity.md, docs/coming-from.md and docs/matrix.md name C calls, examples and tests. Each must exist, each
 * example must use its call, and each call of MPI and MLX that the one names, and each of torch.distributed's
 * documentation, has a row in the other. Calls of Python are checked with the package:
 * tests/python/test_parity.py.
 */
#include "documents.h"

#include <tutti/tensor.h>

enum { CALL, C_CALL, PYTHON_CALL, EXAMPLE, TEST, CELLS };

/* The rows of all tables with `columns` columns, but for headings. */
static GPtrArray *rows_of(const char *text, guint columns)
{
    GPtrArray *rows = g_ptr_array_new_with_free_func(document_free_row);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line; line++) {
        if (**line != '|' || g_str_has_prefix(line[0], "| ---") ||
            (line[1] && g_str_has_prefix(line[1], "| ---")))
            continue;
        const size_t n = strlen(*line);
        cr_assert(n > 2 && (*line)[n - 1] == '|', "unfinished row: %s", *line);
        (*line)[n - 1] = 0;
        char **cells = g_strsplit(*line + 1, "|", -1);
        cr_assert_eq(g_strv_length(cells), columns, "row «%s»", *line);
        for (char **cell = cells; *cell; cell++)
            g_strstrip(*cell);
        g_ptr_array_add(rows, cells);
    }
    return rows;
}

/* Everything below a folder that a name may stand in, in one text. */
static char *text_of(const char *folder)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GString) text = g_string_new(NULL);

    document_sources(folder, paths);
    for (guint i = 0; i < paths->len; i++) {
        g_autofree char *one = document_read(paths->pdata[i]);

        g_string_append(text, one);
    }
    return g_strdup(text->str);
}

static gboolean has_word(const char *text, const char *word)
{
    g_autofree char *quoted = g_regex_escape_string(word, -1);
    g_autofree char *pattern = g_strdup_printf("\\b(%s)\\b", quoted);
    g_autoptr(GPtrArray) found = document_find(text, pattern);

    return found->len > 0;
}

static gboolean is_declared(const char *headers, const char *name)
{
    if (!g_str_has_prefix(name, "TUTTI_"))
        return has_word(headers, name);
    return has_word(headers, name) ||
           has_word(headers, name + strlen("TUTTI_")); /* of an X-macro */
}

/* A case of pytest is a function that some file of tests/python defines. */
static gboolean is_test_of_python(const char *name)
{
    g_autofree char *folder = g_build_filename(TUTTI_SOURCE_DIR, "tests/python", NULL);
    g_autofree char *definition = g_strdup_printf("^def (%s)\\(", name);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *file;

    cr_assert_not_null(dir, "no folder %s", folder);
    while ((file = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename("tests/python", file, NULL);

        if (!g_str_has_suffix(file, ".py"))
            continue;
        g_autofree char *text = document_read(path);
        g_autoptr(GPtrArray) found = document_find(text, definition);

        if (found->len)
            return TRUE;
    }
    return FALSE;
}

/* A case is written Test(suite, case …), or as a macro's first argument in a file that says
 * Test(suite, name). */
static gboolean is_test(const GPtrArray *sources, const char *suite, const char *name)
{
    if (!strcmp(suite, "python"))
        return is_test_of_python(name);
    g_autofree char *whole = g_strdup_printf("\\(%s, (%s)\\b", suite, name);
    g_autofree char *begin = g_strdup_printf("Test(%s, ", suite);
    g_autofree char *part = g_strdup_printf("^[A-Z_]+\\((%s)\\b", name);

    for (guint i = 0; i < sources->len; i++) {
        const char *source = sources->pdata[i];
        g_autoptr(GPtrArray) direct = document_find(source, whole);
        g_autoptr(GPtrArray) by_macro = document_find(source, part);

        if (direct->len || (by_macro->len && strstr(source, begin)))
            return TRUE;
    }
    return FALSE;
}

static void check_calls(const char *headers, const char *cell, const char *row)
{
    g_autoptr(GPtrArray) names = document_find(cell, "`(tutti_[a-z0-9_]+|TUTTI_[A-Z0-9_]+)");

    cr_expect(names->len || g_str_has_prefix(cell, "`tutti "), "%s: no C call", row);
    for (guint i = 0; i < names->len; i++)
        cr_expect(is_declared(headers, names->pdata[i]), "%s: there is no %s", row,
                  (char *)names->pdata[i]);
}

static gboolean is_left_out(const char *cell)
{
    return g_str_has_prefix(cell, "later: ") || g_str_has_prefix(cell, "not needed: ");
}

/* What an example of the row has to use: its C calls, or those of Python where it has none. */
static GPtrArray *calls_to_show(const char *cells[CELLS])
{
    if (is_left_out(cells[C_CALL]))
        return document_find(cells[PYTHON_CALL], "`(?:[A-Za-z]+\\.)?([A-Za-z_]+)[()]*`");
    return document_find(cells[C_CALL], "`(tutti_[a-z0-9_]+|TUTTI_[A-Z0-9_]+|tutti [a-z]+)");
}

/* Each call of the row stands in one of its examples. */
static void check_example(const char *cells[CELLS])
{
    g_autoptr(GPtrArray) paths = document_find(cells[EXAMPLE], "`([^`]+)`");
    g_autoptr(GPtrArray) names = calls_to_show(cells);
    g_autoptr(GString) examples = g_string_new(NULL);

    cr_expect(paths->len, "%s: no example", cells[CALL]);
    for (guint i = 0; i < paths->len; i++) {
        g_autofree char *full = g_build_filename(TUTTI_SOURCE_DIR, paths->pdata[i], NULL);

        cr_expect(g_file_test(full, G_FILE_TEST_EXISTS), "%s: there is no %s", cells[CALL],
                  (char *)paths->pdata[i]);
        if (!g_file_test(full, G_FILE_TEST_EXISTS))
            continue;
        g_autofree char *text = g_file_test(full, G_FILE_TEST_IS_DIR)
                                    ? text_of(paths->pdata[i])
                                    : document_read(paths->pdata[i]);
        g_string_append(examples, text);
    }
    for (guint n = 0; n < names->len; n++)
        cr_expect(has_word(examples->str, names->pdata[n]), "%s: no example of %s", cells[CALL],
                  (char *)names->pdata[n]);
}

static void check_test(const GPtrArray *sources, const char *cell, const char *row)
{
    g_autoptr(GPtrArray) names = document_find(cell, "`([a-z0-9_]+::[a-z0-9_]+)`");

    cr_expect_gt(names->len, 0, "%s: no test", row);
    for (guint i = 0; i < names->len; i++) {
        g_auto(GStrv) parts = g_strsplit(names->pdata[i], "::", 2);

        cr_expect(is_test(sources, parts[0], parts[1]), "%s: there is no test %s", row,
                  (char *)names->pdata[i]);
    }
}

static GPtrArray *test_sources(void)
{
    GPtrArray *texts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);

    document_sources("tests", paths);
    for (guint i = 0; i < paths->len; i++)
        g_ptr_array_add(texts, document_read(paths->pdata[i]));
    return texts;
}

Test(parity, every_call_example_and_test_that_is_named_exists, .timeout = 60)
{
    g_autofree char *parity = document_read("docs/parity.md");
    g_autofree char *declared = text_of("api/tutti");
    g_autofree char *version = document_read("api/tutti/version.h.in");
    g_autofree char *headers = g_strconcat(declared, version, NULL);
    g_autoptr(GPtrArray) rows = rows_of(parity, CELLS), sources = test_sources();

    cr_expect_geq(rows->len, 100);
    for (guint i = 0; i < rows->len; i++) {
        const char **cells = rows->pdata[i];

        if (is_left_out(cells[C_CALL]) && is_left_out(cells[PYTHON_CALL])) {
            cr_expect_str_eq(cells[TEST], "–", "%s", cells[CALL]);
            continue;
        }
        if (!is_left_out(cells[C_CALL]))
            check_calls(headers, cells[C_CALL], cells[CALL]);
        check_example(cells);
        check_test(sources, cells[TEST], cells[CALL]);
    }
}

Test(parity, each_promise_of_the_matrix_names_tests_that_are_there, .timeout = 30)
{
    g_autofree char *matrix = document_read("docs/matrix.md");
    g_autoptr(GPtrArray) sources = test_sources(), rows = document_table(matrix, "what happens");

    cr_expect_geq(rows->len, 10);
    for (guint i = 0; i < rows->len; i++) {
        char **cells = rows->pdata[i];

        cr_assert_eq(g_strv_length(cells), 5, "row «%s»", cells[0]);
        check_test(sources, cells[4], cells[0]);
    }
}

/* "MPI_Init", "Group.rank", "recv": the names of the first cells, without what is in brackets. */
static GPtrArray *names_of(const GPtrArray *rows)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < rows->len; i++) {
        g_autoptr(GPtrArray) found =
            document_find(((char **)rows->pdata[i])[0], "`([A-Za-z0-9_.]+)[^`]*`");

        for (guint k = 0; k < found->len; k++)
            g_ptr_array_add(names, g_strdup(found->pdata[k]));
    }
    return names;
}

/*
 * What torch.distributed's documentation has in the sections that docs/parity.md names: its
 * functions and classes, and those of its classes' members that a program calls.
 */
static const char *const torchs_calls[] = {
    /* Initialization */
    "is_available", "init_process_group", "device_mesh.init_device_mesh", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_gloo_available", "is_xccl_available",
    "is_ucc_available", "is_backend_available", "is_torchelastic_launched",
    "get_default_backend_for_device",
    /* Post-Initialization, Shutdown */
    "Backend", "Backend.register_backend", "get_backend", "get_rank", "get_world_size",
    "destroy_process_group",
    /* Groups */
    "new_group", "shrink_group", "get_group_rank", "get_global_rank", "get_process_group_ranks",
    "device_mesh.DeviceMesh",
    /* Point-to-point communication */
    "send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "batch_isend_irecv",
    "P2POp",
    /* Collective functions, Monitored Barrier */
    "broadcast", "broadcast_object_list", "all_reduce", "reduce", "all_gather",
    "all_gather_into_tensor", "all_gather_object", "gather", "gather_object", "scatter",
    "scatter_object_list", "reduce_scatter", "reduce_scatter_tensor", "all_to_all_single",
    "all_to_all", "barrier", "monitored_barrier", "reduce_op", "Work.wait", "Work.is_completed",
    "Work.is_success", "Work.exception", "Work.result", "Work.source_rank", "Work.get_future",
    "Work.synchronize", "Work.block_current_stream", "Work.boxed", "Work.unbox", "ReduceOp.SUM",
    "ReduceOp.AVG", "ReduceOp.PRODUCT", "ReduceOp.MIN", "ReduceOp.MAX", "ReduceOp.BAND",
    "ReduceOp.BOR", "ReduceOp.BXOR", "ReduceOp.PREMUL_SUM",
    /* Distributed Key-Value Store */
    "Store.add", "Store.append", "Store.check", "Store.clone", "Store.compare_set",
    "Store.delete_key", "Store.get", "Store.has_extended_api", "Store.list_keys", "Store.multi_get",
    "Store.multi_set", "Store.num_keys", "Store.queue_len", "Store.queue_pop", "Store.queue_push",
    "Store.set", "Store.set_timeout", "Store.timeout", "Store.wait", "TCPStore", "TCPStore.host",
    "TCPStore.port", "TCPStore.libuvBackend", "HashStore", "FileStore", "FileStore.path",
    "PrefixStore", "PrefixStore.underlying_store"};

Test(parity, each_call_of_torchs_documentation_has_a_row, .timeout = 30)
{
    g_autofree char *parity = document_read("docs/parity.md");
    g_autoptr(GPtrArray) rows = g_ptr_array_new();
    g_autoptr(GPtrArray) tables = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);

    for (const char *at = parity; (at = strstr(at, "\n| torch.distributed |")); at++) {
        GPtrArray *table = document_table(at, "torch.distributed");

        g_ptr_array_add(tables, table);
        for (guint i = 0; i < table->len; i++)
            g_ptr_array_add(rows, table->pdata[i]);
    }
    g_autoptr(GPtrArray) covered = names_of(rows);

    for (size_t i = 0; i < G_N_ELEMENTS(torchs_calls); i++)
        cr_expect(document_has(covered, torchs_calls[i]), "docs/parity.md has no row of %s",
                  torchs_calls[i]);
}

Test(parity, each_call_one_may_come_from_has_a_row, .timeout = 30)
{
    static const char *const headings[] = {"MPI", "mlx.core.distributed"};
    g_autofree char *parity = document_read("docs/parity.md");
    g_autofree char *coming = document_read("docs/coming-from.md");
    g_autofree char *headers = text_of("api/tutti");

    for (size_t h = 0; h < G_N_ELEMENTS(headings); h++) {
        g_autoptr(GPtrArray) from = document_table(coming, headings[h]);
        g_autoptr(GPtrArray) to = document_table(parity, headings[h]);
        g_autoptr(GPtrArray) calls = names_of(from), covered = names_of(to);

        cr_expect_geq(calls->len, 10);
        for (guint i = 0; i < calls->len; i++)
            cr_expect(document_has(covered, calls->pdata[i]), "docs/parity.md has no row of %s",
                      (char *)calls->pdata[i]);
    }
    g_autoptr(GPtrArray) named = document_find(coming, "`(tutti_[a-z0-9_]+)");
    for (guint i = 0; i < named->len; i++)
        cr_expect(is_declared(headers, named->pdata[i]), "docs/coming-from.md: there is no %s",
                  (char *)named->pdata[i]);
}

Test(parity, each_dtype_has_its_names_elsewhere, .timeout = 10)
{
    g_autofree char *coming = document_read("docs/coming-from.md");
    g_autoptr(GPtrArray) rows = document_table(coming, "tutti");
    static const char *const names[] = {
#define CELL(NAME, name, code, bits) "`TUTTI_" #NAME "`",
        TUTTI_DTYPE_LIST(CELL)
#undef CELL
    };

    cr_expect_eq(rows->len, G_N_ELEMENTS(names));
    for (guint i = 0; i < rows->len; i++)
        cr_expect_str_eq(((char **)rows->pdata[i])[0], names[i]);
}
