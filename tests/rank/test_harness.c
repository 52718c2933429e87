/* SPDX-License-Identifier: Apache-2.0 */
/* The harness itself: a rank that fails, dies, hangs or leaves something behind is never taken for one that passed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch.h"
#include "harness/net.h"

TestSuite(harness, .timeout = 400);

static struct ranks *start(const char *case_name, int size, int timeout_ms)
{
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_harness", .case_name = case_name, .size = size, .timeout_ms = timeout_ms});
    cr_assert_not_null(ranks);
    return ranks;
}

/* What the harness says about failures is not what this test's reader wants to see. */
static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_WRONLY);

    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

Test(harness, a_case_that_passes_on_all_ranks_passes)
{
    char words[64];
    struct ranks *ranks = start("passes", 3, 0);

    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    cr_expect(ranks_value(ranks, 2, "who", words, sizeof words));
    cr_expect_str_eq(words, "rank 2 of 3");
    cr_expect(!ranks_value(ranks, 2, "what", words, sizeof words));
    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
    ranks_free(ranks);
}

Test(harness, a_failed_check_is_told_with_its_place_and_values)
{
    struct ranks *ranks = start("fails_on_rank_1", 3, 0);

    be_quiet();
    cr_assert(ranks_wait(ranks));
    cr_expect(!ranks_passed(ranks));
    cr_expect(ranks_result(ranks, 0)->passed && ranks_result(ranks, 2)->passed);

    const struct rank_result *one = ranks_result(ranks, 1);
    cr_expect(one->ended && !one->passed && one->exit_code == 1);
    cr_expect_not_null(strstr(one->out, "@tutti fail rank_harness.c:"));
    cr_expect_not_null(strstr(one->out, " rank is 1, rank == 1 ? 7 : rank is 7\n"), "%s", one->out);
    cr_expect_not_null(strstr(one->out, "\"the words\" lacks \"others\""), "%s", one->out);
    cr_expect_not_null(strstr(one->out, "TUTTI_ERR_TIMEOUT, not TUTTI_OK"), "%s", one->out);
    cr_expect_not_null(strstr(one->out, "@tutti verdict fail fails_on_rank_1 4 4\n"), "%s",
                       one->out);
    cr_expect_eq(ranks_point_ns(ranks, 1, "beyond"), -1);
    cr_expect_gt(ranks_point_ns(ranks, 0, "beyond"), 0);
    ranks_free(ranks);
}

Test(harness, without_a_verdict_nothing_passes)
{
    struct ranks *ranks = start("exits_without_a_verdict", 1, 0);

    be_quiet();
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_result(ranks, 0)->ended && ranks_result(ranks, 0)->exit_code == 0);
    cr_expect(!ranks_passed(ranks));
    ranks_free(ranks);
    cr_expect(!ranks_run(&(struct ranks_options){
        .program = "rank_harness", .case_name = "no_such_case", .size = 2, .backend = "a,b"}));
    cr_expect(!ranks_run(
        &(struct ranks_options){.program = "rank_missing", .case_name = "passes", .size = 1}));
}

Test(harness, a_killed_rank_is_told_from_one_that_ended)
{
    struct ranks *ranks = start("is_killed_on_rank_1", 2, 0);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "ready"));
    int64_t killed = ranks_signal(ranks, 1, SIGKILL);
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_result(ranks, 0)->passed);
    cr_expect_eq(ranks_result(ranks, 1)->signal, SIGKILL);
    cr_expect(ranks_result(ranks, 1)->ended && !ranks_result(ranks, 1)->passed);
    cr_expect_gt(ranks_result(ranks, 1)->ended_ns, killed);
    ranks_free(ranks);
}

Test(harness, a_rank_that_hangs_is_killed_at_the_deadline)
{
    char words[256];
    struct ranks *ranks = start("is_killed_on_rank_1", 2, 500);

    be_quiet();
    cr_expect(!ranks_wait(ranks));
    cr_expect(!ranks_result(ranks, 1)->ended && !ranks_passed(ranks));
    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
    ranks_free(ranks);
}

