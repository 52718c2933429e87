/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a deadline the rank to blame is the one that hung or was stopped, not those that ended because
 * of it. TUTTI_TEST_RUNS=100 tries each a hundred times.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumps.h"

enum { RANKS = 4, VICTIM = 2, TROUBLE = 3, RUNS = 2, RUNS_S = 7200 };

/* The first line that tells of a culprit tells of the victim. */
static void expect_victim(const struct dumps *dumps, const char *const *classes)
{
    char words[16384], line[64];
    bool told = false;

    cr_expect_eq(dumps_verdict(dumps, words, sizeof words), TROUBLE, "%s", words);
    for (; *classes; classes++) {
        snprintf(line, sizeof line, "  %s: rank %d (host ", *classes, VICTIM);
        const bool named = strstr(words, line) != NULL;
        snprintf(line, sizeof line, "verdict: %s\n", *classes);
        told |= named && strstr(words, line);
    }
    cr_expect(told && !strstr(words, "dead"), "rank %d is not the one: %s", VICTIM, words);
}

static void hang(const struct fault_way *way, bool stop)
{
    struct dumps dumps = dumps_new();
    char deadline[32];

    snprintf(deadline, sizeof deadline, "TUTTI_TEST_CALL_MS=%d",
             ranks_have_instruments() ? 3000 : 500);
    struct ranks *ranks = fault_start(way, "rank_fault", "one_hangs_and_the_others_exit", RANKS,
                                      (const char *[]){dumps.dump_dir, "TUTTI_TEST_CALL=small",
                                                       "TUTTI_TEST_VICTIM=2", deadline, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    if (stop)
        ranks_signal(ranks, VICTIM, SIGSTOP);
    ranks_tell(ranks, RANKS_ALL, "go"); /* their deadlines begin */
    for (int r = 0; r < RANKS; r++)
        cr_assert(r == VICTIM || ranks_wait_rank(ranks, r), "rank %d did not end", r);
    expect_victim(&dumps, stop ? (const char *[]){"stopped", "missing", NULL}
                               : (const char *[]){"late", "missing", NULL});
    if (!stop && !way->mpi) { /* an MPI's launcher ends those that are left */
        cr_expect(dumps_await(&dumps, RANKS));
        expect_victim(&dumps, (const char *[]){"late", NULL});
    } else if (!way->mpi) {
        ranks_signal(ranks, VICTIM, SIGCONT);
        cr_expect(dumps_await(&dumps, RANKS));
        expect_victim(&dumps, (const char *[]){"stopped", "late", NULL});
    }
    if (!ranks_result(ranks, VICTIM)->ended)
        ranks_signal(ranks, VICTIM, SIGKILL);
    (void)ranks_wait(ranks);
    fault_finish(ranks);
    dumps_remove(&dumps);
}

FAULT_TEST_EVERYWHERE(culprit, who_hung_is_named_after_the_others_have_exited)
{
    for (int i = 0; i < RUNS; i++)
        hang(way, false);
}

FAULT_TEST_EVERYWHERE(culprit, who_was_stopped_is_named_after_the_others_have_exited)
{
    for (int i = 0; i < RUNS; i++)
        hang(way, true);
}

/* On every way that is there, as often as is asked. */
Test(culprit, a_rank_that_hung_or_was_stopped_is_named_every_time, .timeout = RUNS_S)
{
    static const struct fault_way *const ways[] = {&fault_shm,  &fault_tcp,     &fault_composed,
                                                   &fault_gloo, &fault_openmpi, &fault_mpich};
    const char *runs = getenv("TUTTI_TEST_RUNS");

    if (!runs)
        cr_skip_test("TUTTI_TEST_RUNS is not set");
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const char *engine = ways[w]->mpi ? ways[w]->mpi : ways[w]->backend;

        if (ranks_lack(engine))
            continue;
        for (int i = 0; i < atoi(runs); i++) {
            hang(ways[w], false);
            hang(ways[w], true);
        }
    }
}
