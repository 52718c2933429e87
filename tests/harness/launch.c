/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting ranks. Each is forked and executed with an environment of its own making: the test's,
 * less everything that a launcher or a developer's shell might say, plus torchrun's variables.
 * Between fork and exec only async-signal-safe functions are called, since the store's server runs
 * in a thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tutti/status.h>

#include "harness/launch_inside.h"
#include "harness/net.h"

enum {
    TIMEOUT_MS = 60000,
    VARIABLES_MAX = 1024,
    VARIABLE_BYTES = 512,
    OWN_VARIABLES = 20,
    ARGUMENTS_MAX = 16
};

extern char **environ;

int64_t ranks_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ranks_limit_cpus(int most)
{
    static cpu_set_t usable;
    static bool is_known; /* before the first limit */
    cpu_set_t few;

    CPU_ZERO(&few);
    if (!is_known && sched_getaffinity(0, sizeof usable, &usable))
        return;
    is_known = true;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < most; cpu++)
        if (CPU_ISSET(cpu, &usable))
            CPU_SET(cpu, &few);
    (void)sched_setaffinity(0, sizeof few, &few);
}

/* ---- the environment ------------------------------------------------------------------------- */

/* What the ranks must not see of the test's own surroundings. */
static bool is_dropped(const char *variable)
{
    static const char *const prefixes[] = {
        "RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "TORCHELASTIC_", "OMPI_",
        "PMI",   "SLURM_",      "FLUX_",  "TUTTI_",  "TMPDIR=",       "XDG_RUNTIME_DIR="};
    static const char *const kept[] = {"TUTTI_DEBUG=", "TUTTI_TEST_"};

    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (!strncmp(variable, kept[i], strlen(kept[i])))
            return false;
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    }
    return false;
}

/* Whether the list, which may be NULL, has another value. */
static bool is_replaced(const char *variable, const char *const *list)
{
    const size_t name_bytes = strcspn(variable, "=") + 1;

    for (; list && *list; list++)
        if (!strncmp(variable, *list, name_bytes))
            return true;
    return false;
}

struct environment {
    char *list[VARIABLES_MAX + 1];
    size_t count;
    char own[OWN_VARIABLES][VARIABLE_BYTES];
    size_t own_count;
};

static void add(struct environment *environment, const char *variable)
{
    if (environment->count < VARIABLES_MAX)
        environment->list[environment->count++] = (char *)(uintptr_t)variable;
    environment->list[environment->count] = NULL;
}

__attribute__((format(printf, 2, 3))) static void add_own(struct environment *environment,
                                                          const char *format, ...)
{
    char *variable = environment->own[environment->own_count++];
    va_list args;

    va_start(args, format);
    vsnprintf(variable, VARIABLE_BYTES, format, args);
    va_end(args);
    add(environment, variable);
}

const char *ranks_lsan_options(const char *mpi)
{
    static char words[512];

    snprintf(words, sizeof words,
             "LSAN_OPTIONS=suppressions=%s/tests/lsan-%s.supp:print_suppressions=0:"
             "fast_unwind_on_malloc=0:intercept_tls_get_addr=0",
             TUTTI_SOURCE_DIR, mpi);
    return words;
}

/* The folder of the build that the ranks are of. */
static void find_build(char *ret_path, size_t size)
{
    const char *programs = getenv("TUTTI_TEST_PROGRAMS");

    if (programs)
        snprintf(ret_path, size, "%s/..", programs);
    else
        snprintf(ret_path, size, "%s", TUTTI_BINARY_DIR);
}

const char *ranks_ucc(void)
{
    static char path[VARIABLE_BYTES];
    const char *other = getenv("TUTTI_TEST_UCC");
    char build[VARIABLE_BYTES / 2];

    find_build(build, sizeof build);
    snprintf(path, sizeof path, "%s/lib/standin/libucc.so.1", build);
    return other ? other : path;
}

