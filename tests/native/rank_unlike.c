/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls that differ between members over an engine, which pairs them or lets them pass: all hear of it,
 * in that call, in a later one, or as they leave.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

enum { ROUNDS = 24, LATE_MS = 300 };

/* What an engine could not withdraw it may write until its group is destroyed, or the process ends. */
static int32_t values[2], value;

static tutti_status reduce_all(tutti_group *group, tutti_dtype dtype, tutti_reduce_op op,
                               int64_t count)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(values, dtype, &shape, count);

    return tutti_all_reduce(group, &t, op, NULL, NULL);
}

static tutti_status same(tutti_group *group)
{
    return reduce_all(group, TUTTI_I32, TUTTI_SUM, 1);
}

/* On rank 1 another call than on the others. */
static tutti_status unlike(tutti_group *group, const char *in, int rank)
{
    const bool other = rank == 1;
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&value, TUTTI_I32, &shape, 1);

    if (!strcmp(in, "kind"))
        return other ? tutti_barrier(group, NULL, NULL) : same(group);
    if (!strcmp(in, "op"))
        return reduce_all(group, TUTTI_I32, other ? TUTTI_PRODUCT : TUTTI_SUM, 1);
    if (!strcmp(in, "count"))
        return reduce_all(group, TUTTI_I32, TUTTI_SUM, other ? 2 : 1);
    if (!strcmp(in, "dtype"))
        return reduce_all(group, other ? TUTTI_U32 : TUTTI_I32, TUTTI_SUM, 1);
    if (!strcmp(in, "roots_that_wait"))
        return tutti_reduce(group, &t, TUTTI_SUM, other ? 1 : 0, NULL, NULL);
    require(!strcmp(in, "roots_that_send"));
    return tutti_broadcast(group, &t, other ? 1 : 0, NULL, NULL);
}

static void check_words(void)
{
    check_contains(tutti_last_error(), "members called different things as #");
    check_contains(tutti_last_error(), "; rank ");
    check_contains(tutti_last_error(), "rank 1: ");
}

/* `before` calls that are the same, one that is not, and some after it; where it was told. */
static const char *differ_once(tutti_group *group, const char *in, int rank, int before, int after)
{
    tutti_status status = TUTTI_OK;
    const char *where = "in the call";

    for (int i = 0; i < before; i++)
        require_ok(same(group));
    status = unlike(group, in, rank);
    for (int i = 0; i < after && !status; i++) {
        where = "in a later call";
        status = same(group);
    }
    if (status) {
        check_status(status, TUTTI_ERR_MISMATCH);
        check_words();
    } else {
        where = "in destroy";
    }
    status = tutti_group_destroy(group);
    check_status(status, TUTTI_ERR_MISMATCH);
    check_words();
    return where;
}

/* Rank 1's differ; with UNLIKE_LATE it comes later. */
RANK_CASE(calls_that_differ_are_told_to_all)
{
    const char *in = getenv("UNLIKE_IN");
    const bool late = getenv("UNLIKE_LATE") != NULL;
    const int rounds = late ? ROUNDS / 8 : ROUNDS;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    tutti_group *world = rank_init(NULL), *group;

    for (int round = 0; round < rounds; round++) {
        char name[16];

        snprintf(name, sizeof name, "%d", round);
        options.name = name;
        require_ok(tutti_group_new(world, NULL, 0, &options, &group));
        if (late && rank == 1)
            rank_sleep_ms(LATE_MS);
        /* A rank that only sends and leaves is gone before the late one calls: so a call
         * follows. */
        const int after = late && !strcmp(in, "roots_that_send") ? 1 + round % 2 : round % 3;
        printf("round %d: %s\n", round, differ_once(group, in, rank, round % 5, after));
    }
    (void)size;
    check_ok(tutti_group_destroy(world));
}

static bool asks(int rank)
{
    const char *who = getenv("UNLIKE_ASKS");

    return !strcmp(who, "all") || atoi(who) == rank;
}

/* A rank that asks hears it in that call, of which nothing has moved. */
RANK_CASE(who_asks_hears_before_anything_moves)
{
    static int32_t mine[2];
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(mine, TUTTI_I32, &shape, rank == 1 ? 2 : 1);

    mine[0] = 1 + rank;

    if (asks(rank))
        setenv("TUTTI_DEBUG", "DETAIL", 1);
    tutti_group *world = rank_init(NULL);
    for (int i = 0; i < 10; i++)
        require_ok(same(world));
    const tutti_status status = tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL);
    if (asks(rank)) {
        check_status(status, TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "as #11: rank");
        check_contains(tutti_last_error(), "rank 1: all_reduce 2 x i32, sum");
        check_eq(mine[0], 1 + rank);
    }
    (void)size;
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
    check_words();
}

/* Its neighbour has called, does not ask itself, and is out of tutti, where it hears nothing. */
RANK_CASE(who_asks_alone_goes_on_without_an_answer)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&value, TUTTI_I32, &shape, 1);
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.timeout_ms = 20000;
    if (rank == 0)
        setenv("TUTTI_DEBUG", "DETAIL", 1);
    tutti_group *world = rank_init(NULL);
    for (int i = 0; i < 8; i++) /* past the first numbers that all compare */
        require_ok(same(world));
    for (int i = 0; i < 3; i++) {
        check_ok(tutti_reduce(world, &t, TUTTI_MAX, 0, &options, NULL));
        if (rank == 1)
            rank_sleep_ms(500);
    }
    (void)size;
    check_ok(tutti_group_destroy(world));
}

/* Rank 1 makes no call; a root that only sends would never know. */
RANK_CASE(who_leaves_without_a_call_is_told_apart)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&value, TUTTI_I32, &shape, 1);
    tutti_group *world = rank_init(NULL), *group;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    if (rank == 0)
        (void)tutti_broadcast(group, &t, 0, NULL, NULL);
    else
        rank_sleep_ms(200);
    check(tutti_group_destroy(group) != TUTTI_OK);
    check_contains(tutti_last_error(), "left ");
    (void)size;
    check_ok(tutti_group_destroy(world));
}
