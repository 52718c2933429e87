/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper fault: each kind of fault has the outcome that it has in earnest, on every rank, and the
 * same seed the same faults. */
#include <criterion/criterion.h>
#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch.h"

TestSuite(fault_wrapper, .timeout = 400);

enum { RANKS = 3 };

static struct ranks *start_with(const char *third_ms, const char *backend, const char *case_name,
                                const char *rules, int size)
{
    g_autofree char *variable = g_strdup_printf("TUTTI_FAULT=%s", rules);
    const char *const env[] = {"TUTTI_WRAP=fault", variable, third_ms, NULL};
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_faults",
                                                              .case_name = case_name,
                                                              .size = size,
                                                              .backend = backend,
                                                              .env = env});

    cr_assert_not_null(ranks);
    return ranks;
}

static struct ranks *start(const char *backend, const char *case_name, const char *rules, int size)
{
    return start_with(NULL, backend, case_name, rules, size);
}

static char *value(struct ranks *ranks, int rank, const char *name)
{
    char words[2048] = "";

    cr_expect(ranks_value(ranks, rank, name, words, sizeof words), "rank %d tells no %s", rank,
              name);
    return g_strdup(words);
}

/* All ranks but `killed` end with this status, in words that have `part`. */
static void expect_all(const char *backend, const char *rules, int killed, const char *expected,
                       const char *part)
{
    const bool times_out = !strcmp(expected, "TUTTI_ERR_TIMEOUT");
    struct ranks *ranks = start_with(times_out ? "TUTTI_TEST_THIRD_MS=2000" : NULL, backend,
                                     "calls_until_one_fails", rules, RANKS);

    cr_expect(ranks_wait(ranks));
    for (int r = 0; r < RANKS; r++) {
        if (r == killed) {
            cr_expect_eq(ranks_result(ranks, r)->signal, SIGKILL);
            continue;
        }
        g_autofree char *status = value(ranks, r, "status"), *words = value(ranks, r, "words");

        cr_expect_str_eq(status, expected, "%s, %s, rank %d: %s: %s", backend, rules, r, status,
                         words);
        cr_expect_not_null(strstr(words, part), "%s, %s, rank %d: %s", backend, rules, r, words);
        cr_expect(ranks_result(ranks, r)->passed);
    }
    ranks_free(ranks);
}

static int longest_ms(const char *backend, const char *rules)
{
    struct ranks *ranks = start(backend, "calls_until_one_fails", rules, RANKS);
    int longest = 0;

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < RANKS; r++) {
        g_autofree char *status = value(ranks, r, "status"), *ms = value(ranks, r, "ms");

        cr_expect_str_eq(status, "TUTTI_OK");
        longest = MAX(longest, atoi(ms));
    }
    ranks_free(ranks);
    return longest;
}

static const char *const backends[] = {"shm", "tcp"};

Test(fault_wrapper, a_delayed_call_is_late_and_right)
{
    for (size_t b = 0; b < 2; b++) {
        int ms = longest_ms(backends[b], "rank=1,op=all_reduce,seq=2-3:delay=200ms");

        cr_expect_geq(ms, 400, "%s: %d ms", backends[b], ms);
        (void)longest_ms(backends[b], "rank=2,seq=7:kill;op=broadcast:kill;seq=9-:kill");
    }
}

/* Nobody is rank 9 of three: no rank would do what the rule says. */
Test(fault_wrapper, a_rank_that_the_world_does_not_have_is_refused_everywhere)
{
    const char *const env[] = {"TUTTI_WRAP=fault", "TUTTI_FAULT=rank=9:kill", NULL};
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_wrappers",
                                                              .case_name = "init_is_refused",
                                                              .size = RANKS,
                                                              .backend = "tcp",
                                                              .env = env});

    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < RANKS; r++) {
        g_autofree char *words = value(ranks, r, "words");

        cr_expect_not_null(
            strstr(words, "rule 1, byte 0, \"rank=9\": the last rank of this world is 2"),
            "rank %d: %s", r, words);
    }
    ranks_free(ranks);
}

Test(fault_wrapper, a_rule_that_has_met_nothing_is_told_by_the_rank_that_it_is_for)
{
    struct ranks *ranks = start("tcp", "calls_until_one_fails", "rank=1,op=broadcast:kill", RANKS);
    const char *told = "rule \"rank=1,op=broadcast:kill\" has met no call";

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < RANKS; r++) {
        const char *words = ranks_result(ranks, r)->err;

        cr_expect_eq(strstr(words, told) != NULL, r == 1, "rank %d: %s", r, words);
    }
    ranks_free(ranks);
}