/* A file of this test's build is that of the ranks' build: a sanitizer sees no lock in a library without it. */
static void add_given(struct environment *environment, const char *variable)
{
    static const char own[] = TUTTI_BINARY_DIR "/";
    const char *value = variable + strcspn(variable, "=") + 1;
    char build[VARIABLE_BYTES / 2];

    if (!getenv("TUTTI_TEST_PROGRAMS") || strncmp(value, own, strlen(own)) != 0) {
        add(environment, variable);
        return;
    }
    find_build(build, sizeof build);
    add_own(environment, "%.*s%s/%s", (int)(value - variable), variable, build,
            value + strlen(own));
}

/* What says to the process which rank it is, and where ranks meet. */
static void add_rank(const struct ranks *ranks, const struct ranks_options *options, int rank,
                     struct environment *environment)
{
    const char *address = options->address ? options->address : "127.0.0.1";

    add_own(environment, "RANK=%d", rank);
    add_own(environment, "WORLD_SIZE=%d", ranks->size);
    add_own(environment, "LOCAL_RANK=%d", rank);
    add_own(environment, "LOCAL_WORLD_SIZE=%d", ranks->size);
    add_own(environment, "TUTTI_RUN_ID=%s", ranks_run_id(ranks));
    if (ranks->server)
        add_own(environment, "TUTTI_STORE=tcp://%s:%u", address,
                tutti_store_server_port(ranks->server));
    else
        add_own(environment, "TUTTI_STORE=file://%s/store", ranks->folder);
}

static void make_environment(const struct ranks *ranks, const struct ranks_options *options,
                             int rank, struct environment *environment)
{
    *environment = (struct environment){.count = 0};
    for (char **variable = environ; *variable; variable++) {
        if (!is_dropped(*variable) && !is_replaced(*variable, options->env) &&
            !(options->mpi && !strncmp(*variable, "LSAN_OPTIONS=", strlen("LSAN_OPTIONS="))))
            add(environment, *variable);
    }
    if (!options->arguments)
        add_rank(ranks, options, rank, environment);
    add_own(environment, "TMPDIR=%s", ranks->folder);
    add_own(environment, "XDG_RUNTIME_DIR=%s", ranks->folder);
    add_own(environment, "TUTTI_TUNING=none");
    if (options->backend)
        add_own(environment, "TUTTI_BACKEND=%s", options->backend);
    if (options->host_of && options->host_of[rank])
        add_own(environment, "TUTTI_HOST=%s", options->host_of[rank]);
    if (options->backend && strstr(options->backend, "ucc"))
        add_own(environment, "TUTTI_UCC=%s", ranks_ucc());
    if (options->backend && strstr(options->backend, "ucx") && getenv("TUTTI_TEST_UCX_LIBRARY"))
        add_own(environment, "TUTTI_UCX=%s", getenv("TUTTI_TEST_UCX_LIBRARY"));
    if (options->mpi)
        add_own(environment, "%s", ranks_lsan_options(options->mpi));
    if (ranks->pmi_proxies)
        for (char *const *at = pmi_proxy_environment(ranks->pmi_proxies, rank); *at; at++)
            add(environment, *at);
    add(environment, ranks->mark);
    for (const char *const *variable = options->env; variable && *variable; variable++)
        add_given(environment, *variable);
}

/* ---- one process ----------------------------------------------------------------------------- */

struct start {
    const char *path;
    char *const *argv;
    char *const *envp;
    int in, out, err; /* the child's ends */
    int netns;        /* -1: the test's */
    int kept;         /* the child inherits it, too; -1: none */
    pid_t parent;
};

static _Noreturn void run_child(const struct start *start)
{
    static const char failed[] = "the harness could not start the program\n";

    setsid();
    if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == start->parent &&
        (start->netns < 0 || !setns(start->netns, CLONE_NEWNET)) &&
        (start->kept < 0 || !fcntl(start->kept, F_SETFD, 0)) &&
        dup2(start->in, STDIN_FILENO) >= 0 && dup2(start->out, STDOUT_FILENO) >= 0 &&
        dup2(start->err, STDERR_FILENO) >= 0)
        execve(start->path, start->argv, start->envp);
    ssize_t ignored = write(STDERR_FILENO, failed, sizeof failed - 1);
    (void)ignored;
    _exit(127);
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

