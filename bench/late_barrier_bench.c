/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast sleepers wake: 200 barriers whose last member comes 50 ms late. Printed are the median and
 * the 99th percentile of the time from its arrival to the last member's return, in microseconds, and
 * the CPU time that the waiting members used. To be started by `tutti run -n 8`.
 */
#include <tutti/tutti.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { BARRIERS = 200, LATE_MS = 50 };

static void check(tutti_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
    exit(1);
}

/* Ranks share the host's clock. */
static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void reduce_max(tutti_group *world, double *values, int64_t count)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F64, &shape, count);

    check(tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(void)
{
    static double arrived[BARRIERS], returned[BARRIERS], took[BARRIERS];
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000L};
    tutti_group *world;

    check(tutti_init(NULL, &world));
    int rank = tutti_group_rank(world), size = tutti_group_size(world);
    check(tutti_barrier(world, NULL, NULL));
    double start = now_us(), cpu = cpu_us();
    for (int i = 0; i < BARRIERS; i++) {
        if (rank == i % size) {
            nanosleep(&late, NULL);
            arrived[i] = now_us();
        }
        check(tutti_barrier(world, NULL, NULL));
        returned[i] = now_us();
    }
    double share = (cpu_us() - cpu) / (now_us() - start) * 100;

    reduce_max(world, arrived, BARRIERS);
    reduce_max(world, returned, BARRIERS);
    reduce_max(world, &share, 1);
    for (int i = 0; i < BARRIERS; i++)
        took[i] = returned[i] - arrived[i];
    qsort(took, BARRIERS, sizeof *took, compare);
    if (rank == 0)
        printf("%s, %d ranks, %d barriers %d ms late: p50 %.0f us, p99 %.0f us, at most %.2f %% of "
               "a CPU in a rank\n",
               tutti_group_backend(world), size, BARRIERS, LATE_MS, took[BARRIERS / 2],
               took[BARRIERS * 99 / 100], share);
    check(tutti_group_destroy(world));
    return 0;
}
