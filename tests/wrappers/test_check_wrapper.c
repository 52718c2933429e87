/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper check: ranks that gave no number, and ranks whose result is not the others'. */
#include <criterion/criterion.h>
#include <glib.h>
#include <string.h>

#include "harness/launch.h"

TestSuite(check_wrapper, .timeout = 400);

enum { RANKS = 3 };

static const char *const backends[] = {"shm", "tcp"}, *const calls[] = {"waiting", "work"};

static char *value(struct ranks *ranks, int rank, const char *name)
{
    char words[2048] = "";

    cr_expect(ranks_value(ranks, rank, name, words, sizeof words), "rank %d tells no %s", rank,
              name);
    return g_strdup(words);
}

static struct ranks *run(const char *case_name, const char *backend, const char *const *env)
{
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_wrappers",
                                                              .case_name = case_name,
                                                              .size = RANKS,
                                                              .backend = backend,
                                                              .env = env});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    return ranks;
}

static void expect(struct ranks *ranks, int rank, const char *status, const char *part)
{
    g_autofree char *told = value(ranks, rank, "status"), *words = value(ranks, rank, "words");

    cr_expect_str_eq(told, status, "rank %d: %s", rank, words);
    cr_expect_not_null(strstr(words, part), "rank %d: %s", rank, words);
}

Test(check_wrapper, a_number_that_is_none_is_named_with_rank_and_index_on_every_rank)
{
    for (int i = 0; i < 4; i++) {
        g_autofree char *how = g_strdup_printf("TUTTI_TEST_CALL=%s", calls[i / 2]);
        const char *const env[] = {"TUTTI_WRAP=check", how, NULL};
        struct ranks *ranks = run("one_gives_no_number", backends[i % 2], env);

        for (int r = 0; r < RANKS; r++)
            expect(ranks, r, "TUTTI_ERR_ABORTED",
                   "#3 all_reduce on rank 1: check: the input holds NaN at index 5, 1 in all");
        ranks_free(ranks);
    }
}

/* The program's input has no NaN: what is summed has. */
Test(check_wrapper, a_product_with_a_factor_is_told_from_the_input)
{
    const char *const env[] = {"TUTTI_WRAP=check", NULL};

    for (int i = 0; i < 2; i++) {
        struct ranks *ranks = run("one_factor_is_infinite", backends[i], env);

        for (int r = 0; r < RANKS; r++)
            expect(ranks, r, "TUTTI_ERR_ABORTED",
                   "#1 all_reduce on rank 1: check: the product of the input and the factor holds "
                   "NaN at index 0, 8 in all");
        ranks_free(ranks);
    }
}

Test(check_wrapper, what_is_done_about_a_finding_is_the_users_choice)
{
    static const struct {
        const char *value, *levels, *status, *words, *warning;
    } cases[] = {
        {"inf", "", "TUTTI_OK", "", "#3 all_reduce of group world: the input holds Inf at index 5"},
        {"inf", "inf=fail", "TUTTI_ERR_ABORTED", "the input holds Inf at index 5", ""},
        {"nan", "nan=warn", "TUTTI_OK", "", "the result holds NaN at index 5, 1 in all"},
        {"nan", "nan=off,inf=off", "TUTTI_OK", "", ""},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *levels = g_strdup_printf("TUTTI_CHECK=%s", cases[i].levels);
        g_autofree char *number = g_strdup_printf("TUTTI_TEST_VALUE=%s", cases[i].value);
        const char *const env[] = {"TUTTI_WRAP=check", levels, number, NULL};
        struct ranks *ranks = run("one_gives_no_number", "tcp", env);

        for (int r = 0; r < RANKS; r++)
            expect(ranks, r, cases[i].status, cases[i].words);
        cr_expect_not_null(strstr(ranks_result(ranks, 1)->err, cases[i].warning), "%s",
                           ranks_result(ranks, 1)->err);
        if (!*cases[i].warning)
            cr_expect_null(strstr(ranks_result(ranks, 1)->err, "holds"));
        ranks_free(ranks);
    }
}

Test(check_wrapper, a_result_that_differs_names_its_rank_on_every_rank)
{
    for (int i = 0; i < 4; i++) {
        g_autofree char *how = g_strdup_printf("TUTTI_TEST_CALL=%s", calls[i / 2]);
        const char *const env[] = {"TUTTI_WRAP=check,spoil", "TUTTI_SPOIL=3",
                                   "TUTTI_PLUGIN_PATH=" TUTTI_TEST_WRAPPERS, how, NULL};
        struct ranks *ranks = run("sums_until_one_fails", backends[i % 2], env);

        for (int r = 0; r < RANKS; r++) {
            expect(ranks, r, "TUTTI_ERR_INTERNAL", "check: the results of #3 all_reduce differ: ");
            expect(ranks, r, "TUTTI_ERR_INTERNAL", " on ranks 0, 2 and ");
            expect(ranks, r, "TUTTI_ERR_INTERNAL", " on rank 1; rank 1 differs from most");
        }
        ranks_free(ranks);
    }
}

