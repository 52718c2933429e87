/* SPDX-License-Identifier: Apache-2.0 */
/* MPI as tutti's plugin calls it: non-blocking and tested, since a blocking form knows no deadline. And
 * beside it the blocking forms, which say what that costs. */
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include "direct.h"

const char direct_backend[] = "mpi";

static MPI_Comm comm;

static void check(int code)
{
    if (code == MPI_SUCCESS)
        return;
    fprintf(stderr, "MPI failed: %d\n", code);
    exit(1);
}

static void finish(MPI_Request *request)
{
    int done = 0;

    while (!done)
        check(MPI_Test(request, &done, MPI_STATUS_IGNORE));
}

static void iall_reduce(float *data, size_t count)
{
    MPI_Request request;

    check(MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, comm, &request));
    finish(&request);
}

static void ibroadcast(float *data, size_t count, int root)
{
    MPI_Request request;

    check(MPI_Ibcast(data, (int)count, MPI_FLOAT, root, comm, &request));
    finish(&request);
}

static void isend(const float *data, size_t count, int to)
{
    MPI_Request request;

    check(MPI_Isend(data, (int)count, MPI_FLOAT, to, 0, comm, &request));
    finish(&request);
}

static void irecv(float *data, size_t count, int from)
{
    MPI_Request request;

    check(MPI_Irecv(data, (int)count, MPI_FLOAT, from, 0, comm, &request));
    finish(&request);
}

static void all_reduce(float *data, size_t count)
{
    check(MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, comm));
}

static void broadcast(float *data, size_t count, int root)
{
    check(MPI_Bcast(data, (int)count, MPI_FLOAT, root, comm));
}

static void send_blocking(const float *data, size_t count, int to)
{
    check(MPI_Send(data, (int)count, MPI_FLOAT, to, 0, comm));
}

static void recv_blocking(float *data, size_t count, int from)
{
    check(MPI_Recv(data, (int)count, MPI_FLOAT, from, 0, comm, MPI_STATUS_IGNORE));
}

static const struct direct forms[] = {
    {"non-blocking", iall_reduce, ibroadcast, isend, irecv},
    {"blocking", all_reduce, broadcast, send_blocking, recv_blocking},
    {NULL, NULL, NULL, NULL, NULL},
};

/* tutti has started MPI, and its ranks are those of the job. */
const struct direct *direct_open(tutti_group *world)
{
    int rank = -1;

    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    check(MPI_Comm_rank(comm, &rank));
    if (rank == tutti_group_rank(world))
        return forms;
    fprintf(stderr, "rank %d is rank %d of MPI\n", tutti_group_rank(world), rank);
    exit(1);
}

void direct_close(void)
{
    check(MPI_Comm_free(&comm));
}
