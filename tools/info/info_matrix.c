/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti info --matrix`: the cells of tutti_matrix_list(), as text that fits the terminal, as Markdown
 * tables for documents, which are as wide as they are, or as one JSON document. The tables fold
 * what is the same everywhere: a line for each operation names its carrier and its algorithms, and
 * a table of dtypes and reductions stands for all operations that take the same ones. What an
 * engine does itself is an algorithm that ends with "native".
 */
#include "info/info_matrix.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/status.h>

#include "cli.h"
#include "probe.h"
#include "wrap.h"

struct cell {
    const char *backend, *operation, *dtype, *op, *layout, *provider, *algorithms, *refusal;
};

/* The words of all cells are interned: they are few, and compared by address. */
struct matrix {
    GArray *cells;
    GPtrArray *backends, *operations, *layouts, *dtypes, *ops; /* in the order of the cells */
    const char *backend;                                       /* whose cells are being taken */
    bool markdown;
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

static tutti_status take_backend(struct matrix *matrix, const char *name)
{
    matrix->backend = word(name);
    const tutti_status status = tutti_matrix_list(name, take_cell, matrix);

    if (!status)
        add_once(matrix->backends, matrix->backend);
    return status;
}

/* An exit code. */
static int take_or_say(struct matrix *matrix, const char *name)
{
    const tutti_status status = take_backend(matrix, name);

    return status ? cli_say_failure("info", status) : EXIT_OK;
}

/* Takes the backends that were given, else each plugin that opens and carries messages, and auto.
 * Returns an exit code. */
static int take_backends(struct matrix *matrix, char *const *names)
{
    g_autoptr(GPtrArray) plugins = NULL;
    int code = *names ? EXIT_OK : probe_plugins(names, &plugins);

    for (; *names && !code; names++)
        code = probe_backend("info", *names) ? take_or_say(matrix, *names) : EXIT_FAILED;
    if (!plugins)
        return code || matrix->backends->len ? code : EXIT_FAILED;
    for (guint i = 0; i < plugins->len; i++) {
        const struct probed *plugin = plugins->pdata[i];

        if (plugin->ready)
            take_backend(matrix, plugin->name);
    }
    return take_or_say(matrix, "auto");
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* How a cell is served. */
enum { REFUSED = '-', BY_CORE = 'c', BY_ENGINE = 'e' };

static char server_of(const struct cell *cell)
{
    return *cell->refusal ? REFUSED : strstr(cell->algorithms, "_native") ? BY_ENGINE : BY_CORE;
}

/* "ring" of "all_reduce_ring". */
static const char *without_operation(const char *algorithm, const char *operation)
{
    size_t length = strlen(operation);

    if (g_str_has_suffix(operation, "_v"))
        length -= strlen("_v");
    return strncmp(algorithm, operation, length) == 0 && algorithm[length] == '_'
               ? algorithm + length + 1
               : algorithm;
}

/* The carrier of an operation: by these algorithms of the core, or NULL: itself. */
struct way {
    const char *provider;
    GPtrArray *algorithms;
};

static void free_way(gpointer user)
{
    struct way *way = user;

    if (way->algorithms)
        g_ptr_array_unref(way->algorithms);
    g_free(way);
}

static void add_way(GPtrArray *ways, const char *provider, const char *algorithm)
{
    const bool itself = strcmp(algorithm, "native") == 0;
    struct way *way = NULL;

    for (guint i = 0; i < ways->len && !way; i++) {
        struct way *other = ways->pdata[i];

        if (other->provider == provider && itself == !other->algorithms)
            way = other;
    }
    if (!way) {
        way = g_new0(struct way, 1);
        way->provider = provider;
        way->algorithms = itself ? NULL : g_ptr_array_new();
        g_ptr_array_insert(ways, itself ? 0 : -1, way);
    }
    if (!itself)
        add_once(way->algorithms, word(algorithm));
}

/* Adds the ways of a cell. If an engine does short calls and another carries long ones, the
 * provider is "engine+other". */
static void add_ways(GPtrArray *ways, const struct cell *cell)
{
    g_auto(GStrv) algorithms = g_strsplit(cell->algorithms, ", ", -1);
    const char *plus = server_of(cell) == BY_ENGINE ? strchr(cell->provider, '+') : NULL;
    g_autofree char *engine =
        plus ? g_strndup(cell->provider, (gsize)(plus - cell->provider)) : g_strdup(cell->provider);

    for (char **algorithm = algorithms; *algorithm; algorithm++) {
        const char *name = without_operation(*algorithm, cell->operation);
        const bool itself = strcmp(name, "native") == 0;

        add_way(ways, word(itself ? engine : plus ? plus + 1 : cell->provider), name);
    }
}

static char *words_of(const GPtrArray *ways)
{
    g_autoptr(GString) words = g_string_new(NULL);

    for (guint i = 0; i < ways->len; i++) {
        const struct way *way = ways->pdata[i];

        g_string_append_printf(words, "%s%s%s", i ? ", else " : "", way->provider,
                               way->algorithms ? ": " : " itself");
        for (guint a = 0; way->algorithms && a < way->algorithms->len; a++)
            g_string_append_printf(words, "%s%s", a ? ", " : "",
                                   (const char *)way->algorithms->pdata[a]);
    }
    return g_strdup(words->str);
}

/* The carriers of an operation and their algorithms, an engine first; where nothing of it is
 * served, why. */
static char *way_of(const struct matrix *matrix, const char *layout, const char *operation,
                    const char *backend)
{
    g_autoptr(GPtrArray) ways = g_ptr_array_new_with_free_func(free_way);
    const char *refusal = "";

    /* The core's own ways come first, so that their algorithms are in the order of sizes. */
    for (int engines = 0; engines < 2; engines++)
        for (guint i = 0; i < matrix->cells->len; i++) {
            const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

            if (cell->layout != layout || cell->operation != operation || cell->backend != backend)
                continue;
            if (*cell->refusal)
                refusal = cell->refusal;
            else if (engines == (server_of(cell) == BY_ENGINE))
                add_ways(ways, cell);
        }
    return ways->len ? words_of(ways) : g_strdup_printf("refused: %s", refusal);
}

static void print_heading(const struct matrix *matrix, int level, const char *text)
{
    if (matrix->markdown) {
        printf("\n%.*s %s\n", level, "###", text);
        return;
    }
    putchar('\n');
    wrap_print(0, 0, text);
}

/* A line for each backend below each operation. */
static void list_ways(const struct matrix *matrix, const char *layout)
{
    int names = 0;

    for (guint b = 0; b < matrix->backends->len; b++)
        names = MAX(names, wrap_width(matrix->backends->pdata[b]));
    for (guint o = 0; o < matrix->operations->len; o++) {
        const char *operation = matrix->operations->pdata[o];

        printf("  %s\n", operation);
        for (guint b = 0; b < matrix->backends->len; b++) {
            const char *backend = matrix->backends->pdata[b];
            g_autofree char *way = way_of(matrix, layout, operation, backend);

            printf("    %-*s  ", names, backend);
            wrap_print(names + 6, names + 6, way);
        }
    }
}

static void print_ways(const struct matrix *matrix, const char *layout)
{
    g_autofree char *heading = g_strdup_printf("Members: %s", layout);

    print_heading(matrix, 2, heading);
    if (!matrix->markdown) {
        list_ways(matrix, layout);
        return;
    }
    printf("\n| operation |");
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

/* One letter for each dtype and reduction: by whom it is served. NULL where nothing of the operation
 * is. */
static char *served_of(const struct matrix *matrix, const char *layout, const char *operation,
                       const char *backend)
{
    g_autoptr(GString) served = g_string_new(NULL);

    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

        if (cell->layout == layout && cell->operation == operation && cell->backend == backend)
            g_string_append_c(served, server_of(cell));
    }
    return strspn(served->str, "-") < served->len ? g_strdup(served->str) : NULL;
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

enum { OPS_MAX = 64 };

static void list_elements(const struct matrix *matrix, const char *served, bool reduces,
                          const char *(*words_of_letter)(char letter))
{
    const guint columns = reduces ? matrix->ops->len : 1;
    int widths[OPS_MAX];

    printf("  %-8s", "dtype");
    for (guint o = 0; o < MIN(columns, OPS_MAX); o++)
        widths[o] = printf(" %6s", reduces ? (const char *)matrix->ops->pdata[o] : "served");
    for (guint d = 0; d < matrix->dtypes->len; d++) {
        printf("\n  %-8s", (const char *)matrix->dtypes->pdata[d]);
        for (guint o = 0; o < MIN(columns, OPS_MAX); o++) {
            const char letter = served[d * columns + o];

            printf("%*s", widths[o], letter == REFUSED ? "-" : words_of_letter(letter));
        }
    }
    printf("\n");
}

/* `served` has a letter for each dtype and reduction; `words_of_letter` says what stands there. */
static void print_elements(const struct matrix *matrix, const char *served, bool reduces,
                           const char *(*words_of_letter)(char letter))
{
    const guint columns = reduces ? matrix->ops->len : 1;

    if (!matrix->markdown) {
        list_elements(matrix, served, reduces, words_of_letter);
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
            printf(" %s |", words_of_letter(served[d * columns + o]));
    }
    printf("\n");
}

/* Operations that are served alike, and over which backends. */
struct alike {
    char *served;
    GPtrArray *operations, *backends;
};

static void free_alike(gpointer user)
{
    struct alike *alike = user;

    g_free(alike->served);
    g_ptr_array_unref(alike->operations);
    g_ptr_array_unref(alike->backends);
    g_free(alike);
}

static struct alike *alike_of(GPtrArray *all, const char *served)
{
    for (guint i = 0; i < all->len; i++) {
        struct alike *alike = all->pdata[i];

        if (strcmp(alike->served, served) == 0)
            return alike;
    }
    struct alike *alike = g_new0(struct alike, 1);

    *alike = (struct alike){g_strdup(served), g_ptr_array_new(), g_ptr_array_new()};
    g_ptr_array_add(all, alike);
    return alike;
}

/* Each way in which operations are served, `engines` aside: by whom makes no difference then. */
static GPtrArray *all_alike(const struct matrix *matrix, bool engines)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(free_alike);

    for (guint o = 0; o < matrix->operations->len; o++)
        for (guint b = 0; b < matrix->backends->len; b++)
            for (guint l = 0; l < matrix->layouts->len; l++) {
                g_autofree char *served =
                    served_of(matrix, matrix->layouts->pdata[l], matrix->operations->pdata[o],
                              matrix->backends->pdata[b]);

                if (!served || (engines && !strchr(served, BY_ENGINE)))
                    continue;
                if (!engines)
                    g_strdelimit(served, (char[]){BY_ENGINE, 0}, BY_CORE);

                struct alike *alike = alike_of(all, served);

                add_once(alike->operations, matrix->operations->pdata[o]);
                add_once(alike->backends, matrix->backends->pdata[b]);
            }
    return all;
}

static char *list_of(const GPtrArray *words)
{
    GString *list = g_string_new(NULL);

    for (guint i = 0; i < words->len; i++)
        g_string_append_printf(list, "%s%s", i ? ", " : "", (const char *)words->pdata[i]);
    return g_string_free(list, FALSE);
}

/* A paragraph, which is a line of its own in Markdown. */
static void print_sentence(const struct matrix *matrix, const char *text)
{
    printf("%s%s\n", matrix->markdown ? "\n" : "  ", text);
}

static bool is_all(const char *served, char letter)
{
    return strspn(served, (char[]){letter, 0}) == strlen(served);
}

static const char *whether_taken(char letter)
{
    return letter == REFUSED ? "–" : "yes";
}

static const char *who_serves(char letter)
{
    return letter == REFUSED ? "–" : letter == BY_ENGINE ? "engine" : "core";
}

static void print_taken(const struct matrix *matrix)
{
    g_autoptr(GPtrArray) all = all_alike(matrix, false);

    print_heading(matrix, 2, "Dtypes and reductions");
    for (guint i = 0; i < all->len; i++) {
        const struct alike *alike = all->pdata[i];
        const bool reduces = operation_reduces(matrix, alike->operations->pdata[0]);

        g_autofree char *operations = list_of(alike->operations);

        print_heading(matrix, 3, operations);
        if (strlen(alike->served) < matrix->dtypes->len)
            print_sentence(matrix, "They take no elements.");
        else if (!reduces && is_all(alike->served, BY_CORE))
            print_sentence(matrix, "They take every dtype.");
        else
            print_elements(matrix, alike->served, reduces, whether_taken);
    }
}

/* An engine serves where its backend carries the whole group; its name stands in the heading. */
static void print_engines(const struct matrix *matrix)
{
    g_autoptr(GPtrArray) all = all_alike(matrix, true);

    if (all->len)
        print_heading(matrix, 2, "What an engine does itself");
    for (guint i = 0; i < all->len; i++) {
        const struct alike *alike = all->pdata[i];

        g_autofree char *operations = list_of(alike->operations);
        g_autofree char *backends = list_of(alike->backends);
        g_autofree char *heading = g_strdup_printf("%s over %s", operations, backends);

        print_heading(matrix, 3, heading);
        if (is_all(alike->served, BY_ENGINE))
            print_sentence(matrix, strlen(alike->served) < matrix->dtypes->len ? "All of it."
                                                                               : "Every dtype.");
        else
            print_elements(matrix, alike->served,
                           operation_reduces(matrix, alike->operations->pdata[0]), who_serves);
    }
}

static void print_counts(const struct matrix *matrix)
{
    print_heading(matrix, 2, "Cells");
    if (matrix->markdown)
        printf(
            "\n| backend | served by an engine | served by the core | not taken by the reduction | "
            "members not reached |\n| --- | --- | --- | --- | --- |\n");
    else
        printf("  %-31s %9s %9s %9s %9s\n  %-31s %9s %9s %9s %9s\n", "", "served by", "served by",
               "dtype not", "members", "backend", "an engine", "the core", "reduced", "not met");
    for (guint b = 0; b < matrix->backends->len; b++) {
        guint engine = 0, core = 0, elements = 0, ways = 0;

        for (guint i = 0; i < matrix->cells->len; i++) {
            const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);

            if (cell->backend != matrix->backends->pdata[b])
                continue;
            engine += server_of(cell) == BY_ENGINE;
            core += server_of(cell) == BY_CORE;
            elements += strstr(cell->refusal, " does not take ") != NULL;
            ways += *cell->refusal && !strstr(cell->refusal, " does not take ");
        }
        printf(matrix->markdown ? "| %s | %u | %u | %u | %u |\n" : "  %-31s %9u %9u %9u %9u\n",
               (const char *)matrix->backends->pdata[b], engine, core, elements, ways);
    }
}

static void print_text(const struct matrix *matrix)
{
    for (guint l = 0; l < matrix->layouts->len; l++)
        print_ways(matrix, matrix->layouts->pdata[l]);
    print_taken(matrix);
    print_engines(matrix);
    print_counts(matrix);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json(const struct matrix *matrix)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", "tutti.matrix/1");
    cli_json_array(builder, "cells");
    for (guint i = 0; i < matrix->cells->len; i++) {
        const struct cell *cell = &g_array_index(matrix->cells, struct cell, i);
        const struct {
            const char *name, *value;
        } members[] = {{"backend", cell->backend},       {"operation", cell->operation},
                       {"dtype", cell->dtype},           {"op", cell->op},
                       {"layout", cell->layout},         {"provider", cell->provider},
                       {"algorithms", cell->algorithms}, {"refusal", cell->refusal}};

        json_builder_begin_object(builder);
        for (size_t m = 0; m < G_N_ELEMENTS(members); m++)
            cli_json_string(builder, members[m].name, members[m].value);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
}

int info_matrix(char *const *backends, enum matrix_form form)
{
    struct matrix matrix = {.cells = g_array_new(FALSE, FALSE, sizeof(struct cell)),
                            .backends = g_ptr_array_new(),
                            .operations = g_ptr_array_new(),
                            .layouts = g_ptr_array_new(),
                            .dtypes = g_ptr_array_new(),
                            .ops = g_ptr_array_new(),
                            .markdown = form == MATRIX_MARKDOWN};
    const int code = take_backends(&matrix, backends);

    if (!code && form == MATRIX_JSON)
        print_json(&matrix);
    else if (!code)
        print_text(&matrix);
    g_array_unref(matrix.cells);
    g_ptr_array_unref(matrix.backends);
    g_ptr_array_unref(matrix.operations);
    g_ptr_array_unref(matrix.layouts);
    g_ptr_array_unref(matrix.dtypes);
    g_ptr_array_unref(matrix.ops);
    return code;
}
