/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, ARGUMENTS_MAX = 16 };

/* The common name of a program is the last one. The arguments make launchers let survivors live and start
 * more ranks than there are CPUs, without binding those to any, all on this host: Open MPI's wants an ssh
 * otherwise, though nobody would use it, and MPICH's waits for an srun of its own in a step of Slurm's.
 * Any MPICH's starts ranks of another as well, so that for the standard ABI need not be the library's own. */
static const struct mpirun mpiruns[] = {
    {"openmpi",
     {"mpirun.openmpi", "orterun"},
     "Debian: openmpi-bin",
     {"--mca", "plm", "isolated", "--oversubscribe", "--continuous", "--bind-to", "none", "-n"},
     NULL},
    {"mpich",
     {"mpirun.mpich", "mpiexec.hydra"},
     "Debian: mpich",
     {"-launcher", "fork", "-rmk", "user", "-disable-auto-cleanup", "-n"},
     NULL},
    {"abi",
     {"mpiexec.hydra", "mpirun.mpich"},
     "PyPI: mpich",
     {"-launcher", "fork", "-rmk", "user", "-disable-auto-cleanup", "-n"},
     "TUTTI_MPI=abi"},
};
enum { MPIRUNS = sizeof mpiruns / sizeof mpiruns[0] };

/* ---- which ----------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

/* In PATH, where an empty place is the working directory. */
static bool find_program(const char *name, char ret_path[PATH_BYTES])
{
    const char *at = getenv("PATH");

    for (at = at ? at : "/usr/bin:/bin";; at++) {
        const int length = (int)strcspn(at, ":");
        const int n =
            snprintf(ret_path, PATH_BYTES, "%.*s/%s", length ? length : 1, length ? at : ".", name);

        at += length;
        if (n > 0 && n < PATH_BYTES && is_program(ret_path))
            return true;
        if (!*at)
            return false;
    }
}

static bool find_launcher(const struct mpirun *mpirun, char ret_path[PATH_BYTES])
{
    for (int i = 0; mpirun->programs[i]; i++)
        if (find_program(mpirun->programs[i], ret_path))
            return true;
    return false;
}

static const struct mpirun *of_family(const char *family)
{
    for (int i = 0; i < MPIRUNS; i++)
        if (!strcmp(mpiruns[i].family, family))
            return &mpiruns[i];
    return NULL;
}

bool mpirun_is_there(const char *family)
{
    const struct mpirun *mpirun = of_family(family);
    char path[PATH_BYTES];

    return mpirun && find_launcher(mpirun, path);
}

const struct mpirun *mpirun_find(const char *family, char *ret_words, size_t size)
{
    const struct mpirun *mpirun = of_family(family);
    char path[PATH_BYTES];

    if (mpirun && find_launcher(mpirun, path))
        return mpirun;
    if (mpirun)
        snprintf(ret_words, size, "TUTTI_MPI=%s, but neither %s nor %s is in PATH (%s)", family,
                 mpirun->programs[0], mpirun->programs[1], mpirun->package);
    else
        snprintf(ret_words, size, "TUTTI_MPI=%.64s is not valid: use openmpi, mpich or abi",
                 family);
    return NULL;
}

/* Whether the list of backends has mpi: "mpi", "local=shm,remote=mpi", "all_reduce:0-4k=mpi". */
static bool names_mpi(const char *backend)
{
    for (const char *at = backend; at && *at;) {
        size_t length = strcspn(at, ",;=:");

        if (length == 3 && !strncmp(at, "mpi", 3))
            return true;
        at += length + (at[length] != 0);
    }
    return false;
}

/* Whether the MPI of the launcher PREFIX/bin/PROGRAM has its library for the standard ABI in PREFIX/lib. */
static bool is_of_abi(const char *launcher)
{
    char program[PATH_BYTES], library[PATH_BYTES + 64];

    if (!realpath(launcher, program))
        return false;
    snprintf(library, sizeof library, "%.*s/../lib/libmpi_abi.so.1",
             (int)(strrchr(program, '/') - program), program);
    return access(library, R_OK) == 0;
}

const char *mpirun_family(const char *backend, const char *chosen)
{
    char path[PATH_BYTES];

    if (!names_mpi(backend))
        return NULL;
    if (chosen && *chosen)
        return chosen;
    for (int i = 0; i < MPIRUNS; i++)
        if (find_launcher(&mpiruns[i], path))
            return !strcmp(mpiruns[i].family, "mpich") && is_of_abi(path) ? "abi"
                                                                          : mpiruns[i].family;
    return "";
}

/* ---- starting one ---------------------------------------------------------------------------- */

struct command {
    char path[PATH_BYTES], count[16];
    char *argv[ARGUMENTS_MAX];
    char **environment;
};

static bool begins_with_one(const char *variable, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (!strncmp(variable, *prefixes, strlen(*prefixes)))
            return true;
    return false;
}

/* Whether it is a variable by which an outer launcher gave this process its place; that place is
 * not the new job's. Settings of the user's are kept. */
static bool is_of_outer_job(const char *variable)
{
    static const char *const places[] = {"OMPI_COMM_WORLD_", "PMI_", "PMIX_", NULL};
    static const char *const settings[] = {"PMIX_MCA_", "PMIX_INSTALL_PREFIX=", NULL};

    return begins_with_one(variable, places) && !begins_with_one(variable, settings);
}

static bool make_environment(struct command *command)
{
    static char root[] = "OMPI_ALLOW_RUN_AS_ROOT=1", sure[] = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    int variables = 0, kept = 0;

    while (environ[variables])
        variables++;
    command->environment = calloc((size_t)variables + 3, sizeof(char *));
    if (!command->environment)
        return false;
    for (int i = 0; i < variables; i++)
        if (!is_of_outer_job(environ[i]))
            command->environment[kept++] = environ[i];
    if (geteuid() == 0) { /* running tutti as root was the user's decision */
        command->environment[kept++] = root;
        command->environment[kept++] = sure;
    }
    return true;
}

/* Open MPI takes a path as its first argument for a wish to have what is installed there come first in
 * PATH and LD_LIBRARY_PATH of the ranks. */
static void make_arguments(const struct mpirun *mpirun, int count, const char *const *program,
                           struct command *command)
{
    int argument = 0;

    snprintf(command->count, sizeof command->count, "%d", count);
    command->argv[argument++] = strrchr(command->path, '/') + 1;
    for (int i = 0; mpirun->arguments[i]; i++)
        command->argv[argument++] = (char *)(uintptr_t)mpirun->arguments[i];
    command->argv[argument++] = command->count;
    for (; *program && argument < ARGUMENTS_MAX - 1; program++)
        command->argv[argument++] = (char *)(uintptr_t)*program;
}

/* In the child: system calls only. */
static _Noreturn void become_launcher(const struct command *command, int output, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY);
    sigset_t none;

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
        execve(command->path, command->argv, command->environment);
    _exit(127);
}

pid_t mpirun_start(const struct mpirun *mpirun, int count, const char *const *program, int output)
{
    struct command *command = calloc(1, sizeof *command);
    pid_t parent = getpid(), pid = -1;

    if (!command || !make_environment(command)) {
        errno = ENOMEM;
    } else if (!find_launcher(mpirun, command->path)) {
        errno = ENOENT;
    } else {
        make_arguments(mpirun, count, program, command);
        pid = fork();
        if (pid == 0)
            become_launcher(command, output, parent);
    }
    if (command)
        free(command->environment);
    free(command);
    return pid;
}
