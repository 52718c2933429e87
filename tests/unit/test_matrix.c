/* SPDX-License-Identifier: Apache-2.0 */
/* tutti_matrix_list(): the product of the code's own lists, and what of it is served. */
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

Test(matrix, every_cell_is_served_on_shm_and_tcp_unless_the_reduction_does_not_take_the_dtype,
     .timeout = 20)
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

Test(matrix, operations_have_names_and_traits_from_1_on)
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
