/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only UCC can do wrong, or lack: the faults of the stand-in for it (tests/standin/ucc.c). Whatever happens
 * over any backend is in the other files.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum { RANKS = 4, CALL_MS = 1500, VERDICT_MS = 200 };

#define UCC_TEST_SKIPPED_IF(name, without)                                                         \
    static void fault_ucc_##name(void);                                                            \
    Test(ucc, name, .timeout = FAULT_TEST_S)                                                       \
    {                                                                                              \
        const char *reason = ranks_lack("ucc") ? ranks_lack("ucc") : (without);                    \
                                                                                                   \
        if (reason)                                                                                \
            cr_skip_test("%s", reason);                                                            \
        fault_ucc_##name();                                                                        \
    }                                                                                              \
    static void fault_ucc_##name(void)

#define UCC_TEST(name)                                                                             \
    UCC_TEST_SKIPPED_IF(                                                                           \
        name, getenv("TUTTI_TEST_UCC") ? "only the stand-in for UCC has this fault" : NULL)
/* scripts/check-ucc runs these over a real UCC, too. */
#define UCC_TEST_OVER_ANY(name) UCC_TEST_SKIPPED_IF(name, NULL)

/* ---- ranks that have not the same engine --------------------------------------------------- */

/* `one` and `more` are variables, the first for rank 2 alone. */
static void expect_no_group(const char *one, const char *more, const char *status,
                            const char *first, const char *second)
{
    struct ranks *ranks = fault_start(
        &fault_ucc, "rank_engine", "no_group_is_made", RANKS,
        (const char *[]){"TUTTI_TEST_VICTIM=2", one ? one : more, one ? more : NULL, NULL});

    fault_expect(
        ranks, &(struct fault_expected){.size = RANKS, .status = status, .parts = {first, second}});
    fault_finish(ranks);
}

UCC_TEST(all_hear_of_a_rank_without_the_library)
{
    expect_no_group("TUTTI_TEST_ONE=TUTTI_UCC=/nowhere/libucc.so.1", NULL, "TUTTI_ERR_PLUGIN",
                    "backend ucc is not usable on rank 2", "TUTTI_UCC=/nowhere/libucc.so.1");
}

UCC_TEST(all_hear_of_a_rank_with_another_major_version)
{
    expect_no_group("TUTTI_TEST_ONE=STANDIN_UCC_VERSION=2.0.0", NULL, "TUTTI_ERR_PLUGIN",
                    "backend ucc is not usable on rank 2", "is UCC 2.0.0");
}

UCC_TEST(all_hear_of_a_rank_with_another_minor_version)
{
    expect_no_group("TUTTI_TEST_ONE=STANDIN_UCC_VERSION=1.9.0", NULL, "TUTTI_ERR_MISMATCH",
                    "rank 0 has UCC 1.8", "rank 2 has UCC 1.9");
}

UCC_TEST(all_hear_of_a_rank_that_cannot_make_a_context)
{
    expect_no_group("STANDIN_UCC_ONLY=2", "STANDIN_UCC_FAILS=context", "TUTTI_ERR_PLUGIN", "rank 2",
                    "ucc_context_create");
}

UCC_TEST(all_hear_of_a_rank_that_cannot_make_a_team)
{
    expect_no_group("STANDIN_UCC_ONLY=2", "STANDIN_UCC_FAILS=team", "TUTTI_ERR_PLUGIN", "rank 2",
                    "ucc_team_create");
}

/* ---- sockets of UCX ------------------------------------------------------------------------ */

static const struct fault_way on_two_hosts = {
    .name = "ucc", .backend = "ucc", .host_of = {"a", "a", "b", "b"}};

static int number_told(const struct ranks *ranks, int rank, const char *name)
{
    char words[32];

    cr_assert(ranks_value(ranks, rank, name, words, sizeof words), "rank %d: no %s", rank, name);
    return atoi(words);
}

/* Each rank has sockets of UCX's tcp, or none has. They listen where the ranks meet, at 127.0.0.1. */
static void expect_sockets(struct ranks *ranks, bool has_some)
{
    for (int r = 0; r < RANKS; r++) {
        const int connected = number_told(ranks, r, "connected");
        const int listening = number_told(ranks, r, "listening");

        cr_expect(has_some == (connected > 0) && has_some == (listening > 0),
                  "rank %d: %d connections and %d listeners of UCC", r, connected, listening);
        cr_expect_eq(number_told(ranks, r, "elsewhere"), 0, "rank %d listens elsewhere, too", r);
    }
    fault_finish(ranks);
}

