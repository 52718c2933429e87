/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX does to a process, and what is refused before the first message. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "harness/launch.h"

enum { DEADLINE_MS = 30000 };

TestSuite(ucx_process, .timeout = 60);

static void run(const char *case_name, int size, const char *const *env)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_ucx_process",
                                                .case_name = case_name,
                                                .size = size,
                                                .backend = "ucx",
                                                .timeout_ms = DEADLINE_MS,
                                                .env = env}),
              "%s", case_name);
}

Test(ucx_process, a_world_over_ucx_leaves_the_process_as_it_was)
{
    run("a_world_over_ucx_leaves_the_process_as_it_was", 2, NULL);
}

Test(ucx_process, threads_of_ucx_take_no_signals)
{
    run("threads_of_ucx_take_no_signals", 2, NULL);
}

Test(ucx_process, sockets_of_ucx_are_on_one_interface_and_not_inherited)
{
    run("sockets_of_ucx_are_on_one_interface_and_not_inherited", 3,
        (const char *const[]){"TUTTI_UCX_TLS=tcp", NULL});
}

/* UCX prints both on stdout by itself. */
Test(ucx_process, lines_of_ucx_are_in_the_log_and_not_on_stdout)
{
    static const char *const env[][5] = {
        {"TUTTI_UCX_NET_DEVICES=lo,nowhere0", "TUTTI_TEST_LEVEL=warning",
         "TUTTI_TEST_LINE=nowhere0", NULL},
        {"UCX_LOG_LEVEL=info", "TUTTI_DEBUG=INFO", "TUTTI_TEST_LEVEL=info",
         "TUTTI_TEST_LINE=ucx: ", NULL},
    };

    for (size_t i = 0; i < sizeof env / sizeof env[0]; i++)
        cr_expect(ranks_run(&(struct ranks_options){.program = "rank_engine",
                                                    .case_name =
                                                        "lines_of_the_engine_are_in_the_log_only",
                                                    .size = 2,
                                                    .backend = "ucx",
                                                    .timeout_ms = DEADLINE_MS,
                                                    .env = env[i]}),
                  "%s", env[i][0]);
}

Test(ucx_process, a_forked_child_is_refused_and_its_parent_goes_on)
{
    cr_expect(
        ranks_run(&(struct ranks_options){.program = "rank_engine",
                                          .case_name = "a_forked_child_is_refused_by_the_engine",
                                          .size = 2,
                                          .backend = "ucx",
                                          .timeout_ms = DEADLINE_MS}));
}

/* ---- refused --------------------------------------------------------------------------------- */

struct refusal {
    const char *set, *rank, *words;
};

static void expect_refused(const struct refusal *refusal)
{
    char set[512], rank[32], words[512];

    snprintf(set, sizeof set, "TUTTI_TEST_SET=%s", refusal->set);
    snprintf(rank, sizeof rank, "TUTTI_TEST_RANK=%s", refusal->rank);
    snprintf(words, sizeof words, "TUTTI_TEST_WORDS=%s", refusal->words);
    run("init_over_ucx_is_refused_in_words", 3, (const char *const[]){set, rank, words, NULL});
}

Test(ucx_process, a_setting_that_makes_no_sense_is_refused_on_all_ranks)
{
    static const struct refusal refusals[] = {
        {"TUTTI_UCX_TLS=nonsense", "all", "transport 'nonsense' is not available"},
        {"TUTTI_UCX_TLS=nonsense", "1", "transport 'nonsense' is not available"},
        {"TUTTI_UCX_TSL=tcp", "all", "has no setting UCX_TSL; the nearest are TLS,"},
        {"TUTTI_UCX_Tls=tcp", "1", "TUTTI_UCX_Tls is no setting of UCX: use capital letters"},
        {"TUTTI_UCX_RNDV_THRESH=bananas", "2", "TUTTI_UCX_RNDV_THRESH=bananas is not valid"},
        {"TUTTI_UCX_TCP_TX_SEG_SIZE=bananas", "0", "ucx: TUTTI_UCX_TCP_TX_SEG_SIZE"},
        {"UCX_TCP_TX_SEG_SIZE=bananas", "all", "correct or unset the UCX_* variable"},
        {"TUTTI_UCX_MEM_MMAP_HOOK_MODE=none", "all", "set UCX_MEM_MMAP_HOOK_MODE instead"},
        {"TUTTI_UCX_HANDLE_ERRORS=none", "all", "set UCX_HANDLE_ERRORS instead"},
    };

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        expect_refused(&refusals[i]);
}

Test(ucx_process, a_rank_without_ucx_is_named_on_all_ranks)
{
    static const struct refusal refusals[] = {
        {"TUTTI_UCX=/nonexistent/libucp.so.0", "1",
         "backend ucx is not usable on rank 1: ucx: TUTTI_UCX=/nonexistent/libucp.so.0 cannot be "
         "opened"},
        {"TUTTI_UCX=libucp.so.0", "2", "is not valid: use the path of a libucp.so.0"},
    };

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        expect_refused(&refusals[i]);
}

Test(ucx_process, ranks_with_different_versions_of_ucx_make_no_group)
{
    expect_refused(&(struct refusal){
        "TUTTI_UCX=" STAND_IN, "2",
        "rank 2: UCX 1.99.7; the same name and major are needed, and the same minor"});
}

Test(ucx_process, a_second_copy_of_ucx_is_refused_with_both_paths)
{
    run("init_beside_a_ucx_that_is_loaded_is_refused_in_words", 2,
        (const char *const[]){"TUTTI_TEST_UCX=" STAND_IN, "TUTTI_TEST_SET=TUTTI_UCX=" LIBRARY,
                              "TUTTI_TEST_RANK=all", NULL});
}

Test(ucx_process, a_ucx_that_the_program_has_loaded_is_used)
{
    run("a_world_over_ucx_uses_the_library_that_is_loaded", 2,
        (const char *const[]){"TUTTI_TEST_UCX=" LIBRARY, NULL});
}
