/* SPDX-License-Identifier: Apache-2.0 */
#include "run/launcher_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/status.h>
#include <tutti/store.h>

#include "cli.h"
#include "mpi/pmi_proxy.h"
#include "run/ask.h"
#include "run/fold.h"
#include "run/guard.h"
#include "run/output.h"
#include "run/report.h"
#include "run/start.h"

enum {
    INTERRUPT_GRACE_MS = 1200, /* a user who pressed Ctrl-C has the prompt back within 2 s */
    INTERRUPT_PRINT_MS = 300,  /* for a reader that does not read */
    KILL_ROUND_MS = 10,
    KILL_GIVE_UP_MS = 3000, /* uninterruptible sleep: say so and go */
    QUIET_MS = 200,         /* a pipe that a process outside the job holds open never ends */
};

static void advance(struct launcher *l);

/* ---- ending ---- */

/* Whether the process has signals of its own. The launcher of the PMI proxies ends with them. */
bool launcher_is_spared(int pid, void *user)
{
    const struct launcher *l = user;

    if (l->pmi_proxies && pmi_proxies_launcher(l->pmi_proxies) == pid)
        return true;
    for (int i = 0; i < l->started; i++)
        if (l->ranks[i].pid == pid && !l->ranks[i].exited)
            return true;
    return false;
}

/* Whether the rank gets a signal. One that is leaving keeps its exit code. */
static bool gets_signal(const struct launcher *l, const struct rank *rank, int sig)
{
    return !rank->exited && (sig != SIGTERM || l->interrupted || !record_is_leaving(rank));
}

/* To the group of each rank that is still there: its number cannot have been reused. */
static void signal_ranks(const struct launcher *l, int sig, int send)
{
    for (int i = 0; i < l->started; i++) {
        const struct rank *rank = &l->ranks[i];

        if (gets_signal(l, rank, sig) && kill(-rank->pid, send) < 0 && errno == ESRCH)
            kill(rank->pid, send); /* between fork and setpgid() it leads no group yet */
    }
}

/*
 * To the ranks, and to what ranks that are gone have left behind. The ranks are stopped first and go on
 * last: otherwise those that get the signal last see the others go, print that they lost them, and
 * replace the dumps that tell of the job by dumps that tell of its end.
 */
static void signal_all(struct launcher *l, int sig)
{
    for (int i = 0; i < l->started; i++)
        if (!l->ranks[i].exited && !l->ranks[i].terminated)
            l->ranks[i].stopped = launcher_is_stopped(l->ranks[i].pid);
    signal_ranks(l, sig, SIGSTOP);
    signal_ranks(l, sig, sig);
    signal_ranks(l, sig, SIGCONT);
    for (int i = 0; i < l->started; i++) {
        struct rank *rank = &l->ranks[i];

        if (!gets_signal(l, rank, sig))
            continue;
        rank->terminated = true;
        rank->killed = sig == SIGKILL;
    }
    guard_signal_children(sig, launcher_is_spared, l);
}

