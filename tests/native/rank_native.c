/* SPDX-License-Identifier: Apache-2.0 */
/* Cases over an engine that does whole operations (fake.c): what served each call, and how it
 * ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/rank.h"

static tutti_tensor vector(const void *data, int64_t *count, tutti_dtype dtype)
{
    return (tutti_tensor){.data = (void *)(uintptr_t)data,
                          .device = {TUTTI_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = dtype,
                          .shape = count};
}

static tutti_status sum(tutti_group *world, float *data, int64_t count,
                        const tutti_options *options)
{
    tutti_tensor t = vector(data, &count, TUTTI_F32);

    return tutti_all_reduce(world, &t, TUTTI_SUM, options, NULL);
}

static void add(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                void *user)
{
    (void)dtype;
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        ((float *)dst)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

RANK_CASE(served_by_the_engine_or_by_the_core)
{
    tutti_group *world = rank_init(NULL);
    const tutti_options ordered = {.struct_size = sizeof ordered, .flags = TUTTI_FIXED_ORDER};
    const char *core = getenv("FAKE_CORE"); /* the backend of what the engine leaves to the core */
    static float large[100000];
    float x[4] = {1, 2, 3, 4};
    int64_t four = 4;
    tutti_tensor t = vector(x, &four, TUTTI_F32);
    tutti_reduce_op mine;

    check_str_eq(tutti_last_error(), "");
    require_ok(sum(world, x, 4, NULL));
    check_near(x[3], 4.0 * size, 0);
    check_contains(rank_served_by(world), "all_reduce_native");
    check_ok(tutti_barrier(world, NULL, NULL));
    check_contains(rank_served_by(world), "barrier_native");

    check_ok(sum(world, x, 4, &ordered));
    check_contains(rank_served_by(world), core);
    check_ok(sum(world, large, 100000, NULL));
    check_contains(rank_served_by(world), core);
    check_ok(tutti_all_reduce(world, &t, TUTTI_MAX, NULL, NULL));
    check_contains(rank_served_by(world), core);
    require_ok(tutti_reduce_op_create("add", add, 0, NULL, &mine));
    check_ok(tutti_all_reduce(world, &t, mine, NULL, NULL));
    check_contains(rank_served_by(world), core);
    tutti_reduce_op_free(mine);
    four = 0;
    check_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    check_contains(rank_served_by(world), core);
    require_ok(sum(world, x, 4, NULL));
    check_contains(rank_served_by(world), "all_reduce_native");
    check_ok(tutti_group_destroy(world));
}