Test(check_wrapper, lists_and_blocks_of_different_sizes_are_looked_through)
{
    static const struct {
        const char *form, *operation, *result;
    } cases[] = {
        {"all_to_all_list", "all_to_all", "the result holds NaN at index 1 of block 1, 1 in all"},
        {"all_to_all_v", "all_to_all", "the result holds NaN at index 1 of block 1, 1 in all"},
        {"scatter_v", "scatter", "the result holds NaN at index 1, 1 in all"},
    };

    for (size_t i = 0; i < 2 * G_N_ELEMENTS(cases); i++) {
        const bool warn = i % 2;
        const char *operation = cases[i / 2].operation;
        g_autofree char *form = g_strdup_printf("TUTTI_TEST_FORM=%s", cases[i / 2].form);
        g_autofree char *words = g_strdup_printf("#1 %s on rank 1: check: the input holds NaN at "
                                                 "index 1 of block 2, 1 in all",
                                                 operation);
        const char *const env[] = {
            "TUTTI_WRAP=check", warn ? "TUTTI_CHECK=nan=warn" : "TUTTI_CHECK=nan=fail", form, NULL};
        struct ranks *ranks = run("one_block_holds_no_number", backends[i / 2 % 2], env);

        for (int r = 0; r < RANKS; r++)
            expect(ranks, r, warn ? "TUTTI_OK" : "TUTTI_ERR_ABORTED", warn ? "" : words);
        cr_expect(!warn || strstr(ranks_result(ranks, 2)->err, cases[i / 2].result), "%s: %s",
                  operation, ranks_result(ranks, 2)->err);
        ranks_free(ranks);
    }
}

/* Also when one member has them in one tensor and another in a list. */
Test(check_wrapper, results_in_lists_and_blocks_of_different_sizes_are_compared)
{
    static const char *const forms[] = {"all_gather_list", "all_gather_v", "mixed"};

    for (size_t i = 0; i < 2 * G_N_ELEMENTS(forms); i++) {
        const bool spoils = i % 2;
        g_autofree char *form = g_strdup_printf("TUTTI_TEST_FORM=%s", forms[i / 2]);
        const char *const env[] = {spoils ? "TUTTI_WRAP=check,spoil" : "TUTTI_WRAP=check",
                                   spoils ? "TUTTI_SPOIL=3" : "TUTTI_TEST_CALLS=20",
                                   "TUTTI_PLUGIN_PATH=" TUTTI_TEST_WRAPPERS, form, NULL};
        struct ranks *ranks = run("blocks_until_one_fails", backends[i / 2 % 2], env);

        for (int r = 0; r < RANKS; r++) {
            expect(ranks, r, spoils ? "TUTTI_ERR_INTERNAL" : "TUTTI_OK",
                   spoils ? "check: the results of #3 all_gather differ: " : "");
            expect(ranks, r, spoils ? "TUTTI_ERR_INTERNAL" : "TUTTI_OK",
                   spoils ? " on rank 1; rank 1 differs from most" : "");
        }
        ranks_free(ranks);
    }
}

/* Of long vectors, too, whose requests, headers and payloads leave together. */
Test(check_wrapper, corrupted_messages_are_found_by_the_results)
{
    for (int sequence = 3; sequence <= 4; sequence++) {
        g_autofree char *fault =
            g_strdup_printf("TUTTI_FAULT=rank=1,op=all_reduce,seq=%d:corrupt", sequence);
        g_autofree char *words =
            g_strdup_printf("check: the results of #%d all_reduce differ: ", sequence);
        const char *const env[] = {"TUTTI_WRAP=check,fault", fault, NULL};
        struct ranks *ranks = run("sums_until_one_fails", "tcp", env);

        for (int r = 0; r < RANKS; r++)
            expect(ranks, r, "TUTTI_ERR_INTERNAL", words);
        ranks_free(ranks);
    }
}

Test(check_wrapper, the_last_call_is_compared_before_the_first_member_leaves)
{
    /* The rank that tells has usually left when it is read. */
    for (int i = 0; i < 10; i++) {
        const char *const env[] = {"TUTTI_WRAP=check,spoil", "TUTTI_SPOIL=1",
                                   "TUTTI_PLUGIN_PATH=" TUTTI_TEST_WRAPPERS, NULL};
        struct ranks *ranks = run("a_last_sum", backends[i % 2], env);

        expect(ranks, 0, "TUTTI_ERR_INTERNAL", "rank 1 differs from most");
        ranks_free(ranks);
    }
}

Test(check_wrapper, nonsense_in_its_options_is_refused_with_its_place)
{
    static const char *const bad[][2] = {{"nan=maybe", "byte 0, \"nan=maybe\""},
                                         {"nan=off,sums=fail", "byte 8, \"sums=fail\""},
                                         {"nan=off,", "byte 8, \"\""},
                                         {"nan", "byte 0, \"nan\""}};

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *levels = g_strdup_printf("TUTTI_CHECK=%s", bad[i][0]);
        const char *const env[] = {"TUTTI_WRAP=check", levels, NULL};
        struct ranks *ranks = run("init_is_refused", "tcp", env);

        expect(ranks, RANKS - 1, "TUTTI_ERR_INVALID_ARGUMENT", bad[i][1]);
        ranks_free(ranks);
    }
}