static gboolean kill_again(gpointer user)
{
    struct launcher *l = user;

    if (l->phase == ENDING && !l->children_gone) {
        l->gave_up = g_get_monotonic_time() - l->killing_us > KILL_GIVE_UP_MS * 1000;
        signal_all(l, SIGKILL);
        advance(l);
    }
    return l->phase == ENDING ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static void kill_now(struct launcher *l)
{
    if (l->killing || l->phase == PRINTING)
        return;
    l->killing = true;
    l->killing_us = g_get_monotonic_time();
    signal_all(l, SIGKILL);
    g_timeout_add(KILL_ROUND_MS, kill_again, l);
}

static gboolean grace_over(gpointer user)
{
    struct launcher *l = user;

    l->grace_timer = 0;
    kill_now(l);
    return G_SOURCE_REMOVE;
}

void launcher_end(struct launcher *l)
{
    if (l->phase >= ENDING)
        return;
    l->phase = ENDING;
    l->ending_us = g_get_monotonic_time();

    double grace_ms = l->options->grace_s * 1000;

    if (l->interrupted)
        grace_ms = MIN(grace_ms, INTERRUPT_GRACE_MS);
    signal_all(l, SIGTERM);
    l->grace_timer = g_timeout_add((guint)grace_ms, grace_over, l);
}

static gboolean wait_over(gpointer user)
{
    launcher_end(user);
    return G_SOURCE_REMOVE;
}

/* Ranks that wait for the failed one hear of the failure from tutti; they get time to write their
 * messages and dumps. */
static void begin_waiting(struct launcher *l)
{
    l->phase = WAITING;
    if (l->options->wait_s > 0)
        g_timeout_add((guint)(l->options->wait_s * 1000), wait_over, l);
    else
        launcher_end(l);
}

static void interrupt(struct launcher *l, int sig)
{
    bool again = l->interrupted != 0;

    l->interrupted = sig;
    if (again) {
        kill_now(l);
    } else if (l->phase < ENDING) {
        if (isatty(STDERR_FILENO))
            output_say(l->output, "tutti run: ending the ranks; Ctrl-C again kills them\n");
        launcher_end(l);
    } else if (l->grace_timer) { /* a failed job that takes its time to end */
        g_source_remove(l->grace_timer);
        l->grace_timer = g_timeout_add(INTERRUPT_GRACE_MS, grace_over, l);
    }
    advance(l);
}

/* ---- dumps ---- */

static void ask_all(struct launcher *l)
{
    g_autoptr(GArray) unasked = g_array_new(FALSE, FALSE, sizeof(int));

    for (int i = 0; i < l->started && l->phase < ENDING; i++)
        if (!l->ranks[i].exited && !ask_for_dump(l->ranks[i].pid))
            g_array_append_val(unasked, i);
    if (!unasked->len)
        return;

    const bool several = unasked->len > 1;
    g_autofree char *ranges = fold_ranges(unasked);
    g_autofree char *text = g_strdup_printf(
        "tutti run: rank%s %s %s not asked for a dump: no handler for SIGUSR2 (is "
        "TUTTI_DUMP_DIR set, and %s called tutti_init()?)\n",
        several ? "s" : "", ranges, several ? "were" : "was", several ? "have they" : "has it");

    output_say(l->output, text);
}

/* ---- exits ---- */

static void read_exec_errors(struct launcher *l)
{
    int error;

    if (!l->exec_errno && read(l->exec_errors, &error, sizeof error) == (ssize_t)sizeof error)
        l->exec_errno = error;
}

static void rank_exited(struct launcher *l, struct rank *rank)
{
    int status;

    records_read(l->records); /* while its number is its own */
    if (waitpid(rank->pid, &status, WNOHANG) != rank->pid)
        return;
    if (rank->pidfd >= 0)
        close(rank->pidfd); /* which takes it out of the epoll set */
    rank->pidfd = -1;
    rank->exited = true;
    rank->wait_status = status;
    rank->exit_order = ++l->exited;

    bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;

    if (failed && l->phase == RUNNING && !l->first) {
        read_exec_errors(l);
        l->first = rank;
    }
    launcher_tell_exited(l, rank);
}

/* An orphan that came to us as its subreaper, or the MPI's launcher, which nobody has told to end. */
static void other_exited(struct launcher *l, pid_t pid)
{
    char words[1200];
    int status;

    if (waitpid(pid, &status, WNOHANG) != pid || !l->pmi_proxies ||
        pid != pmi_proxies_launcher(l->pmi_proxies))
        return;
    pmi_proxies_launcher_ended(l->pmi_proxies, status, words, sizeof words);
    if (l->phase >= ENDING)
        return;

    g_autofree char *text = g_strdup_printf(
        "tutti run: %s. It kept the ranks' places in their MPI job, and MPI may end "
        "them for that, now or when they leave\n",
        words);
    output_say(l->output, text);
}

static struct rank *find_running(struct launcher *l, pid_t pid)
{
    for (int i = 0; i < l->started; i++)
        if (l->ranks[i].pid == pid && !l->ranks[i].exited)
            return &l->ranks[i];
    return NULL;
}

/*
 * Several ranks may be gone by the time we look. waitid() would give them in the order of their
 * start; an epoll set keeps its ready descriptors in the order in which they became ready, which is
 * the order of the exits. Orphans that came to us as their subreaper have no pidfd.
 */
static void collect(struct launcher *l)
{
    for (;;) {
        struct epoll_event ready[64];
        siginfo_t info = {0};
        int count;

        while ((count = epoll_wait(l->exits, ready, G_N_ELEMENTS(ready), 0)) > 0)
            for (int i = 0; i < count; i++)
                rank_exited(l, ready[i].data.ptr);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
            l->children_gone = errno == ECHILD;
            return;
        }
        if (info.si_pid == 0)
            return;

        struct rank *rank = find_running(l, info.si_pid);

        if (!rank)
            other_exited(l, info.si_pid);
        else if (rank->pidfd < 0)
            rank_exited(l, rank);
    }
}

