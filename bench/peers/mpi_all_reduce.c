/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same measurement over MPI, for comparison; bench/compare builds it with each MPI's own compiler.
 */
#include <mpi.h>

#include "../measure.h"

static void all_reduce(float *data, size_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
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
    struct subject subject = {
        getenv("BENCH_PEER") ? getenv("BENCH_PEER") : "mpi", 0, 1, all_reduce, barrier, max};
    MPI_Comm_rank(MPI_COMM_WORLD, &subject.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &subject.size);
    int code = measure_main(&subject, argc, argv);
    MPI_Finalize();
    return code;
}
