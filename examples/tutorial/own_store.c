/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program opens a store, uses it for its own keys, and makes a group with it. Here the store is a
 * file. A tcp store, or a hash store for threads as ranks, works in the same way.
 *
 *     cc own_store.c $(pkg-config --cflags --libs tutti) -o own_store
 *     ./own_store /tmp/store 0 2 &
 *     ./own_store /tmp/store 1 2
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { TIMEOUT_MS = 30000 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_store *file, *mine;
    tutti_store_value greeting;
    tutti_group *world;
    int64_t arrived;

    if (argc != 4) {
        fprintf(stderr, "usage: own_store FILE RANK WORLD_SIZE\n");
        return 2;
    }
    options.rank = atoi(argv[2]);
    options.world_size = atoi(argv[3]);
    must(tutti_store_open_file(argv[1], options.world_size, TIMEOUT_MS, &file));

    /* Keys below a prefix are kept apart from those of the group. */
    must(tutti_store_open_prefix(file, "my", &mine));
    if (options.rank == 0)
        must(tutti_store_set(mine, "greeting", "hello", strlen("hello"), TIMEOUT_MS));
    must(tutti_store_get(mine, "greeting", TIMEOUT_MS, &greeting));
    must(tutti_store_add(mine, "arrived", 1, TIMEOUT_MS, &arrived));
    printf("rank %d read «%s»\n", options.rank, (const char *)greeting.data);
    tutti_store_value_free(&greeting);

    options.store = file;
    must(tutti_init(&options, &world));
    must(tutti_store_add(mine, "arrived", 0, TIMEOUT_MS, &arrived));
    printf("rank %d of %d: %lld came\n", tutti_group_rank(world), tutti_group_size(world),
           (long long)arrived);
    must(tutti_group_destroy(world));
    tutti_store_unref(mine);
    tutti_store_unref(file);
    return 0;
}