/* False, and nothing is open, when the process could not be started. */
static bool start_process(struct process *process, struct start *start)
{
    int fds[6] = {-1, -1, -1, -1, -1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) || pipe2(fds + 2, O_CLOEXEC) ||
        pipe2(fds + 4, O_CLOEXEC)) {
        close_all(fds, 6);
        return false;
    }
    start->in = fds[1];
    start->out = fds[3];
    start->err = fds[5];
    start->parent = getpid();
    process->pid = fork();
    if (process->pid == 0)
        run_child(start);
    process->pidfd = process->pid > 0 ? (int)syscall(SYS_pidfd_open, process->pid, 0) : -1;
    close_all((const int[]){fds[1], fds[3], fds[5]}, 3);
    if (process->pidfd < 0) {
        close_all((const int[]){fds[0], fds[2], fds[4]}, 3);
        if (process->pid > 0) {
            kill(process->pid, SIGKILL);
            waitpid(process->pid, NULL, 0);
        }
        process->pid = 0;
        return false;
    }
    process->words_fd = fds[0];
    process->out.fd = fds[2];
    process->err.fd = fds[4];
    fcntl(process->out.fd, F_SETFL, O_NONBLOCK);
    fcntl(process->err.fd, F_SETFL, O_NONBLOCK);
    process->result = (struct rank_result){.exit_code = -1, .out = "", .err = ""};
    return true;
}

static void find_program(const char *program, char *ret_path, size_t size)
{
    const char *folder = getenv("TUTTI_TEST_PROGRAMS");

    if (strchr(program, '/'))
        snprintf(ret_path, size, "%s", program);
    else
        snprintf(ret_path, size, "%s/%s", folder ? folder : TUTTI_BINARY_DIR "/bin", program);
}

