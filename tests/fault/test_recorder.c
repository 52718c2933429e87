/* SPDX-License-Identifier: Apache-2.0 */
/* When dumps are made, when not, and what a program hears of them. */
#include <signal.h>
#include <string.h>

#include "dumps.h"

enum { RANKS = 3 };

static struct ranks *start(const char *case_name, const char *env)
{
    return fault_start(&fault_shm, "rank_recorder", case_name, RANKS, (const char *[]){env, NULL});
}

Test(recorder, a_dump_on_request_is_whole_or_an_error_in_words, .timeout = FAULT_TEST_S)
{
    struct dumps f = dumps_new();
    struct ranks *ranks = start("dumps_when_it_likes", f.test_folder);

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    cr_expect_eq(dumps_count(&f, ".json"), RANKS);
    cr_expect_eq(dumps_count(&f, ".part"), 0);
    dumps_expect(&f, "\"cause\":\"request\"");
    dumps_expect(&f, "\"operation\":\"barrier\"");
    fault_finish(ranks);
    dumps_remove(&f);
}

Test(recorder, a_signal_dumps_a_program_that_computes_and_changes_nothing, .timeout = FAULT_TEST_S)
{
    struct dumps f = dumps_new();
    struct ranks *ranks = start("computes_until_told", f.dump_dir);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_expect_eq(dumps_count(&f, ".json"), 0, "a forked child has dumped its parent");
    for (int r = 0; r < RANKS; r++)
        ranks_signal(ranks, r, SIGUSR2);
    cr_expect(dumps_await(&f, RANKS));
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    dumps_expect(&f, "\"cause\":\"signal\"");
    fault_finish(ranks);
    dumps_remove(&f);
}

Test(recorder, a_handler_of_the_program_is_left_alone, .timeout = FAULT_TEST_S)
{
    struct dumps f = dumps_new();
    struct ranks *ranks = start("has_a_handler_of_its_own", f.dump_dir);

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    cr_expect_eq(dumps_count(&f, ".json"), 0);
    cr_expect_not_null(strstr(ranks_result(ranks, 0)->err, "the program handles SIGUSR2 itself"));
    fault_finish(ranks);
    dumps_remove(&f);
}

Test(recorder, a_failure_is_dumped_where_nobody_calls, .timeout = FAULT_TEST_S)
{
    struct dumps f = dumps_new();
    struct ranks *ranks = start("fails_unnoticed", f.dump_dir);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_expect(dumps_await(&f, RANKS), "while they compute");
    dumps_expect(&f, "\"cause\":\"error\"");
    dumps_expect(&f, "the tests want it");
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks));
    fault_finish(ranks);
    dumps_remove(&f);
}

/* The call that fails does not wait for the disk, the process that ends does. */
Test(recorder, a_busy_disk_loses_no_dump, .timeout = FAULT_TEST_S)
{
    struct dumps f = dumps_new();
    struct ranks *ranks =
        fault_start(&fault_shm, "rank_recorder", "fails_and_ends", RANKS,
                    (const char *[]){f.dump_dir, "TUTTI_TEST_SLOW_MS=1500", NULL});

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    cr_expect_eq(dumps_count(&f, ".json"), RANKS);
    cr_expect_eq(dumps_count(&f, ".part"), 0);
    dumps_expect(&f, "\"cause\":\"error\"");
    cr_expect_not_null(strstr(ranks_result(ranks, 1)->err, "takes longer than 500 ms"));
    fault_finish(ranks);
    dumps_remove(&f);
}

Test(recorder, a_folder_that_cannot_be_written_loses_nothing_else, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = fault_start(
        &fault_shm, "rank_fault", "calls_for_ever", RANKS,
        (const char *[]){"TUTTI_DUMP_DIR=/dev/null/here", "TUTTI_TEST_CALL=small", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t killed = ranks_signal(ranks, 1, SIGKILL);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << 1,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"rank 1 ("},
                                                 .from_ns = killed,
                                                 .budget_ms = FAULT_BUDGET_MS});
    cr_expect_not_null(
        strstr(ranks_result(ranks, 0)->err, "failed, and its dump could not be written"));
    cr_expect_not_null(strstr(ranks_result(ranks, 0)->err, "/dev/null/here"));
    fault_finish(ranks);
}

/* Whether it has warned of the rank, after a second or, when the machine withheld it, more. */
static bool warns_of(const struct ranks *ranks, int rank, const char *who)
{
    static const char begin[] = " has waited for ";
    const char *at = ranks_result(ranks, rank)->err;

    while ((at = strstr(at, begin))) {
        at += strlen(begin);
        at += strspn(at, "0123456789");
        if (!strncmp(at, who, strlen(who)))
            return true;
    }
    return false;
}

/* Each way, collectives and a message: the missing rank is named after the time that was asked
 * for. */
FAULT_TEST(recorder, a_stall_warning_names_the_missing_rank)
{
    enum { MEMBERS = 4, CALLS = 3 };
    static const char *const calls[CALLS] = {"TUTTI_TEST_CALL=small", "TUTTI_TEST_CALL=large",
                                             "TUTTI_TEST_CALL=message"};
    struct ranks *ranks[CALLS];

    for (int i = 0; i < CALLS; i++)
        ranks[i] = fault_start(
            way, "rank_fault", "one_computes", MEMBERS,
            (const char *[]){calls[i], "TUTTI_TEST_VICTIM=2", "TUTTI_STALL_WARNING=1", NULL});
    for (int i = 0; i < CALLS; i++) {
        bool named = false;

        cr_assert(ranks_reach(ranks[i], RANKS_ALL, "open"), "%s", calls[i]);
        ranks_mark_words(ranks[i]);
        for (int r = 0; r < MEMBERS; r++)
            if (r != 2)
                ranks_tell(ranks[i], r, "go");
        for (int r = 0; r < MEMBERS; r++)
            cr_assert(r == 2 || ranks_await_words(ranks[i], r, " has waited for "), "%s", calls[i]);
        ranks_tell(ranks[i], 2, "go");
        cr_expect(ranks_wait(ranks[i]) && ranks_passed(ranks[i]), "%s", calls[i]);
        for (int r = 0; r < MEMBERS; r++)
            named |= warns_of(ranks[i], r, " s for rank 2 (");
        cr_expect(named, "%s: %s", calls[i], ranks_result(ranks[i], 0)->err);
        fault_finish(ranks[i]);
    }
}
