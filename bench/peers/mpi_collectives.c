/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same measurements over MPI, for comparison; bench/compare builds it for each MPI. The argument «version»
 * prints that of the library.
 */
#include <mpi.h>

#include "../measure.h"

static int self;

static void all_reduce(float *in, float *out, size_t count)
{
    (void)out;
    MPI_Allreduce(MPI_IN_PLACE, in, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(float *in, float *out, size_t count)
{
    (void)out;
    MPI_Bcast(in, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void reduce(float *in, float *out, size_t count)
{
    MPI_Reduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void all_gather(float *in, float *out, size_t count)
{
    MPI_Allgather(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(float *in, float *out, size_t count)
{
    MPI_Reduce_scatter_block(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(float *in, float *out, size_t count)
{
    MPI_Gather(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void scatter(float *in, float *out, size_t count)
{
    MPI_Scatter(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_to_all(float *in, float *out, size_t count)
{
    MPI_Alltoall(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

/* A message from rank 0 to rank 1, or back. */
static void pass(float *data, size_t count, int from, int works)
{
    MPI_Request request;

    if (self > 1)
        return;
    if (self == from && works)
        MPI_Isend(data, (int)count, MPI_FLOAT, !from, 0, MPI_COMM_WORLD, &request);
    else if (works)
        MPI_Irecv(data, (int)count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, &request);
    else if (self == from)
        MPI_Send(data, (int)count, MPI_FLOAT, !from, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(data, (int)count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (works)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void ping_pong(float *in, float *out, size_t count)
{
    pass(self ? out : in, count, 0, 0);
    pass(self ? in : out, count, 1, 0);
}

static void ping_pong_works(float *in, float *out, size_t count)
{
    pass(self ? out : in, count, 0, 1);
    pass(self ? in : out, count, 1, 1);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double max(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

/* The first line of it: Open MPI's has the host in it behind a comma, MPICH's continues with how it was built. */
static int print_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(text, &length);
    printf("%.*s\n", (int)strcspn(text, "\n,"), text);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "version"))
        return print_version();
    MPI_Init(&argc, &argv);
    struct subject subject = {.name = getenv("BENCH_PEER") ? getenv("BENCH_PEER") : "mpi",
                              .barrier = barrier,
                              .max = max,
                              .run = MEASURE_RUN};
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    subject.rank = self;
    MPI_Comm_size(MPI_COMM_WORLD, &subject.size);
    int code = measure_main(&subject, argc, argv);
    MPI_Finalize();
    return code;
}
