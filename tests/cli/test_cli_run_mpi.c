/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti run --backend mpi`: launchers of MPIs that are missing, fail, hang or die. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

enum { SOON_S = 20 };

/* A launcher in a folder, and what it does instead of starting ranks. */
static char *folder_with_launcher(const char *script)
{
    char *folder = folder_new();
    g_autofree char *path = g_build_filename(folder, "mpirun.openmpi", NULL);
    g_autofree char *text = g_strdup_printf("#!/bin/sh\n%s\n", script);

    cr_assert(g_file_set_contents(path, text, -1, NULL));
    cr_assert_eq(chmod(path, 0700), 0);
    return folder;
}

Test(run_mpi, a_launcher_that_is_not_there_is_said_to_be_missing, .timeout = 30)
{
    static const struct {
        const char *settings;
        int code;
        const char *words;
    } cases[] = {
        {"", 2, "neither mpirun.openmpi, orterun, mpirun.mpich nor mpiexec.hydra is in PATH"},
        {"TUTTI_MPI=openmpi", 1, "neither mpirun.openmpi nor orterun is in PATH (Debian: openmpi"},
        {"TUTTI_MPI=mpich", 1, "neither mpirun.mpich nor mpiexec.hydra is in PATH (Debian: mpich)"},
        {"TUTTI_MPI=abi", 1, "is in PATH (PyPI: mpich)"},
        {"TUTTI_MPI=intel", 1, "TUTTI_MPI=intel is not valid: use openmpi, mpich or abi"},
    };
    char *folder = folder_new();

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r =
            ran("mkdir -p '%s/mpirun.openmpi'; " /* no program, though it may be entered */
                "unset TUTTI_MPI; PATH='%s' %s $TUTTI run -n 2 --backend mpi /bin/true",
                folder, folder, cases[i].settings);

        cr_assert_eq(r.code, cases[i].code, "'%s' gives %d", cases[i].settings, r.code);
        CONTAINS(r.err, cases[i].words);
        ran_free(&r);
    }
    folder_remove(folder);
}

Test(run_mpi, a_launcher_that_fails_is_quoted, .timeout = 30)
{
    static const struct {
        const char *script, *words;
    } cases[] = {
        {"echo ------; echo no slots >&2; exit 3", "0 of 2 ranks were started: mpirun.openmpi "
                                                   "ended with code 3; it said: no slots\n"},
        {"exit 0", "mpirun.openmpi ended with code 0; it said: nothing\n"},
        {"kill -KILL $$", "mpirun.openmpi was ended by signal 9 (Killed); it said: nothing\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_with_launcher(cases[i].script);
        /* An empty place in PATH is the working directory. */
        struct ran r = ran(
            "cd '%s'; PATH=:$PATH TUTTI_MPI=openmpi $TUTTI run -n 2 --backend mpi true", folder);

        cr_assert_eq(r.code, 1);
        CONTAINS(r.err, cases[i].words);
        cr_assert_lt(r.seconds, SOON_S);
        folder_remove(folder);
        ran_free(&r);
    }
}

Test(run_mpi, a_launcher_that_hangs_ends_with_the_job_and_leaves_nothing, .timeout = 60)
{
    static const struct {
        int sig, code;
    } cases[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGKILL, 137}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *marker = g_strdup_printf("6%d.%zu", getpid(), i);
        g_autofree char *script =
            g_strdup_printf("setsid sleep %s & sleep %s & exec sleep %s", marker, marker, marker);
        char *folder = folder_with_launcher(script);
        g_autofree char *log = g_build_filename(folder, "log", NULL);
        g_autofree char *path = g_strdup_printf("%s:%s", folder, g_getenv("PATH"));

        g_setenv("PATH", path, TRUE);
        g_setenv("TUTTI_MPI", "openmpi", TRUE);
        pid_t pid = command_start("run -n 2 --backend mpi true", log);

        cr_assert(wait_for_processes(marker, 3, SOON_S));
        kill(pid, cases[i].sig);
        cr_assert_eq(command_wait(pid, SOON_S), cases[i].code, "signal %d", cases[i].sig);
        cr_assert(wait_for_processes(marker, 0, SOON_S));
        folder_remove(folder);
    }
}

/* ---- with the launchers of this machine ------------------------------------------------------ */

/* The processes that a process has started, and those that these have. */
static char *descendants_of(pid_t pid)
{
    struct ran r =
        ran("below() { for p in $(cat /proc/$1/task/*/children); do echo $p; below $p; done; };"
            "echo $(below %d)",
            (int)pid);

    cr_assert_eq(r.code, 0);
    g_free(r.err);
    return g_strchomp(r.out);
}

/* A process that has ended and that nobody has collected has no arguments. */
static void wait_for_the_end_of(const char *pids)
{
    struct ran r =
        ran("for i in $(seq %d); do left=; for p in %s; do"
            " [ -z \"$(cat /proc/$p/cmdline | tr -d '\\0')\" ] || left=\"$left $p\"; done;"
            "[ \"$left\" ] || exit 0; sleep 0.1; done; echo $left; exit 1",
            10 * SOON_S, pids);

    cr_assert_eq(r.code, 0, "%s are left of %s", r.out, pids);
    ran_free(&r);
}

/* Kills the launcher of `family`, or what `tutti run` is made of, while two ranks sleep. */
static void kill_in_a_job(const char *family, const char *who, const char *words)
{
    g_autofree char *program = g_strdup_printf("mpirun.%s", family);
    g_autofree char *found = g_find_program_in_path(program);

    if (!found)
        cr_skip_test("there is no %s", program);

    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *line = g_strdup_printf(
        "run -n 2 --wait 0 --backend mpi -- sh -c 'cd %s; echo > here$RANK; [ $RANK = "
        "0 ] || exec sleep 60; until [ -e go ]; do sleep 0.02; done; exit 7'",
        folder);

    g_setenv("TUTTI_MPI", family, TRUE);
    pid_t pid = command_start(line, log);

    cr_assert(wait_for_file(folder, "here0", SOON_S) && wait_for_file(folder, "here1", SOON_S));
    g_autofree char *job = descendants_of(pid);

    cr_assert_geq(count_of(job, " "), 5, "%s", job); /* launcher, mpirun, PMI proxies and ranks */
    if (words) {
        pid_t mpirun = child_of(child_of(pid));
        g_autofree char *go = g_build_filename(folder, "go", NULL);

        kill(mpirun, SIGKILL);
        cr_assert(wait_for_words(folder, "log", words, SOON_S));
        g_file_set_contents(go, "", 0, NULL);
        cr_assert_eq(command_wait(pid, SOON_S), 7);
    } else {
        kill(strcmp(who, "guard") ? child_of(pid) : pid, SIGKILL);
        cr_assert_eq(command_wait(pid, SOON_S), 137);
    }
    wait_for_the_end_of(job);
    folder_remove(folder);
}

/* The ranks of a virtual environment have its programs. */
static void search_path_in_a_job(const char *family)
{
    g_autofree char *program = g_strdup_printf("mpirun.%s", family);
    g_autofree char *found = g_find_program_in_path(program);

    if (!found)
        cr_skip_test("there is no %s", program);

    struct ran r =
        ran("PATH=/nowhere/bin:$PATH; LD_LIBRARY_PATH=/nowhere/lib TUTTI_MPI=%s $TUTTI run -n 2 "
            "--backend mpi -- sh -c 'echo \"<$PATH> <$LD_LIBRARY_PATH>\"'; "
            "echo \"<$PATH> <\"",
            family);
    const char *line = strrchr(g_strchomp(r.out), '\n');

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert_not_null(line, "%s", r.out);
    g_autofree char *expected = g_strdup_printf("%s/nowhere/lib>", line + 1);

    cr_expect_eq(count_of(r.out, expected), 2, "%s", r.out);
    ran_free(&r);
}

#define OF_EACH(name, who, words)                                                                  \
    Test(run_mpi, name##_over_openmpi, .timeout = 60)                                              \
    {                                                                                              \
        kill_in_a_job("openmpi", who, words);                                                      \
    }                                                                                              \
    Test(run_mpi, name##_over_mpich, .timeout = 60)                                                \
    {                                                                                              \
        kill_in_a_job("mpich", who, words);                                                        \
    }

OF_EACH(the_launchers_death_is_told, "mpirun", " was ended by signal 9 (Killed); it said: ")
OF_EACH(nothing_is_left_when_the_guard_is_killed, "guard", NULL)
OF_EACH(nothing_is_left_when_the_launcher_is_killed, "launcher", NULL)

Test(run_mpi, ranks_search_where_the_launcher_of_openmpi_was_told_to, .timeout = 60)
{
    search_path_in_a_job("openmpi");
}

Test(run_mpi, ranks_search_where_the_launcher_of_mpich_was_told_to, .timeout = 60)
{
    search_path_in_a_job("mpich");
}
