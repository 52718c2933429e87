/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point to point, as in PyTorch's «Writing Distributed Applications»: rank 0 sends a number to rank
 * 1, first with blocking calls, then with calls that return a work to wait for.
 *
 *     cc send_recv.c $(pkg-config --cflags --libs tutti) -o send_recv
 *     tutti run -n 2 ./send_recv
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

    must(tutti_init(NULL, &world));
    const int rank = tutti_group_rank(world);
    float number = 0;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&number, TUTTI_F32, &shape, 1);

    if (rank == 0) {
        number = 1;
        must(tutti_send(world, &tensor, 1, 0, NULL));
    } else if (rank == 1) {
        must(tutti_recv(world, &tensor, 0, 0, NULL, NULL));
    }
    if (rank <= 1)
        printf("rank %d has %g\n", rank, number);

    tutti_work *work = NULL;
    if (rank == 0) {
        number = 2;
        must(tutti_isend(world, &tensor, 1, 0, NULL, &work));
        printf("rank 0 started sending\n");
    } else if (rank == 1) {
        must(tutti_irecv(world, &tensor, TUTTI_ANY_SOURCE, 0, NULL, &work));
        printf("rank 1 started receiving\n");
    }
    if (work) {
        /* Until here the tensor belongs to the operation. */
        must(tutti_work_wait(work, 0));
        if (rank == 1)
            printf("rank 1 has %g from rank %d\n", number, tutti_work_source(work));
        tutti_work_free(work);
    }
    must(tutti_group_destroy(world));
    return 0;
}
