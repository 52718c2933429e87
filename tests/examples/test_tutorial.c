/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of examples/tutorial, run as their first lines say. */
#include "program.h"

#include <unistd.h>

#include "harness/port.h"

TestSuite(tutorial, .timeout = 400);

static const char *run_ranks(int n, const char *backend, const char *program)
{
    return output_of("%s run -n %d --backend %s %s/%s", TUTTI_COMMAND, n, backend, PROGRAMS,
                     program);
}

Test(tutorial, messages_arrive_by_either_kind_of_call)
{
    for (int b = 0; b < BACKENDS; b++) {
        const char *output = run_ranks(3, backends[b], "send_recv");

        contains(output, "[1] rank 1 has 1\n");
        contains(output, "[1] rank 1 has 2 from rank 0\n");
    }
}

Test(tutorial, every_collective_gives_what_can_be_followed_by_hand)
{
    static const char *const lines[] = {
        "broadcast      7\n",          "reduce         10\n",         "all_reduce     4\n",
        "gather         0 10 20 30\n", "all_gather     1 11 21 31\n", "scatter        100\n",
        "reduce_scatter 4\n",          "all_to_all     0 10 20 30\n",
    };

    for (int b = 0; b < BACKENDS; b++) {
        const char *output = run_ranks(4, backends[b], "collectives");

        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            contains(output, lines[i]);
    }
}

static void run_everywhere(int n, const char *program, const char *const *lines, size_t count)
{
    for (int b = 0; b < BACKENDS; b++) {
        const char *output = run_ranks(n, backends[b], program);

        for (size_t i = 0; i < count; i++)
            contains(output, lines[i]);
    }
}

Test(tutorial, blocks_lie_in_lists_or_are_counted)
{
    static const char *const lines[] = {
        "all_gather       0 10 20 30\n", "gather           0 10 20 30\n",
        "all_to_all       0 10 20 30\n", "scatter          0\n",
        "reduce_scatter   60\n",         "all_gather_v     0 1 1 2 2 2 3 3 3 3\n",
        "all_reduce, or   15\n",         "all_reduce, and  0\n",
        "all_reduce, xor  15\n",         "reduce           15\n",
        "the input still  1\n",          "gather_v         0 1 1 2 2 2 3 3 3 3\n",
        "scatter_v        0\n",          "reduce_scatter_v 0\n",
        "all_to_all_v     0 10 20 30\n", "product          64\n",
        "least            1\n",          "greatest         8\n",
        "average          3\n",
    };

    run_everywhere(4, "lists", lines, sizeof lines / sizeof lines[0]);
}

Test(tutorial, works_are_waited_for_together_or_as_they_come)
{
    static const char *const lines[] = {
        "rank 1 has 0 from its left\n",
        "rank 1 has 2 from its right\n",
        "rank 0 has 4 bytes from rank 1\n",
        "rank 0 has 8 bytes from rank 2\n",
        "rank 0 took its receive back: ",
        "rank 0 has the sums 3 6 9\n",
        "rank 0 received 2 numbers from rank 1\n",
        "rank 0 was called back: the product is 8\n",
    };

    run_everywhere(3, "works", lines, sizeof lines / sizeof lines[0]);
}

Test(tutorial, operations_of_ones_own_reduce)
{
    static const char *const lines[] = {"farthest from zero: -3\n", "weighted sum: 30\n"};

    run_everywhere(4, "own_operation", lines, sizeof lines / sizeof lines[0]);
}

Test(tutorial, a_rank_that_gives_up_tells_all_others_why)
{
    static const char *const lines[] = {"rank 0 goes home: ", "rank 1 goes home: ",
                                        "the input file ends in the middle of a record\n"};

    run_everywhere(3, "give_up", lines, sizeof lines / sizeof lines[0]);
}

Test(tutorial, a_plugin_of_the_program_itself_is_listed_and_used)
{
    static const char *const lines[] = {"count  (linked into the program)\n",
                                        "3 collectives of 48 bytes\n"};

    run_everywhere(2, "own_plugin", lines, sizeof lines / sizeof lines[0]);
}

#ifdef HAVE_DLPACK
Test(tutorial, a_frameworks_tensor_is_imported_and_given_back)
{
    static const char *const lines[] = {"rank 1: the sum is 3\n",
                                        "the framework has its memory back\n"};

    run_everywhere(2, "dlpack", lines, sizeof lines / sizeof lines[0]);
}
#endif

Test(tutorial, a_store_answers_every_call)
{
    static const char *const lines[] = {
        "both keys are there: no\n", "color: reddish\n",  "shape: round\n",
        "shape: still round\n",      "shape: now flat\n", "1 key is left\n"};
    const char *output = output_of("%s/store_calls", PROGRAMS);

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        contains(output, lines[i]);
}

Test(tutorial, the_ring_by_hand_agrees_with_all_reduce)
{
    for (int b = 0; b < BACKENDS; b++)
        contains(run_ranks(3, backends[b], "ring_all_reduce"), "agree, element 1 is 3003\n");
}

Test(tutorial, work_goes_on_behind_a_sum)
{
    for (int b = 0; b < BACKENDS; b++)
        contains(run_ranks(2, backends[b], "overlap"), "rank 1: the sum is 2;");
}

Test(tutorial, a_program_starts_its_own_ranks)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test(
        "AddressSanitizer's allocator may be locked in a child that is forked beside a thread");
#endif
    contains(output_of("%s/spawn 3", PROGRAMS), "rank 2 of 3: the ranks sum up to 3\n");
}

Test(tutorial, ranks_meet_by_each_init_method)
{
    char folder[] = "/tmp/tutti-tutorial-XXXXXX";

    contains(run_ranks(2, "shm", "init_methods"), "rank 1 of 2 met over shm\n");
    contains(run_ranks(2, "shm", "init_methods"), "rank 1 is member 1 of 2 on its host\n");
    cr_assert_not_null(mkdtemp(folder));
    contains(output_of("u=file://%s/meet; p=%s/init_methods; $p \"$u?rank=0&world_size=2\" & "
                       "$p \"$u?rank=1&world_size=2\" && wait $!",
                       folder, PROGRAMS),
             "rank 1 of 2 met over");
    contains(output_of("u=tcp://127.0.0.1:%u; p=%s/init_methods; "
                       "$p \"$u?rank=0&world_size=2\" & $p \"$u?rank=1&world_size=2\" && wait $!",
                       port_reserve(), PROGRAMS),
             "rank 1 of 2 met over");
    rmdir(folder);
}

Test(tutorial, a_store_of_ones_own_serves_program_and_group)
{
    char folder[] = "/tmp/tutti-tutorial-XXXXXX";

    cr_assert_not_null(mkdtemp(folder));
    const char *output =
        output_of("p='%s/own_store %s/store'; $p 0 2 & $p 1 2 && wait $!", PROGRAMS, folder);
    contains(output, "rank 1 read «hello»\n");
    contains(output, "rank 1 of 2: 2 came\n");
    rmdir(folder);
}

Test(tutorial, a_store_of_functions_is_where_threads_meet)
{
    const char *output = output_of("'%s/store_of_functions'", PROGRAMS);

    contains(output, "rank 0 of 2\n");
    contains(output, "rank 1 of 2\n");
}
