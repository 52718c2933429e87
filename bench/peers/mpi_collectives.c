/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same measurements over MPI, for comparison; bench/compare builds it with each MPI's own compiler.
 */
#include <mpi.h>

#include "../measure.h"

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

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double max(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct subject subject = {.name = getenv("BENCH_PEER") ? getenv("BENCH_PEER") : "mpi",
                              .barrier = barrier,
                              .max = max,
                              .run = MEASURE_RUN};
    MPI_Comm_rank(MPI_COMM_WORLD, &subject.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &subject.size);
    int code = measure_main(&subject, argc, argv);
    MPI_Finalize();
    return code;
}
