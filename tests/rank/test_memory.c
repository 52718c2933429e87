/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "everywhere.h"

TestSuite(memory, .timeout = 400);

#define CASE(name, size)                                                                           \
    Test(memory, name)                                                                             \
    {                                                                                              \
        run_everywhere("rank_memory", #name, size);                                                \
    }

CASE(memory_is_zeroed_and_calls_work_in_it, 3)
CASE(registering_keeps_contents_and_freeing_makes_them_private, 3)
CASE(members_may_differ_in_their_memory, 3)
CASE(uneven_blocks_are_found_wherever_they_lie, 4)
CASE(members_free_their_parts_in_any_order, 3)
CASE(memory_may_be_registered_with_several_groups, 3)
CASE(messages_arrive_from_and_in_any_memory, 3)

static void run(const char *case_name, int size, const char *backends)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_memory",
                                                .case_name = case_name,
                                                .size = size,
                                                .backend = backends,
                                                .timeout_ms = 120000}));
}

Test(memory, a_block_of_another_size_is_a_mismatch)
{
    run("a_block_of_another_size_is_a_mismatch", 2, "shm");
}

Test(memory, memory_that_cannot_be_registered_is_refused_on_all_ranks)
{
    run("memory_that_cannot_be_registered_is_refused_on_all_ranks", 2, "shm,tcp");
}

Test(memory, pieces_that_all_have_freed_make_room)
{
    run("pieces_that_all_have_freed_make_room", 2, "shm,tcp");
}

Test(memory, memory_is_busy_while_a_call_works_in_it)
{
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_memory",
                                            .case_name = "memory_is_busy_while_a_call_works_in_it",
                                            .size = 2,
                                            .backend = "shm"});

    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, 0, "begun"));
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    ranks_free(ranks);
}

Test(memory, memory_is_busy_while_a_message_waits_in_it)
{
    run("memory_is_busy_while_a_message_waits_in_it", 2, "shm");
}

static void kill_one(const char *case_name)
{
    char words[512];
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_memory", .case_name = case_name, .size = 3, .backend = "shm"});

    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    ranks_signal(ranks, 1, SIGKILL);
    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < 3; r++)
        cr_expect(r == 1 || ranks_result(ranks, r)->passed, "rank %d: %s%s", r,
                  ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
    ranks_free(ranks);
}

Test(memory, a_death_leaves_the_memory_usable)
{
    kill_one("a_death_leaves_the_memory_usable");
}

Test(memory, a_death_in_messages_leaves_the_memory_usable)
{
    kill_one("a_death_in_messages_leaves_the_memory_usable");
}
