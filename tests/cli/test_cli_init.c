/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that end before they have joined the world, under `tutti run` with a long --wait: the launcher knows
 * of it, so the others do not wait for their deadline, and all say the same. TUTTI_TEST_MOMENTS is how many
 * moments of init there are, from 0 to 28 ms, in which a rank is killed. Over MPI the ranks that are left are
 * in MPI_Init, which never returns.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "harness/launch.h"

enum { MOMENTS = 6, MOMENTS_MS = 28 };
/* Far below --wait and the deadline of tutti_init(), and above what a slow machine takes for a whole job. */
enum { SOON_S = 20 };

static const char *const backends[] = {"shm", "tcp"};
static const int victims[] = {0, 2};

/* The ranks of a line that begins with "[1] ", or with "ranks 0,2-3 (3): " or "ranks 0,2: " behind what the
 * report draws. */
static unsigned speakers(const char *line, const char *end)
{
    const char *list = g_strstr_len(line, end - line, "ranks ");
    unsigned ranks = 0;
    int first, last, used;

    if (sscanf(line, "[%d] ", &first) == 1)
        return 1u << first;
    for (list = list ? list + strlen("ranks ") : end; list < end && *list != ' ' && *list != ':';) {
        if (sscanf(list, "%d%n", &first, &used) != 1)
            break;
        list += used;
        last = first;
        if (sscanf(list, "-%d%n", &last, &used) == 1)
            list += used;
        for (; first <= last; first++)
            ranks |= 1u << first;
        list += *list == ',';
    }
    return ranks;
}

/* Whether the three said the same of the victim, folded into a line or each in its own: a rank that says it
 * later than the others is not waited for. */
static bool all_named(const char *text, int victim)
{
    g_autofree char *begin = g_strdup_printf("group world: rank %d ", victim);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    const char *first = NULL;
    unsigned ranks = 0;

    for (char **line = lines; *line; line++) {
        const char *said = strstr(*line, begin);

        if (!said)
            continue;
        if (first && strcmp(first, said) != 0)
            return false;
        first = said;
        ranks |= speakers(*line, said);
    }
    return ranks == (0xfu & ~(1u << victim));
}

static struct ran end_before_init(const char *backend, int victim, const char *how)
{
    return ran("$TUTTI run -n 4 --wait 30 --backend %s -- "
               "sh -c 'test $RANK = %d && { sleep 0.2; %s; }; exec %s/hello'",
               backend, victim, how, TUTTI_TEST_PROGRAMS);
}

static void is_told_at_once(const char *how, const char *words, int code)
{
    for (size_t b = 0; b < G_N_ELEMENTS(backends); b++)
        for (size_t v = 0; v < G_N_ELEMENTS(victims); v++) {
            g_autofree char *who =
                g_strdup_printf("%s: group world: rank %d (host ",
                                victims[v] ? "ranks 0,1,3" : "ranks 1-3 (3)", victims[v]);
            struct ran r = end_before_init(backends[b], victims[v], how);

            cr_expect_eq(r.code, code, "%d\n%s", r.code, r.err);
            cr_expect_lt(r.seconds, SOON_S, "%.1f s\n%s", r.seconds, r.err);
            CONTAINS(r.err, who);
            CONTAINS(r.err, words);
            ran_free(&r);
        }
}

Test(cli_init, a_rank_killed_before_init_is_named_by_all_at_once, .timeout = 120)
{
    is_told_at_once("kill -9 $$", "was lost: it was ended by signal 9 (SIGKILL) before the group",
                    137);
}

Test(cli_init, a_rank_that_exits_before_init_is_named_by_all_at_once, .timeout = 120)
{
    is_told_at_once("exit 3", "was lost: it exited with code 3 before the group", 3);
    is_told_at_once("exit 0", "was lost: it exited with code 0 before the group", 1);
}

Test(cli_init, a_rank_that_exits_with_0_before_init_is_reported_so, .timeout = 60)
{
    for (size_t v = 0; v < G_N_ELEMENTS(victims); v++) {
        struct ran r = end_before_init("shm", victims[v], "exit 0");

        CONTAINS(
            r.err,
            "exited with code 0 before it joined its group; the others failed because of this\n");
        LACKS(r.err, "without leaving its group");
        ran_free(&r);
    }
}

Test(cli_init, a_rank_killed_during_init_is_named_by_all_at_once, .timeout = 600)
{
    const char *given = getenv("TUTTI_TEST_MOMENTS");
    const int moments = given && atoi(given) > 1 ? atoi(given) : MOMENTS;

    for (int i = 0; i < moments; i++) {
        const int victim = victims[i % (int)G_N_ELEMENTS(victims)];
        struct ran r = ran("$TUTTI run -n 4 --wait 30 --backend %s -- sh -c 'test $RANK = %d && "
                           "{ (sleep %.4f; kill -9 $$) & }; exec %s/hello'",
                           backends[i / 2 % (int)G_N_ELEMENTS(backends)], victim,
                           (double)i * MOMENTS_MS / (moments - 1) / 1000, TUTTI_TEST_PROGRAMS);

        cr_expect_lt(r.seconds, SOON_S, "moment %d: %.1f s\n%s", i, r.seconds, r.err);
        if (!strstr(r.err, "finished with code 0") && r.code != 0) /* the world was there */
            cr_expect(all_named(r.err, victim), "moment %d:\n%s", i, r.err);
        ran_free(&r);
    }
}

