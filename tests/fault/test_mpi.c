/* SPDX-License-Identifier: Apache-2.0 */
/* Faults over MPI, which notices none of them itself: in a job of each MPI. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum { RANKS = 4, MIDDLE = 2 };

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

static void run_by_mpirun(const char *mpi, const char *before, const char *flags, char *ret_output,
                          size_t size)
{
    char command[1024];

    if (access(HELLO, X_OK) < 0)
        cr_skip_test("the example hello is not built");
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s timeout 30 mpirun.%s %s "
             "-n 3 " HELLO " 2>&1",
             before, mpi, flags);
    output_of(command, ret_output, size);
}

MPI_TEST(mpirun_alone_tells_the_ranks_who_they_are)
{
    const char *flags = way == &openmpi ? "--oversubscribe" : "";
    char output[8192];

    run_by_mpirun(way->mpi, "TUTTI_BACKEND=mpi", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, "rank 2 of 3 over mpi"), "%s", output);
    run_by_mpirun(way->mpi, "TUTTI_BACKEND=tcp", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, "rank 2 of 3 over tcp"), "%s", output);
}

MPI_TEST(the_other_mpi_under_a_launcher_is_refused_by_the_variable)
{
    const bool is_openmpi = way == &openmpi;
    char output[8192];

    if (ranks_lack(is_openmpi ? "mpich" : "openmpi"))
        cr_skip_test("%s", ranks_lack(is_openmpi ? "mpich" : "openmpi"));
    run_by_mpirun(way->mpi,
                  is_openmpi ? "TUTTI_BACKEND=mpi TUTTI_MPI=mpich"
                             : "TUTTI_BACKEND=mpi TUTTI_MPI=openmpi",
                  is_openmpi ? "--oversubscribe" : "", output, sizeof output);
    cr_expect_not_null(strstr(output, is_openmpi ? "OMPI_COMM_WORLD_SIZE=3" : "PMI_SIZE=3"), "%s",
                       output);
}

MPI_TEST(a_program_that_has_the_other_mpi_loaded_is_refused_by_the_variable)
{
    const bool is_openmpi = way == &openmpi;
    const char *flags = is_openmpi ? "--oversubscribe -x LD_PRELOAD=libmpich.so.12"
                                   : "-genv LD_PRELOAD libmpi.so.40";
    char output[8192];

    if (ranks_lack(is_openmpi ? "mpich" : "openmpi"))
        cr_skip_test("%s", ranks_lack(is_openmpi ? "mpich" : "openmpi"));
    run_by_mpirun(way->mpi, "TUTTI_BACKEND=tcp", flags, output, sizeof output);
    cr_expect_not_null(strstr(output, is_openmpi ? "OMPI_COMM_WORLD_SIZE=3" : "PMI_SIZE=3"), "%s",
                       output);
    run_by_mpirun(way->mpi, is_openmpi ? "TUTTI_MPI=openmpi" : "TUTTI_MPI=mpich", flags, output,
                  sizeof output);
    cr_expect_not_null(strstr(output, "a process has one MPI"), "%s", output);
}