static bool start_rank(struct ranks *ranks, const struct ranks_options *options, int rank)
{
    static struct environment environment; /* large; one start at a time */
    char path[512], *words[ARGUMENTS_MAX + 2] = {path};
    const char *const with_case[] = {options->case_name, NULL};
    const char *const *arguments = options->arguments ? options->arguments : with_case;
    const char *netns = options->netns ? options->netns[rank] : NULL;

    find_program(options->program, path, sizeof path);
    for (int i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
        words[i + 1] = (char *)(uintptr_t)arguments[i];
    make_environment(ranks, options, rank, &environment);
    struct start start = {
        .path = path,
        .argv = words,
        .envp = environment.list,
        .netns = netns ? net_open(netns) : -1,
        .kept = ranks->pmi_proxies ? pmi_proxy_descriptor(ranks->pmi_proxies, rank) : -1};
    bool started = (!netns || start.netns >= 0) && start_process(&ranks->processes[rank], &start);
    if (start.netns >= 0)
        close(start.netns);
    return started;
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool serve_store(struct ranks *ranks, const struct ranks_options *options)
{
    const char *netns = options->netns ? options->netns[0] : NULL;
    const char *address = options->address ? options->address : "127.0.0.1";
    int back = -1;

    if (netns && (back = net_enter(netns)) < 0)
        return false;
    tutti_status status = tutti_store_server_start(address, 0, &ranks->server);
    if (netns)
        net_leave(back);
    if (status)
        fprintf(stderr, "%s: %s\n", ranks->what, tutti_last_error());
    return !status;
}

/* The build whose programs the ranks are may be another one than this test's. */
bool ranks_have_instruments(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return getenv("TUTTI_TEST_PROGRAMS");
#endif
}

/* The stand-in for UCC is built with it, and UCX is called under a lock of the plugin's. */
static const char *sanitizer_objects(const char *engine)
{
    return getenv("TUTTI_TEST_PROGRAMS") && strcmp(engine, "ucc") && strcmp(engine, "ucx")
               ? "ThreadSanitizer does not see the locks in a library that was built without it"
               : NULL;
}

/* Which family of launchers and engines an engine's tests take. */
static const char *family_of(const char *engine)
{
    const char *mpich = getenv("TUTTI_TEST_MPICH");

    return mpich && !strcmp(engine, "mpich") ? mpich : engine;
}

const char *ranks_lack(const char *name)
{
    static char words[512];
    const char *engine = family_of(name), *objection = sanitizer_objects(engine);
    /* Else an MPI. */
    const bool is_plugin =
        !strcmp(engine, "gloo") || !strcmp(engine, "ucx") || !strcmp(engine, "ucc");
    char path[512];

    if (objection)
        return objection;
    snprintf(path, sizeof path, TUTTI_BINARY_DIR "/lib/tutti/0/%s%s.so",
             is_plugin ? "libtutti-" : "tutti-mpi-", engine);
    if (access(path, R_OK) < 0)
        snprintf(words, sizeof words, "the engine %s is not built", engine);
    else if (!is_plugin && !mpirun_is_there(engine))
        snprintf(words, sizeof words, "the launcher of %s is not installed", engine);
    else if (!is_plugin && access(TUTTI_BINARY_DIR "/bin/tutti", X_OK) < 0)
        snprintf(words, sizeof words, "the command tutti, which starts ranks of MPI, is not built");
    else if (!strcmp(engine, "ucc") && access(ranks_ucc(), R_OK) < 0)
        snprintf(words, sizeof words, "the stand-in for UCC is not built");
    else
        return NULL;
    return words;
}

static bool start_pmi_proxies(struct ranks *ranks, const struct ranks_options *options)
{
    char words[1200];

    if (!options->mpi)
        return true;

    const struct pmi_proxy_options wanted = {.family = family_of(options->mpi),
                                             .count = ranks->size,
                                             .tutti = TUTTI_BINARY_DIR "/bin/tutti"};

    ranks->pmi_proxies = pmi_proxies_start(&wanted, words, sizeof words);
    if (!ranks->pmi_proxies)
        fprintf(stderr, "%s: %s\n", ranks->what, words);
    return ranks->pmi_proxies;
}

static bool make_folder(struct ranks *ranks)
{
    static int runs;

    strcpy(ranks->folder, "/tmp/tutti-test-XXXXXX");
    if (!mkdtemp(ranks->folder))
        return false;
    /* Process numbers come again, also those of a test that has left something. */
    snprintf(ranks->mark, sizeof ranks->mark, "TUTTI_TEST_RUN=test-%d-%d-%s", (int)getpid(), ++runs,
             strrchr(ranks->folder, '-') + 1);
    return true;
}

struct ranks *ranks_start(const struct ranks_options *options)
{
    struct ranks *ranks;

    if (options->size < 1 || options->size > RANKS_MAX ||
        !(ranks = calloc(1, sizeof *ranks + (size_t)options->size * sizeof ranks->processes[0]))) {
        fprintf(stderr, "cannot start %d ranks\n", options->size);
        return NULL;
    }
    ranks->size = options->size;
    ranks->deadline_ns = ranks_now_ns() + (options->timeout_ms ? options->timeout_ms : TIMEOUT_MS) *
                                              (int64_t)1000000;
    snprintf(ranks->what, sizeof ranks->what, "%s %s, %d ranks%s%s", options->program,
             options->case_name ? options->case_name : "", options->size,
             options->backend ? " over " : "", options->backend ? options->backend : "");
    bool started =
        make_folder(ranks) && start_pmi_proxies(ranks, options) &&
        (options->store == RANKS_STORE_FILE || options->arguments || serve_store(ranks, options));
    for (int rank = 0; rank < ranks->size && started; rank++)
        started = start_rank(ranks, options, rank);
    if (started)
        return ranks;
    fprintf(stderr, "%s: cannot start: %s\n", ranks->what, strerror(errno));
    ranks_free(ranks);
    return NULL;
}

static bool run_once(const struct ranks_options *options)
{
    struct ranks *ranks = ranks_start(options);
    bool passed = ranks && ranks_wait(ranks) && ranks_passed(ranks);

    ranks_free(ranks);
    return passed;
}

bool ranks_run(const struct ranks_options *options)
{
    char list[256], *rest = list, *backend;
    bool passed = true;

    if (!options->backend)
        return run_once(options);
    snprintf(list, sizeof list, "%s", options->backend);
    while ((backend = strsep(&rest, ","))) {
        struct ranks_options one = *options;

        one.backend = backend;
        passed &= run_once(&one);
    }
    return passed;
}
