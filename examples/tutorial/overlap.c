/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlaps communication with computation: tutti sums a large vector while the program computes. An
 * operation without a work makes progress inside its call only. With a work it also makes progress on
 * tutti's own thread, and whenever the program tests or waits.
 *
 *     cc overlap.c $(pkg-config --cflags --libs tutti) -o overlap
 *     tutti run -n 2 ./overlap
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { COUNT = 1 << 20 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

int main(void)
{
    tutti_group *world;
    float *gradients = malloc(COUNT * sizeof *gradients);
    int64_t shape;
    tutti_work *work;

    must(tutti_init(NULL, &world));
    if (!gradients)
        return 1;
    for (int i = 0; i < COUNT; i++)
        gradients[i] = 1;
    const tutti_tensor tensor = tutti_tensor_1d(gradients, TUTTI_F32, &shape, COUNT);

    must(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, &work));
    double other = 0; /* must not touch the gradients */
    int steps = 0;
    for (int32_t done = 0; !done; steps++) {
        for (int i = 1; i < 1000; i++)
            other += 1.0 / i;
        must(tutti_work_test(work, &done));
    }
    tutti_work_free(work);
    printf("rank %d: the sum is %g; meanwhile %d times 1000 additions were made (%g)\n",
           tutti_group_rank(world), gradients[COUNT - 1], steps, other / steps);
    must(tutti_group_destroy(world));
    free(gradients);
    return 0;
}
