/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that make a group of all while something is done to one of them; its list runs downwards, so
 * that the last rank of the world leads. Variables as in rank_fault.c. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "rank_tell.h"

enum { SIZE_MAX_HERE = 16, GROUPS_MANY = 16 };

static tutti_group *join(void)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = 0;

    options.timeout_ms = 20000;
    options.init_url = getenv("TUTTI_TEST_URL");
    require_ok(tutti_init(&options, &world));
    check_ok(tutti_barrier(world, 0, 0));
    return world;
}

static tutti_status make_within(tutti_group *world, int timeout_ms, tutti_group **ret_group)
{
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    int32_t ranks[SIZE_MAX_HERE], size = tutti_group_size(world);

    for (int32_t i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    options.timeout_ms = timeout_ms;
    return tutti_group_new(world, ranks, size, &options, ret_group);
}

static tutti_status make(tutti_group *world, tutti_group **ret_group)
{
    return make_within(world, 0, ret_group);
}

static void finish(tutti_group *group, tutti_group *world, tutti_status status)
{
    tell(status);
    tutti_group_destroy(group);
    tutti_group_destroy(world);
}

/* The victim has not called when the others wait for it: TUTTI_TEST_LATE, which calls when it is told to,
 * for TUTTI_TEST_TIMEOUT_MS. */
RANK_CASE(one_does_not_come)
{
    tutti_group *world = join(), *group = 0;

    rank_point("open");
    if (rank == victim())
        rank_await("never");
    const bool is_late = rank == number_of("TUTTI_TEST_LATE", -1);
    if (is_late)
        rank_await("go");
    rank_point("calling");
    tutti_status status =
        make_within(world, is_late ? number_of("TUTTI_TEST_TIMEOUT_MS", 0) : 0, &group);
    check(status && !group);
    finish(group, world, status);
}

/* One is late; until then the victim is there. A rank that gets a group calls until it fails. */
RANK_CASE(all_come)
{
    tutti_group *world = join(), *group = 0;

    if (rank == number_of("TUTTI_TEST_LATE", -1))
        rank_await("go");
    rank_point("open");
    tutti_status status = make(world, &group);
    while (!status)
        status = tutti_barrier(group, 0, 0);
    finish(group, world, status);
}

/* The victim, which serves the store, is stopped while the others make two groups. */
RANK_CASE(others_make_groups)
{
    tutti_group *world = join(), *group = 0;
    int32_t others[SIZE_MAX_HERE], count = 0;

    for (int32_t r = 0; r < size; r++)
        if (r != victim())
            others[count++] = r;
    rank_point("open");
    rank_await("go");
    rank_point("making");
    for (int i = 0; i < 2 && rank != victim(); i++) {
        require_ok(tutti_group_new(world, others, count, 0, &group));
        check_ok(tutti_barrier(group, 0, 0));
        check_ok(tutti_group_destroy(group));
    }
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
}

/* A group without the victim goes on, and makes groups; the world does not. */
RANK_CASE(others_live_on)
{
    tutti_group *world = join(), *others, *again = 0;
    tutti_group_info info = {.struct_size = sizeof info};
    char words[RANK_WORDS_MAX];

    require_ok(tutti_group_split(world, rank == victim() ? -1 : 0, 0, 0, &others));
    rank_point("open");
    if (rank == victim())
        rank_await("never");
    tutti_status status = tutti_barrier(world, 0, 0);
    tell(status);
    snprintf(words, sizeof words, "%s", tutti_last_error());
    check_status(tutti_group_new(world, 0, 0, 0, &again), status);
    check_str_eq(tutti_last_error(), words);
    check_ok(tutti_barrier(others, 0, 0));
    check_ok(tutti_group_new(others, 0, 0, 0, &again));
    check_ok(tutti_barrier(again, 0, 0));
    check_ok(tutti_group_status(others, &info));
    check_eq(info.state, TUTTI_GROUP_READY);
    check_eq(info.completed, 1);
    check_status(tutti_group_destroy(world), status);
    check_ok(tutti_group_destroy(again));
    check_ok(tutti_group_destroy(others));
}

/* The victim ends while it is in several groups, and while tutti's thread runs for it. */
RANK_CASE(one_exits)
{
    enum { GROUPS = 5 };
    tutti_group *world = join(), *groups[GROUPS];
    tutti_work *work;

    for (int i = 0; i < GROUPS; i++)
        require_ok(make(world, &groups[i]));
    if (rank == victim()) {
        for (int i = 0; i < GROUPS; i++)
            require_ok(tutti_barrier(groups[i], 0, &work));
        rank_await("go");
        exit(0);
    }
    rank_point("open");
    tutti_status status = tutti_barrier(world, 0, 0);
    tell(status);
    for (int i = 0; i < GROUPS; i++) {
        check_status(tutti_barrier(groups[i], 0, 0), TUTTI_ERR_PEER_LOST);
        check_contains(tutti_last_error(), "it exited without tutti_group_destroy()");
        tutti_group_destroy(groups[i]);
    }
    tutti_group_destroy(world);
}

/* Each of the even ranks destroys the groups in the order in which they were made, the others begin with
 * the last one. The victim comes back much later. */
RANK_CASE(orders_of_destruction_differ)
{
    tutti_group *world = join(), *groups[GROUPS_MANY];

    for (int i = 0; i < GROUPS_MANY; i++)
        require_ok(tutti_group_new(world, 0, 0, 0, &groups[i]));
    require_ok(tutti_barrier(world, 0, 0));
    rank_point("open");
    if (rank == victim())
        rank_await("go");
    rank_point("destroying");
    for (int i = 0; i < GROUPS_MANY; i++)
        check_ok(tutti_group_destroy(groups[rank % 2 ? GROUPS_MANY - 1 - i : i]));
    tell(TUTTI_OK);
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
}

/* Every rank but the last has another idea of the list; they wait for each other. */
RANK_CASE(lists_differ)
{
    tutti_group *world = join(), *group = 0;
    static const int32_t lists[2][3] = {{0, 1, 2}, {2, 1, 0}};

    rank_point("open");
    tutti_status status = tutti_group_new(world, lists[rank == size - 1], size, 0, &group);
    tell(status);
    check(!group);
    /* The world is as it was, and the rank with another list hears what became of this one. */
    if (rank == size - 1)
        check_status(tutti_group_new(world, lists[0], size, 0, &group), TUTTI_ERR_MISMATCH);
    else
        check_status(tutti_group_new(world, lists[1], size, 0, &group), TUTTI_ERR_MISMATCH);
    check_ok(tutti_group_new(world, 0, 0, 0, &group));
    check_ok(tutti_barrier(group, 0, 0));
    check_ok(tutti_group_destroy(group));
    check_ok(tutti_group_destroy(world));
}

/* The same groups, in an order that goes round. */
RANK_CASE(orders_differ)
{
    tutti_group *world = join(), *group = 0;
    int32_t next[] = {rank, (rank + 1) % size};

    rank_point("open");
    if (next[0] > next[1]) {
        next[0] = next[1];
        next[1] = rank;
    }
    tutti_status status = tutti_group_new(world, next, 2, 0, &group);
    tell(status);
    check(!group);
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
}

/* The last rank waits in a group for a member that never comes; the others wait for it. */
RANK_CASE(one_waits_elsewhere)
{
    tutti_group *world = join(), *group = 0;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    const int32_t here[] = {0, 2}, elsewhere[] = {1, 2};

    options.timeout_ms =
        rank == 2 ? 6000 : 4000; /* it has told by then where it is, and is there */
    if (rank == 1)
        rank_await("go");
    else if (rank == 2)
        tell(tutti_group_new(world, elsewhere, 2, &options, &group));
    else
        tell(tutti_group_new(world, here, 2, &options, &group));
    check(!group);
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
}

/* ---- groups over an engine that takes no operation back ------------------------------------- */

enum { COUNT = 4, FAILING_MS = 50, STATUS_TESTS = 2000 };

static tutti_status sum_within(tutti_group *group, float *ones, int timeout_ms)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(ones, TUTTI_F32, &shape, COUNT);
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.timeout_ms = timeout_ms;
    const tutti_status status = tutti_all_reduce(group, &tensor, TUTTI_SUM, &options, NULL);
    if (!status)
        check_eq(ones[COUNT - 1], tutti_group_size(group));
    return status;
}

