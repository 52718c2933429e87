/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that end before they have joined the world, under `tutti run` with a long --wait: the launcher knows
 * of it, so the others do not wait for their deadline, and all say the same. TUTTI_TEST_MOMENTS is how many
 * moments of init there are, from 0 to 28 ms, in which a rank is killed.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define CONTAINS(text, words)                                                                      \
    cr_assert_not_null(strstr(text, words), "no \"%s\" in:\n%s", words, text)

enum { MOMENTS = 6, MOMENTS_MS = 28 };
static const double BUDGET_S = 5;

static const char *const backends[] = {"shm", "tcp"};
static const int victims[] = {0, 2};

/* Who said the same, as the launcher puts it. */
static const char *others_of(int victim)
{
    return victim ? "ranks 0,1,3 (3): group world: " : "ranks 1-3 (3): group world: ";
}

static struct ran end_before_init(const char *backend, int victim, const char *how)
{
    return ran("$TUTTI run -n 4 --wait 30 --backend %s -- "
               "sh -c 'test $RANK = %d && { sleep 0.2; %s; }; exec %s/hello'",
               backend, victim, how, TUTTI_TEST_PROGRAMS);
}

static void is_told_at_once(const char *how, const char *words, int code)
{
    for (size_t b = 0; b < G_N_ELEMENTS(backends); b++)
        for (size_t v = 0; v < G_N_ELEMENTS(victims); v++) {
            g_autofree char *who =
                g_strdup_printf("%srank %d (host ", others_of(victims[v]), victims[v]);
            struct ran r = end_before_init(backends[b], victims[v], how);

            cr_expect_eq(r.code, code, "%d\n%s", r.code, r.err);
            cr_expect_lt(r.seconds, BUDGET_S, "%.1f s\n%s", r.seconds, r.err);
            CONTAINS(r.err, who);
            CONTAINS(r.err, words);
            ran_free(&r);
        }
}

Test(cli_init, a_rank_killed_before_init_is_named_by_all_at_once, .timeout = 120)
{
    is_told_at_once("kill -9 $$", "was lost: it was ended by signal 9 (SIGKILL) before the group",
                    137);
}

Test(cli_init, a_rank_that_exits_before_init_is_named_by_all_at_once, .timeout = 120)
{
    is_told_at_once("exit 3", "was lost: it exited with code 3 before the group", 3);
    is_told_at_once("exit 0", "was lost: it exited with code 0 before the group", 1);
}

Test(cli_init, a_rank_killed_during_init_is_named_by_all_at_once, .timeout = 600)
{
    const char *given = getenv("TUTTI_TEST_MOMENTS");
    const int moments = given && atoi(given) > 1 ? atoi(given) : MOMENTS;

    for (int i = 0; i < moments; i++) {
        const int victim = victims[i % (int)G_N_ELEMENTS(victims)];
        struct ran r = ran("$TUTTI run -n 4 --wait 30 --backend %s -- sh -c 'test $RANK = %d && "
                           "{ (sleep %.4f; kill -9 $$) & }; exec %s/hello'",
                           backends[i / 2 % (int)G_N_ELEMENTS(backends)], victim,
                           (double)i * MOMENTS_MS / (moments - 1) / 1000, TUTTI_TEST_PROGRAMS);
        g_autofree char *lost = g_strdup_printf("%srank %d ", others_of(victim), victim);

        cr_expect_lt(r.seconds, BUDGET_S, "moment %d: %.1f s\n%s", i, r.seconds, r.err);
        if (!strstr(r.err, "finished with code 0") && r.code != 0) /* the world was there */
            CONTAINS(r.err, lost);
        ran_free(&r);
    }
}

/* The rank's own process ends, and what it has started is the member. */
Test(cli_init, a_program_that_a_rank_leaves_behind_is_waited_for, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 3 --wait 30 -- sh -c 'test $RANK = 1 || exec %s/hello; "
                       "(sleep 1; exec %s/hello) & exit 0'",
                       TUTTI_TEST_PROGRAMS, TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
    CONTAINS(r.out, "rank 0 of 3");
    CONTAINS(r.out, "rank 2 of 3");
    ran_free(&r);
}

/* It takes no part: the others make a world without it, or number themselves. */
Test(cli_init, a_rank_that_is_no_member_may_end_before_the_others_meet, .timeout = 60)
{
    static const char *const ways[] = {
        "test $RANK = 3 && exit 0; test $RANK = 2 && sleep 1; WORLD_SIZE=3 exec",
        "test $RANK = 0 && exit 0; test $RANK = 2 && sleep 1; "
        "RANK=$((RANK - 1)) WORLD_SIZE=3 exec",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct ran r =
            ran("$TUTTI run -n 4 --wait 30 -- sh -c '%s %s/hello'", ways[i], TUTTI_TEST_PROGRAMS);

        cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
        CONTAINS(r.out, "rank 2 of 3");
        ran_free(&r);
    }
}

/* Their worlds were there: those that go on do not take it for a member that is lost. */
Test(cli_init, a_second_program_runs_in_ranks_after_one_that_some_have_left, .timeout = 60)
{
    struct ran r =
        ran("$TUTTI run -n 4 --wait 30 -- sh -c '%s/hello && test $RANK -lt 3 || exit 0; "
            "sleep 1; TUTTI_RUN_ID=again WORLD_SIZE=3 exec %s/hello'",
            TUTTI_TEST_PROGRAMS, TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
    CONTAINS(r.out, "rank 2 of 3");
    ran_free(&r);
}
