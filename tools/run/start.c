/* SPDX-License-Identifier: Apache-2.0 */
#include "run/start.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli.h"
#include "mpi/pmi_proxy.h"
#include "run/records.h"
#include "secret/key.h"

static char **set(char **environment, const char *name, const char *value)
{
    return g_environ_setenv(environment, name, value, TRUE);
}

static char **set_number(char **environment, const char *name, int value)
{
    g_autofree char *text = g_strdup_printf("%d", value);

    return set(environment, name, text);
}

/* Of stderr, which is a terminal. */
static int terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* The environment of a rank, torchrun's names and ours; freed with g_strfreev(). */
static char **environment_of(const struct start_job *job, int rank)
{
    /* One host, one role: the three views of a rank agree. */
    static const char *const ranks[] = {"RANK", "LOCAL_RANK", "ROLE_RANK"};
    static const char *const sizes[] = {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"};
    g_autofree char *store = g_strdup_printf("tcp://127.0.0.1:%u", job->store_port);
    char **environment = g_get_environ();

    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        environment = set_number(environment, ranks[i], rank);
        environment = set_number(environment, sizes[i], job->ranks);
    }
    environment = set_number(environment, "GROUP_RANK", 0);
    environment = set_number(environment, "GROUP_WORLD_SIZE", 1);
    environment = set(environment, "ROLE_NAME", "default");
    environment = set(environment, "MASTER_ADDR", "127.0.0.1");
    environment = set_number(environment, "MASTER_PORT", job->store_port);
    environment = set(environment, "TORCHELASTIC_USE_AGENT_STORE", "True");
    environment = set_number(environment, "TORCHELASTIC_RESTART_COUNT", 0);
    environment = set_number(environment, "TORCHELASTIC_MAX_RESTARTS", 0);
    environment = set(environment, "TORCHELASTIC_RUN_ID", job->run_id);
    environment = set(environment, "TUTTI_RUN_ID", job->run_id);
    environment = set(environment, "TUTTI_STORE", store);
    if (job->secret)
        environment = set(environment, "TUTTI_SECRET", job->secret);
    if (job->records) {
        g_autofree char *name = records_name(job->records, rank);

        environment = set(environment, "TUTTI_RUN_SOCKET", name);
    } else {
        environment = g_environ_unsetenv(environment, "TUTTI_RUN_SOCKET");
    }
    /* A rank's stderr is a pipe; this tells it that a person is watching. */
    if (isatty(STDERR_FILENO))
        environment = set_number(environment, "TUTTI_RUN_TERMINAL", terminal_columns());
    if (job->backend)
        environment = set(environment, "TUTTI_BACKEND", job->backend);
    if (!job->pmi_proxies)
        return environment;
    for (char *const *at = pmi_proxy_environment(job->pmi_proxies, rank); *at; at++) {
        g_auto(GStrv) pair = g_strsplit(*at, "=", 2);

        environment = set(environment, pair[0], pair[1]);
    }
    return environment;
}

/* The copy of this process. */
static void wipe_secret(char **environment)
{
    static const char name[] = "TUTTI_SECRET=";

    for (; *environment; environment++)
        if (g_str_has_prefix(*environment, name))
            key_wipe(*environment + sizeof name - 1, strlen(*environment) - (sizeof name - 1));
}

/* In the child; never returns. System calls only. */
static void become_rank(const struct start_job *job, int rank, pid_t launcher, int in, int out,
                        int err, int exec_errors, char **environment)
{
    int kept = job->pmi_proxies ? pmi_proxy_descriptor(job->pmi_proxies, rank) : -1, error = 0;

    /* Not a session: Linux makes a scheduling group of each (autogroup), and sched_yield() leaves the CPU
     * only to threads of the same scheduling group. */
    setpgid(0, 0);
    /* The signal comes when the launcher dies; getppid() shows a launcher that died before the
     * call. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(EXIT_FAILED);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        error = errno;
    if (kept >= 0 && fcntl(kept, F_SETFD, 0) < 0)
        error = errno;
    signal(SIGPIPE, SIG_DFL); /* the launcher ignores it */
    setrlimit(RLIMIT_NOFILE, &job->files);
    sigprocmask(SIG_SETMASK, &job->mask, NULL);
    if (!error) {
        execve(job->path, job->argv, environment);
        error = errno;
    }
    /* The pipe has room for every rank's four bytes; without them the exit code still tells. */
    if (write(exec_errors, &error, sizeof error) < 0)
        _exit(EXIT_NOT_FOUND);
    _exit(EXIT_NOT_EXECUTABLE);
}

int start_rank(const struct start_job *job, int rank, int exec_errors,
               struct start_result *ret_result)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, error = 0;
    int in = rank == 0 ? STDIN_FILENO : open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = -1, launcher = getpid();

    if (in < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
        error = errno;
    } else {
        g_auto(GStrv) environment = environment_of(job, rank);

        pid = fork();
        if (pid == 0)
            become_rank(job, rank, launcher, in, out[1], err[1], exec_errors, environment);
        if (pid < 0)
            error = errno;
        wipe_secret(environment);
    }

    int mine[] = {rank == 0 ? -1 : in, out[1], err[1], error ? out[0] : -1, error ? err[0] : -1};

    for (size_t i = 0; i < G_N_ELEMENTS(mine); i++)
        if (mine[i] >= 0)
            close(mine[i]);
    if (!error)
        *ret_result = (struct start_result){.pid = pid, .out = out[0], .err = err[0]};
    return error;
}
