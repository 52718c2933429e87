/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank is killed or stopped, aborts, or its NCCL fails, while calls are on the streams of GPUs or a communicator is
 * made: the same words on all, in time, and each stream goes on. NCCL notices none of these by itself in time. Over the
 * stand-ins of NCCL and CUDA's driver.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault.h"

enum {
    RANKS = 4,
    VICTIM = 1,
    CALL_MS = 2000,
    INIT_MS = 3000,
    INIT_MS_WITH_INSTRUMENTS = 15000,
    ABORT_MS = 500, /* streams go on behind an abort of NCCL's */
    VERDICT_MS = 200,
    TROUBLE_MS = 6000 /* for a better cause than NCCL's own */
};

static const struct fault_way device = {.name = "nccl", .backend = "cpu:auto,cuda:nccl"};

#define SURROUNDINGS                                                                               \
    "TUTTI_CUDA=" TUTTI_STANDIN_CUDA, "TUTTI_NCCL=" TUTTI_STANDIN_NCCL, "STANDIN_CUDA_DEVICES=4",  \
        "STANDIN_NCCL_FAULT_RANK=1", "TUTTI_TEST_VICTIM=1"

/* A variable is NULL, or NAME=VALUE. */
static struct ranks *start(const char *case_name, const char *what, const char *more)
{
    struct ranks *ranks = fault_start(&device, "rank_device_fault", case_name, RANKS,
                                      (const char *[]){SURROUNDINGS, what, more, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    return ranks;
}

static struct ranks *start_call(const char *call, const char *what, const char *more)
{
    char call_is[48];

    snprintf(call_is, sizeof call_is, "TUTTI_TEST_CALL=%s", call);
    return fault_start(&device, "rank_device_fault", "a_call_is_on_the_streams", RANKS,
                       (const char *[]){SURROUNDINGS, call_is, what, more, NULL});
}

/* A test for a call of NCCL's, and for a group of its messages. */
#define OVER_CALLS(name)                                                                           \
    static void name(const char *call);                                                            \
    Test(device_fault, name##_all_reduce, .timeout = FAULT_TEST_S)                                 \
    {                                                                                              \
        name("all_reduce");                                                                        \
    }                                                                                              \
    Test(device_fault, name##_all_to_all, .timeout = FAULT_TEST_S)                                 \
    {                                                                                              \
        name("all_to_all");                                                                        \
    }                                                                                              \
    static void name(const char *call)

OVER_CALLS(a_rank_is_killed_in_an_issued)
{
    struct ranks *ranks = start_call(call, "TUTTI_TEST_STAYS=1", NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, VICTIM, ranks_signal(ranks, VICTIM, SIGKILL));
}

OVER_CALLS(a_rank_is_stopped_in_an_issued)
{
    struct ranks *ranks = start_call(call, "TUTTI_TEST_STAYS=1", "TUTTI_TEST_CALL_MS=2000");

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect(ranks, &(struct fault_expected){
                            .size = RANKS,
                            .gone = 1u << VICTIM,
                            .status = "TUTTI_ERR_TIMEOUT",
                            .parts = {"timed out after 2000 ms", "it is on its stream"},
                            .from_ns = ranks_signal(ranks, VICTIM, SIGSTOP),
                            .budget_ms = CALL_MS + VERDICT_MS + ABORT_MS + FAULT_BUDGET_MS});
    ranks_signal(ranks, VICTIM, SIGKILL);
    cr_assert(ranks_wait_rank(ranks, VICTIM));
    fault_finish(ranks);
}

/* All others hear the abort of the victim, in its words. */
static void expect_abort(struct ranks *ranks)
{
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << VICTIM,
                                                 .status = "TUTTI_ERR_ABORTED",
                                                 .parts = {"rank 1", "enough"}});
    cr_assert(ranks_wait_rank(ranks, VICTIM));
    fault_finish(ranks);
}

OVER_CALLS(a_rank_aborts_during_an_issued)
{
    expect_abort(start_call(call, "TUTTI_TEST_ABORTS=1", NULL));
}

OVER_CALLS(the_engine_of_a_rank_fails_in_an_issued)
{
    struct ranks *ranks = start_call(call, "STANDIN_NCCL_ASYNC_AT=2", "STANDIN_NCCL_RESULT=3");

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .status = "TUTTI_ERR_PLUGIN",
                                          .parts = {"rank 1", "internal error"},
                                          .from_ns = fault_now_ns(),
                                          .budget_ms = TROUBLE_MS + ABORT_MS + FAULT_BUDGET_MS});
    fault_finish(ranks);
}

/* ---- making a communicator ---- */

static int init_ms(void)
{
    return ranks_have_instruments() ? INIT_MS_WITH_INSTRUMENTS : INIT_MS;
}

/* Until the middle of NCCL's work, which ends by the deadline alone. */
static struct ranks *start_making(void)
{
    char deadline[48];

    snprintf(deadline, sizeof deadline, "TUTTI_TEST_CALL_MS=%d", init_ms());
    struct ranks *ranks = start("a_communicator_is_made", "STANDIN_NCCL_JOIN=7", deadline);
    usleep((useconds_t)init_ms() * 1000 / 5);
    return ranks;
}

Test(device_fault, a_rank_is_killed_while_its_communicator_is_made, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = start_making();

    fault_expect_lost(ranks, RANKS, VICTIM, ranks_signal(ranks, VICTIM, SIGKILL));
}

Test(device_fault, a_rank_is_stopped_while_its_communicator_is_made, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = start_making();

    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u << VICTIM,
                                          .status = "TUTTI_ERR_TIMEOUT",
                                          .from_ns = ranks_signal(ranks, VICTIM, SIGSTOP),
                                          .budget_ms = init_ms() + VERDICT_MS + FAULT_BUDGET_MS});
    ranks_signal(ranks, VICTIM, SIGKILL);
    cr_assert(ranks_wait_rank(ranks, VICTIM));
    fault_finish(ranks);
}

/* NCCL's abort does not return: a thread of the plugin waits for it, and no rank does. */
Test(device_fault, an_abort_of_nccl_that_blocks_delays_no_verdict, .timeout = FAULT_TEST_S)
{
    expect_abort(start_call("all_reduce", "TUTTI_TEST_ABORTS=1", "STANDIN_NCCL_ABORT_MS=2000"));
}

/* ---- calls that differ ---- */

/* After equal calls, a count, an operation, a type, a root, and where the tensor is, in turn; how soon they are found is
 * told. */
Test(device_fault, calls_that_differ_are_found, .timeout = FAULT_TEST_S)
{
    const bool is_long = getenv("TUTTI_TEST_LONG") && !ranks_have_instruments();
    char words[256] = "?";
    struct ranks *ranks =
        fault_start(&device, "rank_device_fault", "calls_that_differ_are_found", 2,
                    (const char *[]){SURROUNDINGS, "TUTTI_STALL_WARNING=0",
                                     is_long ? "TUTTI_TEST_GROUPS=100" : NULL, NULL});

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    for (int r = 0; r < 2; r++) {
        ranks_value(ranks, r, "found_ms", words, sizeof words);
        fprintf(stderr, "%d calls that differ: the slowest of each kind found by rank %d: %s\n",
                is_long ? 100 : 10, r, words);
    }
    fault_finish(ranks);
}

Test(device_fault, with_detail_a_difference_is_found_before_the_launch, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = fault_start(&device, "rank_device_fault",
                                      "with_detail_a_difference_is_found_before_the_launch", 2,
                                      (const char *[]){SURROUNDINGS, NULL});

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    fault_finish(ranks);
}
