/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that cannot continue ends the group on all ranks. The others, which wait for it, get its reason
 * and do not wait until their deadline. No process is ended.
 *
 *     cc give_up.c $(pkg-config --cflags --libs tutti) -o give_up
 *     tutti run -n 3 ./give_up
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

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
    double loss = 0.5;
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&loss, TUTTI_F64, &shape, 1);
    tutti_status status;

    must(tutti_init(NULL, &world));
    const int rank = tutti_group_rank(world);

    if (rank == tutti_group_size(world) - 1)
        must(tutti_group_abort(world, "the input file ends in the middle of a record"));
    status = tutti_all_reduce(world, &tensor, TUTTI_AVG, NULL, NULL);
    if (status == TUTTI_ERR_ABORTED)
        printf("rank %d goes home: %s\n", rank, tutti_last_error());
    /* The group has failed and says so again; it is gone all the same. */
    return tutti_group_destroy(world) == TUTTI_ERR_ABORTED ? 0 : 1;
}