static tutti_status sum(tutti_group *group)
{
    float ones[COUNT] = {1, 1, 1, 1};

    return sum_within(group, ones, 0);
}

/* Every member but the victim sums, and so the group ends at the deadline. */
static void let_fail(tutti_group *group, int rank)
{
    static float failing[COUNT]; /* the engine may write it until the group is destroyed */
    tutti_group_info info = {.struct_size = sizeof info, .state = TUTTI_GROUP_READY};

    if (rank != victim())
        check_status(sum_within(group, failing, FAILING_MS), TUTTI_ERR_TIMEOUT);
    for (int i = 0; i < STATUS_TESTS && info.state == TUTTI_GROUP_READY; i++) {
        rank_sleep_ms(10);
        require_ok(tutti_group_status(group, &info));
    }
    check_eq(info.verdict, TUTTI_ERR_TIMEOUT);
}

/* The failed group is destroyed last: those beside it go on. */
RANK_CASE(a_failed_group_is_kept)
{
    tutti_group *world = join(), *failed = 0, *next = 0;

    require_ok(make(world, &failed));
    check_ok(sum(failed));
    let_fail(failed, rank);
    check_ok(sum(world));
    require_ok(make(world, &next));
    check_ok(sum(next));
    check_ok(sum(world));
    check_ok(tutti_group_destroy(next));
    check_ok(tutti_group_destroy(world));
    check_status(tutti_group_destroy(failed), TUTTI_ERR_TIMEOUT);
}

