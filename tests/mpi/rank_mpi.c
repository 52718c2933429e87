/* SPDX-License-Identifier: Apache-2.0 */
/* What is the backend mpi's alone: its blocking forms, and groups over it beside groups over others. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"
#include "harness/sockets.h"

enum { COUNT = 600, ROUNDS = 20 };

static float values[COUNT];

static tutti_tensor vector_of(float value, int64_t *shape)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = value;
    return tutti_tensor_1d(values, TUTTI_F32, shape, COUNT);
}

static float reduce(tutti_group *group, float value, const tutti_options *options)
{
    int64_t shape;
    tutti_tensor t = vector_of(value, &shape);

    check_ok(tutti_all_reduce(group, &t, TUTTI_SUM, options, NULL));
    check(values[0] == values[COUNT - 1]);
    return values[0];
}

RANK_CASE(blocking_calls_have_no_deadline)
{
    const tutti_options short_time = {.struct_size = sizeof short_time, .timeout_ms = 500};
    tutti_group *world = rank_init(NULL);

    check_near(reduce(world, 1, NULL), size, 0);
    check_str_eq(rank_served_by(world), "mpi all_reduce_native");
    check_ok(tutti_barrier(world, NULL, NULL));
    check_str_eq(rank_served_by(world), "mpi barrier_native");
    rank_point("calls");
    if (rank == 0)
        rank_await("go");
    check_near(reduce(world, 2, &short_time), 2 * size, 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(ranks_that_differ_in_blocking_make_no_group)
{
    tutti_group *world;

    if (rank == 1)
        setenv("TUTTI_MPI_BLOCKING", "1", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "TUTTI_MPI_BLOCKING");
}

/* Calls of three groups are under way at once, and not in the same order on all. */
RANK_CASE(groups_over_mpi_and_over_tcp_live_side_by_side)
{
    tutti_group *world = rank_init(NULL), *groups[3] = {world};
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    const int32_t ends[] = {size - 1, 0};
    static float sums[3];
    int64_t shapes[3];

    options.backend = "tcp";
    options.name = "beside";
    require_ok(tutti_group_new(world, NULL, 0, &options, &groups[1]));
    require_ok(tutti_group_new(world, ends, 2, NULL, &groups[2]));
    for (int round = 0; round < ROUNDS; round++) {
        tutti_work *works[3] = {NULL};

        for (int i = 0; i < 3; i++) {
            int g = (rank + i) % 3;
            tutti_tensor t = tutti_tensor_1d(&sums[g], TUTTI_F32, &shapes[g], 1);

            sums[g] = (float)(g + round);
            if (groups[g])
                require_ok(tutti_all_reduce(groups[g], &t, TUTTI_SUM, NULL, &works[g]));
        }
        require_ok(tutti_work_wait_all(works, 3, 0, NULL));
        for (int g = 0; g < 3; g++) {
            if (groups[g])
                check_near(sums[g], (g + round) * tutti_group_size(groups[g]), 0);
            tutti_work_free(works[g]);
        }
    }
    check_str_eq(tutti_group_backend(world), "mpi");
    check_str_eq(tutti_group_backend(groups[1]), "tcp");
    check_contains(rank_served_by(world), "mpi ");
    check_contains(rank_served_by(groups[1]), "tcp ");
    if (groups[2])
        check_contains(rank_served_by(groups[2]), "mpi ");
    for (int g = 2; g >= 0; g--)
        if (groups[g])
            check_ok(tutti_group_destroy(groups[g]));
}

/* ---- messages of more than a piece ------------------------------------------------------------- */

enum { LONG = (33 << 20) + 5 };

/* Sends and receives such a message; `abort_ms` later the first member aborts, unless it is negative. */
static tutti_status both_ways(tutti_group *group, uint8_t *out, uint8_t *in, int abort_ms)
{
    const int rank = tutti_group_rank(group), other = 1 - rank;
    int64_t shapes[2];
    const tutti_tensor from = tutti_tensor_1d(out, TUTTI_U8, &shapes[0], LONG);
    const tutti_tensor to = tutti_tensor_1d(in, TUTTI_U8, &shapes[1], LONG);
    tutti_work *works[2] = {NULL, NULL};
    tutti_status status = tutti_irecv(group, &to, other, 3, NULL, &works[0]);

    status = status ? status : tutti_isend(group, &from, other, 3, NULL, &works[1]);
    if (abort_ms >= 0) {
        rank_sleep_ms(abort_ms);
        if (rank == 0)
            check_ok(tutti_group_abort(group, "half-way"));
    }
    return rank_end_works(works, 2, status);
}

