/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti's all_reduce in a loop of C: what its calls cost without Python. bench/python_bench builds it as a shared
 * object, which its ranks call by ctypes.
 */
#include <time.h>
#include <tutti/tutti.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The seconds of so many calls; below 0: one failed. */
double all_reduce_loop(tutti_group *group, float *data, int64_t count, int64_t calls)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(data, TUTTI_F32, &shape, count);
    const double start = now();

    for (int64_t i = 0; i < calls; i++)
        if (tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL))
            return -1;
    return now() - start;
}
