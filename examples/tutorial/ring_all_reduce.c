/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring all_reduce written by hand, as in PyTorch's tutorial: every rank sends the vector that it
 * received last to the right, and adds the one that arrives from the left. The program compares the sum
 * with that of tutti_all_reduce(), which moves fewer bytes. Call that one in your program.
 *
 *     cc ring_all_reduce.c $(pkg-config --cflags --libs tutti) -o ring_all_reduce
 *     tutti run -n 4 ./ring_all_reduce
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { COUNT = 1000 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

/* ret_sum = the sum over all ranks of `values`. */
static void ring_all_reduce(tutti_group *world, const float *values, float *ret_sum)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    float buffers[2][COUNT];
    int64_t shapes[2];
    tutti_tensor tensors[2];

    for (int i = 0; i < 2; i++)
        tensors[i] = tutti_tensor_1d(buffers[i], TUTTI_F32, &shapes[i], COUNT);
    memcpy(buffers[0], values, sizeof buffers[0]);
    memcpy(ret_sum, values, sizeof buffers[0]);
    for (int step = 0; step < size - 1; step++) {
        const int have = step % 2, next = 1 - have;
        tutti_work *sending;

        must(tutti_isend(world, &tensors[have], right, 0, NULL, &sending));
        must(tutti_recv(world, &tensors[next], left, 0, NULL, NULL));
        for (int i = 0; i < COUNT; i++)
            ret_sum[i] += buffers[next][i];
        must(tutti_work_wait(sending, 0));
        tutti_work_free(sending);
    }
}

int main(void)
{
    tutti_group *world;
    float values[COUNT], by_hand[COUNT];
    int64_t shape;

    must(tutti_init(NULL, &world));
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(tutti_group_rank(world) * COUNT + i);
    ring_all_reduce(world, values, by_hand);

    const tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F32, &shape, COUNT);
    must(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    for (int i = 0; i < COUNT; i++)
        if (by_hand[i] != values[i]) {
            fprintf(stderr, "element %d: %g by hand, %g by all_reduce\n", i, by_hand[i], values[i]);
            return 1;
        }
    printf("rank %d: the ring and all_reduce agree, element 1 is %g\n", tutti_group_rank(world),
           values[1]);
    must(tutti_group_destroy(world));
    return 0;
}