/* The world tells what became of it; groups and worlds that are made afterwards are as good as new. */
RANK_CASE(a_failed_group_is_destroyed)
{
    tutti_group *world = join(), *failed = 0, *next = 0;

    require_ok(make(world, &failed));
    check_ok(sum(world));
    let_fail(failed, rank);
    check_status(tutti_group_destroy(failed), TUTTI_ERR_TIMEOUT);
    require_ok(make(world, &next));
    check_ok(sum(next));
    tell(sum(world));
    check_ok(sum(next));
    check_ok(tutti_group_destroy(next));
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
    world = join();
    check_ok(sum(world));
    check_ok(tutti_group_destroy(world));
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -3; /* its own, and two folders */

    require(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* ---- groups of one host, in a world of several ------------------------------------------------ */

static void make_of(tutti_group *world, const int32_t *ranks, int count, tutti_group **ret_group)
{
    require_ok(tutti_group_new(world, ranks, count, NULL, ret_group));
}

/* Ranks 0 and 1 are on one host, 2 and 3 on another. */
RANK_CASE(a_failed_group_of_one_host_is_destroyed)
{
    const int32_t *own = (const int32_t[]){0, 1, 2, 3} + rank / 2 * 2;
    tutti_group *world = join(), *group = 0, *next = 0;

    make_of(world, own, 2, &group);
    check_ok(sum(group));
    check_ok(sum(world));
    if (rank < 2)
        let_fail(group, rank);
    check_status(tutti_group_destroy(group), rank < 2 ? TUTTI_ERR_TIMEOUT : TUTTI_OK);
    check_ok(sum(world));
    make_of(world, own, 2, &next);
    check_ok(sum(next));
    check_ok(sum(world));
    check_ok(tutti_group_destroy(next));
    check_ok(tutti_group_destroy(world));
}

/* Ranks 0 to 2 are on one host. Groups of the same members, or fewer, bring no further descriptors. */
RANK_CASE(groups_of_one_host_again_and_again)
{
    static const int32_t members[] = {0, 1, 2}, pair[] = {2, 0};
    tutti_group *world = join();
    int before = 0;

    for (int i = 0; i < 8 && rank < 3; i++) {
        const bool is_pair = i % 2;
        tutti_group *group = 0;

        make_of(world, is_pair ? pair : members, is_pair ? 2 : 3, &group);
        check(is_pair && rank == 1 ? !group : !sum(group));
        check_ok(group ? tutti_group_destroy(group) : TUTTI_OK);
        before = before ? before : descriptors();
    }
    rank_value("descriptors", "%d", rank < 3 ? descriptors() - before : 0);
    check_ok(sum(world));
    check_ok(tutti_group_destroy(world));
}

/* Worlds that fail, one after the other, until none can be made; TUTTI_TEST_ROUNDS at most. */
RANK_CASE(worlds_fail_again_and_again)
{
    const int rounds = number_of("TUTTI_TEST_ROUNDS", 0), before = descriptors();
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_status status = TUTTI_OK;
    int made = 0;

    options.timeout_ms = 20000;
    while (!status && made < rounds) {
        tutti_group *world = 0;

        status = tutti_init(&options, &world);
        tell(status);
        if (status)
            break;
        made++;
        let_fail(world, rank);
        tutti_group_destroy(world);
    }
    rank_value("made", "%d", made);
    rank_value("descriptors", "%d", descriptors() - before);
}