Test(fault_wrapper, a_delayed_message_is_late_and_right)
{
    int ms = longest_ms("tcp", "rank=1,peer=0:delay=40ms");

    cr_expect_geq(ms, 40 * 5, "%d ms", ms);
}

Test(fault_wrapper, a_delayed_call_holds_back_its_group_alone)
{
    for (size_t b = 0; b < 2; b++) {
        struct ranks *ranks = start(backends[b], "messages_go_on_beside_a_call_that_is_delayed",
                                    "rank=1,op=all_reduce:delay=400ms", RANKS);

        cr_expect(ranks_wait(ranks));
        cr_expect(ranks_passed(ranks));
        ranks_free(ranks);
    }
}

Test(fault_wrapper, a_delay_beyond_the_deadline_is_a_time_out_everywhere)
{
    for (size_t b = 0; b < 2; b++)
        expect_all(backends[b], "rank=1,seq=3:delay=1000s", -1, "TUTTI_ERR_TIMEOUT",
                   "#3 all_reduce 8 x f32, sum timed out");
}

Test(fault_wrapper, a_killed_rank_is_lost_to_the_others)
{
    for (size_t b = 0; b < 2; b++)
        expect_all(backends[b], "rank=1,op=all_reduce,seq=3:kill", 1, "TUTTI_ERR_PEER_LOST",
                   "rank 1");
}

Test(fault_wrapper, a_dropped_message_is_a_time_out_everywhere)
{
    expect_all("tcp", "rank=1,op=all_reduce,seq=3:drop", -1, "TUTTI_ERR_TIMEOUT",
               "timed out after 2000 ms");
}

Test(fault_wrapper, a_closed_way_is_a_lost_member_everywhere)
{
    expect_all("tcp", "rank=1,seq=3:close", -1, "TUTTI_ERR_PEER_LOST", "was lost");
    expect_all("tcp", "rank=1,peer=0,seq=3:close", -1, "TUTTI_ERR_PEER_LOST", "was lost");
}

Test(fault_wrapper, a_way_for_messages_is_closed_on_every_backend)
{
    for (size_t b = 0; b < 2; b++) {
        struct ranks *ranks =
            start(backends[b], "messages_from_one_to_zero", "rank=1,op=send,seq=3:close", 2);

        cr_expect(ranks_wait(ranks));
        cr_expect(ranks_passed(ranks));
        for (int r = 0; r < 2; r++) {
            g_autofree char *status = value(ranks, r, "status");
            cr_expect_str_eq(status, "TUTTI_ERR_PEER_LOST", "%s, rank %d", backends[b], r);
        }
        ranks_free(ranks);
    }
}

static char *messages(const char *backend, const char *rules, const char *what)
{
    struct ranks *ranks = start(backend, "messages_from_one_to_zero", rules, 2);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks), "%s, %s", backend, rules);
    g_autofree char *status = value(ranks, 0, "status");
    char *told = value(ranks, 0, what);
    cr_expect_str_eq(status, "TUTTI_OK", "%s, %s", backend, rules);
    ranks_free(ranks);
    return told;
}

Test(fault_wrapper, the_same_seed_drops_the_same_messages)
{
    for (size_t b = 0; b < 2; b++) {
        g_autofree char *once = messages(backends[b], "op=send,seq=1-32:drop=0.3;seed=7", "came");
        g_autofree char *again = messages(backends[b], "op=send,seq=1-32:drop=0.3;seed=7", "came");
        g_autofree char *other = messages(backends[b], "op=send,seq=1-32:drop=0.3;seed=8", "came");

        cr_expect_str_eq(once, again);
        cr_expect_str_neq(once, other);
        cr_expect_not_null(strchr(once, '+'));
        cr_expect_not_null(strchr(once, '-'));
    }
}

Test(fault_wrapper, one_bit_of_a_corrupted_message_is_changed_and_the_same_one_again)
{
    for (size_t b = 0; b < 2; b++) {
        g_autofree char *once = messages(backends[b], "op=send,seq=3-4:corrupt", "changed");
        g_autofree char *again = messages(backends[b], "op=send,seq=3-4:corrupt", "changed");
        int first = -1, second = -1, bits[2];

        cr_expect_eq(sscanf(once, "%d:%d %d:%d", &first, &bits[0], &second, &bits[1]), 4, "%s",
                     once);
        cr_expect(first == 2 && second == 3, "%s: the third and the fourth message: %s",
                  backends[b], once);
        cr_expect_str_eq(once, again);
    }
}

Test(fault_wrapper, a_delayed_send_is_late_and_right)
{
    for (size_t b = 0; b < 2; b++) {
        g_autofree char *ms = messages(backends[b], "op=send,seq=1-4:delay=50ms", "ms");

        cr_expect_geq(atoi(ms), 200, "%s: %s ms", backends[b], ms);
    }
}
