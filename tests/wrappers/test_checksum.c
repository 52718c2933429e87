/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_CHECKSUM=1 with the wrapper fault, which alters a bit of a message behind the checksums. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "harness/launch.h"

TestSuite(checksum, .timeout = 300);

enum { RANKS = 3 };

static void expect_corrupt(struct ranks *ranks, int rank, const char *words)
{
    char status[64] = "", told[2048] = "";

    (void)ranks_value(ranks, rank, "status", status, sizeof status);
    (void)ranks_value(ranks, rank, "words", told, sizeof told);
    cr_expect_str_eq(status, "TUTTI_ERR_CORRUPT", "rank %d: %s", rank, told);
    cr_expect_not_null(strstr(told, words), "rank %d: %s", rank, told);
    cr_expect_not_null(strstr(told, "cannot go on with rank 1"), "rank %d: %s", rank, told);
}

/* Rank 1 alters one in a hundred of what it sends: headers, sums and payloads. */
static void alter(const char *backend, const char *seed)
{
    char rules[64];

    snprintf(rules, sizeof rules, "TUTTI_FAULT=rank=1:corrupt=0.01;seed=%s", seed);
    const char *const env[] = {"TUTTI_CHECKSUM=1", "TUTTI_WRAP=fault", rules, NULL};
    struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_wrappers",
                                                              .case_name = "sums_until_one_fails",
                                                              .size = RANKS,
                                                              .backend = backend,
                                                              .env = env});
    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks), "%s, seed %s", backend, seed);
    cr_expect(ranks_passed(ranks), "%s, seed %s", backend, seed);
    for (int rank = 0; rank < RANKS; rank++)
        expect_corrupt(ranks, rank, "what came from rank 1 was altered on its way");
    ranks_free(ranks);
}

static const char *const seeds[] = {"1", "2", "3", "4"};

Test(checksum, an_altered_bit_ends_the_group_on_all_ranks)
{
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        alter(i % 2 ? "tcp" : "shm", seeds[i]);
}

Test(checksum, it_is_found_in_what_gloo_carries)
{
    if (ranks_lack("gloo"))
        cr_skip_test("%s", ranks_lack("gloo"));
    alter("gloo", "1");
}
