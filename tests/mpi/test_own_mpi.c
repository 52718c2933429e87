/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use MPI themselves beside tutti, at every level of threads, in a job of each MPI. What
 * they do stands in own_mpi.c.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch.h"

enum { PROCESSES = 3 };

TestSuite(own_mpi, .timeout = 120);

#define MPI_TEST(name)                                                                             \
    static void own_mpi_##name(const char *family);                                                \
    Test(own_mpi, name##_over_openmpi)                                                             \
    {                                                                                              \
        if (ranks_lack("openmpi"))                                                                 \
            cr_skip_test("%s", ranks_lack("openmpi"));                                             \
        own_mpi_##name("openmpi");                                                                 \
    }                                                                                              \
    Test(own_mpi, name##_over_mpich)                                                               \
    {                                                                                              \
        if (ranks_lack("mpich"))                                                                   \
            cr_skip_test("%s", ranks_lack("mpich"));                                               \
        own_mpi_##name("mpich");                                                                   \
    }                                                                                              \
    static void own_mpi_##name(const char *family)

/* Started by mpirun alone, as a user's program is: its exit status, and what it prints. */
static int run_by_mpirun(const char *family, const char *before, const char *what, char *ret_output,
                         size_t size)
{
    char command[1024];
    size_t n = 0;

    snprintf(command, sizeof command,
             "env -u TUTTI_BACKEND '%s' %s OMPI_ALLOW_RUN_AS_ROOT=1 "
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun.%s %s -n %d %s 2>&1",
             ranks_lsan_options(family), before, family,
             strcmp(family, "openmpi") ? "" : "--oversubscribe", PROCESSES, what);
    FILE *pipe = popen(command, "re");
    cr_assert_not_null(pipe);
    for (size_t more; (more = fread(ret_output + n, 1, size - 1 - n, pipe)) > 0;)
        n += more;
    ret_output[n] = 0;
    return pclose(pipe);
}

static void run_own_mpi(const char *family, const char *how)
{
    char folder[] = "/tmp/tutti-own-mpi-XXXXXX", store[64], program[512], output[16384];

    cr_assert_not_null(mkdtemp(folder));
    snprintf(store, sizeof store, "TUTTI_STORE=file://%s/store", folder);
    snprintf(program, sizeof program, PROGRAMS "own_mpi-%s %s", family, how);
    cr_expect_eq(run_by_mpirun(family, store, program, output, sizeof output), 0, "%s %s:\n%s",
                 family, how, output);
    for (int r = 0; r < PROCESSES; r++) {
        char line[64];

        snprintf(line, sizeof line, "rank %d of %d is done", r, PROCESSES);
        cr_expect_not_null(strstr(output, line), "%s %s:\n%s", family, how, output);
    }
    snprintf(program, sizeof program, "rm -r %s", folder);
    cr_expect_eq(system(program), 0);
}

MPI_TEST(a_program_at_any_level_of_threads_calls_tutti_beside_mpi)
{
    static const char *const levels[] = {"single:first", "funneled:first", "serialized:first",
                                         "multiple:first"};

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        run_own_mpi(family, levels[i]);
}

MPI_TEST(mpi_may_be_initialised_after_tutti_and_by_it)
{
    run_own_mpi(family, "serialized:second");
    run_own_mpi(family, "multiple:tutti");
}

/* In a job whose MPI need not hear of its processes' ends. */
static struct ranks *start(const char *family, const char *program, const char *how)
{
    char path[512];

    snprintf(path, sizeof path, PROGRAMS "%s-%s", program, family);
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = path, .case_name = how, .size = PROCESSES, .timeout_ms = 60000, .mpi = family});
    cr_assert_not_null(ranks);
    cr_assert(ranks_wait(ranks), "%s %s: it did not end", family, how);
    return ranks;
}

