/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are stopped while a group is made: a member, rank 0 before and after its decision, the one that
 * serves the store. The deadline of the init names a member; a store that goes on in time changes nothing.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "fault.h"
#include "harness/port.h"

enum { RANKS = 5, MIDDLE = 2 };

static struct ranks *begin_init(const struct fault_way *way, const char *url, int timeout_ms,
                                bool served_elsewhere)
{
    char late[32], within[48], where[96];

    snprintf(late, sizeof late, "TUTTI_TEST_LATE=%d", RANKS - 1);
    snprintf(within, sizeof within, "TUTTI_TEST_TIMEOUT_MS=%d", timeout_ms);
    snprintf(where, sizeof where, "TUTTI_TEST_URL=%s", url ? url : "");
    struct ranks *ranks = fault_start(
        way, "rank_fault", "in_init", RANKS,
        (const char *[]){late, within, FAULT_TOGETHER, "TUTTI_TEST_CALL_MS=20000",
                         url ? where : NULL, served_elsewhere ? "TUTTI_STORE_HOST=0" : NULL, NULL});
    fault_join_together(ranks);
    return ranks;
}

/* All but the last one have said in the store that they are there. */
static void await_all_but_the_last(struct ranks *ranks, uint16_t port)
{
    char name[32];

    for (int r = 0; r < RANKS - 1; r++) {
        snprintf(name, sizeof name, "offer/%d", r);
        fault_await_key(ranks, port, name);
    }
}

static int init_ms(void)
{
    return ranks_have_instruments() ? 8000 : 2500;
}

/* Everybody says so, and of nobody else. */
static void expect_no_answer_from(struct ranks *ranks, int victim, int64_t from_ns)
{
    char named[48], words[1024];

    snprintf(named, sizeof named, ": no answer from rank %d", victim);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_TIMEOUT",
                                                 .parts = {"group world", named},
                                                 .from_ns = from_ns,
                                                 .budget_ms = init_ms() + FAULT_BUDGET_MS});
    cr_assert(ranks_value(ranks, victim == 1 ? 0 : 1, "words", words, sizeof words));
    const char *at = strstr(words, named);
    cr_expect(at && !at[strlen(named)], "«%s» names others too", words);
    ranks_signal(ranks, victim, SIGKILL);
    fault_finish(ranks);
}

/* It has made its offer, so the others count on it. */
static void stop_in_init(const struct fault_way *way, const char *url, uint16_t port)
{
    struct ranks *ranks = begin_init(way, url, init_ms(), false);

    await_all_but_the_last(ranks, port);
    ranks_signal(ranks, MIDDLE, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    expect_no_answer_from(ranks, MIDDLE, ranks_point_ns(ranks, RANKS - 1, "in_init"));
}

FAULT_TEST(stopped_init, in_init_is_named_alone)
{
    stop_in_init(way, NULL, 0);
}
FAULT_TEST_WITH_GPUS(stopped_init, in_init_is_named_alone)

/* Its connection to the store holds nobody up. */
FAULT_TEST(stopped_init, in_init_is_named_in_time_by_rank_0_that_serves_the_store)
{
    const uint16_t port = port_reserve();
    char url[64];

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    stop_in_init(way, url, port);
}

FAULT_TEST(stopped_init, rank_0_in_init_before_its_decision_is_named)
{
    struct ranks *ranks = begin_init(way, NULL, init_ms(), false);

    await_all_but_the_last(ranks, 0);
    ranks_signal(ranks, 0, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u,
                                          .status = "TUTTI_ERR_TIMEOUT",
                                          .parts = {"timed out waiting for rank 0 to decide"}});
    ranks_signal(ranks, 0, SIGKILL);
    fault_finish(ranks);
}

/* Another one holds the init up until rank 0 is stopped. */
FAULT_TEST(stopped_init, rank_0_in_init_after_its_decision_is_named)
{
    struct ranks *ranks = begin_init(way, NULL, init_ms(), false);

    await_all_but_the_last(ranks, 0);
    ranks_signal(ranks, MIDDLE, SIGSTOP);
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    fault_await_key(ranks, 0, "decision/1");
    ranks_signal(ranks, 0, SIGSTOP);
    ranks_signal(ranks, MIDDLE, SIGCONT);
    expect_no_answer_from(ranks, 0, ranks_point_ns(ranks, RANKS - 1, "in_init"));
}

