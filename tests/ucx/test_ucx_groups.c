/* SPDX-License-Identifier: Apache-2.0 */
/* What groups over UCX cost, and a /dev/shm that is small, as that of a container (64 MiB), or too small. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "harness/launch.h"

enum {
    DEADLINE_MS = 60000,
    MANY = 8,
    FEW = 4,
    WORDS = 1024,
    GROUPS = 32,
    DESCRIPTORS_A_GROUP = 14,
    MS_A_GROUP = 50
};

TestSuite(ucx_groups, .timeout = 100);

static struct ranks *start(const char *case_name, int size, const char *const *env)
{
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_ucx_groups",
                                                              .case_name = case_name,
                                                              .size = size,
                                                              .backend = "ucx",
                                                              .env = env,
                                                              .timeout_ms = DEADLINE_MS});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    return ranks;
}

/* Of this test's process and its ranks alone. */
static void mount_dev_shm(const char *options, unsigned long flags)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/dev/shm", "tmpfs", flags, options))
        cr_skip_test("no mounts here: %s", strerror(errno));
}

/* The same status on all ranks, and words with this part. */
static void expect_on_all(const char *const *env, const char *expected, const char *part)
{
    struct ranks *ranks = start("a_dev_shm_that_ucx_cannot_use", FEW, env);
    char status[64] = "", words[WORDS] = "", others[WORDS] = "";

    for (int r = 0; r < FEW; r++) {
        if (ranks_value(ranks, r, "skipped", words, sizeof words)) {
            ranks_free(ranks);
            cr_skip_test("no mounts here: %s", words);
        }
        cr_expect(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        cr_expect_str_eq(status, expected, "rank %d: %s", r, words);
        cr_expect(strstr(words, part), "rank %d: %s", r, words);
        cr_expect(r == 0 || !strcmp(words, others), "rank %d: %s\nnot %s", r, words, others);
        strcpy(others, words);
    }
    ranks_free(ranks);
}

Test(ucx_groups, a_dev_shm_of_1_mebibyte_is_done_without)
{
    mount_dev_shm("size=1m", 0);
    expect_on_all(NULL, "TUTTI_OK", "");
}

Test(ucx_groups, a_dev_shm_that_cannot_be_written_is_done_without)
{
    mount_dev_shm(NULL, MS_RDONLY);
    expect_on_all(NULL, "TUTTI_OK", "");
}

Test(ucx_groups, a_rank_that_does_without_dev_shm_reaches_those_that_use_it)
{
    expect_on_all((const char *const[]){"TUTTI_TEST_RANK=1", NULL}, "TUTTI_OK", "");
}

Test(ucx_groups, transports_that_need_a_larger_dev_shm_give_words_on_all)
{
    mount_dev_shm("size=1m", 0);
    expect_on_all((const char *const[]){"TUTTI_UCX_TLS=posix", NULL}, "TUTTI_ERR_NO_MEMORY",
                  "TUTTI_UCX_TLS=^posix leaves it out");
}

Test(ucx_groups, eight_ranks_and_eight_groups_fit_into_a_dev_shm_of_64_mebibytes)
{
    mount_dev_shm("size=64m", 0);
    ranks_free(start("groups_of_all_fit_into_a_small_dev_shm", MANY, NULL));
}

Test(ucx_groups, a_group_costs_14_descriptors_and_50_ms_at_most)
{
    struct ranks *ranks = start("many_groups_cost_little", FEW, NULL);
    char descriptors[16] = "", ms[16] = "";

    (void)ranks_value(ranks, 0, "descriptors", descriptors, sizeof descriptors);
    (void)ranks_value(ranks, 0, "ms", ms, sizeof ms);
    fprintf(stderr, "a group takes %s descriptors and %s ms\n", descriptors, ms);
    cr_expect_leq(atoi(descriptors), DESCRIPTORS_A_GROUP);
    const int64_t withheld = ranks_withheld_ms(ranks, ranks_point_ns(ranks, 0, "world"),
                                               ranks_point_ns(ranks, 0, "groups"));
    cr_expect_leq(atof(ms) - (double)withheld / GROUPS, MS_A_GROUP);
    ranks_free(ranks);
}
