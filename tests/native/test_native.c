/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that do whole operations: what they serve, what the core does in their place, and that
 * deadlines, aborts, mismatches and dead members end as they do over messages.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch.h"
#include "harness/stalls.h"

TestSuite(native, .timeout = 400);

#define PLUGINS "TUTTI_PLUGIN_PATH=" TUTTI_TEST_ENGINES

static void run(const char *program, const char *case_name, const char *backend, const char *a,
                const char *b)
{
    const char *const env[] = {PLUGINS, a, a ? b : NULL, NULL};

    cr_expect(ranks_run(&(struct ranks_options){
        .program = program, .case_name = case_name, .size = 3, .backend = backend, .env = env}));
}

Test(native, calls_go_to_the_engine_or_to_the_core_over_its_messages)
{
    run("rank_native", "served_by_the_engine_or_by_the_core", "fake", "FAKE_CORE=fake ", NULL);
}

Test(native, an_engine_without_messages_has_the_core_over_shm_and_tcp)
{
    run("rank_native", "served_by_the_engine_or_by_the_core", "fakesolo", "FAKE_CORE=shm ", NULL);
}

Test(native, the_core_follows_any_number_of_operations_of_an_engine)
{
    run("rank_native", "the_core_serves_after_many_operations_of_the_engine", "fakesolo", NULL,
        NULL);
    run("rank_native", "the_core_serves_after_many_operations_of_the_engine", "fake", NULL, NULL);
    run("rank_native", "the_core_serves_after_many_operations_of_the_engine",
        "auto;all_reduce=fake", NULL, NULL);
}

Test(native, an_engine_serves_where_its_backend_carries_all)
{
    run("rank_native", "served_by_the_engine_or_by_the_core", NULL,
        "TUTTI_BACKEND=local=fake,remote=tcp", "FAKE_CORE=fake ");
}

Test(native, a_rule_leads_to_an_engine)
{
    run("rank_native", "a_rule_leads_to_an_engine", "auto;all_reduce=fake;broadcast=fake", NULL,
        NULL);
}

Test(native, every_form_of_blocks_reaches_the_engine_in_a_row)
{
    static const char *const cases[] = {"gathers_take_every_form", "scatters_take_every_form",
                                        "all_to_all_takes_every_form"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run("rank_blocks", cases[i], "fake", NULL, NULL);
}

Test(native, what_engines_cannot_keep_is_kept_by_the_core)
{
    static const char *const of_reductions[] = {
        "the_fixed_order_gives_the_bits_of_the_tree",
        "operands_of_an_operation_that_does_not_commute_keep_their_order",
        "each_member_multiplies_with_its_own_factor"};

    for (size_t i = 0; i < sizeof of_reductions / sizeof of_reductions[0]; i++)
        run("rank_reduce", of_reductions[i], "fake", NULL, NULL);
    run("rank_batch", "collectives_and_messages_of_a_batch_are_waited_for_together", "fake", NULL,
        NULL);
    run("rank_api", "elements_of_no_known_dtype_are_moved_and_not_reduced", "fake", NULL, NULL);
    run("rank_api", "elements_of_no_known_dtype_are_moved_and_not_reduced", "fake",
        "TUTTI_WRAP=check", NULL);
    run("rank_native", "served_by_the_engine_or_by_the_core", "fake", "TUTTI_WRAP=check",
        "FAKE_CORE=fake ");
}

Test(native, asynchronous_operations_complete_in_order)
{
    run("rank_native", "asynchronous_operations_of_both_kinds_complete_in_order", "fake", NULL,
        NULL);
}

Test(native, all_hear_of_an_engine_that_fails)
{
    run("rank_native", "all_hear_of_an_engine_that_fails", "fake", "TUTTI_FAKE_FAULT=fail 3",
        "TUTTI_FAKE_FAULT_RANK=1");
    run("rank_native", "all_hear_of_an_engine_that_fails", "fake", "TUTTI_FAKE_FAULT=late 3",
        "TUTTI_FAKE_FAULT_RANK=1");
}

/* On rank 0; `words` is what all hear. */
static void lose(const char *fault, const char *words)
{
    const char *const env[] = {PLUGINS, fault, "TUTTI_FAKE_FAULT_RANK=0", words, NULL};

    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_native",
        .case_name = "what_an_engine_says_of_a_lost_member_stands_in_the_verdict",
        .size = 3,
        .backend = "fake",
        .env = env}));
}

