/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces as hosts, and links between them that are cut without either side being told.
 * A host that is cut off is lost within 5 s, and 1 for the scheduler; one that only computes is
 * not.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "harness/net.h"
#include "harness/stalls.h"

enum {
    RANKS = 3,
    LINKED = 4,
    FAR = 2,
    LOST_MS = 6000,
    NOTICED_MS = 7500,
    SHORT_MS = 1500,
    CALL_MS = 3000,
    LATE_MS = 1500
};

static struct net *make_net(void)
{
    char reason[256];
    struct net *net = net_create(2, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    return net;
}

/* Ranks 0 and 1 in the one, rank 2 in the other. */
static struct ranks *start(const struct net *net, const char *backend, const char *case_name,
                           const char *const *env)
{
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_fault",
        .case_name = case_name,
        .size = RANKS,
        .backend = backend,
        .env = env,
        .timeout_ms = (FAULT_TEST_S - 5) * 1000,
        .address = net_address(net, 0),
        .netns = (const char *[]){net_name(net, 0), net_name(net, 0), net_name(net, 1)}});

    cr_assert_not_null(ranks);
    stalls_watch();
    return ranks;
}

/* Each side loses the other. */
static void expect_both_sides(struct ranks *ranks, int64_t cut_ns)
{
    char status[64] = "", words[1024] = "";

    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << FAR,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"rank 2 (", "was lost"},
                                                 .from_ns = cut_ns,
                                                 .budget_ms = LOST_MS});
    cr_assert(ranks_wait_rank(ranks, FAR));
    cr_expect(ranks_value(ranks, FAR, "status", status, sizeof status) &&
              ranks_value(ranks, FAR, "words", words, sizeof words));
    cr_expect_str_eq(status, "TUTTI_ERR_PEER_LOST", "%s: %s", status, words);
    cr_expect(strstr(words, "rank 0 (") || strstr(words, "rank 1 ("), "%s", words);
    cr_expect(fault_within(ranks, FAR, cut_ns, LOST_MS));
}

static void cut(const char *backend, const char *case_name, const char *point, const char *call)
{
    struct net *net = make_net();
    char call_is[32];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    struct ranks *ranks = start(net, backend, case_name, (const char *[]){call_is, NULL});
    cr_assert(ranks_reach(ranks, RANKS_ALL, point));
    cr_assert(net_cut(net, 1));
    int64_t cut_ns = fault_now_ns();
    expect_both_sides(ranks, cut_ns);
    fault_finish(ranks);
    net_destroy(net);
}

Test(network, a_host_that_is_cut_off_is_lost_in_barriers_over_tcp, .timeout = FAULT_TEST_S)
{
    cut("tcp", "calls_for_ever", "running", "barrier");
}

Test(network, a_host_that_is_cut_off_is_lost_in_large_all_reduces_over_tcp, .timeout = FAULT_TEST_S)
{
    cut("tcp", "calls_for_ever", "running", "large");
}

Test(network, a_host_that_is_cut_off_is_lost_in_large_all_reduces_over_gloo,
     .timeout = FAULT_TEST_S)
{
    if (ranks_lack("gloo"))
        cr_skip_test("%s", ranks_lack("gloo"));
    cut("gloo", "calls_for_ever", "running", "large");
}

static void cut_over_ucx(const char *backend, const char *call)
{
    if (ranks_lack("ucx"))
        cr_skip_test("%s", ranks_lack("ucx"));
    cut(backend, "calls_for_ever", "running", call);
}

Test(network, a_host_that_is_cut_off_is_lost_in_barriers_over_ucx, .timeout = FAULT_TEST_S)
{
    cut_over_ucx("ucx", "barrier");
}

Test(network, a_host_that_is_cut_off_is_lost_in_large_all_reduces_over_ucx, .timeout = FAULT_TEST_S)
{
    cut_over_ucx("ucx", "large");
}

