/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a job dies. Every survivor returns the same words within a second. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "ports.h"

enum { RANKS = 5, MIDDLE = 2 };

static const char *variable(const char *name, const char *value)
{
    static char kept[8][64];
    static int used;
    char *one = kept[used++ % 8];

    snprintf(one, sizeof kept[0], "TUTTI_TEST_%s=%s", name, value);
    return one;
}

static const char *victim_is(int rank)
{
    char number[16];

    snprintf(number, sizeof number, "%d", rank);
    return variable("VICTIM", number);
}

/* While all are in one call after the other. */
static void kill_while_calling(const struct fault_way *way, const char *call, int victim)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "calls_for_ever", RANKS,
                    (const char *[]){variable("CALL", call), victim_is(victim), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, victim, ranks_signal(ranks, victim, SIGKILL));
}

FAULT_TEST_WITH_ENGINES(killed, in_the_middle_of_barriers)
{
    kill_while_calling(way, "barrier", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, in_small_all_reduces)
{
    kill_while_calling(way, "small", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, in_large_all_reduces)
{
    kill_while_calling(way, "large", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, in_large_asynchronous_all_reduces)
{
    kill_while_calling(way, "work", RANKS - 1);
}

FAULT_TEST_WITH_ENGINES(killed, in_large_broadcasts)
{
    kill_while_calling(way, "broadcast", RANKS - 1);
}

FAULT_TEST_WITH_ENGINES(killed, rank_0_in_barriers)
{
    kill_while_calling(way, "barrier", 0);
}

/* Encrypted, over tcp. */
static void kill_while_calling_by_tls(const char *call, int victim)
{
    struct ranks *ranks = fault_start(
        &fault_tcp, "rank_fault", "calls_for_ever", RANKS,
        (const char *[]){variable("CALL", call), victim_is(victim), "TUTTI_TLS=1", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, victim, ranks_signal(ranks, victim, SIGKILL));
}

Test(killed, in_large_all_reduces_that_are_encrypted, .timeout = FAULT_TEST_S)
{
    kill_while_calling_by_tls("large", MIDDLE);
}

Test(killed, rank_0_in_barriers_that_are_encrypted, .timeout = FAULT_TEST_S)
{
    kill_while_calling_by_tls("barrier", 0);
}

FAULT_TEST_WITH_ENGINES(killed, rank_0_in_large_all_reduces)
{
    kill_while_calling(way, "large", 0);
}

/* While the others wait for it. */
static void kill_while_awaited(const struct fault_way *way, const char *call, int victim)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_stays_away", RANKS,
                    (const char *[]){variable("CALL", call), victim_is(victim), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    usleep(200000);
    fault_expect_lost(ranks, RANKS, victim, ranks_signal(ranks, victim, SIGKILL));
}

FAULT_TEST_WITH_ENGINES(killed, while_others_sleep_in_a_barrier)
{
    kill_while_awaited(way, "barrier", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, while_others_sleep_in_a_large_all_reduce)
{
    kill_while_awaited(way, "large", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, while_others_receive_from_it)
{
    kill_while_awaited(way, "message", MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, rank_0_while_others_sleep_in_a_barrier)
{
    kill_while_awaited(way, "barrier", 0);
}

/* Between two calls: the next one fails. */
FAULT_TEST_WITH_ENGINES(killed, when_all_are_idle)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "idle_then_calls", RANKS,
                    (const char *[]){variable("CALL", "small"), victim_is(MIDDLE), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_signal(ranks, MIDDLE, SIGKILL);
    usleep(100000);
    int64_t go = fault_now_ns();
    ranks_tell(ranks, RANKS_ALL, "go");
    fault_expect_lost(ranks, RANKS, MIDDLE, go);
}

/* Its child inherited every socket, which hides the end of the connections. */
FAULT_TEST_WITH_ENGINES(killed, with_a_forked_child_that_lives_on)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "forks_and_calls_for_ever", RANKS,
                    (const char *[]){variable("CALL", "small"), victim_is(MIDDLE), NULL});
    char who[32];

    cr_assert(ranks_reach(ranks, RANKS_ALL, "forked"));
    usleep(100000);
    snprintf(who, sizeof who, "rank %d (", MIDDLE);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << MIDDLE,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {who},
                                                 .from_ns = ranks_signal(ranks, MIDDLE, SIGKILL),
                                                 .budget_ms = FAULT_BUDGET_MS});
    ranks_free(ranks); /* ends the child */
}

FAULT_TEST_WITH_ENGINES(killed, two_at_once)
{
    struct ranks *ranks = fault_start(way, "rank_fault", "calls_for_ever", RANKS,
                                      (const char *[]){variable("CALL", "small"), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t from = ranks_signal(ranks, 0, SIGKILL);
    ranks_signal(ranks, 3, SIGKILL);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << 0 | 1u << 3,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"was lost"},
                                                 .from_ns = from,
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

/* Leaving needs nobody: whether the death is noticed before is a matter of time. */
FAULT_TEST_WITH_ENGINES(killed, while_others_leave)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "leaves", RANKS, (const char *[]){victim_is(MIDDLE), NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    ranks_tell(ranks, RANKS_ALL, "go");
    usleep(1000);
    int64_t from = ranks_signal(ranks, MIDDLE, SIGKILL);
    for (int r = 0; r < RANKS; r++) {
        char status[64] = "", words[1024] = "";

        if (r == MIDDLE)
            continue;
        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(ranks_result(ranks, r)->passed);
        cr_expect(fault_within(ranks, r, from, FAULT_BUDGET_MS));
        ranks_value(ranks, r, "status", status, sizeof status);
        ranks_value(ranks, r, "words", words, sizeof words);
        if (strcmp(status, "TUTTI_OK"))
            cr_expect(!strcmp(status, "TUTTI_ERR_PEER_LOST") && strstr(words, "rank 2 ("), "%s: %s",
                      status, words);
    }
    fault_finish(ranks);
}

/* A rank has dialled rank 0, which listens, and has not accepted yet. */
static void await_guest_of_rank_0(const struct ranks *ranks)
{
    uint16_t ports[PORTS_MAX];
    int guests = 0;

    while (!guests) { /* the test's own deadline ends it */
        const int count = ports_add(ranks_pid(ranks, 0), ports, 0);

        for (int i = 0; i < count; i++)
            guests += ports_connections(ports[i]);
        usleep(1000);
    }
}

/* It has published its offer, and waits for a late rank. Its death is seen by the rank that dials
 * it or, if it is rank 0, by the rank that holds a connection to it. */
static void kill_in_init(const struct fault_way *way, int victim)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "in_init", RANKS,
                    (const char *[]){"TUTTI_TEST_LATE=4", "TUTTI_TEST_TIMEOUT_MS=20000", NULL});
    char who[32];

    for (int r = 0; r < RANKS - 1; r++)
        cr_assert(ranks_reach(ranks, r, "in_init"));
    fault_await_offer(ranks, victim);
    if (victim == 0)
        await_guest_of_rank_0(ranks);
    int64_t from = ranks_signal(ranks, victim, SIGKILL);
    ranks_tell(ranks, RANKS - 1, "go");
    snprintf(who, sizeof who, "rank %d", victim);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"world", who},
                                                 .from_ns = from,
                                                 .budget_ms = FAULT_BUDGET_MS});
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(killed, in_init_after_its_offer)
{
    kill_in_init(way, MIDDLE);
}
FAULT_TEST_WITH_GPUS(killed, in_init_after_its_offer)

FAULT_TEST_WITH_ENGINES(killed, rank_0_in_init_after_its_offer)
{
    kill_in_init(way, 0);
}
FAULT_TEST_WITH_GPUS(killed, rank_0_in_init_after_its_offer)

/*
 * From the moment that it may publish its offer until all call. Before the offer nobody knows it:
 * then init ends at its deadline, and names it as missing. The others come in time: all are started
 * before the first deadline begins, and the late one only waits to be told.
 */
static void kill_at(const struct fault_way *way, int victim, int after_us)
{
    struct ranks *ranks =
        fault_start(way, "rank_fault", "in_init", RANKS,
                    (const char *[]){"TUTTI_TEST_LATE=4", FAULT_TOGETHER,
                                     ranks_have_instruments() ? "TUTTI_TEST_TIMEOUT_MS=3000"
                                                              : "TUTTI_TEST_TIMEOUT_MS=1500",
                                     NULL});
    char status[64], words[1024], first[1024] = "", who[16];

    fault_join_together(ranks);
    for (int r = 0; r < RANKS - 1; r++)
        cr_assert(ranks_reach(ranks, r, "in_init"));
    ranks_tell(ranks, RANKS - 1, "go");
    usleep((useconds_t)after_us);
    int64_t killed = ranks_signal(ranks, victim, SIGKILL);
    snprintf(who, sizeof who, "rank %d", victim);
    for (int r = 0; r < RANKS; r++) {
        if (r == victim)
            continue;
        cr_assert(ranks_wait_rank(ranks, r));
        cr_expect(ranks_result(ranks, r)->passed, "%d us: rank %d: %s", after_us, r,
                  ranks_result(ranks, r)->out);
        cr_assert(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        cr_expect_not_null(strstr(words, who), "%d us: rank %d: %s", after_us, r, words);
        if (!*first)
            memcpy(first, words, sizeof first);
        cr_expect_str_eq(words, first, "%d us: rank %d: «%s», not «%s»", after_us, r, words, first);
        /* A process of another test may listen on the dead leader's port, and is taken for the leader
         * until it ends. rank_0_in_init_after_its_offer measures that message. */
        if (strcmp(status, "TUTTI_ERR_TIMEOUT") && !strstr(words, "it ended before it had decided"))
            cr_expect(fault_within(ranks, r, killed, FAULT_BUDGET_MS), "%d us: %s", after_us,
                      words);
    }
    fprintf(stderr, "%s, %d us: %s: %s\n", way->name, after_us, status, first);
    fault_finish(ranks);
}

static void kill_at_moments(const struct fault_way *way, int victim)
{
    const int factor = ranks_have_instruments() ? 4 : 2;

    for (int after_us = 500; after_us < 40000; after_us *= factor)
        kill_at(way, victim, after_us);
}

FAULT_TEST_WITH_ENGINES(killed, at_any_moment_of_init)
{
    kill_at_moments(way, MIDDLE);
}

FAULT_TEST_WITH_ENGINES(killed, rank_0_at_any_moment_of_init)
{
    kill_at_moments(way, 0);
}
