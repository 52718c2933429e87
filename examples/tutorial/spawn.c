/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that starts its own ranks, as torch.multiprocessing.spawn does: no launcher, no
 * environment. The ranks meet in a tcp store that the parent serves on a port that was free.
 *
 *     cc spawn.c $(pkg-config --cflags --libs tutti) -o spawn
 *     ./spawn 4
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { RANKS_MAX = 64 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

static void run(int rank, int size, uint16_t port)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;
    int64_t sum = rank, shape;
    const tutti_tensor tensor = tutti_tensor_1d(&sum, TUTTI_I64, &shape, 1);

    options.rank = rank;
    options.world_size = size;
    must(tutti_store_open_tcp("127.0.0.1", port, 10000, &options.store));
    must(tutti_init(&options, &world));
    tutti_store_unref(options.store); /* the group holds it */
    must(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    printf("rank %d of %d: the ranks sum up to %lld\n", rank, size, (long long)sum);
    must(tutti_group_destroy(world));
}

int main(int argc, char **argv)
{
    const int size = argc > 1 ? atoi(argv[1]) : 4;
    pid_t children[RANKS_MAX];
    tutti_store_server *server;
    int failed = 0;

    if (size < 1 || size > RANKS_MAX) {
        fprintf(stderr, "usage: spawn RANKS (1 to %d)\n", RANKS_MAX);
        return 2;
    }
    must(tutti_store_server_start("127.0.0.1", 0, &server));
    const uint16_t port = tutti_store_server_port(server);

    /* A child starts over: of tutti's state in the parent it uses nothing. */
    for (int rank = 0; rank < size; rank++) {
        children[rank] = fork();
        if (children[rank] < 0) {
            perror("fork");
            return 1;
        }
        if (children[rank] == 0) {
            run(rank, size, port);
            fflush(stdout);
            _exit(0);
        }
    }
    for (int rank = 0; rank < size; rank++) {
        int status;

        if (waitpid(children[rank], &status, 0) < 0 || status != 0) {
            fprintf(stderr, "rank %d failed\n", rank);
            failed = 1;
        }
    }
    tutti_store_server_stop(server);
    return failed;
}