/* Local peers keep turns in their memory, of which an engine's operations take none. */
RANK_CASE(the_core_serves_after_many_operations_of_the_engine)
{
    tutti_group *world = rank_init(NULL);
    static float large[100000];
    float x[4] = {1, 2, 3, 4};

    for (int round = 1; round <= 12; round++) {
        for (int i = 0; i < round; i++)
            require_ok(sum(world, x, 4, NULL));
        check_contains(rank_served_by(world), "all_reduce_native");
        for (int i = 0; i < 13 - round; i++) {
            require_ok(sum(world, large, 100000, NULL));
            require_ok(tutti_monitored_barrier(world, NULL, NULL));
        }
        check(!strstr(rank_served_by(world), "native"));
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_rule_leads_to_an_engine)
{
    tutti_group *world = rank_init(NULL);
    float x[4] = {1, 2, 3, 4};
    int64_t four = 4;
    tutti_tensor t = vector(x, &four, TUTTI_F32);

    check_str_eq(tutti_group_backend(world), "shm+fake");
    for (int round = 0; round < 10; round++) {
        require_ok(sum(world, x, 4, NULL));
        check_str_eq(rank_served_by(world), "fake all_reduce_native");
        check_ok(tutti_barrier(world, NULL, NULL));
        check_contains(rank_served_by(world), "shm barrier_inline");
        check_ok(tutti_all_reduce(world, &t, TUTTI_MAX, NULL, NULL));
        check_contains(rank_served_by(world), "fake all_reduce_");
        check(!strstr(rank_served_by(world), "native"));
        check_ok(tutti_broadcast(world, &t, 0, NULL, NULL));
        check_contains(rank_served_by(world), "fake broadcast_");
    }
    (void)rank;
    (void)size;
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(asynchronous_operations_of_both_kinds_complete_in_order)
{
    enum { CALLS = 40 };
    tutti_group *world = rank_init(NULL);
    tutti_work *works[CALLS];
    int64_t one = 1;
    float x[CALLS];

    for (int i = 0; i < CALLS; i++) {
        tutti_tensor t = vector(&x[i], &one, TUTTI_F32);

        x[i] = (float)(i + rank);
        require_ok(tutti_all_reduce(world, &t, i % 3 ? TUTTI_SUM : TUTTI_MAX, NULL, &works[i]));
    }
    check_ok(tutti_work_wait_all(works, CALLS, 0, NULL));
    for (int i = 0; i < CALLS; i++) {
        check_near(x[i], i % 3 ? i * size + size * (size - 1) / 2 : i + size - 1, 0);
        tutti_work_free(works[i]);
    }
    check_ok(tutti_group_destroy(world));
}

static void note_thread(tutti_work *work, tutti_status status, void *user)
{
    (void)work;
    *(pthread_t *)user = status ? 0 : pthread_self();
}

/* The plugin fails in a thread of the core. */
RANK_CASE(works_of_callers_only_advance_in_the_programs_threads)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *works[2];
    pthread_t called = 0;
    int32_t done = 0;
    float x = 1, y = 2;
    int64_t one = 1;
    tutti_tensor t = vector(&x, &one, TUTTI_F32), u = vector(&y, &one, TUTTI_F32);

    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &works[0]));
    require_ok(tutti_all_reduce(world, &u, TUTTI_MAX, NULL, &works[1])); /* by messages */
    require_ok(tutti_work_then(works[1], note_thread, &called));
    rank_sleep_ms(100);
    check(!called);
    while (!called)
        require_ok(tutti_dispatch(NULL));
    check(pthread_equal(called, pthread_self()));
    check_ok(tutti_work_test(works[0], &done));
    check(done);
    check_near(x, size, 0);
    tutti_work_free(works[0]);
    tutti_work_free(works[1]);

    called = 0;
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &works[0]));
    require_ok(tutti_work_then(works[0], note_thread, &called));
    check_ok(tutti_work_wait(works[0], 0));
    check(pthread_equal(called, pthread_self()));
    tutti_work_free(works[0]);

    called = 0; /* a callback that came after the end */
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &works[0]));
    check_ok(tutti_work_wait(works[0], 0));
    require_ok(tutti_work_then(works[0], note_thread, &called));
    check_ok(tutti_work_test_any(works, 1, &done));
    check_eq(done, 0);
    check(pthread_equal(called, pthread_self()));
    tutti_work_free(works[0]);
    check_ok(tutti_group_destroy(world));
}

/* Rank 0 goes on when all others have come here. */
static void meet_rank_0(tutti_group *world, int rank, int size)
{
    int64_t one = 1;
    float x = 0;
    tutti_tensor t = vector(&x, &one, TUTTI_F32);

    if (rank)
        check_ok(tutti_send(world, &t, 0, 99, NULL));
    for (int r = 1; !rank && r < size; r++)
        check_ok(tutti_recv(world, &t, r, 99, NULL, NULL));
}

static void wait_for_its_end(tutti_group *world)
{
    tutti_group_info info = {.struct_size = sizeof info};

    while (!tutti_group_status(world, &info) && info.state == TUTTI_GROUP_READY)
        rank_sleep_ms(1);
}

/* Four operations, of which the third goes wrong on rank 1; it has the options. */
static tutti_status until_the_fault(tutti_group *world, const tutti_options *options)
{
    tutti_status status = TUTTI_OK;
    float x = 1;

    for (int i = 0; i < 4 && !status; i++)
        status = sum(world, &x, 1, i == 2 ? options : NULL);
    return status;
}

RANK_CASE(all_hear_of_an_engine_that_fails)
{
    tutti_group *world = rank_init(NULL);

    check_status(until_the_fault(world, NULL), TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), "rank 1: ");
    check_contains(tutti_last_error(), "the engine broke");
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_SYSTEM);
    check_status(tutti_group_destroy(world), TUTTI_ERR_SYSTEM);
}

/* It is said of a member that lives. */
RANK_CASE(what_an_engine_says_of_a_lost_member_stands_in_the_verdict)
{
    tutti_group *world = rank_init(NULL);

    check_status(until_the_fault(world, NULL), TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), getenv("FAKE_WORDS"));
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
}

static void count_release(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* The engine may write the tensor until its team is closed. */
RANK_CASE(an_operation_in_flight_is_let_go_when_its_group_is_destroyed)
{
    tutti_group *world = rank_init(NULL);
    const tutti_options short_time = {.struct_size = sizeof short_time, .timeout_ms = 400};
    static atomic_int released;
    static float x[4];
    int64_t four = 4;
    tutti_tensor t = vector(x, &four, TUTTI_F32);
    tutti_work *work;

    require_ok(sum(world, x, 4, NULL));
    require_ok(sum(world, x, 4, NULL));
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, &short_time, &work)); /* hangs */
    check_ok(tutti_work_on_release(work, count_release, &released));
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_TIMEOUT);
    tutti_work_free(work);
    rank_sleep_ms(50);
    check_eq(atomic_load(&released), 0);
    tutti_group_destroy(world);
    for (int i = 0; i < 5000 && !atomic_load(&released); i++)
        rank_sleep_ms(1);
    check_eq(atomic_load(&released), 1);
}