static struct ranks *run_for_sockets(const struct fault_way *way, const char *case_name,
                                     const char *const *variables)
{
    struct ranks *ranks = fault_start(way, "rank_ucc", case_name, RANKS, variables);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    return ranks;
}

UCC_TEST_OVER_ANY(members_on_one_host_need_no_sockets_of_ucc)
{
    expect_sockets(run_for_sockets(&fault_ucc, "sockets_of_a_world", NULL), false);
}

UCC_TEST_OVER_ANY(members_on_two_hosts_are_connected_by_ucc)
{
    expect_sockets(run_for_sockets(&on_two_hosts, "sockets_of_a_world", NULL), true);
}

/* In an earlier world they were on one. */
UCC_TEST_OVER_ANY(members_on_two_hosts_by_now_are_connected_by_ucc)
{
    expect_sockets(run_for_sockets(&fault_ucc, "sockets_of_a_later_world_on_two_hosts", NULL),
                   true);
}

UCC_TEST_OVER_ANY(members_of_one_host_without_common_memory_meet)
{
    struct ranks *ranks =
        run_for_sockets(&fault_ucc, "sockets_of_a_world_without_common_memory", NULL);

    expect_sockets(ranks, number_told(ranks, 0, "apart"));
}

UCC_TEST_OVER_ANY(transports_that_the_user_chooses_stay)
{
    static const char *const variables[] = {"UCC_UCX_TLS=^cma,sysv", "UCX_TLS=^cma"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        expect_sockets(
            run_for_sockets(&fault_ucc, "sockets_of_a_world", (const char *[]){variables[i], NULL}),
            true);
}

UCC_TEST_OVER_ANY(members_on_two_hosts_start_programs_without_its_sockets)
{
    fault_finish(
        run_for_sockets(&on_two_hosts, "programs_that_it_starts_have_no_descriptor_of_ucc", NULL));
}

/* Without tcp on the others, a rank that has nothing else could not reach them. */
UCC_TEST_OVER_ANY(transports_that_one_rank_chooses_reach_all)
{
    expect_sockets(run_for_sockets(&fault_ucc, "sockets_of_a_world",
                                   (const char *[]){"TUTTI_TEST_VICTIM=2",
                                                    "TUTTI_TEST_SET=UCX_TLS=tcp,self", NULL}),
                   true);
}

/* ---- operations ---------------------------------------------------------------------------- */

/* Ranks that sum until an operation fails. */
static void expect_of_sums(const char *const *variables, const char *status, const char *first,
                           const char *second)
{
    struct ranks *ranks = fault_start(
        &fault_ucc, "rank_fault", "calls_for_ever", RANKS,
        (const char *[]){"TUTTI_TEST_CALL=small", "TUTTI_TEST_CALL_MS=1500", "TUTTI_TEST_VICTIM=2",
                         variables[0], variables[0] ? variables[1] : NULL, NULL});

    fault_expect(
        ranks, &(struct fault_expected){.size = RANKS, .status = status, .parts = {first, second}});
    fault_finish(ranks);
}

UCC_TEST(an_operation_that_never_ends_is_over_at_its_deadline)
{
    expect_of_sums((const char *[]){"STANDIN_UCC_NEVER=allreduce:40", NULL}, "TUTTI_ERR_TIMEOUT",
                   "timed out after 1500 ms", NULL);
}

UCC_TEST(all_hear_of_a_rank_whose_operation_never_ends)
{
    expect_of_sums((const char *[]){"STANDIN_UCC_NEVER=allreduce:40", "STANDIN_UCC_ONLY=2"},
                   "TUTTI_ERR_TIMEOUT", "timed out after 1500 ms", "rank 2");
}

UCC_TEST(all_hear_of_a_rank_whose_operation_fails)
{
    expect_of_sums((const char *[]){"STANDIN_UCC_FAILS=operation", "STANDIN_UCC_ONLY=2"},
                   "TUTTI_ERR_PLUGIN", "rank 2", "Unhandled error");
}

UCC_TEST(all_hear_of_a_rank_that_cannot_begin_an_operation)
{
    expect_of_sums((const char *[]){"STANDIN_UCC_FAILS=post", "STANDIN_UCC_ONLY=2"},
                   "TUTTI_ERR_PLUGIN", "rank 2", "Resources are not available");
}

/* A result is there before UCC says so, for longer than a member that dies is looked for. */
UCC_TEST(a_rank_killed_while_statuses_are_late_is_named_by_all)
{
    struct ranks *ranks =
        fault_start(&fault_ucc, "rank_fault", "calls_for_ever", RANKS,
                    (const char *[]){"TUTTI_TEST_CALL=small", "STANDIN_UCC_LATE_MS=30", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, 2, ranks_signal(ranks, 2, SIGKILL));
}

/* ---- lines --------------------------------------------------------------------------------- */

UCC_TEST(a_warning_of_ucc_is_in_the_log_and_not_on_stdout)
{
    struct ranks *ranks =
        fault_start(&fault_ucc, "rank_engine", "lines_of_the_engine_are_in_the_log_only", 2,
                    (const char *[]){"TUTTI_TEST_LEVEL=warning", "STANDIN_UCC_SAYS=2",
                                     "TUTTI_TEST_LINE=ucc: line 2 that nobody asked for", NULL});

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

/* ---- children ------------------------------------------------------------------------------- */

UCC_TEST_OVER_ANY(a_forked_child_is_refused_and_its_parent_goes_on)
{
    struct ranks *ranks =
        fault_start(&fault_ucc, "rank_engine", "a_forked_child_is_refused_by_the_engine", 2, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

/* ---- groups that fail with an operation under way ------------------------------------------ */

static struct ranks *start_groups(const char *case_name, int size, const char *variable)
{
    return fault_start(&fault_ucc, "rank_group", case_name, size,
                       (const char *[]){"TUTTI_TEST_VICTIM=1", variable, NULL});
}

UCC_TEST_OVER_ANY(groups_go_on_while_a_failed_one_is_not_destroyed)
{
    struct ranks *ranks = start_groups("a_failed_group_is_kept", RANKS, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

UCC_TEST_OVER_ANY(a_destroyed_group_ends_the_world_in_words)
{
    struct ranks *ranks = start_groups("a_failed_group_is_destroyed", RANKS, NULL);

    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .status = "TUTTI_ERR_ABORTED",
                                                 .parts = {"a failed group of the same world",
                                                           "Call tutti_init() again"}});
    fault_finish(ranks);
}

/* Its members have a context of their own. */
UCC_TEST_OVER_ANY(a_destroyed_group_of_one_host_does_not_end_the_world)
{
    struct ranks *ranks =
        fault_start(&on_two_hosts, "rank_group", "a_failed_group_of_one_host_is_destroyed", RANKS,
                    (const char *[]){"TUTTI_TEST_VICTIM=1", NULL});

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

UCC_TEST_OVER_ANY(groups_of_one_host_share_a_context)
{
    static const struct fault_way three_and_one = {
        .name = "ucc", .backend = "ucc", .host_of = {"a", "a", "a", "b"}};
    struct ranks *ranks = fault_start(&three_and_one, "rank_group",
                                      "groups_of_one_host_again_and_again", RANKS, NULL);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < RANKS; r++)
        cr_expect_eq(number_told(ranks, r, "descriptors"), 0);
    fault_finish(ranks);
}

/* Some 33 worlds, one after the other. */
UCC_TEST(worlds_that_fail_leave_32_contexts_at_most_over_ucc)
{
    enum { CONTEXTS = 32, DESCRIPTORS = 14 };
    struct ranks *ranks = start_groups("worlds_fail_again_and_again", 2, "TUTTI_TEST_ROUNDS=40");

    fault_expect(ranks, &(struct fault_expected){
                            .size = 2,
                            .status = "TUTTI_ERR_PLUGIN",
                            .parts = {"has made 32 contexts of UCC", "Start a new process"}});
    for (int r = 0; r < 2; r++) {
        cr_expect_eq(number_told(ranks, r, "made"), CONTEXTS);
        cr_expect_leq(number_told(ranks, r, "descriptors"), CONTEXTS * DESCRIPTORS);
    }
    fault_finish(ranks);
}
