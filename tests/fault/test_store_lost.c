/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 serves the store, as with MASTER_ADDR and MASTER_PORT, and is not there, or killed while all
 * join. What is told is the same on all that were in tutti_init(): rank 0 is the one that is missing.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "harness/port.h"

enum { RANKS = 4, LATE_MS = 3000 };

static struct ranks *start(const struct fault_way *way, const char *case_name, uint16_t port)
{
    char url[64];

    snprintf(url, sizeof url, "TUTTI_TEST_URL=tcp://127.0.0.1:%u", port);
    return fault_start(way, "rank_fault", case_name, RANKS,
                       (const char *[]){url, "TUTTI_TEST_TIMEOUT_MS=3000", "TUTTI_TEST_VICTIM=0",
                                        "TUTTI_TEST_CALL=barrier", NULL});
}

/* Those for which init was over hear of it in their next call. */
static void expect_rank_0_named(struct ranks *ranks, int after_us, int64_t killed)
{
    char status[64], words[1024], first[1024] = "";

    for (int r = 1; r < RANKS; r++) {
        cr_assert(ranks_wait_rank(ranks, r));
        cr_assert(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        cr_expect_str_eq(status, "TUTTI_ERR_PEER_LOST", "%d us: rank %d: %s", after_us, r, words);
        cr_expect_not_null(strstr(words, "rank 0"), "%d us: rank %d: %s", after_us, r, words);
        if (ranks_point_ns(ranks, r, "open") >= 0)
            continue;
        if (!*first)
            memcpy(first, words, sizeof first);
        cr_expect_str_eq(words, first, "%d us: rank %d: «%s», not «%s»", after_us, r, words, first);
        cr_expect(fault_within(ranks, r, killed, LATE_MS + FAULT_BUDGET_MS));
    }
    fprintf(stderr, "%d us: %s: %s\n", after_us, status, *first ? first : words);
}

static void kill_at(const struct fault_way *way, int after_us)
{
    struct ranks *ranks = start(way, "in_init", port_reserve());

    cr_assert(ranks_reach(ranks, RANKS_ALL, "here"));
    usleep((useconds_t)after_us);
    expect_rank_0_named(ranks, after_us, ranks_signal(ranks, 0, SIGKILL));
    fault_finish(ranks);
}

/* TUTTI_TEST_MOMENTS: how many there are between 0 and 28 ms. */
FAULT_TEST(store_lost, rank_0_killed_while_all_join)
{
    const char *text = getenv("TUTTI_TEST_MOMENTS");
    const int moments = text ? atoi(text) : 6;

    for (int i = 0; i < moments; i++)
        kill_at(way, i * 28000 / moments);
}

/* When the last rank that is asked came there. */
static int64_t last_came(const struct ranks *ranks, const char *point)
{
    int64_t last = -1;

    for (int r = 1; r < RANKS; r++)
        if (ranks_point_ns(ranks, r, point) > last)
            last = ranks_point_ns(ranks, r, point);
    return last;
}

/* All but the last begin together, and have said in the store that they are there. */
FAULT_TEST(store_lost, rank_0_killed_while_it_waits_for_another)
{
    const uint16_t port = port_reserve();
    struct ranks *ranks = start(way, "one_late_in_init", port);
    char name[32];

    cr_assert(ranks_reach(ranks, RANKS_ALL, "here"));
    for (int r = 0; r < RANKS - 1; r++)
        ranks_tell(ranks, r, "go");
    for (int r = 0; r < RANKS - 1; r++) {
        snprintf(name, sizeof name, "offer/%d", r);
        fault_await_key(ranks, port, name);
    }
    int64_t killed = ranks_signal(ranks, 0, SIGKILL);
    for (int r = 1; r < RANKS - 1; r++) {
        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(fault_within(ranks, r, killed, FAULT_BUDGET_MS));
    }
    ranks_tell(ranks, RANKS - 1, "go");
    cr_assert(ranks_reach(ranks, RANKS - 1, "in_init"));
    expect_rank_0_named(ranks, 0, last_came(ranks, "in_init"));
    fault_finish(ranks);
}

Test(store_lost, rank_0_never_comes, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = start(&fault_shm, "one_never_joins", port_reserve());

    cr_assert(ranks_reach(ranks, RANKS_ALL, "here"));
    expect_rank_0_named(ranks, 0, last_came(ranks, "here"));
    ranks_signal(ranks, 0, SIGKILL);
    cr_expect(ranks_wait(ranks));
    fault_finish(ranks);
}