Test(network, a_host_that_is_cut_off_is_lost_when_composed_over_ucx, .timeout = FAULT_TEST_S)
{
    cut_over_ucx("local=shm,remote=ucx", "small");
}

Test(network, a_host_that_is_cut_off_is_lost_when_composed, .timeout = FAULT_TEST_S)
{
    cut("auto", "calls_for_ever", "running", "small");
}

/* At `point` nothing waits for "go", or all do. Ranks 2 and 3 share no control connection: only their messages can find that they are cut off. */
static void cut_link(const char *backend, const char *case_name, const char *point,
                     const char *const *env, struct fault_expected expected)
{
    char reason[256];
    struct net *net = net_create(LINKED, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    struct ranks *ranks = ranks_start(
        &(struct ranks_options){.program = "rank_fault",
                                .case_name = case_name,
                                .size = LINKED,
                                .backend = backend,
                                .env = env,
                                .timeout_ms = (FAULT_TEST_S - 5) * 1000,
                                .address = net_address(net, 0),
                                .netns = (const char *[]){net_name(net, 0), net_name(net, 1),
                                                          net_name(net, 2), net_name(net, 3)}});
    cr_assert_not_null(ranks);
    stalls_watch();
    cr_assert(ranks_reach(ranks, RANKS_ALL, point));
    cr_assert(net_cut_link(net, 2, 3));
    expected.size = LINKED;
    expected.from_ns = fault_now_ns();
    ranks_tell(ranks, RANKS_ALL, "go");
    fault_expect(ranks, &expected);
    fault_finish(ranks);
    net_destroy(net);
}

static void cut_link_over_tcp(const char *case_name, const char *point, const char *call,
                              const char *words)
{
    char call_is[32];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    cut_link("tcp", case_name, point, (const char *[]){call_is, NULL},
             (struct fault_expected){
                 .status = "TUTTI_ERR_PEER_LOST",
                 .parts = {"the connection between rank ", "rank 2 (", "rank 3 (", words},
                 .budget_ms = NOTICED_MS});
}

Test(network, a_link_that_is_cut_is_named_on_all_ranks_in_barriers, .timeout = FAULT_TEST_S)
{
    cut_link_over_tcp("calls_for_ever", "running", "barrier", "may be alive");
}

Test(network, a_link_that_is_cut_is_named_on_all_ranks_in_large_calls, .timeout = FAULT_TEST_S)
{
    cut_link_over_tcp("calls_for_ever", "running", "large", "may be alive");
}

Test(network, a_link_that_is_cut_before_the_first_message_is_named_on_all_ranks,
     .timeout = FAULT_TEST_S)
{
    cut_link_over_tcp("calls_when_told", "open", "barrier", "(tcp: cannot connect to 10.77.0.");
}

/* UCX leaves it to the kernel to give up a connection, which takes a quarter of an hour. */
Test(network, a_call_over_a_link_that_is_cut_ends_at_its_deadline_over_ucx, .timeout = FAULT_TEST_S)
{
    if (ranks_lack("ucx"))
        cr_skip_test("%s", ranks_lack("ucx"));
    cut_link("ucx", "calls_for_ever", "running",
             (const char *[]){"TUTTI_TEST_CALL=barrier", "TUTTI_TEST_CALL_MS=3000", NULL},
             (struct fault_expected){.status = "TUTTI_ERR_TIMEOUT",
                                     .parts = {"timed out after 3000 ms", "rank "},
                                     .budget_ms = CALL_MS + LATE_MS});
}

/* The core finds the process first. */
Test(network, a_rank_killed_on_another_host_is_named_over_ucx, .timeout = FAULT_TEST_S)
{
    if (ranks_lack("ucx"))
        cr_skip_test("%s", ranks_lack("ucx"));
    struct net *net = make_net();
    struct ranks *ranks =
        start(net, "ucx", "calls_for_ever", (const char *[]){"TUTTI_TEST_CALL=small", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, FAR, ranks_signal(ranks, FAR, SIGKILL));
    net_destroy(net);
}

/* Short: what was sent is sent again 0.2, 0.6, 1.4 and 3 s later, and then after the 5 s in which a
 * peer must acknowledge. So this leaves 1.5 s for what holds the test itself back. */
Test(network, a_short_cut_changes_nothing, .timeout = FAULT_TEST_S)
{
    struct net *net = make_net();
    struct ranks *ranks = start(net, "auto", "one_computes",
                                (const char *[]){"TUTTI_TEST_CALL=large", "TUTTI_TEST_VICTIM=2",
                                                 "TUTTI_TEST_PAUSE_MS=1000", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_assert(net_cut(net, 1));
    usleep(SHORT_MS * 1000);
    cr_assert(net_mend(net, 1));
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
    net_destroy(net);
}

/* All are between two calls, and the kernel gives connections up on both sides of the cut. Once it has
 * healed, all can tell each other. Rank r is on host `host_of[r]`. */
static void heal(const char *backend, const int *host_of, int cut_off)
{
    enum { HOSTS = 4, CUT_MS = 10000, HEALED_MS = 500 };
    const char *names[HOSTS];
    char reason[256];
    struct net *net = net_create(HOSTS, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    for (int r = 0; r < HOSTS; r++)
        names[r] = net_name(net, host_of[r]);
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_fault",
                                            .case_name = "idle_then_calls",
                                            .size = HOSTS,
                                            .backend = backend,
                                            .timeout_ms = (FAULT_TEST_S - 5) * 1000,
                                            .address = net_address(net, 0),
                                            .netns = names});
    cr_assert_not_null(ranks);
    stalls_watch();
    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_assert(net_cut(net, cut_off));
    usleep(CUT_MS * 1000);
    cr_assert(net_mend(net, cut_off));
    usleep(HEALED_MS * 1000);
    ranks_tell(ranks, RANKS_ALL, "go");
    fault_expect(ranks,
                 &(struct fault_expected){.size = HOSTS,
                                          .status = "TUTTI_ERR_PEER_LOST",
                                          .parts = {"the connection between rank ", "may be alive"},
                                          .from_ns = fault_now_ns(),
                                          .budget_ms = LOST_MS});
    fault_finish(ranks);
    net_destroy(net);
}

static const int apart[] = {0, 1, 2, 3}, in_pairs[] = {0, 0, 1, 1};

Test(network, a_host_cut_off_while_idle_and_back_is_one_verdict_over_tcp, .timeout = FAULT_TEST_S)
{
    heal("tcp", apart, 2);
}

Test(network, the_first_host_cut_off_while_idle_and_back_is_one_verdict, .timeout = FAULT_TEST_S)
{
    heal("tcp", apart, 0);
}

Test(network, a_host_cut_off_while_idle_and_back_is_one_verdict_composed, .timeout = FAULT_TEST_S)
{
    heal("auto", in_pairs, 1);
}

Test(network, a_rank_that_computes_for_10_s_between_calls_is_not_lost, .timeout = FAULT_TEST_S)
{
    struct net *net = make_net();
    struct ranks *ranks = start(net, "tcp", "one_computes",
                                (const char *[]){"TUTTI_TEST_CALL=barrier", "TUTTI_TEST_VICTIM=2",
                                                 "TUTTI_TEST_PAUSE_MS=10000", NULL});

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
    net_destroy(net);
}

Test(network, rank_0_that_computes_for_10_s_is_not_lost, .timeout = FAULT_TEST_S)
{
    struct net *net = make_net();
    struct ranks *ranks = start(net, "auto", "one_computes",
                                (const char *[]){"TUTTI_TEST_CALL=large", "TUTTI_TEST_VICTIM=0",
                                                 "TUTTI_TEST_PAUSE_MS=10000", NULL});

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
    net_destroy(net);
}