Test(native, what_an_engine_says_of_a_lost_member_stands_in_the_verdict)
{
    lose("TUTTI_FAKE_FAULT=cut 3", "FAKE_WORDS=was lost: its connection ended before it left the "
                                   "group (fake: the cable is out)");
    lose("TUTTI_FAKE_FAULT=lost 3", "FAKE_WORDS=rank 0: a member was lost during #3 all_reduce");
}

Test(native, an_operation_that_hangs_ends_at_its_deadline)
{
    run("rank_native", "an_operation_that_hangs_ends_at_its_deadline", "fake",
        "TUTTI_FAKE_FAULT=hang 3", "TUTTI_FAKE_FAULT_RANK=1");
    run("rank_native", "an_operation_that_hangs_ends_at_its_deadline", "fake",
        "TUTTI_FAKE_FAULT=hang 3", "TUTTI_FAKE_DRAIN=1");
    run("rank_native", "an_operation_that_hangs_ends_at_its_deadline", "auto;all_reduce=fake",
        "TUTTI_FAKE_FAULT=hang 3", "TUTTI_FAKE_FAULT_RANK=1");
}

Test(native, an_operation_in_flight_is_let_go_when_its_group_is_destroyed)
{
    run("rank_native", "an_operation_in_flight_is_let_go_when_its_group_is_destroyed", "fake",
        "TUTTI_FAKE_FAULT=hang 3", "TUTTI_FAKE_DRAIN=1");
}

Test(native, a_member_that_does_not_call_is_named)
{
    run("rank_native", "a_member_that_does_not_call_is_named", "fake", NULL, NULL);
}

Test(native, a_mismatch_is_found_where_the_engine_waits_for_ever)
{
    run("rank_native", "a_mismatch_is_found_where_the_engine_waits_for_ever", "fake", NULL, NULL);
}

Test(native, a_mismatch_is_found_where_the_engine_complains_of_what_came)
{
    run("rank_native", "a_mismatch_is_found_where_the_engine_waits_for_ever", "fake",
        "TUTTI_FAKE_COMPLAINS=1", NULL);
}

/* Of an engine that pairs them, as MPI does. */
Test(native, small_calls_that_differ_and_never_wait_are_told_to_all)
{
    static const char *const in[] = {"UNLIKE_IN=kind", "UNLIKE_IN=count", "UNLIKE_IN=dtype",
                                     "UNLIKE_IN=roots_that_wait", "UNLIKE_IN=roots_that_send"};

    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        for (int late = 0; late < 2; late++) {
            const char *const env[] = {PLUGINS, in[i], "TUTTI_FAKE_PAIRS=1",
                                       late ? "UNLIKE_LATE=1" : NULL, NULL};

            cr_expect(
                ranks_run(&(struct ranks_options){.program = "rank_unlike",
                                                  .case_name = "calls_that_differ_are_told_to_all",
                                                  .size = 3,
                                                  .backend = "fake",
                                                  .env = env}),
                "%s%s", in[i], late ? ", late" : "");
        }
}

Test(native, with_detail_calls_are_compared_before_anything_moves)
{
    static const char *const asks[] = {"UNLIKE_ASKS=all", "UNLIKE_ASKS=0", "UNLIKE_ASKS=1",
                                       "UNLIKE_ASKS=2"};

    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        run("rank_unlike", "who_asks_hears_before_anything_moves", "fake", asks[i],
            "TUTTI_FAKE_PAIRS=1");
}

