/* SPDX-License-Identifier: Apache-2.0 */
/* How many messages of a member are under way at once, in direct algorithms that may be paced (algorithm/direct.h). */
#include <criterion/criterion.h>

#include "algorithm/algorithm.h"
#include "algorithm/direct.h"

TestSuite(paced, .timeout = 30);

enum { MOST_TICKETS = 4 * 64, PACED_FROM = 4096 };

/* The most messages that the steps leave open at once. */
static int most_open(const struct schedule *sched)
{
    bool open[MOST_TICKETS] = {false};
    int count = 0, most = 0;

    for (uint32_t i = 0; i < sched->count; i++) {
        const struct step *step = &sched->steps[i];
        const bool starts = step->kind == STEP_SEND || step->kind == STEP_RECV;

        if (starts || step->kind == STEP_FENCE_TICKET) {
            cr_assert_lt(step->ticket, MOST_TICKETS);
            count += starts - (!starts && open[step->ticket]);
            open[step->ticket] = starts;
        } else if (step->kind == STEP_FENCE) {
            memset(open, 0, sizeof open);
            count = 0;
        }
        most = count > most ? count : most;
    }
    cr_assert_eq(count, 0, "messages are left open");
    return most;
}

static int most_open_of(const struct algorithm *algorithm, int rank, int size, uint64_t bytes)
{
    struct thresholds thresholds = thresholds_standard;
    struct schedule sched = {0};
    const struct request req = {
        .in = place_in_block(0, 0), .out = place_out_block(0, 0), .bytes = bytes};

    thresholds.bytes[THRESHOLD_PACED_MIN] = PACED_FROM;
    schedule_begin(&sched, &thresholds, rank, size, 1, 0, 4);
    algorithm->emit(&sched, &req);
    const int most = most_open(&sched);
    schedule_free(&sched);
    return most;
}

Test(paced, long_messages_of_eight_members_go_two_at_a_time)
{
    for (int size = DIRECT_PACED_MEMBERS; size < 20; size++)
        for (int rank = 0; rank < size; rank++) {
            cr_expect_eq(most_open_of(&all_to_all_direct_algorithm, rank, size, PACED_FROM), 2);
            cr_expect_eq(most_open_of(&scatter_direct_algorithm, rank, size, PACED_FROM),
                         rank ? 1 : 2);
        }
}

Test(paced, short_messages_and_those_of_few_members_go_at_once)
{
    const int few = DIRECT_PACED_MEMBERS - 1, many = DIRECT_PACED_MEMBERS;

    cr_expect_eq(most_open_of(&all_to_all_direct_algorithm, 1, many, PACED_FROM - 4),
                 2 * (many - 1));
    cr_expect_eq(most_open_of(&all_to_all_direct_algorithm, 1, few, PACED_FROM), 2 * (few - 1));
    cr_expect_eq(most_open_of(&scatter_direct_algorithm, 0, many, PACED_FROM - 4), many - 1);
    cr_expect_eq(most_open_of(&scatter_direct_algorithm, 0, few, PACED_FROM), few - 1);
}