RANK_CASE(an_abort_cuts_a_long_message_off_and_other_groups_go_on)
{
    /* What MPI cannot take back it may read to the end: the memory stays. */
    static uint8_t out[LONG], in[LONG], lost[LONG];
    tutti_group *world = rank_init(NULL), *group;
    int cut = 0;

    memset(out, rank + 1, LONG);
    for (int abort_ms = 0; abort_ms < 8; abort_ms += 2) {
        require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
        const tutti_status status = both_ways(group, out, lost, abort_ms);
        check(!status || status == TUTTI_ERR_ABORTED);
        cut += status == TUTTI_ERR_ABORTED;
        tutti_group_destroy(group); /* a finished rank may leave before it hears of it */

        memset(in, 0, LONG);
        require_ok(both_ways(world, out, in, -1));
        for (int i = 0; i < LONG; i += 4095)
            require(in[i] == 2 - rank && in[LONG - 1] == 2 - rank);
    }
    check(cut > 0);
    check_ok(tutti_group_destroy(world));
}

/* ---- what MPICH is given ----------------------------------------------------------------------- */

/* MPICH over UCX connects while it starts. UCX_TLS is the user's, where it is set. */
RANK_CASE(mpich_has_no_tcp_on_one_host_unless_it_is_asked_for)
{
    const char *chosen = getenv("UCX_TLS");
    tutti_group *world = rank_init(NULL);

    check_near(reduce(world, 1, NULL), size, 0);
    const bool over_ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    check((sockets_inherited().connected > 0) == (over_ucx && chosen && strstr(chosen, "tcp")));
    check_str_eq(getenv("UCX_TLS") ? getenv("UCX_TLS") : "", chosen ? chosen : "");
    (void)rank;
    check_ok(tutti_group_destroy(world));
}

/* ---- the carrier ------------------------------------------------------------------------------- */

static void check_ours(tutti_group *group)
{
    check_str_eq(tutti_group_backend(group), getenv("TUTTI_TEST_CARRIER"));
    check(!strstr(rank_served_by(group), "mpi") && !strstr(rank_served_by(group), "gloo"));
    check(!strstr(rank_served_by(group), "native"));
}

/* In a job of MPI, and with Gloo there; TUTTI_TEST_CARRIER is what the group says. */
RANK_CASE(auto_takes_no_foreign_engine)
{
    static const int64_t counts[] = {1, 1000, 1 << 20};
    static float many[1 << 20];
    tutti_group *world = rank_init(NULL), *all;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    int64_t shape;

    options.backend = "auto";
    require_ok(tutti_group_new(world, NULL, 0, &options, &all));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        tutti_tensor t = tutti_tensor_1d(many, TUTTI_F32, &shape, counts[i]);
        tutti_group *const groups[] = {world, all};

        for (int g = 0; g < 2; g++) {
            check_ok(tutti_all_reduce(groups[g], &t, TUTTI_SUM, NULL, NULL));
            check_ours(groups[g]);
            check_ok(tutti_broadcast(groups[g], &t, size - 1, NULL, NULL));
            check_ours(groups[g]);
            check_ok(tutti_reduce(groups[g], &t, TUTTI_SUM, 0, NULL, NULL));
            check_ours(groups[g]);
            check_ok(tutti_barrier(groups[g], NULL, NULL));
            check_ours(groups[g]);
        }
    }
    (void)rank;
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_group_destroy(world));
}

/* Local peers by one backend, hosts by the other; TUTTI_TEST_CARRIER is what the group calls them. */
RANK_CASE(mpi_composes_with_others)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;

    check_str_eq(tutti_group_backend(world), getenv("TUTTI_TEST_CARRIER"));
    for (int round = 0; round < ROUNDS; round++) {
        check_near(reduce(world, (float)round, NULL), round * size, 0);
        tutti_tensor t = vector_of((float)(rank + round), &shape);
        check_ok(tutti_broadcast(world, &t, round % size, NULL, NULL));
        check_near(values[COUNT - 1], round % size + round, 0);
    }
    check_ok(tutti_group_destroy(world));
}