static void collect_exits(struct launcher *l)
{
    collect(l);
    launcher_tell_failures(l);
}

/* ---- printing ---- */

static gboolean print_over(gpointer user)
{
    struct launcher *l = user;
    bool quiet = l->quiet_bytes == output_bytes(l->output) && output_drained(l->output);

    if (l->interrupted && l->reported) { /* the reader of our output is too slow: it had its time */
        l->done = true;
        return G_SOURCE_REMOVE;
    }
    if (!l->reported && (quiet || l->interrupted))
        output_close_streams(l->output);
    l->quiet_bytes = output_bytes(l->output);
    advance(l);
    return G_SOURCE_CONTINUE;
}

/* ---- the order of things ---- */

/* Looks at what is left to wait for; called whenever something has ended. */
static void advance(struct launcher *l)
{
    if (l->pmi_proxies && l->exited == l->started) {
        pmi_proxies_stop(g_steal_pointer(&l->pmi_proxies));
        collect_exits(l);
    }
    if (l->phase < ENDING && output_reader_gone(l->output))
        interrupt(l, SIGPIPE);
    if (l->phase == RUNNING && l->first)
        begin_waiting(l); /* after all exits of this round were seen: they were not our doing */
    if (l->phase < ENDING && l->exited == l->started) {
        if (!l->children_gone)
            launcher_end(l); /* every rank is done, but something that they started is not */
        else
            l->phase = ENDING;
    }
    launcher_watch_stopped(l);
    if (l->phase == ENDING && (l->children_gone || l->gave_up)) {
        l->phase = PRINTING;
        l->quiet_bytes = output_bytes(l->output);
        l->print_timer =
            g_timeout_add(l->interrupted ? INTERRUPT_PRINT_MS : QUIET_MS, print_over, l);
    }
    if (l->phase == PRINTING && !l->reported && output_ended(l->output)) {
        l->reported = true;
        launcher_say_outcome(l);
    }
    if (l->phase == PRINTING && l->reported && output_drained(l->output))
        l->done = true;
}

static void output_changed(void *user)
{
    advance(user);
}

static gboolean signal_came(gint fd, GIOCondition condition, gpointer user)
{
    struct launcher *l = user;
    struct signalfd_siginfo info;

    (void)condition;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGUSR2)
            ask_all(l);
        else if (info.ssi_signo != SIGCHLD)
            interrupt(l, (int)info.ssi_signo);
    collect_exits(l);
    advance(l);
    return G_SOURCE_CONTINUE;
}

/* Nobody is left to report to: the job goes at once. */
static gboolean guard_died(gint fd, GIOCondition condition, gpointer user)
{
    struct launcher *l = user;

    (void)fd;
    (void)condition;
    l->interrupted = SIGKILL;
    launcher_end(l);
    kill_now(l);
    return G_SOURCE_REMOVE;
}

/* ---- starting ---- */

