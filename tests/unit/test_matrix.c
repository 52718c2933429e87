/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_matrix_list(): the product of the code's own lists, and what of it is served. What it foretells
 * is what ranks were served when the conformance tests wrote their table.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/tensor.h>

#include "base/call.h"
#include "reduce/reduce.h"

struct counted {
    bool one_host_only;
    int cells, blocks, wrong;
    char example[256]; /* of what is wrong */
};

static tutti_reduce_op op_named(const char *name)
{
#define OP(NAME, word, number)                                                                     \
    if (!strcmp(name, word))                                                                       \
        return number;
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
    return -1;
}

/* A cell is served unless its reduction has no kernel, or its members are out of reach. */
static void judge(const tutti_matrix_cell *cell, void *user)
{
    struct counted *counted = user;
    const bool out_of_reach = counted->one_host_only && strcmp(cell->layout, "one host");
    const bool no_kernel =
        *cell->op && !reduce_kernel(tutti_dtype_parse(cell->dtype), op_named(cell->op));
    const bool served = !*cell->refusal;

    counted->cells++;
    if (served == !(out_of_reach || no_kernel) && served == (*cell->provider != 0) &&
        served == (*cell->algorithms != 0))
        return;
    counted->wrong++;
    snprintf(counted->example, sizeof counted->example, "%s %s %s, %s: «%s» «%s» %.80s",
             cell->operation, cell->dtype, cell->op, cell->layout, cell->provider, cell->algorithms,
             cell->refusal);
}

static int expected_cells(void)
{
    int dtypes = 0, ops = 0, cells = 0;

#define ONE(NAME, ...) dtypes++;
    TUTTI_DTYPE_LIST(ONE)
#undef ONE
#define ONE(NAME, ...) ops++;
    TUTTI_REDUCE_OP_LIST(ONE)
#undef ONE
    for (int i = OPERATION_NONE + 1; i < OPERATION_COUNT; i++)
        cells += (operation_has_blocks(i) ? 2 : 1) * (operation_moves(i) ? dtypes : 1) *
                 (operation_reduces(i) ? ops : 1);
    return 3 * (cells + 2 * dtypes);
}

Test(matrix, shm_and_tcp_serve_every_cell_whose_reduction_takes_the_dtype, .timeout = 60)
{
    static const char *const backends[] = {"shm", "tcp", "auto", "local=shm,remote=tcp"};

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        struct counted counted = {.one_host_only = !strcmp(backends[i], "shm")};

        cr_assert_eq(tutti_matrix_list(backends[i], judge, &counted), TUTTI_OK, "%s",
                     tutti_last_error());
        cr_expect_eq(counted.cells, expected_cells(), "%s: %d", backends[i], counted.cells);
        cr_expect_eq(counted.wrong, 0, "%s: %d, %s", backends[i], counted.wrong, counted.example);
    }
    cr_expect_eq(tutti_matrix_list("tpc", judge, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "did you mean \"tcp\"?"));
    cr_expect_eq(tutti_matrix_list("tcp", NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
}

Test(matrix, operations_have_names_and_traits_from_1_on, .timeout = 10)
{
    int32_t count = 0;

    while (tutti_operation_name(count + 1))
        count++;
    cr_expect_eq(count, OPERATION_COUNT - 1);
    cr_expect_null(tutti_operation_name(0));
    cr_expect_eq(tutti_operation_traits(OPERATION_ALL_REDUCE),
                 TUTTI_OPERATION_MOVES | TUTTI_OPERATION_REDUCES);
    cr_expect_eq(tutti_operation_traits(OPERATION_BROADCAST),
                 TUTTI_OPERATION_MOVES | TUTTI_OPERATION_HAS_ROOT);
    cr_expect_eq(tutti_operation_traits(OPERATION_BARRIER), 0);
    cr_expect_eq(tutti_operation_traits(OPERATION_COUNT), 0);
}

/* ---- beside what ranks were served ------------------------------------------------------------ */

enum { MEMBERS = 4 };

/* Where the conformance tests have as many members, placed as the matrix has them. */
static const struct place {
    const char *where, *backend, *layout;
} places[] = {
    {"shm", "shm", "one host"},     {"tcp", "tcp", "one host"},
    {"auto-4", "auto", "one host"}, {"auto-2,2-in-turn", "auto", "several members on each host"},
    {"gloo", "gloo", "one host"},   {"openmpi", "mpi", "one host"},
    {"mpich", "mpi", "one host"},
};

/* A row of tests/conformance/served.tsv: of u8, max; "_core": avg, which no engine does. */
struct served {
    char operation[32], where[32], provider[32], algorithm[48];
    int members;
    unsigned long long from, to;
    const struct place *place;
    const char *op;
    bool found;
};

static bool has_word(const char *words, const char *word, char separator)
{
    const size_t length = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ' || at[-1] == separator) &&
            (!at[length] || at[length] == separator))
            return true;
    return false;
}

