/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks in a grid, as when a model is divided among the ranks of a row and copied to every row: sums
 * over rows and over columns, and a group of the even ranks, which is made from a list.
 *
 *     cc sub_groups.c $(pkg-config --cflags --libs tutti) -o sub_groups
 *     tutti run -n 6 ./sub_groups
 */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

enum { COLUMNS = 2 };

static void require(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

static int sum_over(tutti_group *group, int rank)
{
    int32_t number = rank;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&number, TUTTI_I32, &shape, 1);

    require(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    return number;
}

/* The world rank of the first even rank. */
static int leader_of(tutti_group *evens, tutti_group *world)
{
    int32_t first = 0, leader;

    require(tutti_group_translate(evens, &first, 1, world, &leader));
    return leader;
}

int main(void)
{
    tutti_group *world, *row, *column, *evens;

    require(tutti_init(NULL, &world));
    int rank = tutti_group_rank(world), size = tutti_group_size(world);

    /* Everybody calls these: a color for each row and each column. */
    require(tutti_group_split(world, rank / COLUMNS, rank, NULL, &row));
    require(tutti_group_split(world, rank % COLUMNS, rank, NULL, &column));

    require(tutti_group_set_timeout(row, 60000)); /* of its calls from here on */

    /* Only those in the list have to call this one; the others get NULL. Counted downwards, so that
     * the last of them leads. The group has a name for messages, gives up after a minute, and goes by
     * tcp whatever carries the world. */
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    options.name = "even ranks";
    options.timeout_ms = 60000;
    options.backend = "tcp";
    int32_t ranks[64], count = 0;
    for (int r = size - 1; r >= 0 && count < 64; r--)
        if (r % 2 == 0)
            ranks[count++] = r;
    require(tutti_group_new(world, ranks, count, &options, &evens));

    printf("rank %d: %d of %d in its row, sum %d; %d of %d in its column, sum %d\n", rank,
           tutti_group_rank(row), tutti_group_size(row), sum_over(row, rank),
           tutti_group_rank(column), tutti_group_size(column), sum_over(column, rank));
    if (evens)
        printf("rank %d: %d of %d among the %s, sum %d, led by rank %d\n", rank,
               tutti_group_rank(evens), tutti_group_size(evens), tutti_group_name(evens),
               sum_over(evens, rank), leader_of(evens, world));

    /* In any order; NULL is allowed. */
    require(tutti_group_destroy(evens));
    require(tutti_group_destroy(column));
    require(tutti_group_destroy(row));
    require(tutti_group_destroy(world));
    return 0;
}