Test(native, with_detail_deadlines_and_losses_end_as_without)
{
    static const char *const cases[] = {"a_member_that_does_not_call_is_named",
                                        "served_by_the_engine_or_by_the_core",
                                        "asynchronous_operations_of_both_kinds_complete_in_order",
                                        "a_mismatch_is_found_where_the_engine_waits_for_ever",
                                        "a_group_made_from_another_has_a_team_of_its_own",
                                        "an_abort_ends_an_operation_in_flight"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run("rank_native", cases[i], "fake", "TUTTI_DEBUG=DETAIL", "FAKE_CORE=fake ");
}

Test(native, an_abort_ends_an_operation_in_flight)
{
    run("rank_native", "an_abort_ends_an_operation_in_flight", "fake", NULL, NULL);
}

Test(native, a_group_made_from_another_has_a_team_of_its_own)
{
    run("rank_native", "a_group_made_from_another_has_a_team_of_its_own", "fake", NULL, NULL);
}

Test(native, members_with_other_engines_or_without_make_no_group)
{
    static const char *const faults[][2] = {
        {"FAKE_ONE=TUTTI_FAKE_VERSION=5.1.0", "FAKE_WORDS=rank 0: Fake 4.2.0; rank 1: Fake 5.1.0"},
        {"FAKE_ONE=TUTTI_FAKE_MISSING=1",
         "FAKE_WORDS=backend fake is not usable on rank 1: fake: libfake.so.4 is not installed"},
        {"FAKE_ONE=TUTTI_FAKE_CLOSED=1", "FAKE_WORDS=rank 1: fake: no device is free"},
    };

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        run("rank_native", "no_group_is_made", "fake", faults[i][0], faults[i][1]);
        run("rank_native", "no_group_is_made", "auto;all_reduce=fake", faults[i][0], faults[i][1]);
    }
}

Test(native, an_engine_gathers_bytes_on_a_thread_while_it_starts)
{
    run("rank_native", "a_group_made_from_another_has_a_team_of_its_own", "fake",
        "TUTTI_FAKE_GATHERS=5", NULL);
}

/* All but the victim hear the words within two seconds of the deadline of init, 1 s. */
static void gathers_fail(const char *fault, int victim, const char *words)
{
    char who[64];
    const char *const env[] = {PLUGINS, "TUTTI_FAKE_GATHERS=3",    fault, who,
                               words,   "TUTTI_TEST_INIT_MS=1000", NULL};

    snprintf(who, sizeof who, "TUTTI_FAKE_FAULT_RANK=%d", victim);
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_native",
                                                              .case_name = "no_group_is_made",
                                                              .size = 4,
                                                              .backend = "fake",
                                                              .env = env});
    cr_assert_not_null(ranks);
    cr_assert(ranks_wait(ranks));
    for (int r = 0; r < 4; r++)
        cr_expect(ranks_result(ranks, r)->passed ||
                      (r == victim && ranks_result(ranks, r)->signal == SIGKILL),
                  "rank %d: %s%s", r, ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
    ranks_free(ranks);
}

Test(native, a_member_killed_in_a_gather_is_named_by_all)
{
    gathers_fail("TUTTI_FAKE_GATHERS_FAULT=dies", 1, "FAKE_WORDS=rank 1 ");
    gathers_fail("TUTTI_FAKE_GATHERS_FAULT=dies", 0, "FAKE_WORDS=rank 0 ");
}

Test(native, a_gather_that_a_member_never_joins_ends_at_the_deadline)
{
    gathers_fail("TUTTI_FAKE_GATHERS_FAULT=never", 2, "FAKE_WORDS=timed out");
}

Test(native, a_gather_of_another_length_is_told_to_all)
{
    gathers_fail("TUTTI_FAKE_GATHERS_FAULT=wide", 3,
                 "FAKE_WORDS=fake: rank 3 gathers 8 bytes where rank 0 gathers 4");
}

Test(native, groups_over_different_backends_live_side_by_side)
{
    run("rank_native", "groups_over_different_backends_live_side_by_side", "tcp", NULL, NULL);
}

Test(native, a_launcher_gives_our_rank_and_carries_the_address)
{
    static const char launched[] = "a_launcher_gives_our_rank_and_carries_the_address";

    run("rank_native", launched, "fake", NULL, NULL);
    run("rank_native", launched, NULL, "TUTTI_BOOTSTRAP=fake", NULL);
    run("rank_native", "what_a_launcher_leaves_open_is_told", "fake", NULL, NULL);
    run("rank_native", "a_launcher_whose_plugin_cannot_be_used_is_named", NULL, NULL, NULL);
}