/* Longer than any patience but the deadline's was once. */
enum { SILENT_INIT_MS = 3000, SILENT_GROUP_MS = 6000 };

/* The init that was held up comes about, and the group works. */
static void expect_open(struct ranks *ranks)
{
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"), "%s", ranks_result(ranks, 1)->err);
    fault_expect_lost(ranks, RANKS, MIDDLE, ranks_signal(ranks, MIDDLE, SIGKILL));
}

FAULT_TEST(stopped_init, rank_0_that_serves_the_store_in_init_and_goes_on_changes_nothing)
{
    const uint16_t port = port_reserve();
    char url[64];

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    struct ranks *ranks = begin_init(way, url, 60000, false);
    await_all_but_the_last(ranks, port);
    ranks_signal(ranks, 0, SIGSTOP);
    usleep(SILENT_INIT_MS * 1000);
    ranks_signal(ranks, 0, SIGCONT);
    expect_open(ranks);
}

/* A process that does nothing else, as the launcher's. */
static pid_t serve_elsewhere(uint16_t *ret_port)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (!pid) {
        tutti_store_server *server;

        if (tutti_store_server_start("127.0.0.1", 0, &server))
            _exit(1);
        *ret_port = tutti_store_server_port(server);
        if (write(ends[1], ret_port, sizeof *ret_port) != sizeof *ret_port)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], ret_port, sizeof *ret_port), sizeof *ret_port);
    close(ends[0]);
    return pid;
}

/* All but the last one are in init when the process that serves the store is stopped. */
static struct ranks *begin_and_stop_the_store(const struct fault_way *way, pid_t *ret_server)
{
    uint16_t port;
    char url[64];

    *ret_server = serve_elsewhere(&port);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
    struct ranks *ranks = begin_init(way, url, 60000, true);
    await_all_but_the_last(ranks, port);
    kill(*ret_server, SIGSTOP);
    return ranks;
}

FAULT_TEST(stopped_init, a_store_in_init_that_goes_on_changes_nothing)
{
    pid_t server;
    struct ranks *ranks = begin_and_stop_the_store(way, &server);

    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    usleep(SILENT_INIT_MS * 1000);
    kill(server, SIGCONT);
    expect_open(ranks);
    kill(server, SIGKILL);
    cr_expect_eq(waitpid(server, NULL, 0), server);
}

/* It is gone, not slow: nobody waits for the deadline. */
FAULT_TEST(stopped_init, a_store_in_init_that_ends_is_told_at_once)
{
    pid_t server;
    struct ranks *ranks = begin_and_stop_the_store(way, &server);

    usleep(SILENT_INIT_MS * 1000);
    int64_t ended = fault_now_ns();
    kill(server, SIGKILL);
    cr_expect_eq(waitpid(server, NULL, 0), server);
    for (int r = 0; r < RANKS - 1; r++) {
        char status[64];

        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(ranks_value(ranks, r, "status", status, sizeof status));
        cr_expect_str_eq(status, "TUTTI_ERR_STORE");
        cr_expect(fault_within(ranks, r, ended, FAULT_BUDGET_MS));
    }
    ranks_signal(ranks, RANKS - 1, SIGKILL);
    fault_finish(ranks);
}

/* No more than that group is late, and the next one is not. */
FAULT_TEST(stopped_init, rank_0_that_serves_the_store_delays_new_groups_and_ends_none)
{
    char url[80];

    snprintf(url, sizeof url, "TUTTI_TEST_URL=tcp://127.0.0.1:%u", port_reserve());
    struct ranks *ranks = fault_start(way, "rank_group", "others_make_groups", RANKS,
                                      (const char *[]){"TUTTI_TEST_VICTIM=0", url, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_signal(ranks, 0, SIGSTOP);
    for (int r = 1; r < RANKS; r++)
        ranks_tell(ranks, r, "go");
    for (int r = 1; r < RANKS; r++)
        cr_assert(ranks_reach(ranks, r, "making"));
    usleep(SILENT_GROUP_MS * 1000);
    ranks_signal(ranks, 0, SIGCONT);
    ranks_tell(ranks, 0, "go");
    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < RANKS; r++)
        cr_expect(ranks_result(ranks, r)->passed, "rank %d: %s%s", r, ranks_result(ranks, r)->out,
                  ranks_result(ranks, r)->err);
    fault_finish(ranks);
}