/* A group that is not made, or given up, leaves nobody to finalize MPI. */
static void make_groups(const char *family, const char *how)
{
    struct ranks *ranks = start(family, "own_groups", how);

    for (int r = 0; r < PROCESSES; r++)
        cr_expect_not_null(strstr(ranks_result(ranks, r)->out, "is done"), "%s: rank %d: %s%s", how,
                           r, ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
    ranks_free(ranks);
}

MPI_TEST(groups_that_are_made_at_once_by_several_threads_do_not_meet_each_other)
{
    make_groups(family, "multiple");
}

/* Members meet by messages then. */
MPI_TEST(groups_are_made_one_after_another_where_mpi_allows_one_thread)
{
    make_groups(family, "serialized");
}

MPI_TEST(a_communicator_that_nobody_waits_for_any_more_is_freed)
{
    make_groups(family, "multiple:late");
}

static void lose_one(const char *family, const char *how)
{
    struct ranks *ranks = start(family, "own_mpi", how);

    cr_expect_eq(ranks_result(ranks, 1)->signal, SIGKILL);
    for (int r = 0; r < PROCESSES; r += 2) {
        const struct rank_result *result = ranks_result(ranks, r);

        cr_expect_eq(result->exit_code, 0, "%s", result->err);
        cr_expect_eq(!strstr(result->err, "leave by exit() without it"), !!strstr(how, ":tutti"));
        cr_expect(strstr(result->out, "TUTTI_ERR_PEER_LOST") && strstr(result->out, "rank 1 (") &&
                      strstr(result->out, "is done"),
                  "%s %s: rank %d: %s%s", family, how, r, result->out, result->err);
    }
    ranks_free(ranks);
}

MPI_TEST(survivors_leave_without_waiting_for_dead_ranks)
{
    lose_one(family, "funneled:first:kill");
    lose_one(family, "serialized:first:kill");
    lose_one(family, "multiple:tutti:kill");
}

/* All hear the words that the plugin has for it. */
static void end_all(const char *family, const char *how, const char *status, const char *words)
{
    struct ranks *ranks = start(family, "own_mpi", how);

    for (int r = 0; r < PROCESSES; r++) {
        const struct rank_result *result = ranks_result(ranks, r);

        cr_expect_eq(result->exit_code, 0, "%s", result->err);
        cr_expect(strstr(result->out, status) && strstr(result->out, words) &&
                      strstr(result->out, "is done"),
                  "%s %s: rank %d: %s%s", family, how, r, result->out, result->err);
        cr_expect_eq(!strstr(result->err, "leave by exit() without it"),
                     strstr(how, ":early") || strstr(how, ":tutti"));
    }
    ranks_free(ranks);
}

MPI_TEST(a_call_from_a_thread_that_may_not_call_mpi_is_told_to_all_in_words)
{
    end_all(family, "single:first:thread", "TUTTI_ERR_UNSUPPORTED",
            "rank 1: mpi: the program has initialised MPI for its first thread alone, and this is "
            "another one; call tutti from that thread, or ask MPI_Init_thread for "
            "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
    end_all(family, "funneled:first:thread", "TUTTI_ERR_UNSUPPORTED", "for its first thread alone");
}

MPI_TEST(a_call_after_the_programs_finalize_is_refused_in_words)
{
    end_all(family, "single:first:early", "TUTTI_ERR_PLUGIN", "the program has finalized MPI");
    end_all(family, "multiple:first:early", "TUTTI_ERR_PLUGIN", "the program has finalized MPI");
}

/* MPI notices it before the members compare their calls, and its default is to end the job. */
MPI_TEST(members_that_call_different_things_hear_tuttis_words)
{
    static const char *const levels[] = {"single:first:differ", "serialized:first:differ",
                                         "multiple:first:differ", "multiple:tutti:differ"};

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        end_all(family, levels[i], "TUTTI_ERR_MISMATCH", "all_to_all");
}

/* MPI_Init waits for all processes of the job, and would do so for ever. */
MPI_TEST(who_waits_in_init_for_a_process_without_the_plugin_has_a_deadline)
{
    char folder[] = "/tmp/tutti-own-mpi-XXXXXX", command[512], output[16384];

    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -L " LIBRARIES "/libtutti.so.0 %s", folder);
    cr_expect_eq(system(command), 0);
    snprintf(command, sizeof command,
             "sh -c 'test ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 1 || export LD_LIBRARY_PATH=%s; "
             "exec " PROGRAMS "init_in_vain 5'",
             folder);
    run_by_mpirun(family, "TUTTI_STALL_WARNING=1", command, output, sizeof output);
    for (int r = 0; r < PROCESSES; r++) {
        char place[64];

        snprintf(place, sizeof place, "(this is process %d of %d by ", r, PROCESSES);
        cr_expect_eq(!strstr(output, place), r == 1, "%s:\n%s", family, output);
    }
    cr_expect(strstr(output, "TUTTI_ERR_TIMEOUT: ") && strstr(output, "TUTTI_ERR_PLUGIN: "),
              "%s:\n%s", family, output);
    cr_expect_not_null(strstr(output, "has waited for 1 s in MPI_Init"), "%s:\n%s", family, output);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
