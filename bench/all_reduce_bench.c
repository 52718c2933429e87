/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce and barrier of tutti, measured as measure.h says; to be started by `tutti run`.
 * bench/compare runs it beside the peers.
 */
#include <tutti/tutti.h>

#include "measure.h"

static tutti_group *world;

static void check(tutti_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
    exit(1);
}

static void all_reduce(float *data, size_t count)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(data, TUTTI_F32, &shape, (int64_t)count);

    check(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
}

static void barrier(void)
{
    check(tutti_barrier(world, NULL, NULL));
}

static double max(double value)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F64, &shape, 1);

    check(tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL));
    return value;
}

int main(int argc, char **argv)
{
    char name[64];

    check(tutti_init(NULL, &world));
    snprintf(name, sizeof name, "tutti-%s", tutti_group_backend(world));
    struct subject subject = {
        name, tutti_group_rank(world), tutti_group_size(world), all_reduce, barrier, max};
    int code = measure_main(&subject, argc, argv);
    check(tutti_group_destroy(world));
    return code;
}
