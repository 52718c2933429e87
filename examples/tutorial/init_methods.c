/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ways to meet, as in torch.distributed.init_process_group:
 *
 *     cc init_methods.c $(pkg-config --cflags --libs tutti) -o init_methods
 *     tutti run -n 2 ./init_methods                                       the environment (env://)
 *     ./init_methods 'tcp://127.0.0.1:29501?rank=0&world_size=2' &        rank 0 serves there
 *     ./init_methods 'tcp://127.0.0.1:29501?rank=1&world_size=2'
 *     ./init_methods 'file:///tmp/meet?rank=0&world_size=2' &             a file that all can open
 *     ./init_methods 'file:///tmp/meet?rank=1&world_size=2'
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

/* As a library asks, that does not know whether its program has begun. */
static tutti_group *begun(const char *url)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;

    if (tutti_is_initialized())
        return tutti_default_group();
    options.init_url = url;
    options.timeout_ms = 30000;
    must(tutti_init(&options, &world));
    return world;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL; /* NULL: env:// */
    tutti_group *world = begun(url);

    tutti_group_info info = {.struct_size = sizeof info};

    if (begun(url) != world)
        return 1;
    must(tutti_barrier(world, NULL, NULL));
    printf("rank %d of %d met over %s\n", tutti_group_rank(world), tutti_group_size(world),
           tutti_group_backend(world));
    must(tutti_group_status(world, &info));
    printf("rank %d is member %d of %d on its host\n", tutti_group_rank(world), info.local_rank,
           info.local_size);
    must(tutti_group_destroy(world));
    return 0;
}