RANK_CASE(an_operation_that_hangs_ends_at_its_deadline)
{
    tutti_group *world = rank_init(NULL);
    const tutti_options options = {.struct_size = sizeof options, .timeout_ms = 500};
    const int64_t begun = rank_now_ns();

    check_status(until_the_fault(world, &options), TUTTI_ERR_TIMEOUT);
    check(rank_now_ns() - begun < INT64_C(15000000000));
    check_contains(tutti_last_error(), "#3 all_reduce");
    check_status(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}

RANK_CASE(a_member_that_does_not_call_is_named)
{
    tutti_group *world = rank_init(NULL);
    const tutti_options options = {.struct_size = sizeof options, .timeout_ms = 1500};
    float x = 1;

    require_ok(sum(world, &x, 1, NULL));
    if (rank == 1)
        wait_for_its_end(world);
    check_status(sum(world, &x, 1, &options), TUTTI_ERR_TIMEOUT);
    check_contains(tutti_last_error(), "waiting for rank 1 ");
    check_contains(tutti_last_error(), "which has not called it, or does not answer");
    check_status(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}

RANK_CASE(a_mismatch_is_found_where_the_engine_waits_for_ever)
{
    tutti_group *world = rank_init(NULL);
    float x[2] = {1, 2};

    require_ok(sum(world, x, 2, NULL));
    check_status(sum(world, x, rank == 2 ? 1 : 2, NULL), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 2: all_reduce 1 x f32");
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

RANK_CASE(an_abort_ends_an_operation_in_flight)
{
    tutti_group *world = rank_init(NULL);
    float x = 1;

    require_ok(sum(world, &x, 1, NULL));
    meet_rank_0(world, rank, size); /* a rank that has returned cannot be hit any more */
    if (rank == 0) {
        rank_sleep_ms(200);
        require_ok(tutti_group_abort(world, "enough"));
    } else {
        check_status(sum(world, &x, 1, NULL), TUTTI_ERR_ABORTED);
        check_contains(tutti_last_error(), "enough");
    }
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

RANK_CASE(a_member_that_is_killed_is_named)
{
    tutti_group *world = rank_init(NULL);
    float x = 1;

    require_ok(sum(world, &x, 1, NULL));
    rank_point("ready");
    if (rank == 1)
        rank_sleep_ms(60000);
    check_status(sum(world, &x, 1, NULL), TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), "rank 1");
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
}

RANK_CASE(a_group_made_from_another_has_a_team_of_its_own)
{
    tutti_group *world = rank_init(NULL), *some = NULL;
    const int32_t ranks[] = {2, 0};
    float x = (float)rank;

    require_ok(tutti_group_new(world, ranks, 2, NULL, &some));
    if (some) {
        check_ok(sum(some, &x, 1, NULL));
        check_near(x, 2, 0);
        check_contains(rank_served_by(some), "all_reduce_native");
        check_ok(tutti_group_destroy(some));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(groups_over_different_backends_live_side_by_side)
{
    static const struct {
        const char *backend, *name, *served;
    } kinds[] = {{"tcp", "tcp", "tcp all_reduce_"},
                 {"fake", "fake", "fake all_reduce_native"},
                 {"auto", "shm", "shm all_reduce_inline"},
                 {"auto;all_reduce=fake", "shm+fake", "fake all_reduce_native"}};
    enum { GROUPS = sizeof kinds / sizeof kinds[0], ROUNDS = 20 };
    tutti_group *world = rank_init(NULL), *groups[GROUPS];
    tutti_work *works[GROUPS];
    int64_t one = 1;
    float x[GROUPS];

    for (int i = 0; i < GROUPS; i++) {
        tutti_group_options options = {.struct_size = sizeof options, .backend = kinds[i].backend};

        require_ok(tutti_group_new(world, NULL, 0, &options, &groups[i]));
        check_str_eq(tutti_group_backend(groups[i]), kinds[i].name);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int n = 0; n < GROUPS; n++) { /* in another order on each rank */
            const int i = (n + rank) % GROUPS;
            tutti_tensor t = vector(&x[i], &one, TUTTI_F32);

            x[i] = (float)(rank + i);
            require_ok(tutti_all_reduce(groups[i], &t, TUTTI_SUM, NULL, &works[i]));
        }
        for (int i = 0; i < GROUPS; i++) {
            check_ok(tutti_work_wait(works[i], 0));
            tutti_work_free(works[i]);
            check_near(x[i], size * (size - 1) / 2.0 + i * size, 0);
            check_contains(rank_served_by(groups[i]), kinds[i].served);
        }
    }
    for (int i = 0; i < GROUPS; i++)
        check_ok(tutti_group_destroy(groups[i]));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(no_group_is_made)
{
    tutti_group *world = NULL;
    const char *words = getenv("FAKE_WORDS"), *ms = getenv("TUTTI_TEST_INIT_MS");
    const tutti_init_options options = {.struct_size = sizeof options,
                                        .timeout_ms = ms ? atoi(ms) : 0};

    if (rank == 1 && getenv("FAKE_ONE"))
        putenv(getenv("FAKE_ONE"));
    check(tutti_init(&options, &world) != TUTTI_OK);
    check_contains(tutti_last_error(), words);
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* As a launcher of the plugin's starts processes: nothing that tutti reads is said. */
static void be_launched(int rank, int size)
{
    static const char *const said[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",  "TUTTI_STORE",
                                       "MASTER_ADDR", "MASTER_PORT", "TUTTI_RUN_ID"};
    char number[16];

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        unsetenv(said[i]);
    snprintf(number, sizeof number, "%d", rank);
    setenv("FAKE_RANK", number, 1);
    snprintf(number, sizeof number, "%d", size);
    setenv("FAKE_SIZE", number, 1);
    setenv("FAKE_JOB", "a-job", 1);
    setenv("FAKE_FOLDER", getenv("TMPDIR"), 1);
}

RANK_CASE(a_launcher_gives_our_rank_and_carries_the_address)
{
    be_launched(rank, size);
    for (int i = 0; i < 2; i++) {
        tutti_group *world = rank_init(NULL);
        float x = 1;

        check_eq(tutti_group_rank(world), rank);
        check_eq(tutti_group_size(world), size);
        check_ok(sum(world, &x, 1, NULL));
        check_near(x, size, 0);
        check_ok(tutti_group_destroy(world));
        char folder[256];
        snprintf(folder, sizeof folder, "%s/%d", getenv("TMPDIR"), i);
        if (i == 0 && rank == 0)
            check(mkdir(folder, 0700) == 0);
        setenv("FAKE_FOLDER", folder, 1);
        for (int tries = 0; i == 0 && access(folder, F_OK) && tries < 5000; tries++)
            rank_sleep_ms(1);
    }
}

/* Ranks from TUTTI_TEST_LATE on come when the test says so; the test kills rank 0. */
RANK_CASE(init_under_a_launcher)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;
    char served[300];

    be_launched(rank, size);
    snprintf(served, sizeof served, "%s/broadcast-0", getenv("FAKE_FOLDER"));
    while (rank && access(served, F_OK))
        rank_sleep_ms(1);
    rank_point("served");
    if (rank && rank >= atoi(getenv("TUTTI_TEST_LATE")))
        rank_await("go");
    options.timeout_ms = 30000;
    const tutti_status status = tutti_init(&options, &world);
    rank_point("returned");
    rank_value("words", "%s: %s", tutti_status_name(status), tutti_last_error());
    rank_end();
}

RANK_CASE(what_a_launcher_leaves_open_is_told)
{
    be_launched(rank, size);
    unsetenv("FAKE_JOB");
    tutti_group *world = NULL;

    check_status(tutti_init(NULL, &world), TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(),
                   "asking the launcher with the plugin fake: fake: the launcher does not answer");
    setenv("FAKE_JOB", "a-job", 1);
    setenv("FAKE_RANK", "0", 1);
    setenv("FAKE_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "OMPI_COMM_WORLD_SIZE=4");
    unsetenv("FAKE_SIZE");
    setenv("TUTTI_BOOTSTRAP", "fake", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "was not started by a launcher that the plugin knows");
}

RANK_CASE(a_launcher_whose_plugin_cannot_be_used_is_named)
{
    char path[256];
    tutti_group *world = NULL;

    be_launched(rank, size);
    unsetenv("FAKE_SIZE");
    snprintf(path, sizeof path, "%s/libtutti-mpi.so", getenv("TMPDIR"));
    fclose(fopen(path, "ae"));
    setenv("TUTTI_PLUGIN_PATH", getenv("TMPDIR"), 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(),
                   "OMPI_COMM_WORLD_SIZE=4 says that Open MPI's launcher started "
                   "this process, and the plugin mpi");
}
