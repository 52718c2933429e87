/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives with blocks in a list of tensors, as in torch.distributed, or in one tensor with counts;
 * and reductions from one tensor into another. Rank 0 prints.
 *
 *     cc lists.c $(pkg-config --cflags --libs tutti) -o lists
 *     tutti run -n 4 ./lists
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

static void show(const char *what, const int32_t *values, int count)
{
    if (rank != 0)
        return;
    printf("%-16s", what);
    for (int i = 0; i < count; i++)
        printf(" %d", values[i]);
    printf("\n");
}

/* One tensor of one number for every rank. */
struct list {
    int32_t numbers[RANKS_MAX];
    int64_t shapes[RANKS_MAX];
    tutti_tensor tensors[RANKS_MAX];
    const tutti_tensor *items[RANKS_MAX];
};

static void list_make(struct list *list, int size)
{
    for (int i = 0; i < size; i++) {
        list->numbers[i] = 10 * rank + i;
        list->tensors[i] = tutti_tensor_1d(&list->numbers[i], TUTTI_I32, &list->shapes[i], 1);
        list->items[i] = &list->tensors[i];
    }
}

static void by_lists(tutti_group *world)
{
    const int size = tutti_group_size(world), root = 0;
    int32_t one = 10 * rank;
    int64_t shape;
    const tutti_tensor single = tutti_tensor_1d(&one, TUTTI_I32, &shape, 1);
    struct list in, out;

    list_make(&in, size);
    list_make(&out, size);
    must(tutti_all_gather_list(world, &single, out.items, NULL, NULL));
    show("all_gather", out.numbers, size);
    must(tutti_gather_list(world, &single, out.items, root, NULL, NULL));
    show("gather", out.numbers, size);
    must(tutti_all_to_all_list(world, in.items, out.items, NULL, NULL));
    show("all_to_all", out.numbers, size);
    must(tutti_scatter_list(world, in.items, &single, root, NULL, NULL));
    show("scatter", &one, 1);
    must(tutti_reduce_scatter_list(world, in.items, &single, TUTTI_SUM, NULL, NULL));
    show("reduce_scatter", &one, 1);
}

/* Rank r brings r + 1 numbers. */
static void by_counts(tutti_group *world)
{
    const int size = tutti_group_size(world);
    int32_t mine[RANKS_MAX], all[RANKS_MAX * (RANKS_MAX + 1) / 2];
    int64_t counts[RANKS_MAX], shapes[2];
    const int64_t total = (int64_t)size * (size + 1) / 2;

    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        mine[i] = rank;
    }
    const tutti_tensor in = tutti_tensor_1d(mine, TUTTI_I32, &shapes[0], rank + 1);
    const tutti_tensor out = tutti_tensor_1d(all, TUTTI_I32, &shapes[1], total);

    must(tutti_all_gather_v(world, &in, &out, counts, NULL, NULL, NULL));
    show("all_gather_v", all, (int)total);
    must(tutti_gather_v(world, &in, &out, counts, NULL, 0, NULL, NULL));
    show("gather_v", all, (int)total);
    must(tutti_scatter_v(world, &out, counts, NULL, &in, 0, NULL, NULL)); /* back again */
    show("scatter_v", mine, rank + 1);
    must(tutti_all_gather_v(world, &in, &out, counts, NULL, NULL, NULL));
    must(tutti_reduce_scatter_v(world, &out, counts, NULL, &in, TUTTI_SUM, NULL, NULL));
    show("reduce_scatter_v", mine, rank + 1);
}

/* Every rank sends r + 1 numbers to rank r; so rank r gets r + 1 of each. */
static void exchange_by_counts(tutti_group *world)
{
    const int size = tutti_group_size(world);
    int32_t to[RANKS_MAX * (RANKS_MAX + 1) / 2], from[RANKS_MAX * RANKS_MAX];
    int64_t to_counts[RANKS_MAX], from_counts[RANKS_MAX], shapes[2];
    int total = 0;

    for (int r = 0; r < size; r++) {
        to_counts[r] = r + 1;
        from_counts[r] = rank + 1;
        for (int i = 0; i <= r; i++)
            to[total++] = 10 * rank + r;
    }
    const tutti_tensor in = tutti_tensor_1d(to, TUTTI_I32, &shapes[0], total);
    const tutti_tensor out =
        tutti_tensor_1d(from, TUTTI_I32, &shapes[1], (int64_t)size * (rank + 1));

    must(tutti_all_to_all_v(world, &in, to_counts, NULL, &out, from_counts, NULL, NULL, NULL));
    show("all_to_all_v", from, size * (rank + 1));
}

static void from_one_into_another(tutti_group *world)
{
    int32_t from = 1 << rank, to = 0;
    int64_t shapes[2];
    const tutti_tensor in = tutti_tensor_1d(&from, TUTTI_I32, &shapes[0], 1);
    const tutti_tensor out = tutti_tensor_1d(&to, TUTTI_I32, &shapes[1], 1);

    must(tutti_all_reduce_into(world, &in, &out, TUTTI_BOR, NULL, NULL));
    show("all_reduce, or", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_BAND, NULL, NULL));
    show("all_reduce, and", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_BXOR, NULL, NULL));
    show("all_reduce, xor", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_PRODUCT, NULL, NULL));
    show("product", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_MIN, NULL, NULL));
    show("least", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_MAX, NULL, NULL));
    show("greatest", &to, 1);
    must(tutti_all_reduce_into(world, &in, &out, TUTTI_AVG, NULL, NULL));
    show("average", &to, 1); /* of integers, toward zero */
    must(tutti_reduce_into(world, &in, &out, TUTTI_SUM, 0, NULL, NULL));
    show("reduce", &to, 1);
    show("the input still", &from, 1);
}

int main(void)
{
    tutti_group *world;

    must(tutti_init(NULL, &world));
    rank = tutti_group_rank(world);
    if (tutti_group_size(world) > RANKS_MAX) {
        fprintf(stderr, "at most %d ranks, please\n", RANKS_MAX);
        return 1;
    }
    by_lists(world);
    by_counts(world);
    exchange_by_counts(world);
    from_one_into_another(world);
    must(tutti_monitored_barrier(world, NULL, NULL)); /* would name a missing rank */
    must(tutti_group_destroy(world));
    return 0;
}