Test(harness, a_point_that_is_never_reached_ends_the_wait)
{
    struct ranks *ranks = start("fails_on_rank_1", 3, 0);

    be_quiet();
    cr_expect(ranks_reach(ranks, 0, "beyond"));
    cr_expect(!ranks_reach(ranks, 1, "beyond"));
    ranks_free(ranks);
}

Test(harness, ranks_go_on_when_they_are_told)
{
    struct ranks *ranks = start("awaits_a_word", 3, 0);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "ready"));
    ranks_tell(ranks, RANKS_ALL, "something else");
    ranks_tell(ranks, 1, "go");
    cr_assert(ranks_reach(ranks, 1, "gone"));
    cr_expect_eq(ranks_point_ns(ranks, 0, "gone"), -1);
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    ranks_free(ranks);
}

Test(harness, much_output_does_not_block_a_rank)
{
    cr_assert(ranks_run(
        &(struct ranks_options){.program = "rank_harness", .case_name = "says_much", .size = 2}));
}

Test(harness, what_is_left_behind_is_counted_and_cleared)
{
    char words[256];
    struct ranks *ranks = start("leaves_a_child_and_a_file", 2, 0);

    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 2, "%s", words);
    cr_expect_not_null(strstr(words, "file or socket left"), "%s", words);
    ranks_free(ranks);
}

Test(harness, ranks_meet_in_either_store)
{
    for (int store = RANKS_STORE_TCP; store <= RANKS_STORE_FILE; store++)
        cr_expect(
            ranks_run(&(struct ranks_options){.program = "rank_harness",
                                              .case_name = "meets_in_the_store",
                                              .size = 3,
                                              .store = (enum ranks_store)store,
                                              .env = (const char *[]){"TUTTI_EXTRA=extra", NULL},
                                              .host_of = (const char *[]){"a", "b", "b"}}));
}

static int datagram_arrives(struct ranks *ranks, int round)
{
    char go[] = "go0", done[] = "done0", words[16] = "?";

    go[2] = done[4] = (char)('0' + round);
    ranks_tell(ranks, 1, go);
    cr_assert(ranks_reach(ranks, 1, done)); /* it is on its way, or nowhere, when rank 0 looks */
    ranks_tell(ranks, 0, go);
    cr_assert(ranks_reach(ranks, 0, done));
    cr_assert(ranks_value(ranks, 0, done, words, sizeof words));
    return !strcmp(words, "1");
}

Test(harness, namespaces_of_a_dead_process_are_removed)
{
    char reason[256], name[96] = "";
    struct net *net;
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        net = net_create(1, reason, sizeof reason);
        _exit(net && write(ends[1], net_name(net, 0), strlen(net_name(net, 0))) < 0);
    }
    close(ends[1]);
    const bool made = read(ends[0], name, sizeof name - 1) > 0;
    close(ends[0]);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    if (!made || !(net = net_create(1, reason, sizeof reason)))
        cr_skip_test("no network namespaces here");
    cr_expect_eq(net_open(name), -1, "%s is still there", name);
    net_destroy(net);
}

Test(harness, namespaces_are_hosts_whose_links_can_be_cut)
{
    char reason[256], extra[64];
    struct net *net = net_create(2, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    snprintf(extra, sizeof extra, "TUTTI_EXTRA=%s", net_address(net, 0));
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = "rank_harness",
                                .case_name = "sends_a_datagram",
                                .size = 2,
                                .env = (const char *[]){extra, NULL},
                                .address = net_address(net, 0),
                                .netns = (const char *[]){net_name(net, 0), net_name(net, 1)}});
    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "ready"));
    cr_expect(datagram_arrives(ranks, 0));
    cr_assert(net_cut(net, 1));
    cr_expect(!datagram_arrives(ranks, 1));
    cr_assert(net_mend(net, 1));
    cr_expect(datagram_arrives(ranks, 2));
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    ranks_free(ranks);
    net_destroy(net);
}
