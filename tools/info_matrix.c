/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti info --matrix`: the cells of tutti_matrix_list(), as Markdown tables or as one JSON
 * document. The tables fold what is the same everywhere: a line for each operation says who carries
 * it and by which algorithms, and a table of dtypes and reductions stands for all operations that
 * take the same ones.
 */
#include "info_matrix.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/status.h>

#include "cli.h"
#include "probe.h"

struct cell {
    const char *backend, *operation, *dtype, *op, *layout, *provider, *algorithms, *refusal;
};

/* The words of all cells are interned: they are few, and compared by address. */
struct matrix {
    GArray *cells;
    GPtrArray *backends, *operations, *layouts, *dtypes, *ops; /* in the order of the cells */
    const char *backend;                                       /* whose cells are being taken */
};

static const char *word(const char *text)
{
    return g_intern_string(text);
}

static void add_once(GPtrArray *words, const char *text)
{
    if (*text && !g_ptr_array_find(words, text, NULL))
        g_ptr_array_add(words, (gpointer)text);
}

static void take_cell(const tutti_matrix_cell *from, void *user)
{
    struct matrix *matrix = user;
    struct cell cell = {matrix->backend,        word(from->operation), word(from->dtype),
                        word(from->op),         word(from->layout),    word(from->provider),
                        word(from->algorithms), word(from->refusal)};

    add_once(matrix->operations, cell.operation);
    add_once(matrix->layouts, cell.layout);
    add_once(matrix->dtypes, cell.dtype);
    add_once(matrix->ops, cell.op);
    g_array_append_val(matrix->cells, cell);
}

static bool take_backend(struct matrix *matrix, const char *name)
{
    matrix->backend = word(name);
    if (tutti_matrix_list(name, take_cell, matrix) != TUTTI_OK)
        return false;
    add_once(matrix->backends, matrix->backend);
    return true;
}

/* Those that were asked for; else each plugin that opens and carries messages, and auto. */
static bool take_backends(struct matrix *matrix, char *const *names)
{
    g_autoptr(GPtrArray) plugins = *names ? NULL : probe_plugins();

    for (; *names; names++)
        if (!take_backend(matrix, *names)) {
            cli_say("info", "%s", tutti_last_error());
            return false;
        }
    if (!plugins)
        return matrix->backends->len > 0;
    for (guint i = 0; i < plugins->len; i++) {
        const struct probed *plugin = plugins->pdata[i];

        if (plugin->ready)
            take_backend(matrix, plugin->name);
    }
    return take_backend(matrix, "auto");
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* "inline, ring" of "all_reduce_inline, all_reduce_ring". */
static char *without_operation(const struct cell *cell)
{
    g_autoptr(GString) short_names = g_string_new(cell->algorithms);
    g_autofree char *base = g_str_has_suffix(cell->operation, "_v")
                                ? g_strndup(cell->operation, strlen(cell->operation) - 2)
                                : g_strdup(cell->operation);
    g_autofree char *prefix = g_strdup_printf("%s_", base);

    g_string_replace(short_names, prefix, "", 0);
    return g_strdup(short_names->str);
}

/* Who carries an operation and how; where nothing of it is served, why. */
static char *way_of(const struct matrix *matrix, const char *layout, const char *operation,
                    const char *backend)
{
    g_autoptr(GPtrArray) ways = g_ptr_array_new_with_free_func(g_free);
    const char *refusal = "";

    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);
        g_autofree char *algorithms = NULL, *way = NULL;

        if (cell->layout != layout || cell->operation != operation || cell->backend != backend)
            continue;
        if (*cell->refusal) {
            refusal = cell->refusal;
            continue;
        }
        algorithms = without_operation(cell);
        way = g_strdup_printf("%s: %s", cell->provider, algorithms);
        if (!g_ptr_array_find_with_equal_func(ways, way, g_str_equal, NULL))
            g_ptr_array_add(ways, g_steal_pointer(&way));
    }
    if (!ways->len)
        return g_strdup_printf("refused: %s", refusal);
    g_ptr_array_add(ways, NULL);
    return g_strjoinv("; or ", (char **)ways->pdata);
}

static void print_ways(const struct matrix *matrix, const char *layout)
{
    printf("\n## Members: %s\n\n| operation |", layout);
    for (guint b = 0; b < matrix->backends->len; b++)
        printf(" %s |", (const char *)matrix->backends->pdata[b]);
    printf("\n| --- |");
    for (guint b = 0; b < matrix->backends->len; b++)
        printf(" --- |");
    for (guint o = 0; o < matrix->operations->len; o++) {
        const char *operation = matrix->operations->pdata[o];

        printf("\n| %s |", operation);
        for (guint b = 0; b < matrix->backends->len; b++) {
            g_autofree char *way = way_of(matrix, layout, operation, matrix->backends->pdata[b]);

            printf(" %s |", way);
        }
    }
    printf("\n");
}

/* One letter for each dtype and reduction: served or not. NULL where nothing of the operation is. */
static char *served_of(const struct matrix *matrix, const char *layout, const char *operation,
                       const char *backend)
{
    g_autoptr(GString) served = g_string_new(NULL);

    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

        if (cell->layout == layout && cell->operation == operation && cell->backend == backend)
            g_string_append_c(served, *cell->refusal ? '-' : 'x');
    }
    return strchr(served->str, 'x') ? g_strdup(served->str) : NULL;
}

static bool operation_reduces(const struct matrix *matrix, const char *operation)
{
    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

        if (cell->operation == operation)
            return *cell->op;
    }
    return false;
}

static void print_elements(const struct matrix *matrix, const char *served, bool reduces)
{
    const guint columns = reduces ? matrix->ops->len : 1;

    if (!reduces && (strlen(served) < matrix->dtypes->len || !strchr(served, '-'))) {
        printf("\n%s\n", strlen(served) < matrix->dtypes->len ? "They take no elements."
                                                              : "They take every dtype.");
        return;
    }
    printf("\n| dtype |");
    for (guint o = 0; o < columns; o++)
        printf(" %s |", reduces ? (const char *)matrix->ops->pdata[o] : "served");
    printf("\n| --- |");
    for (guint o = 0; o < columns; o++)
        printf(" --- |");
    for (guint d = 0; d < matrix->dtypes->len; d++) {
        printf("\n| %s |", (const char *)matrix->dtypes->pdata[d]);
        for (guint o = 0; o < columns; o++)
            printf(" %s |", served[d * columns + o] == 'x' ? "yes" : "–");
    }
    printf("\n");
}

/* Operations that take the same elements on the same backends share a table. */
static void print_elements_of_all(const struct matrix *matrix)
{
    g_autoptr(GHashTable) groups =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
    g_autoptr(GPtrArray) order = g_ptr_array_new();

    for (guint o = 0; o < matrix->operations->len; o++)
        for (guint b = 0; b < matrix->backends->len; b++)
            for (guint l = 0; l < matrix->layouts->len; l++) {
                const char *operation = matrix->operations->pdata[o];
                char *served = served_of(matrix, matrix->layouts->pdata[l], operation,
                                         matrix->backends->pdata[b]);
                GPtrArray *members = served ? g_hash_table_lookup(groups, served) : NULL;

                if (served && !members) {
                    members = g_ptr_array_new();
                    g_ptr_array_add(order, served);
                    g_hash_table_insert(groups, served, members);
                } else {
                    g_free(served);
                }
                if (members)
                    add_once(members, operation);
            }
    for (guint i = 0; i < order->len; i++) {
        GPtrArray *members = g_hash_table_lookup(groups, order->pdata[i]);

        printf("\n### ");
        for (guint m = 0; m < members->len; m++)
            printf("%s%s", m ? ", " : "", (const char *)members->pdata[m]);
        printf("\n");
        print_elements(matrix, order->pdata[i], operation_reduces(matrix, members->pdata[0]));
    }
}

static void print_counts(const struct matrix *matrix)
{
    printf("\n## Cells\n\n| backend | served | not taken by the reduction | members not "
           "reached |\n| --- | --- | --- | --- |\n");
    for (guint b = 0; b < matrix->backends->len; b++) {
        guint served = 0, elements = 0, ways = 0;

        for (guint i = 0; i < matrix->cells->len; i++) {
            const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

            if (cell->backend != matrix->backends->pdata[b])
                continue;
            served += !*cell->refusal;
            elements += strstr(cell->refusal, " does not take ") != NULL;
            ways += *cell->refusal && !strstr(cell->refusal, " does not take ");
        }
        printf("| %s | %u | %u | %u |\n", (const char *)matrix->backends->pdata[b], served,
               elements, ways);
    }
}

static void print_text(const struct matrix *matrix)
{
    for (guint l = 0; l < matrix->layouts->len; l++)
        print_ways(matrix, matrix->layouts->pdata[l]);
    printf("\n## Dtypes and reductions\n");
    print_elements_of_all(matrix);
    print_counts(matrix);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json(const struct matrix *matrix)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    json_builder_begin_object(builder);
    json_builder_set_member_name(builder, "schema");
    json_builder_add_string_value(builder, "tutti.matrix/1");
    json_builder_set_member_name(builder, "cells");
    json_builder_begin_array(builder);
    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);
        const struct {
            const char *name, *value;
        } members[] = {{"backend", cell->backend},       {"operation", cell->operation},
                       {"dtype", cell->dtype},           {"op", cell->op},
                       {"layout", cell->layout},         {"provider", cell->provider},
                       {"algorithms", cell->algorithms}, {"refusal", cell->refusal}};

        json_builder_begin_object(builder);
        for (size_t m = 0; m < G_N_ELEMENTS(members); m++) {
            json_builder_set_member_name(builder, members[m].name);
            json_builder_add_string_value(builder, members[m].value);
        }
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
}

int info_matrix(char *const *backends, bool json)
{
    struct matrix matrix = {.cells = g_array_new(FALSE, FALSE, sizeof(struct cell)),
                            .backends = g_ptr_array_new(),
                            .operations = g_ptr_array_new(),
                            .layouts = g_ptr_array_new(),
                            .dtypes = g_ptr_array_new(),
                            .ops = g_ptr_array_new()};
    const bool taken = take_backends(&matrix, backends);

    if (taken && json)
        print_json(&matrix);
    else if (taken)
        print_text(&matrix);
    g_array_unref(matrix.cells);
    g_ptr_array_unref(matrix.backends);
    g_ptr_array_unref(matrix.operations);
    g_ptr_array_unref(matrix.layouts);
    g_ptr_array_unref(matrix.dtypes);
    g_ptr_array_unref(matrix.ops);
    return taken ? EXIT_OK : EXIT_FAILED;
}