static void look_for(const tutti_matrix_cell *cell, void *user)
{
    struct served *row = user;

    if (strcmp(cell->operation, row->operation) || strcmp(cell->layout, row->place->layout) ||
        (*cell->dtype && strcmp(cell->dtype, "u8")) || (*cell->op && strcmp(cell->op, row->op)))
        return;
    row->found = true;
    if (!strcmp(row->algorithm, "message"))
        cr_expect(has_word(cell->provider, row->provider, '+'), "%s at %s went by %s, not %s",
                  row->operation, row->where, row->provider, cell->provider);
    else
        cr_expect(has_word(cell->algorithms, row->algorithm, ','), "%s at %s was %s, not one of %s",
                  row->operation, row->where, row->algorithm, cell->algorithms);
}

static bool has_end(const char *word, const char *end)
{
    const size_t length = strlen(word), tail = strlen(end);

    return length > tail && !strcmp(word + length - tail, end);
}

static bool cut_end(char *word, const char *end)
{
    const bool there = has_end(word, end);

    if (there)
        word[strlen(word) - strlen(end)] = 0;
    return there;
}

/* No bytes are a barrier; but of uneven blocks that only some members know, none are counted. */
static bool moves_nothing(const struct served *row)
{
    const bool counted = !has_end(row->operation, "_v") ||
                         !strcmp(row->operation, "all_gather_v") ||
                         !strcmp(row->operation, "reduce_scatter_v");

    return row->to == 0 && counted && !has_end(row->operation, "barrier");
}

/* False: the matrix says nothing of it. */
static bool take_row(const char *line, struct served *ret_row)
{
    struct served row = {.op = "max"};

    if (sscanf(line, "%31[^\t]\t%31[^\t]\t%d\t%llu\t%llu\t%31[^\t]\t%47[^\t\n]", row.operation,
               row.where, &row.members, &row.from, &row.to, row.provider, row.algorithm) != 7)
        return false;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (!strcmp(row.where, places[i].where))
            row.place = &places[i];
    if (!row.place || row.members != MEMBERS || moves_nothing(&row) ||
        has_end(row.operation, "_fixed"))
        return false;
    if (cut_end(row.operation, "_core"))
        row.op = "avg";
    (void)cut_end(row.operation, "_away");
    *ret_row = row;
    return true;
}

Test(matrix, what_ranks_were_served_is_among_what_it_says, .timeout = 300)
{
    FILE *file = fopen(TUTTI_SOURCE_DIR "/tests/conformance/served.tsv", "re");
    char line[256];
    int rows = 0;

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        struct served row;

        /* An engine that was not built says nothing. */
        if (!take_row(line, &row) || tutti_matrix_list(row.place->backend, look_for, &row))
            continue;
        cr_expect(row.found, "the matrix has no %s", row.operation);
        rows++;
    }
    fclose(file);
    cr_expect_geq(rows, 60);
}
