/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world after another, in the same processes and the same place. TUTTI_TEST_LAPS is how often; 20
 * where it is not set.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/launch.h"
#include "harness/port.h"

TestSuite(init, .timeout = 3000);

static void run_again_and_again(int size, const char *backend, bool served_by_rank_0)
{
    char url[64];

    snprintf(url, sizeof url, "TUTTI_TEST_URL=tcp://127.0.0.1:%u", port_reserve());
    cr_expect(ranks_run(
        &(struct ranks_options){.program = "rank_init",
                                .case_name = "init_and_destroy_without_a_pause",
                                .size = size,
                                .backend = backend,
                                .timeout_ms = getenv("TUTTI_TEST_LAPS") ? 2900000 : 120000,
                                .env = (const char *[]){served_by_rank_0 ? url : NULL, NULL}}));
}

Test(init, two_ranks_come_back_to_the_store_of_rank_0)
{
    run_again_and_again(2, "shm", true);
}

Test(init, four_ranks_come_back_to_the_store_of_rank_0)
{
    run_again_and_again(4, "shm", true);
}

Test(init, eight_ranks_come_back_to_the_store_of_rank_0)
{
    run_again_and_again(8, "auto", true);
}

Test(init, ranks_come_back_to_the_store_of_rank_0_over_tcp)
{
    run_again_and_again(4, "tcp", true);
}

Test(init, ranks_come_back_to_a_store_that_stays)
{
    run_again_and_again(4, "shm,tcp", false);
}

static void run(const char *case_name)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_init",
                                                .case_name = case_name,
                                                .size = 3,
                                                .backend = "shm",
                                                .timeout_ms = 60000}));
}

Test(init, a_store_that_is_opened_anew_serves_another_world)
{
    run("a_store_that_is_opened_anew_serves_another_world");
}

Test(init, a_good_init_leaves_the_last_error_alone)
{
    run("a_good_init_leaves_the_last_error_alone");
}

Test(init, worlds_and_groups_of_any_printable_name_meet)
{
    run("worlds_and_groups_of_any_printable_name_meet");
}

Test(init, pairs_of_three_ranks_meet_by_their_names)
{
    run("pairs_of_three_ranks_meet_by_their_names");
}

Test(init, a_member_of_another_protocol_is_told_with_both_versions)
{
    run("a_member_of_another_protocol_is_told_with_both_versions");
}

Test(init, a_decision_of_another_protocol_is_named_by_its_number)
{
    run("a_decision_of_another_protocol_is_named_by_its_number");
}

Test(init, a_store_of_ones_own_makes_worlds_and_groups)
{
    run("a_store_of_ones_own_makes_worlds_and_groups");
}

Test(init, a_store_that_does_not_answer_in_a_pause_is_asked_again)
{
    run("a_store_that_does_not_answer_in_a_pause_is_asked_again");
}

Test(init, groups_share_the_connection_of_a_given_store)
{
    run("groups_share_the_connection_of_a_given_store");
}
