/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the tree: sums the ranks, and says which backend carried the sum. */
#include <stdio.h>

#include <tutti/tutti.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tutti_last_error());
    return 1;
}

int main(void)
{
    tutti_group *world;

    if (tutti_init(NULL, &world))
        return fail("tutti_init");

    float value = (float)tutti_group_rank(world);
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F32, &shape, 1);
    const int size = tutti_group_size(world);

    if (tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL))
        return fail("tutti_all_reduce");
    printf("sum %g of %d ranks over %s\n", (double)value, size, tutti_group_backend(world));
    if (tutti_group_destroy(world))
        return fail("tutti_group_destroy");
    return (int)value == size * (size - 1) / 2 ? 0 : 1;
}
