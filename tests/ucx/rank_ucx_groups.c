/* SPDX-License-Identifier: Apache-2.0 */
/* What groups over UCX cost a process, and a /dev/shm that UCX cannot use. */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>

#include "harness/rank.h"

enum {
    ALL_GROUPS = 8,
    MANY_GROUPS = 32,
    DESCRIPTORS_A_GROUP = 14,
    MS_A_GROUP = 50,
    WORDS_MAX = 1024,
    LONG = 1 << 20
};

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    require(folder != NULL);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void sum_is_right(tutti_group *group, int size)
{
    int32_t one = 1;
    int64_t shape = 1;
    const tutti_tensor tensor = tutti_tensor_1d(&one, TUTTI_I32, &shape, 1);

    check_status(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL), TUTTI_OK);
    check_eq(one, size);
}

static tutti_group *make_group(tutti_group *world, int size)
{
    int32_t ranks[64];
    tutti_group *group = NULL;

    for (int r = 0; r < size; r++)
        ranks[r] = r;
    check_status(tutti_group_new(world, ranks, size, NULL, &group), TUTTI_OK);
    require(group != NULL);
    sum_is_right(group, size);
    return group;
}

static void make_groups(int size, int count)
{
    tutti_group *world = rank_init(NULL), *groups[MANY_GROUPS];

    sum_is_right(world, size);
    check_ok(tutti_group_destroy(make_group(world, size))); /* some things are made once */
    sum_is_right(world, size);
    rank_point("world");
    const int before = open_descriptors();
    const double start = now_ms();

    for (int i = 0; i < count; i++)
        groups[i] = make_group(world, size);
    const double ms = (now_ms() - start) / count;
    rank_point("groups");
    const int descriptors = (open_descriptors() - before + count - 1) / count;
    rank_value("descriptors", "%d", descriptors);
    rank_value("ms", "%.1f", ms);
    for (int i = 0; i < count; i++)
        check_ok(tutti_group_destroy(groups[i]));
    sum_is_right(world, size);
    /* Connections between processes stay, and some are made late. A group that leaves one would make it `count`. */
    check(open_descriptors() < before + size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(groups_of_all_fit_into_a_small_dev_shm)
{
    make_groups(size, ALL_GROUPS);
}

RANK_CASE(many_groups_cost_little)
{
    make_groups(size, MANY_GROUPS);
}

static void long_sum_is_right(tutti_group *group, int size)
{
    static int32_t numbers[LONG];
    int64_t shape = LONG;
    const tutti_tensor tensor = tutti_tensor_1d(numbers, TUTTI_I32, &shape, LONG);
    int wrong = 0;

    for (int i = 0; i < LONG; i++)
        numbers[i] = i;
    check_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    for (int i = 0; i < LONG; i++)
        wrong += numbers[i] != i * size;
    check_eq(wrong, 0);
}

/* A /dev/shm of 1 MiB, for rank TUTTI_TEST_RANK alone. */
static void shrink_dev_shm(int rank)
{
    const char *which = getenv("TUTTI_TEST_RANK");

    if (which && atoi(which) == rank &&
        (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
         mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m")))
        rank_value("skipped", "%s", strerror(errno));
}

RANK_CASE(a_dev_shm_that_ucx_cannot_use)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;
    char words[WORDS_MAX];

    shrink_dev_shm(rank);
    const tutti_status status = tutti_init(&options, &world);
    snprintf(words, sizeof words, "%s", status ? tutti_last_error() : "");
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", words);
    if (!status) {
        sum_is_right(world, size);
        long_sum_is_right(world, size);
        check_ok(tutti_group_destroy(make_group(world, size)));
        check_ok(tutti_group_destroy(world));
    }
}
