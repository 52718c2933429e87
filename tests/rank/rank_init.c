/* SPDX-License-Identifier: Apache-2.0 */
/* tutti_init() after tutti_group_destroy(), as programs that make their world anew do it. */
#include <stdio.h>
#include <stdlib.h>

#include "harness/rank.h"

static int laps(void)
{
    const char *text = getenv("TUTTI_TEST_LAPS");

    return text ? atoi(text) : 20;
}

static void sum_ranks(tutti_group *world, int rank, int size)
{
    int64_t shape = 1, value = rank;
    tutti_tensor tensor = {.data = &value,
                           .device = {TUTTI_DEVICE_CPU, 0},
                           .ndim = 1,
                           .dtype = TUTTI_I64,
                           .shape = &shape};

    require_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    require(value == (int64_t)size * (size - 1) / 2);
}

/* TUTTI_TEST_URL: where rank 0 serves the store; not set: somebody else does. */
RANK_CASE(init_and_destroy_without_a_pause)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.init_url = getenv("TUTTI_TEST_URL");
    options.timeout_ms = 30000;
    for (int i = 0; i < laps(); i++) {
        tutti_group *world = rank_init(&options);

        sum_ranks(world, rank, size);
        require_ok(tutti_group_destroy(world));
    }
}

static tutti_store *open_store(void)
{
    const char *url = getenv("TUTTI_STORE");
    unsigned port = 0;
    tutti_store *store = NULL;

    require(url && sscanf(url, "tcp://127.0.0.1:%u", &port) == 1);
    require_ok(tutti_store_open_tcp("127.0.0.1", (uint16_t)port, 10000, &store));
    return store;
}

/* As a runtime does that makes a context and opens its store for each of its groups. */
RANK_CASE(a_store_that_is_opened_anew_serves_another_world)
{
    for (int i = 0; i < 4; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        options.store = open_store();
        options.rank = rank;
        options.world_size = size;
        options.timeout_ms = 20000;
        require_ok(tutti_context_create(&options.context));
        tutti_group *world = rank_init(&options);

        tutti_store_unref(options.store);
        sum_ranks(world, rank, size);
        require_ok(tutti_group_destroy(world));
        require_ok(tutti_context_destroy(options.context));
    }
}

/* Each rank has another history of inits; the names tell the worlds apart. */
RANK_CASE(pairs_of_three_ranks_meet_by_their_names)
{
    static const struct {
        int low, high;
        const char *name;
    } pairs[] = {{0, 1, "pair01"}, {0, 2, "pair02"}, {1, 2, "pair12"}};
    tutti_store *store = open_store();

    for (int lap = 0; lap < 3; lap++) {
        for (int i = 0; i < 3; i++) {
            tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

            if (rank != pairs[i].low && rank != pairs[i].high)
                continue;
            options.store = store;
            options.rank = rank == pairs[i].high;
            options.world_size = 2;
            options.group_name = pairs[i].name;
            options.timeout_ms = 10000;
            tutti_group *world = rank_init(&options);

            sum_ranks(world, options.rank, 2);
            require_ok(tutti_group_destroy(world));
        }
    }
    tutti_store_unref(store);
}
