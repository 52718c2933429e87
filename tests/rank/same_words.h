/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of failures over NCCL share. */
#pragma once

#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>

#include "harness/launch.h"

/* When all have come to outlive_rank_1(). */
static inline void kill_rank_1(struct ranks *ranks)
{
    cr_expect(ranks_reach(ranks, RANKS_ALL, "before_death"));
    ranks_signal(ranks, 1, SIGKILL);
}

/* Of three ranks those that live pass, and hear the same. */
static inline void expect_same_words(struct ranks *ranks, bool without_1)
{
    char words[3][512] = {""};

    cr_expect(ranks_wait(ranks) || without_1);
    for (int r = 0; r < 3; r += 1 + without_1) {
        cr_expect(ranks_result(ranks, r)->passed, "%d: %s", r, ranks_result(ranks, r)->out);
        cr_expect(ranks_value(ranks, r, "words", words[r], sizeof words[0]));
        cr_expect_str_eq(words[r], words[0]);
    }
    ranks_free(ranks);
}
