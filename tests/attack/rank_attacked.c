/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that somebody attacks. It works all the time: collectives in the world, whose results are checked.
 * At each word of the test all ranks make a group, which opens listeners and connections of every kind, work
 * in it, and leave it. Rank 0 alone hears the test, and all ranks learn by a collective what it has heard,
 * so the same job runs by hand and under launchers, which give their input to rank 0.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "harness/rank.h"

enum { ELEMENTS = 5000, LAPS_IN_A_GROUP = 5, GO_ON = 1, END = 1 << 16 };

/* What the test has said since: 'n' for another group, 'e' for the end. */
static int64_t heard(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    if (poll(&in, 1, 0) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
        return 0;
    return byte == 'n' ? GO_ON : byte == 'e' ? END : 0;
}

/* A sum whose every element is known; the sum of what the members have to say. */
static int64_t work(tutti_group *group, int rank, int size, int64_t lap, int64_t said)
{
    static int64_t words[ELEMENTS];
    int64_t shape = ELEMENTS, wrong = 0;
    const tutti_tensor tensor = tutti_tensor_1d(words, TUTTI_I64, &shape, ELEMENTS);

    words[0] = said;
    for (int64_t i = 1; i < ELEMENTS; i++)
        words[i] = lap * i + rank;
    require_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    for (int64_t i = 1; i < ELEMENTS; i++)
        wrong += words[i] != size * lap * i + size * (size - 1) / 2;
    check_eq(wrong, 0);
    return words[0];
}

static void work_in_a_group(tutti_group *world, int rank, int size, int64_t phase)
{
    tutti_group *group;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    for (int64_t lap = 1; lap <= LAPS_IN_A_GROUP; lap++)
        check_eq(work(group, rank, size, lap * phase, 1), size);
    check_ok(tutti_group_destroy(group));
}

RANK_CASE(works_until_it_is_told_to_end)
{
    tutti_group *world = rank_init(NULL);
    int64_t phase = 0, said = 0;

    /* mpirun sets no variable that says them. */
    rank = tutti_group_rank(world);
    size = tutti_group_size(world);

    for (int64_t lap = 1; said < END; lap++) {
        said = work(world, rank, size, lap, rank ? 0 : heard());
        if (said == GO_ON || lap == 1) {
            work_in_a_group(world, rank, size, ++phase);
            /* Behind a collective: all have come so far, with right results. */
            check_eq(work(world, rank, size, lap, 1), size);
            if (rank == 0)
                fprintf(stderr, "phase %d is over\n", (int)phase);
        }
        rank_sleep_ms(2);
    }
    check_ok(tutti_group_destroy(world));
}

/* Rank 2 is the one to blame, whatever others say. */
RANK_CASE(a_rank_exits_when_told)
{
    tutti_group *world = rank_init(NULL);

    work_in_a_group(world, rank, size, 1);
    if (rank == 0)
        fprintf(stderr, "phase 1 is over\n");
    for (int64_t lap = 1; work(world, rank, size, lap, rank ? 0 : heard()) < END; lap++)
        rank_sleep_ms(2);
    if (rank == 2)
        _exit(3);
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_PEER_LOST);
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
}

/* Somebody changes the records of the store meanwhile. */
RANK_CASE(begins_or_names_the_record)
{
    const tutti_init_options in_60_s = {sizeof in_60_s, .timeout_ms = 60000};
    tutti_group *world, *group;

    tutti_status status = tutti_init(&in_60_s, &world);
    rank_value("init", "%s: %s", tutti_status_name(status), status ? tutti_last_error() : "");
    if (status)
        return;
    check_eq(work(world, rank, size, 1, 1), size);
    status = tutti_group_new(world, NULL, 0, NULL, &group);
    rank_value("group", "%s: %s", tutti_status_name(status), status ? tutti_last_error() : "");
    if (!status) {
        check_eq(work(group, rank, size, 2, 1), size);
        check_ok(tutti_group_destroy(group));
    }
    (void)tutti_group_destroy(world);
}

/* The last rank is killed. The others go on in a group without it, and keep the one that has failed, while
 * the test tries to take its place. */
RANK_CASE(survivors_stay_after_a_rank_was_killed)
{
    static const int32_t others[] = {0, 1, 2};
    tutti_group *world = rank_init(NULL), *survivors;

    work_in_a_group(world, rank, size, 1);
    require_ok(tutti_group_new(world, others, size - 1, NULL, &survivors));
    rank_point("working");
    if (!survivors)
        rank_await("never");
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_PEER_LOST);
    rank_point("lost");
    for (int64_t lap = 1; work(survivors, rank, size - 1, lap, rank ? 0 : heard()) < END; lap++)
        rank_sleep_ms(2);
    check_ok(tutti_group_destroy(survivors));
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_PEER_LOST);
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
}
