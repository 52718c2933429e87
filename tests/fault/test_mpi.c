/* SPDX-License-Identifier: Apache-2.0 */
/* Faults over MPI, which notices none of them itself: in a job of each MPI. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum {
    RANKS = 4,
    MIDDLE = 2,
    CALL_MS = 2000,   /* the deadline */
    INSIDE_MS = 4000, /* the deadline of ranks that have warned, after 1 s, before one is stopped */
    VERDICT_MS = 200, /* a better cause is waited for */
    PASS_OVER_MS = 500 /* the rank that should fix the verdict does not answer */
};

static const struct fault_way openmpi = {.name = "openmpi", .backend = "mpi", .mpi = "openmpi"};
static const struct fault_way mpich = {.name = "mpich", .backend = "mpi", .mpi = "mpich"};

#define MPI_TEST(name)                                                                             \
    static void fault_mpi_##name(const struct fault_way *way);                                     \
    Test(mpi, name##_over_openmpi, .timeout = FAULT_TEST_S)                                        \
    {                                                                                              \
        if (ranks_lack("openmpi"))                                                                 \
            cr_skip_test("%s", ranks_lack("openmpi"));                                             \
        fault_mpi_##name(&openmpi);                                                                \
    }                                                                                              \
    Test(mpi, name##_over_mpich, .timeout = FAULT_TEST_S)                                          \
    {                                                                                              \
        if (ranks_lack("mpich"))                                                                   \
            cr_skip_test("%s", ranks_lack("mpich"));                                               \
        fault_mpi_##name(&mpich);                                                                  \
    }                                                                                              \
    static void fault_mpi_##name(const struct fault_way *way)

static struct ranks *start(const struct fault_way *way, const char *case_name, const char *call,
                           int victim, const char *more)
{
    static char variables[2][64];

    snprintf(variables[0], sizeof variables[0], "TUTTI_TEST_CALL=%s", call);
    snprintf(variables[1], sizeof variables[1], "TUTTI_TEST_VICTIM=%d", victim);
    return fault_start(way, "rank_fault", case_name, RANKS,
                       (const char *[]){variables[0], variables[1], more, NULL});
}

static void kill_while_calling(const struct fault_way *way, const char *call, int victim)
{
    struct ranks *ranks = start(way, "calls_for_ever", call, victim, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect_lost(ranks, RANKS, victim, ranks_signal(ranks, victim, SIGKILL));
}

MPI_TEST(a_rank_killed_in_small_all_reduces_is_named_by_all)
{
    kill_while_calling(way, "small", MIDDLE);
}

MPI_TEST(a_rank_killed_in_large_all_reduces_is_named_by_all)
{
    kill_while_calling(way, "large", MIDDLE);
}

MPI_TEST(rank_0_killed_in_barriers_is_named_by_all)
{
    kill_while_calling(way, "barrier", 0);
}

MPI_TEST(a_rank_killed_while_others_receive_from_it_is_named)
{
    struct ranks *ranks = start(way, "one_stays_away", "message", MIDDLE, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    usleep(200000);
    fault_expect_lost(ranks, RANKS, MIDDLE, ranks_signal(ranks, MIDDLE, SIGKILL));
}

static int budget_of(int victim)
{
    return CALL_MS + VERDICT_MS + (victim ? 0 : PASS_OVER_MS) + FAULT_BUDGET_MS;
}

/* A rank that is stopped before the call is named, for the others have asked it. */
static void stop_before_the_call(const struct fault_way *way, const char *call, int victim)
{
    char variables[2][64], who[32];

    snprintf(variables[0], sizeof variables[0], "TUTTI_TEST_CALL=%s", call);
    snprintf(variables[1], sizeof variables[1], "TUTTI_TEST_VICTIM=%d", victim);
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_stays_away", RANKS,
                    (const char *[]){variables[0], variables[1], "TUTTI_TEST_CALL_MS=2000",
                                     "TUTTI_TEST_TOLD=1", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    const int64_t stopped = ranks_signal(ranks, victim, SIGSTOP);
    ranks_tell(ranks, RANKS_ALL, "go");
    snprintf(who, sizeof who, "waiting for rank %d (", victim);
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u << victim,
                                          .status = "TUTTI_ERR_TIMEOUT",
                                          .parts = {"timed out after 2000 ms", who,
                                                    "process is stopped", "it does not answer"},
                                          .from_ns = stopped,
                                          .budget_ms = budget_of(victim)});
    ranks_signal(ranks, victim, SIGKILL);
    cr_assert(ranks_wait_rank(ranks, victim));
    fault_finish(ranks);
}

MPI_TEST(a_rank_stopped_before_an_all_reduce_is_named_by_all)
{
    stop_before_the_call(way, "small", MIDDLE);
}

MPI_TEST(rank_0_stopped_before_a_barrier_is_named_by_all)
{
    stop_before_the_call(way, "barrier", 0);
}

/* The victim is in the operation, as its neighbour has heard, and cannot do its part before another one
 * comes, which is late; then it is stopped, and the late one comes. `how` is what is known of it in the end. */
static void stop_inside(const struct fault_way *way, int victim, const char *how)
{
    const int late = (victim + 1) % RANKS;
    char variables[3][64], who[32], after[48];

    snprintf(variables[0], sizeof variables[0], "TUTTI_TEST_VICTIM=%d", victim);
    snprintf(variables[1], sizeof variables[1], "TUTTI_TEST_LATE=%d", late);
    snprintf(variables[2], sizeof variables[2], "TUTTI_TEST_CALL_MS=%d", INSIDE_MS);
    snprintf(after, sizeof after, "timed out after %d ms", INSIDE_MS);
    struct ranks *ranks =
        fault_start(way, "rank_fault", "one_is_late", RANKS,
                    (const char *[]){"TUTTI_TEST_CALL=large", variables[0], variables[1],
                                     variables[2], "TUTTI_STALL_WARNING=1", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    for (int r = 0; r < RANKS; r++) /* they know by then which others are in the call */
        cr_assert(r == late || ranks_await_words(ranks, r, ": #2 all_reduce "));
    const int64_t stopped = ranks_signal(ranks, victim, SIGSTOP);
    ranks_tell(ranks, late, "go");
    snprintf(who, sizeof who, "rank %d (", victim);
    struct fault_expected expected = {
        .size = RANKS,
        .gone = 1u << victim,
        .status = "TUTTI_ERR_TIMEOUT",
        .parts = {after, who, how, "has called it, but does not answer"},
        .from_ns = stopped,
        .budget_ms = INSIDE_MS - CALL_MS + budget_of(victim)};
    fault_expect(ranks, &expected);
    ranks_signal(ranks, victim, SIGCONT);
    expected.gone = 0;
    expected.budget_ms = 0;
    fault_expect(ranks, &expected);
    fault_finish(ranks);
}

MPI_TEST(a_rank_stopped_inside_an_all_reduce_is_named_by_all)
{
    stop_inside(way, MIDDLE, "process is stopped");
}

MPI_TEST(rank_0_stopped_inside_an_all_reduce_is_named_by_all)
{
    stop_inside(way, 0, "process is stopped");
}

/* The kernel tells nothing of processes on other hosts: they are asked. */
MPI_TEST(a_rank_stopped_inside_on_another_host_is_named_by_all)
{
    struct fault_way apart = *way;

    memcpy(apart.host_of, (const char *[]){"a", "b", "c", "d"}, RANKS * sizeof apart.host_of[0]);
    stop_inside(&apart, MIDDLE, "mpi, which does not report the rank that it waits for");
}

/* Between two operations, or at any place in one. */
MPI_TEST(a_rank_stopped_while_it_calls_is_named_by_all)
{
    struct ranks *ranks = start(way, "calls_for_ever", "small", MIDDLE, "TUTTI_TEST_CALL_MS=2000");

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    fault_expect(ranks,
                 &(struct fault_expected){.size = RANKS,
                                          .gone = 1u << MIDDLE,
                                          .status = "TUTTI_ERR_TIMEOUT",
                                          .parts = {"timed out after 2000 ms",
                                                    "waiting for rank 2 (", "process is stopped"},
                                          .from_ns = ranks_signal(ranks, MIDDLE, SIGSTOP),
                                          .budget_ms = budget_of(MIDDLE)});
    ranks_signal(ranks, MIDDLE, SIGKILL);
    cr_assert(ranks_wait_rank(ranks, MIDDLE));
    fault_finish(ranks);
}

/* ---- ranks that have not the same engine --------------------------------------------------- */

static void expect_no_group(const struct fault_way *way, const char *one, const char *status,
                            const char *first, const char *second)
{
    const bool is_openmpi = way == &openmpi;
    struct ranks *ranks =
        fault_start(way, "rank_engine", "no_group_is_made", RANKS,
                    (const char *[]){"TUTTI_TEST_VICTIM=2", one,
                                     is_openmpi ? "TUTTI_TEST_VERSION=Open MPI v4.1.4"
                                                : "TUTTI_TEST_VERSION=MPICH Version: 4.0.2",
                                     NULL});

    fault_expect(
        ranks, &(struct fault_expected){.size = RANKS, .status = status, .parts = {first, second}});
    fault_finish(ranks);
}

MPI_TEST(all_hear_of_a_rank_without_the_plugin)
{
    char folder[FAULT_FOLDER_MAX], one[96];

    /* tutti looks for plugins beside itself. */
    fault_make_folder("libtutti.so.0", folder);
    snprintf(one, sizeof one, "TUTTI_TEST_ONE=LD_LIBRARY_PATH=%s", folder);
    expect_no_group(way, one, "TUTTI_ERR_PLUGIN", "backend mpi is not usable on rank 2",
                    "searched for libtutti-mpi.so in");
    fault_remove_folder(folder);
}

MPI_TEST(all_hear_of_a_rank_whose_plugin_cannot_open_its_engine)
{
    char folder[FAULT_FOLDER_MAX], one[96];

    fault_make_folder("tutti/0/libtutti-mpi.so", folder);
    snprintf(one, sizeof one, "TUTTI_TEST_ONE=TUTTI_PLUGIN_PATH=%s", folder);
    expect_no_group(way, one, "TUTTI_ERR_PLUGIN", "backend mpi is not usable on rank 2",
                    "cannot be opened");
    fault_remove_folder(folder);
}

MPI_TEST(all_hear_of_a_rank_with_another_major_version_of_mpi)
{
    const bool is_openmpi = way == &openmpi;

    expect_no_group(way,
                    is_openmpi ? "TUTTI_TEST_ONE=TUTTI_TEST_VERSION=Open MPI v5.0.2"
                               : "TUTTI_TEST_ONE=TUTTI_TEST_VERSION=MPICH Version: 5.0.2",
                    "TUTTI_ERR_MISMATCH",
                    is_openmpi ? "rank 0: Open MPI 4.1.4; rank 2: Open MPI 5.0.2"
                               : "rank 0: MPICH 4.0.2; rank 2: MPICH 5.0.2",
                    NULL);
}

MPI_TEST(all_hear_of_a_rank_that_asks_for_the_other_mpi)
{
    const bool is_openmpi = way == &openmpi;

    expect_no_group(
        way, is_openmpi ? "TUTTI_TEST_ONE=TUTTI_MPI=mpich" : "TUTTI_TEST_ONE=TUTTI_MPI=openmpi",
        "TUTTI_ERR_MISMATCH", "TUTTI_MPI", "rank 2");
}

static void skip_where_nothing_can_be_preloaded(void)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("AddressSanitizer wants to be the first library of a process");
#endif
}

/* The MPI that a process has loaded comes before that of its launcher. */
MPI_TEST(all_hear_of_a_rank_that_has_the_other_mpi_loaded)
{
    skip_where_nothing_can_be_preloaded();

    const bool is_openmpi = way == &openmpi;
    const char *other = is_openmpi ? "mpich" : "openmpi";

    if (ranks_lack(other))
        cr_skip_test("%s", ranks_lack(other));
    expect_no_group(way,
                    is_openmpi ? "TUTTI_TEST_ONE=LD_PRELOAD=libmpich.so.12"
                               : "TUTTI_TEST_ONE=LD_PRELOAD=libmpi.so.40",
                    "TUTTI_ERR_MISMATCH", is_openmpi ? "rank 0: Open MPI " : "rank 0: MPICH ",
                    is_openmpi ? "rank 2: MPICH " : "rank 2: Open MPI ");
}

MPI_TEST(all_hear_of_a_rank_that_has_both_mpis_loaded)
{
    skip_where_nothing_can_be_preloaded();
    if (ranks_lack("openmpi") || ranks_lack("mpich"))
        cr_skip_test("it takes both MPIs");
    expect_no_group(way, "TUTTI_TEST_ONE=LD_PRELOAD=libmpi.so.40:libmpich.so.12",
                    "TUTTI_ERR_PLUGIN", "backend mpi is not usable on rank 2",
                    "two MPIs are loaded in this process");
}

/* ---- under mpirun ---------------------------------------------------------------------------- */

/* What a command prints on both streams, cut at the size. */
static int output_of(const char *command, char *ret_output, size_t size)
{
    FILE *pipe = popen(command, "re");
    size_t n = 0;

    cr_assert_not_null(pipe);
    for (size_t more; (more = fread(ret_output + n, 1, size - 1 - n, pipe)) > 0;)
        n += more;
    ret_output[n] = 0;
    return pclose(pipe);
}

/* `mpi` launches, `loads` is the one that the program then takes. */
static void run_by_mpirun(const char *mpi, const char *loads, const char *before, const char *flags,
                          char *ret_output, size_t size)
{
    char command[1024];

    if (access(HELLO, X_OK) < 0)
        cr_skip_test("the example hello is not built");
    snprintf(
        command, sizeof command,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s %s timeout 90 mpirun.%s %s "
        "-n 3 " HELLO " 2>&1",
        ranks_lsan_options(loads), before, mpi, flags);
    output_of(command, ret_output, size);
}

MPI_TEST(mpirun_alone_gives_the_ranks_their_numbers)
{
    const char *flags = way == &openmpi ? "--oversubscribe" : "";
    char output[8192];

    run_by_mpirun(way->mpi, way->mpi, "TUTTI_BACKEND=mpi", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, "rank 2 of 3 over mpi"), "%s", output);
    run_by_mpirun(way->mpi, way->mpi, "TUTTI_BACKEND=tcp", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, "rank 2 of 3 over tcp"), "%s", output);
}

MPI_TEST(the_other_mpi_under_a_launcher_is_refused_by_the_variable)
{
    const bool is_openmpi = way == &openmpi;
    const char *other = is_openmpi ? "mpich" : "openmpi";
    char output[8192];

    if (ranks_lack(other))
        cr_skip_test("%s", ranks_lack(other));
    run_by_mpirun(way->mpi, other,
                  is_openmpi ? "TUTTI_BACKEND=mpi TUTTI_MPI=mpich"
                             : "TUTTI_BACKEND=mpi TUTTI_MPI=openmpi",
                  is_openmpi ? "--oversubscribe" : "", output, sizeof output);
    cr_expect_not_null(strstr(output, is_openmpi ? "OMPI_COMM_WORLD_SIZE=3" : "PMI_SIZE=3"), "%s",
                       output);
}

/* AddressSanitizer wants to be loaded before anything else. */
#define ANY_ORDER "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 "

MPI_TEST(a_program_that_has_the_other_mpi_loaded_is_refused_by_the_variable)
{
    const bool is_openmpi = way == &openmpi;
    const char *flags = is_openmpi ? "--oversubscribe -x LD_PRELOAD=libmpich.so.12"
                                   : "-genv LD_PRELOAD libmpi.so.40";
    const char *other = is_openmpi ? "mpich" : "openmpi";
    char output[8192], before[128];

    if (ranks_lack(other))
        cr_skip_test("%s", ranks_lack(other));
    run_by_mpirun(way->mpi, other, ANY_ORDER "TUTTI_BACKEND=tcp", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, is_openmpi ? "OMPI_COMM_WORLD_SIZE=3" : "PMI_SIZE=3"), "%s",
                       output);
    snprintf(before, sizeof before, ANY_ORDER "TUTTI_MPI=%s", way->mpi);
    run_by_mpirun(way->mpi, other, before, flags, output, sizeof output);
    cr_expect_not_null(strstr(output, "a process has one MPI"), "%s", output);
}
