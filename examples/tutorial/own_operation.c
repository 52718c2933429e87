/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions beyond the built-in ones: a user-defined operation, and a weighted sum.
 *
 *     cc own_operation.c $(pkg-config --cflags --libs tutti) -o own_operation
 *     tutti run -n 4 ./own_operation
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

/* The number that is farther from zero. Pointers may have any alignment: hence memcpy(). */
static void farther(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                    void *user)
{
    (void)dtype; /* this program calls it with f32 only */
    (void)user;
    for (uint64_t i = 0; i < count; i++) {
        float x, y;

        memcpy(&x, (const char *)a + i * sizeof x, sizeof x);
        memcpy(&y, (const char *)b + i * sizeof y, sizeof y);
        if ((y < 0 ? -y : y) > (x < 0 ? -x : x))
            x = y;
        memcpy((char *)dst + i * sizeof x, &x, sizeof x);
    }
}

int main(void)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_group *world;
    tutti_reduce_op own, weighted;
    int64_t shapes[2];

    must(tutti_init(NULL, &world));
    const int rank = tutti_group_rank(world);

    /* Ranks know it by its name; the number is this process's own. */
    must(tutti_reduce_op_create("farther from zero", farther, TUTTI_REDUCE_OP_COMMUTATIVE, NULL,
                                &own));
    float value = (float)(rank % 2 ? -rank : rank);
    const tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F32, &shapes[0], 1);

    must(tutti_all_reduce(world, &tensor, own, NULL, NULL));
    if (rank == 0)
        printf("farthest from zero: %g\n", value);
    tutti_reduce_op_free(own);

    /* Each rank has a weight of its own; and the sum has the same bits on any backend. */
    float weight = 1 / (float)(1 << rank);
    const tutti_tensor factor = tutti_tensor_1d(&weight, TUTTI_F32, &shapes[1], 1);

    must(tutti_reduce_op_premul(&factor, &weighted));
    value = 16;
    options.flags = TUTTI_FIXED_ORDER;
    must(tutti_all_reduce(world, &tensor, weighted, &options, NULL));
    if (rank == 0)
        printf("weighted sum: %g\n", value);
    tutti_reduce_op_free(weighted);
    must(tutti_group_destroy(world));
    return 0;
}
