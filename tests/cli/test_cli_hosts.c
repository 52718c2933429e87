/* SPDX-License-Identifier: Apache-2.0 */
/* bench/hosts: the table, and what is left of its network. Needs root, iproute2 and the kernel's tbf. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum { NOT_POSSIBLE = 77 };

#define HOSTS                                                                                      \
    TUTTI_SOURCE_DIR "/bench/hosts --build " TUTTI_TEST_PROGRAMS "/.. --hosts 2 --rounds 1"

static void skip_where_impossible(struct ran *it)
{
    if (it->code == NOT_POSSIBLE)
        cr_skip_test("%s", it->err);
}

/* Of the script of that process. */
static int namespaces_of(int pid)
{
    struct ran it = ran("ip netns list | grep -c tutti-bench-%d-", pid);
    const int count = atoi(it.out);

    ran_free(&it);
    return count;
}

Test(cli_hosts, the_taken_algorithm_stands_beside_the_best, .timeout = 60)
{
    struct ran it =
        ran(HOSTS " --time 0.02 --sizes 8,64K --verbose broadcast & echo pid $!; wait $!");

    skip_where_impossible(&it);
    cr_assert(it.code == 0 || it.code == 1, "%s%s", it.out, it.err);
    CONTAINS(it.out, "# 2 hosts of 1 ranks, links of 1gbit");
    CONTAINS(it.out, "broadcast            8  binomial ");
    CONTAINS(it.out, "broadcast        65536  binomial ");
    CONTAINS(it.out, "scatter_all_gather ");
    cr_expect_eq(namespaces_of(atoi(strstr(it.out, "pid ") + 4)), 0);
    ran_free(&it);
}

Test(cli_hosts, an_interrupted_run_leaves_no_namespace, .timeout = 60)
{
    struct ran it = ran(HOSTS " --time 30 --sizes 8 broadcast & sleep 2; echo pid $!; "
                              "ip netns list | grep -c tutti-bench-$!-; kill -TERM $!; wait $!");

    skip_where_impossible(&it);
    cr_expect_eq(it.code, 130, "%d: %s%s", it.code, it.out, it.err);
    cr_expect_eq(namespaces_of(atoi(strstr(it.out, "pid ") + 4)), 0);
    ran_free(&it);
}

Test(cli_hosts, a_rank_that_fails_is_told_with_its_words, .timeout = 60)
{
    struct ran it = ran("TUTTI_DEBUG=LOUD " HOSTS " --time 0.02 --sizes 8 broadcast");

    skip_where_impossible(&it);
    cr_expect_eq(it.code, 2, "%s%s", it.out, it.err);
    CONTAINS(it.err, "TUTTI_DEBUG=LOUD");
    ran_free(&it);
}
