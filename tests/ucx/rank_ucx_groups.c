/* SPDX-License-Identifier: Apache-2.0 */
/* What groups over UCX cost a process, and a /dev/shm that is too small for UCX. */
#include <dirent.h>
#include <stdio.h>
#include <time.h>

#include "harness/rank.h"

enum {
    ALL_GROUPS = 8,
    MANY_GROUPS = 32,
    DESCRIPTORS_A_GROUP = 14,
    MS_A_GROUP = 50,
    WORDS_MAX = 1024
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

RANK_CASE(a_dev_shm_that_is_too_small)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;
    char words[WORDS_MAX];

    const tutti_status status = tutti_init(&options, &world);
    snprintf(words, sizeof words, "%s", status ? tutti_last_error() : "");
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", words);
    if (!status) {
        sum_is_right(world, size);
        check_ok(tutti_group_destroy(world));
    }
}
