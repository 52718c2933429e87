/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the wrapper fault disturbs; what happens is told to the test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

/* TUTTI_TEST_THIRD_MS is that of the third sum, for cases in which it times out. */
enum { DEADLINE_MS = 60000, MESSAGES = 32, BYTES = 1000 };

static tutti_status sum(tutti_group *world, int timeout_ms, tutti_work **work)
{
    static float values[8];
    static int64_t count;
    tutti_tensor t = tutti_tensor_1d(values, TUTTI_F32, &count, 8);
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.timeout_ms = timeout_ms;
    return tutti_all_reduce(world, &t, TUTTI_SUM, &options, work);
}

static void tell(tutti_status status)
{
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", status ? tutti_last_error() : "");
}

/* Five sums and a barrier, until one fails. */
RANK_CASE(calls_until_one_fails)
{
    tutti_group *world = rank_init(NULL);
    tutti_status status = TUTTI_OK;
    const char *third = getenv("TUTTI_TEST_THIRD_MS");
    int64_t began = rank_now_ns();

    for (int i = 1; i <= 5 && !status; i++)
        status = sum(world, third && i == 3 ? atoi(third) : DEADLINE_MS, NULL);
    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    rank_value("ms", "%lld", (long long)((rank_now_ns() - began) / 1000000));
    tell(status);
    check_status(tutti_group_destroy(world), status);
}

/* A work that rank 1 holds back does not hold messages back. The messages are a chain from rank 1,
 * carrying when it began: the others may have begun later, and the delay runs from its call. */
RANK_CASE(messages_go_on_beside_a_call_that_is_delayed)
{
    tutti_group *world = rank_init(NULL);
    int64_t count, began = rank_now_ns();
    tutti_tensor chain = tutti_tensor_1d(&began, TUTTI_I64, &count, 1);
    tutti_work *work;
    int32_t done = 1;

    require_ok(sum(world, DEADLINE_MS, &work));
    if (rank != 1)
        check_ok(tutti_recv(world, &chain, (rank + size - 1) % size, 0, NULL, NULL));
    check_ok(tutti_send(world, &chain, (rank + 1) % size, 0, NULL));
    if (rank == 1)
        check_ok(tutti_recv(world, &chain, (rank + size - 1) % size, 0, NULL, NULL));
    check_ok(tutti_work_test(work, &done));
    if (rank_now_ns() - began < 300000000)
        check(!done);
    check_ok(tutti_work_wait(work, 0));
    check(rank_now_ns() - began >= 400000000);
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

/* What happened to a message: '+' it came, '-' it did not. */
static char outcome(tutti_work *work, tutti_status *status)
{
    int32_t done = 0;

    *status = tutti_work_test(work, &done);
    if (!done) {
        check_ok(tutti_work_cancel(work));
        *status = TUTTI_OK;
        return '-';
    }
    return *status ? '-' : '+';
}

/* Rank 1 sends to rank 0; which messages came, and what was changed in them. One that no rule should
 * be about is the last: messages keep their order, so nothing comes after it. It carries when rank 1
 * began, since rank 0 may have begun later. */
RANK_CASE(messages_from_one_to_zero)
{
    tutti_group *world = rank_init(NULL);
    static uint8_t data[MESSAGES + 1][BYTES];
    char came[MESSAGES + 1] = "", changed[512] = "";
    int64_t count, began = rank_now_ns();
    tutti_work *works[MESSAGES];
    tutti_status status = TUTTI_OK;

    if (rank == 1)
        memcpy(data[MESSAGES], &began, sizeof began);
    for (int i = 0; i <= MESSAGES && !status; i++) {
        tutti_tensor t = tutti_tensor_1d(data[i], TUTTI_U8, &count, BYTES);

        if (rank == 1)
            status = tutti_send(world, &t, 0, (uint64_t)i, NULL);
        else if (i < MESSAGES)
            require_ok(tutti_irecv(world, &t, 1, (uint64_t)i, NULL, &works[i]));
        else
            status = tutti_recv(world, &t, 1, (uint64_t)i, NULL, NULL);
    }
    memcpy(&began, data[MESSAGES], sizeof began);
    for (int i = 0; rank == 0 && i < MESSAGES; i++) {
        tutti_status one;
        size_t used = strlen(changed);

        came[i] = outcome(works[i], &one);
        status = status ? status : one;
        for (int b = 0; came[i] == '+' && b < BYTES * 8 && used < sizeof changed - 16; b++)
            if (data[i][b / 8] >> b % 8 & 1)
                used += (size_t)snprintf(changed + used, sizeof changed - used, "%d:%d ", i, b);
        tutti_work_free(works[i]);
    }
    rank_value("came", "%s", came);
    rank_value("changed", "%s", changed);
    rank_value("ms", "%lld", (long long)((rank_now_ns() - began) / 1000000));
    tell(status);
    if (!status)
        check_ok(tutti_barrier(world, NULL, NULL));
    check_status(tutti_group_destroy(world), status);
}