/* Before any thread is made, so that all inherit the mask. */
static bool watch_signals(struct launcher *l)
{
    guard_signals(&l->signals);
    sigaddset(&l->signals, SIGUSR2);
    sigaddset(&l->signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &l->signals, &l->mask_before);
    signal(SIGPIPE, SIG_IGN);

    int fd = signalfd(-1, &l->signals, SFD_CLOEXEC | SFD_NONBLOCK);

    l->exits = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0 || l->exits < 0) {
        cli_say("run", "cannot watch for signals: %s", strerror(errno));
        return false;
    }
    g_unix_fd_add_full(G_PRIORITY_HIGH, fd, G_IO_IN, signal_came, l, NULL);
    g_unix_fd_add_full(G_PRIORITY_HIGH, l->guard, G_IO_IN | G_IO_HUP, guard_died, l, NULL);
    return true;
}

/* While a launcher of MPI's starts, nothing is dispatched. True: a signal came, or the guard has died. */
static bool is_interrupted(void *user)
{
    struct launcher *l = user;
    struct pollfd guard = {.fd = l->guard, .events = POLLIN};
    sigset_t ending, pending;

    guard_signals(&ending);
    sigpending(&pending);
    for (int sig = 1; sig < NSIG && !l->interrupted; sig++)
        if (sigismember(&ending, sig) == 1 && sigismember(&pending, sig) == 1)
            l->interrupted = sig;
    if (!l->interrupted && poll(&guard, 1, 0) > 0)
        l->interrupted = SIGKILL;
    return l->interrupted;
}

static bool start_pmi_proxies(struct launcher *l)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    char words[1200];

    if (!l->options->mpi)
        return true;

    const struct pmi_proxy_options wanted = {.family = l->options->mpi,
                                             .count = l->options->ranks,
                                             .tutti = self,
                                             .is_over = is_interrupted,
                                             .user = l};

    l->pmi_proxies = self ? pmi_proxies_start(&wanted, words, sizeof words) : NULL;
    if (!l->pmi_proxies && !l->interrupted)
        cli_say("run", "%s", self ? words : "cannot read /proc/self/exe");
    return l->pmi_proxies;
}

/* A rank prints its failure after it has sent its record, so the text is folded only if the record
 * was read. */
static void errors_printed(void *user)
{
    const struct launcher *l = user;

    records_read(l->records);
}

static void record_came(const struct rank *rank, void *user)
{
    const struct launcher *l = user;
    const char *message = record_message(rank);

    if (message)
        output_fold(l->output, message);
}

int launcher_run(const struct launch_options *options, int guard_fd)
{
    struct launcher l = {.options = options, .exec_errors = -1, .guard = guard_fd};
    struct output_options output = {.ranks = options->ranks,
                                    .console = options->console,
                                    .bare = options->is_verb,
                                    .log_dir = options->log_dir,
                                    .changed = output_changed,
                                    .printed = errors_printed,
                                    .user = &l};
    bool started = false;

    if (!launcher_raise_file_limit(&l) || !watch_signals(&l))
        return EXIT_FAILED;
    l.output = output_new(&output);
    if (!l.output)
        return EXIT_FAILED;
    if (tutti_store_server_start("127.0.0.1", 0, &l.store) != TUTTI_OK) {
        cli_say("run", "cannot serve the store on 127.0.0.1: %s", tutti_last_error());
    } else if (launcher_reaches_store(&l)) {
        l.ranks = g_new0(struct rank, options->ranks);
        l.run_id = g_uuid_string_random();
        l.records = records_new(l.run_id, l.ranks, options->ranks, record_came, &l);
        l.began_us = g_get_monotonic_time();
        oom_count_read(&l.oom_before);
        launcher_tell_begin(&l);
        started = launcher_make_secret(&l) && start_pmi_proxies(&l) && launcher_start_ranks(&l);
        if (!started)
            launcher_end(&l); /* those that did start */
        collect_exits(&l);
        advance(&l);
        while (!l.done)
            g_main_context_iteration(NULL, TRUE);
        launcher_tell_end(&l);
    }

    int code = started || l.interrupted ? launcher_exit_code(&l) : EXIT_FAILED;

    pmi_proxies_stop(l.pmi_proxies);
    tutti_store_server_stop(l.store);
    output_free(l.output);
    records_free(l.records);
    secret_unref(l.secret);
    g_free(l.run_id);
    g_free(l.ranks);
    return code;
}
