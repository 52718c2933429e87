/* SPDX-License-Identifier: Apache-2.0 */
#include "run/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "run/process.h"

/* How often, and how many times, children that are being killed are looked at again. */
enum { KILL_ROUND_US = 5000, KILL_ROUNDS = 300 };

void guard_signals(sigset_t *ret_set)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    sigemptyset(ret_set);
    for (size_t i = 0; i < G_N_ELEMENTS(ending); i++) {
        struct sigaction now;

        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(ret_set, ending[i]);
    }
}

/* Only direct children are signalled: nobody else can reap them, so that a number read from /proc
 * still means the same process. Grandchildren become children when their parent is gone. */
void guard_signal_children(int sig, bool (*skip)(int pid, void *user), void *user)
{
    g_autoptr(GDir) processes = g_dir_open("/proc", 0, NULL);
    const char *name;

    while (processes && (name = g_dir_read_name(processes))) {
        int pid;

        if (cli_parse_int(name, 1, G_MAXINT, &pid) && process_parent(pid) == getpid() &&
            !(skip && skip(pid, user))) {
            kill(pid, sig);
            kill(pid, SIGCONT);
        }
    }
}

/* Kills until no child is left, or until it is plain that one cannot be killed. */
static void kill_children(void)
{
    for (int round = 0; round < KILL_ROUNDS; round++) {
        pid_t reaped;

        guard_signal_children(SIGKILL, NULL, NULL);
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (reaped < 0)
            return;
        g_usleep(KILL_ROUND_US);
    }
}

static int watch(pid_t launcher, const sigset_t *signals)
{
    for (;;) {
        siginfo_t info;
        int status, sig = sigwaitinfo(signals, &info);

        if (sig > 0 && sig != SIGCHLD)
            kill(launcher, sig);
        /* Orphans come here only once the launcher is gone. */
        if (sig != SIGCHLD || waitpid(launcher, &status, WNOHANG) != launcher)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        kill_children();
        cli_say("run", "the launcher itself was ended by signal %d (%s); its ranks were killed",
                WTERMSIG(status), strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
}

int guard_run(int (*body)(int guard_fd, void *user), void *user)
{
    int alive[2];
    sigset_t signals, before;

    guard_signals(&signals);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGCHLD);
    if (pipe2(alive, O_CLOEXEC) < 0) {
        cli_say("run", "cannot make a pipe: %s", strerror(errno));
        return EXIT_FAILED;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigprocmask(SIG_BLOCK, &signals, &before);

    pid_t launcher = fork();

    if (launcher < 0) {
        cli_say("run", "cannot start a process: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (launcher == 0) {
        close(alive[1]);
        setsid();
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        exit(body(alive[0], user));
    }
    close(alive[0]);
    return watch(launcher, &signals);
}