/* The rank's own process ends, and what it has started is the member. */
Test(cli_init, a_program_that_a_rank_leaves_behind_is_waited_for, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 3 --wait 30 -- sh -c 'test $RANK = 1 || exec %s/hello; "
                       "(sleep 1; exec %s/hello) & exit 0'",
                       TUTTI_TEST_PROGRAMS, TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
    CONTAINS(r.out, "rank 0 of 3");
    CONTAINS(r.out, "rank 2 of 3");
    ran_free(&r);
}

/* It takes no part: the others make a world without it, or number themselves. */
Test(cli_init, a_rank_that_is_no_member_may_end_before_the_others_meet, .timeout = 60)
{
    static const char *const ways[] = {
        "test $RANK = 3 && exit 0; test $RANK = 2 && sleep 1; WORLD_SIZE=3 exec",
        "test $RANK = 0 && exit 0; test $RANK = 2 && sleep 1; "
        "RANK=$((RANK - 1)) WORLD_SIZE=3 exec",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct ran r =
            ran("$TUTTI run -n 4 --wait 30 -- sh -c '%s %s/hello'", ways[i], TUTTI_TEST_PROGRAMS);

        cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
        CONTAINS(r.out, "rank 2 of 3");
        ran_free(&r);
    }
}

/* Their worlds were there: those that go on do not take it for a member that is lost. */
Test(cli_init, a_second_program_runs_in_ranks_after_one_that_some_have_left, .timeout = 60)
{
    struct ran r =
        ran("$TUTTI run -n 4 --wait 30 -- sh -c '%s/hello && test $RANK -lt 3 || exit 0; "
            "sleep 1; TUTTI_RUN_ID=again WORLD_SIZE=3 exec %s/hello'",
            TUTTI_TEST_PROGRAMS, TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 0, "%d\n%s", r.code, r.err);
    CONTAINS(r.out, "rank 2 of 3");
    ran_free(&r);
}

/* ---- over MPI ---- */

/* Skips the test where it cannot run; to be called before anything is allocated. */
static void need_mpi(const char *family)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("AddressSanitizer wants to be loaded before %s", family);
#endif
    struct ran probe =
        ran("TUTTI_MPI=%s $TUTTI run -n 2 --backend mpi %s/hello", family, TUTTI_TEST_PROGRAMS);
    const bool is_here = probe.code == 0;

    ran_free(&probe);
    if (!is_here)
        cr_skip_test("%s is not here", family);
}

static struct ran end_in_mpi_init(const char *family, int victim, int sig, const char *program)
{
    return ran("TUTTI_MPI=%s $TUTTI run -n 4 --wait 30 --stopped 0 --backend mpi -- sh -c "
               "'ENDS_RANK=%d ENDS_SIGNAL=%d LD_PRELOAD=%s exec %s/%s'",
               family, victim, sig, TUTTI_ENDS_IN_MPI_INIT, TUTTI_TEST_PROGRAMS, program);
}

static void is_killed_in_mpi_init(const char *family)
{
    static const int killed[] = {0, 1};

    need_mpi(family);
    for (size_t i = 0; i < G_N_ELEMENTS(killed); i++) {
        g_autofree char *lost =
            g_strdup_printf("%s: group world: rank %d was lost",
                            killed[i] ? "ranks 0,2,3" : "ranks 1-3 (3)", killed[i]);
        struct ran r = end_in_mpi_init(family, killed[i], SIGKILL, "hello");

        cr_expect_eq(r.code, 137, "%d\n%s", r.code, r.err);
        cr_expect_lt(r.seconds, SOON_S, "%.1f s\n%s", r.seconds, r.err);
        CONTAINS(r.err, lost);
        ran_free(&r);
    }
}

Test(cli_init, a_rank_killed_in_mpi_init_is_named_by_all_over_open_mpi, .timeout = 120)
{
    is_killed_in_mpi_init("openmpi");
}

Test(cli_init, a_rank_killed_in_mpi_init_is_named_by_all_over_mpich, .timeout = 120)
{
    is_killed_in_mpi_init("mpich");
}

/* Nobody can tell before the deadline; then the others answer, and it does not. */
Test(cli_init, a_rank_stopped_in_mpi_init_is_named_at_the_deadline, .timeout = 120)
{
    need_mpi("openmpi");
    struct ran r = end_in_mpi_init("openmpi", 1, SIGSTOP, "init_in_vain");

    for (int rank = 0; rank < 4; rank++) {
        g_autofree char *said =
            g_strdup_printf("[%d] TUTTI_ERR_TIMEOUT: group world: rank 0", rank);

        cr_expect_eq(!strstr(r.out, said), rank == 1, "%s", r.out);
    }
    CONTAINS(r.out, "no answer from rank 1\n");
    ran_free(&r);
}
