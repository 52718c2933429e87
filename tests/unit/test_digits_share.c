/* SPDX-License-Identifier: Apache-2.0 */
/* The share of each rank in examples/train_digits. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "share.h"

TestSuite(digits_share, .timeout = 20);

/* Marks every place of the epoch that some rank takes in `step`, and returns how many. */
static uint32_t take_step(uint32_t count, uint32_t batch, uint32_t step, uint32_t ranks,
                          unsigned char *taken)
{
    uint32_t places = 0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct share share = share_of_step(count, batch, step, rank, ranks);

        for (uint32_t at = share.first; at < share.end; at += share.stride, places++) {
            cr_assert_lt(at, count);
            cr_assert_eq(at / batch, step, "place %u is not of step %u", at, step);
            cr_assert_eq(taken[at]++, 0, "two ranks of %u take place %u", ranks, at);
        }
    }
    return places;
}

Test(digits_share, shares_of_1_to_8_ranks_are_disjoint_and_complete)
{
    static const struct {
        uint32_t count, batch;
    } cases[] = {{1438, 32}, {1438, 1438}, {64, 64}, {65, 64}, {7, 3}, {1, 1}, {100, 1}, {9, 5}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t ranks = 1; ranks <= 8; ranks++) {
            const uint32_t count = cases[i].count, batch = cases[i].batch;
            unsigned char *taken = calloc(count, 1);
            uint32_t places = 0;

            for (uint32_t step = 0; step < share_steps(count, batch); step++) {
                uint32_t now = take_step(count, batch, step, ranks, taken);
                cr_assert_eq(now, share_batch(count, batch, step));
                places += now;
            }
            cr_assert_eq(places, count, "%u of %u places taken", places, count);
            free(taken);
        }
}

Test(digits_share, shares_of_a_step_differ_by_one_at_most)
{
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
        for (uint32_t step = 0; step < share_steps(1438, 32); step++) {
            const uint32_t each = share_batch(1438, 32, step) / ranks;

            for (uint32_t rank = 0; rank < ranks; rank++) {
                struct share s = share_of_step(1438, 32, step, rank, ranks);
                uint32_t mine = (s.end - s.first + s.stride - 1) / s.stride;
                cr_assert(mine == each || mine == each + 1);
            }
        }
}

Test(digits_share, the_order_is_a_permutation_that_depends_on_seed_and_epoch)
{
    enum { COUNT = 1438 };
    uint32_t all[COUNT], order[COUNT], again[COUNT];
    unsigned char seen[2 * COUNT] = {0};

    for (uint32_t i = 0; i < COUNT; i++)
        all[i] = 2 * i;
    share_order(all, COUNT, 1, 0, order);
    for (uint32_t i = 0; i < COUNT; i++)
        cr_assert_eq(seen[order[i]]++, 0);
    cr_assert_neq(memcmp(all, order, sizeof all), 0);

    share_order(all, COUNT, 1, 0, again);
    cr_assert_arr_eq(order, again, sizeof order);
    share_order(all, COUNT, 1, 1, again);
    cr_assert_neq(memcmp(order, again, sizeof order), 0, "epochs have the same order");
    share_order(all, COUNT, 2, 0, again);
    cr_assert_neq(memcmp(order, again, sizeof order), 0, "seeds have the same order");
}