/* Rank 0 serves the store and is killed; ranks from `late` on come afterwards. */
static void kill_rank_0_of_a_launcher(int late)
{
    enum { SIZE = 4, JOINED_MS = 500, BUDGET_S = 5 };
    static const char lost[] = "TUTTI_ERR_PEER_LOST: rank 0, which serves the store at 127.0.0.1:";
    char variable[32], words[1024], first[1024] = "";

    snprintf(variable, sizeof variable, "TUTTI_TEST_LATE=%d", late);
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_native",
        .case_name = "init_under_a_launcher",
        .size = SIZE,
        .env = (const char *const[]){PLUGINS, "TUTTI_BOOTSTRAP=fake", variable, NULL}});

    cr_assert_not_null(ranks);
    stalls_watch();
    for (int r = 1; r < SIZE; r++)
        cr_assert(ranks_reach(ranks, r, "served"));
    usleep(JOINED_MS * 1000);
    const int64_t killed = ranks_signal(ranks, 0, SIGKILL);
    for (int r = 1; r < late; r++)
        cr_assert(ranks_reach(ranks, r, "returned"));
    for (int r = late; r < SIZE; r++)
        ranks_tell(ranks, r, "go");
    for (int r = 1; r < SIZE; r++) {
        cr_assert(ranks_reach(ranks, r, "returned"));
        cr_assert(ranks_wait_rank(ranks, r));
        cr_assert(ranks_value(ranks, r, "words", words, sizeof words));
        cr_expect_eq(strncmp(words, lost, sizeof lost - 1), 0, "rank %d: %s", r, words);
        if (r == 1)
            memcpy(first, words, sizeof first);
        cr_expect_str_eq(words, first, "rank %d: «%s», not «%s»", r, words, first);
        const int64_t returned = ranks_point_ns(ranks, r, "returned");
        const int64_t took = (returned - killed) / 1000000;
        const int64_t withheld = ranks_withheld_ms(ranks, killed, returned);
        cr_expect(took < BUDGET_S * 1000 + withheld || ranks_have_instruments(),
                  "rank %d: %lld ms, of which the machine withheld %lld", r, (long long)took,
                  (long long)withheld);
    }
    ranks_free(ranks);
}

Test(native, rank_0_killed_before_others_reach_its_store_is_named_by_all)
{
    kill_rank_0_of_a_launcher(1);
}

Test(native, rank_0_of_a_launcher_killed_while_all_join_is_named_by_all)
{
    kill_rank_0_of_a_launcher(3);
}

Test(native, no_thread_of_the_core_calls_a_plugin_that_wants_callers_only)
{
    run("rank_native", "works_of_callers_only_advance_in_the_programs_threads", "fakecallers", NULL,
        NULL);
    run("rank_native", "asynchronous_operations_of_both_kinds_complete_in_order", "fakecallers",
        NULL, NULL);
    run("rank_native", "an_abort_ends_an_operation_in_flight", "fakecallers", NULL, NULL);
    run("rank_api", "many_works_in_flight_complete_in_any_order_of_waiting", "fakecallers", NULL,
        NULL);
}

/* How the process left, as the plugin was told. */
static void leaves(const char *case_name, const char *how)
{
    static const char *const env[] = {PLUGINS, "FAKE_TELL=1", "FAKE_CORE=fake ", NULL};
    char words[64] = "";
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_native",
                                                              .case_name = case_name,
                                                              .size = 3,
                                                              .backend = "fake",
                                                              .env = env});

    cr_assert_not_null(ranks);
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    cr_expect(ranks_value(ranks, 2, "left", words, sizeof words));
    cr_expect_str_eq(words, how);
    ranks_free(ranks);
}

Test(native, a_plugin_hears_that_the_process_exits_and_how)
{
    leaves("served_by_the_engine_or_by_the_core", "clean");
    leaves("an_abort_ends_an_operation_in_flight", "not clean");
}

Test(native, a_member_that_is_killed_is_named)
{
    static const char *const env[] = {PLUGINS, NULL};
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_native",
                                            .case_name = "a_member_that_is_killed_is_named",
                                            .size = 3,
                                            .backend = "fake",
                                            .env = env});

    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "ready"));
    ranks_signal(ranks, 1, SIGKILL);
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_result(ranks, 0)->passed && ranks_result(ranks, 2)->passed, "%s%s",
              ranks_result(ranks, 0)->out, ranks_result(ranks, 2)->out);
    ranks_free(ranks);
}
