/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every collective once, on small whole numbers. Rank 0 prints.
 *
 *     cc collectives.c $(pkg-config --cflags --libs tutti) -o collectives
 *     tutti run -n 4 ./collectives
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { RANKS_MAX = 64 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

static int rank;

/* Shows the values that rank 0 holds now. */
static void show(const char *what, const int32_t *values, int count)
{
    if (rank != 0)
        return;
    printf("%-14s", what);
    for (int i = 0; i < count; i++)
        printf(" %d", values[i]);
    printf("\n");
}

int main(void)
{
    tutti_group *world;

    must(tutti_init(NULL, &world));
    const int size = tutti_group_size(world), root = 0;
    rank = tutti_group_rank(world);
    if (size > RANKS_MAX) {
        fprintf(stderr, "at most %d ranks, please\n", RANKS_MAX);
        return 1;
    }
    int32_t one, many[RANKS_MAX], other[RANKS_MAX];
    int64_t shapes[3];
    /* One number, and one number for every rank, in and out. */
    const tutti_tensor single = tutti_tensor_1d(&one, TUTTI_I32, &shapes[0], 1);
    const tutti_tensor all = tutti_tensor_1d(many, TUTTI_I32, &shapes[1], size);
    const tutti_tensor result = tutti_tensor_1d(other, TUTTI_I32, &shapes[2], size);

    one = rank == root ? 7 : 0;
    must(tutti_broadcast(world, &single, root, NULL, NULL));
    show("broadcast", &one, 1);

    one = rank + 1;
    must(tutti_reduce(world, &single, TUTTI_SUM, root, NULL, NULL));
    show("reduce", &one, 1);

    one = rank + 1;
    must(tutti_all_reduce(world, &single, TUTTI_MAX, NULL, NULL));
    show("all_reduce", &one, 1);

    one = 10 * rank;
    must(tutti_gather(world, &single, &all, root, NULL, NULL));
    show("gather", many, size);

    one = 10 * rank + 1;
    must(tutti_all_gather(world, &single, &all, NULL, NULL));
    show("all_gather", many, size);

    for (int i = 0; i < size; i++)
        many[i] = 100 + i;
    must(tutti_scatter(world, &all, &single, root, NULL, NULL));
    show("scatter", &one, 1);

    for (int i = 0; i < size; i++)
        many[i] = i + 1;
    must(tutti_reduce_scatter(world, &all, &single, TUTTI_SUM, NULL, NULL));
    show("reduce_scatter", &one, 1);

    for (int i = 0; i < size; i++)
        many[i] = 10 * rank + i; /* for rank i */
    must(tutti_all_to_all(world, &all, &result, NULL, NULL));
    show("all_to_all", other, size);

    must(tutti_barrier(world, NULL, NULL));
    must(tutti_group_destroy(world));
    return 0;
}
