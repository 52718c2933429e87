/* SPDX-License-Identifier: Apache-2.0 */
/* What only Gloo can do wrong, or lack, and who owns memory after an abort, over ucx, too; whatever happens over any
 * backend is in the other files. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum { RANKS = 4, HOLDING = 3 };

#define GLOO_TEST(name)                                                                            \
    static void fault_gloo_##name(void);                                                           \
    Test(gloo, name, .timeout = FAULT_TEST_S)                                                      \
    {                                                                                              \
        if (ranks_lack("gloo"))                                                                    \
            cr_skip_test("%s", ranks_lack("gloo"));                                                \
        fault_gloo_##name();                                                                       \
    }                                                                                              \
    static void fault_gloo_##name(void)

/* ---- ranks that have not the same engine --------------------------------------------------- */

/* `one` and `more` are variables, the first for rank 2 alone. */
static void expect_no_group(const char *one, const char *more, const char *status,
                            const char *first, const char *second)
{
    struct ranks *ranks = fault_start(&fault_gloo, "rank_engine", "no_group_is_made", RANKS,
                                      (const char *[]){"TUTTI_TEST_VICTIM=2", one, more, NULL});

    fault_expect(
        ranks, &(struct fault_expected){.size = RANKS, .status = status, .parts = {first, second}});
    fault_finish(ranks);
}

GLOO_TEST(all_hear_of_a_rank_without_the_plugin)
{
    char folder[FAULT_FOLDER_MAX], one[96];

    fault_make_folder("libtutti.so.0", folder); /* tutti looks for plugins beside itself */
    snprintf(one, sizeof one, "TUTTI_TEST_ONE=LD_LIBRARY_PATH=%s", folder);
    expect_no_group(one, NULL, "TUTTI_ERR_PLUGIN", "backend gloo is not usable on rank 2",
                    "searched for libtutti-gloo.so in");
    fault_remove_folder(folder);
}

GLOO_TEST(all_hear_of_a_rank_whose_gloo_cannot_be_loaded)
{
    char folder[FAULT_FOLDER_MAX], one[96], path[64];

    fault_make_folder(NULL, folder);
    snprintf(path, sizeof path, "%s/libgloo.so.0", folder);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs("no library\n", file) >= 0 && !fclose(file));
    snprintf(one, sizeof one, "TUTTI_TEST_ONE=LD_LIBRARY_PATH=%s", folder);
    expect_no_group(one, NULL, "TUTTI_ERR_PLUGIN", "backend gloo is not usable on rank 2",
                    "libgloo.so.0");
    fault_remove_folder(folder);
}

GLOO_TEST(all_hear_of_a_rank_on_which_gloo_does_not_open)
{
    expect_no_group("TUTTI_TEST_ONE=TUTTI_TEST_EPOLL=none", NULL, "TUTTI_ERR_PLUGIN", "rank 2",
                    "gloo: ");
}

/* Before 1.0 a minor may change everything. */
GLOO_TEST(all_hear_of_a_rank_with_another_major_or_early_minor_version)
{
    expect_no_group("TUTTI_TEST_ONE=TUTTI_PLUGIN_PATH=" STAND_INS, "TUTTI_GLOO_VERSION=1.5.0",
                    "TUTTI_ERR_MISMATCH", "rank 0: Gloo 0.", "rank 2: Gloo 1.5.0");
    expect_no_group("TUTTI_TEST_ONE=TUTTI_PLUGIN_PATH=" STAND_INS, "TUTTI_GLOO_VERSION=0.99.0",
                    "TUTTI_ERR_MISMATCH", "rank 0: Gloo 0.", "rank 2: Gloo 0.99.0");
}

/* ---- its words, and what it holds ---------------------------------------------------------- */

GLOO_TEST(its_words_stand_behind_the_verdict_where_connections_end_and_nobody_dies)
{
    struct ranks *ranks = fault_start(&fault_gloo, "rank_gloo", "one_cuts_its_connections", RANKS,
                                      (const char *[]){"TUTTI_TEST_VICTIM=2", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    int64_t go = fault_now_ns();
    ranks_tell(ranks, RANKS_ALL, "go");
    fault_expect(ranks, &(struct fault_expected){
                            .size = RANKS,
                            .status = "TUTTI_ERR_PEER_LOST",
                            .parts = {"group world", "ended before it left the group (gloo: "},
                            .from_ns = go,
                            .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

static void expect_passed(const struct fault_way *way, const char *case_name)
{
    struct ranks *ranks = fault_start(way, "rank_gloo", case_name, HOLDING, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

GLOO_TEST(no_descriptor_and_no_thread_is_left_of_groups)
{
    expect_passed(&fault_gloo, "nothing_is_left_of_groups");
}

GLOO_TEST(memory_is_the_programs_again_after_an_abort)
{
    expect_passed(&fault_gloo, "memory_is_the_programs_again_after_an_abort");
}

Test(ucx, memory_is_the_programs_again_after_an_abort, .timeout = FAULT_TEST_S)
{
    if (ranks_lack("ucx"))
        cr_skip_test("%s", ranks_lack("ucx"));
    expect_passed(&fault_ucx, "memory_is_the_programs_again_after_an_abort");
}
