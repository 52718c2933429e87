/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank brings four numbers; all of them get the sums. */
#include <stdio.h>
#include <tutti/tutti.h>

static int failed(void)
{
    fprintf(stderr, "%s\n", tutti_last_error());
    return 1;
}

int main(void)
{
    tutti_group *world;
    if (tutti_init(NULL, &world) != TUTTI_OK)
        return failed();

    int rank = tutti_group_rank(world);
    float numbers[4] = {(float)rank, 1, 2, 3};
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(numbers, TUTTI_F32, &shape, 4);

    if (tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL) != TUTTI_OK)
        return failed();
    printf("rank %d of %d over %s: %g %g %g %g\n", rank, tutti_group_size(world),
           tutti_group_backend(world), numbers[0], numbers[1], numbers[2], numbers[3]);

    return tutti_group_destroy(world) == TUTTI_OK ? 0 : failed();
}
