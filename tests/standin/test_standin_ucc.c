/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for UCC against jobs that use it directly (ucc_play.c). The cases that a real UCC passes, too,
 * have its name; scripts/check-ucc runs them over one. The others are the stand-in's faults.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/command.h"

TestSuite(standin_ucc, .timeout = 120);

static void played(const char *variables, const char *name, int members, int code,
                   const char *words)
{
    struct ran r = ran("%s " STANDIN_PROGRAMS "/ucc_play " STANDIN_LIBRARY " %s %d 2>&1", variables,
                       name, members);

    cr_expect_eq(r.code, code, "%s %d: %d\n%s", name, members, r.code, r.out);
    if (words)
        CONTAINS(r.out, words);
    ran_free(&r);
}

static void like_a_real_one(const char *name, int most)
{
    for (int members = 1; members <= most; members++)
        played("", name, members, 0, NULL);
}

Test(standin_ucc, computes_every_collective_type_and_operation)
{
    like_a_real_one("grid", 3);
    played("", "grid", 8, 0, NULL);
}

Test(standin_ucc, has_the_rules_of_a_real_one)
{
    like_a_real_one("rounds", 3);
    like_a_real_one("refusals", 3);
    like_a_real_one("empty", 3);
    like_a_real_one("order", 5);
    like_a_real_one("teams", 5);
    like_a_real_one("threads", 3);
    played("", "dead", 3, 0, NULL);
    played("", "absent", 3, 0, NULL);
    played("", "spoilt", 2, 0, NULL);
    played("STANDIN_UCC_F16=waits", "spoilt", 3, 0, NULL);
}

Test(standin_ucc, faults_are_switched_on_by_variables)
{
    played("", "sum", 2, 0, "member 1: Success, sum 2, at once");
    played("STANDIN_UCC_LATE_MS=200", "sum", 2, 0, "member 1: Success, sum 2, late");
    played("STANDIN_UCC_NEVER=allreduce", "sum", 2, 0,
           "member 1: Operation in progress, sum 2, late");
    played("STANDIN_UCC_NEVER=allreduce:2", "sum", 2, 0, "member 0: Success, sum 2, at once");
    played("STANDIN_UCC_NEVER=all STANDIN_UCC_ONLY=1", "sum", 2, 0, "member 0: Success, sum 2");
    played("STANDIN_UCC_FAILS=post", "sum", 2, 0, "member 0: Resources are not available");
    played("STANDIN_UCC_FAILS=operation", "sum", 2, 0, "member 0: Unhandled error");
    played("STANDIN_UCC_FAILS=team", "sum", 2, 1, "team_create_test: Unhandled error");
    played("STANDIN_UCC_FAILS=context", "sum", 2, 1, "context_create: Resources");
    played("STANDIN_UCC_THREADS=single", "threads", 2, 1, "thread mode 0");
    played("STANDIN_UCC_ROUNDS=3", "rounds", 3, 0, NULL);
    played("STANDIN_UCC_VERSION=2.0.0", "sum", 2, 0, "required: 1.0, actual: 2.0.0");
    played("STANDIN_UCC_SAYS=2", "sum", 2, 0, "line 2 that nobody asked for");
    played("UCC_LOG_LEVEL=info", "sum", 2, 0, "COLL_SCORE_MAP");
}
