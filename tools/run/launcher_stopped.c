/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are stopped (SIGSTOP) when all others have ended well: nothing else would end the job. Once a
 * rank has exited the others are looked at each second. What counts is how often in a row all of them
 * were seen stopped, not the clock: so a host or a job that was suspended as a whole, and the launcher
 * with it, goes on. A rank that a debugger holds is not stopped in this sense.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "run/launcher_inside.h"
#include "run/process.h"

enum { SAY_AFTER_S = 3 };

/* The letter of a stat file below /proc, 0: there is no such process or thread. */
static char state_in(const char *path)
{
    g_autofree char *text = NULL;
    const char *name_end;

    if (!g_file_get_contents(path, &text, NULL, NULL) || !(name_end = strrchr(text, ')')))
        return 0;
    return name_end[1] ? name_end[2] : 0;
}

/* How many threads of a process are stopped, and how many could run. One that has ended is neither. */
struct threads {
    int stopped, others;
    char state; /* of one of the others */
};

static struct threads threads_of(pid_t pid)
{
    g_autofree char *folder = g_strdup_printf("/proc/%d/task", pid);
    g_autoptr(GDir) tasks = g_dir_open(folder, 0, NULL);
    struct threads threads = {0};
    const char *task;

    while (tasks && (task = g_dir_read_name(tasks))) {
        g_autofree char *path = g_strdup_printf("%s/%s/stat", folder, task);
        const char state = state_in(path);

        if (state == 'T') {
            threads.stopped++;
        } else if (state && !strchr("ZXx", state)) {
            threads.others++;
            threads.state = state;
        }
    }
    return threads;
}

/* Whether the process sleeps in a call that waits for a child. `unknown`: the answer where the kernel does not
 * tell which call it is in. */
static bool waits_for_child(pid_t pid, bool unknown)
{
    static const int calls[] = {SYS_wait4, SYS_waitid, SYS_rt_sigsuspend};
    g_autofree char *path = g_strdup_printf("/proc/%d/syscall", pid), *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return unknown;
    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        g_autofree char *number = g_strdup_printf("%d ", calls[i]);

        if (g_str_has_prefix(text, number))
            return true;
    }
    return false;
}

/* A shell, or another program without threads, that does nothing but wait for what it has started. */
static bool is_waiting_wrapper(pid_t pid, struct threads threads, bool unknown)
{
    return !threads.stopped && threads.others == 1 && threads.state == 'S' &&
           waits_for_child(pid, unknown);
}

/* Whether processes that the rank has started are stopped, and the others are wrappers that wait for them. */
static bool are_children_stopped(pid_t rank)
{
    g_autoptr(GDir) processes = g_dir_open("/proc", 0, NULL);
    const char *name;
    bool some = false;

    while (processes && (name = g_dir_read_name(processes))) {
        int pid;

        if (!cli_parse_int(name, 1, G_MAXINT, &pid) || pid == rank || !process_is_of(pid, rank))
            continue;

        const struct threads threads = threads_of(pid);

        if (threads.others && !is_waiting_wrapper(pid, threads, false))
            return false;
        some |= threads.stopped > 0;
    }
    return some;
}

/* All of its threads are, or it is a wrapper around one of which all are. A rank that works while a process that
 * it has started is stopped is not. */
bool launcher_is_stopped(pid_t rank)
{
    const struct threads threads = threads_of(rank);

    if (threads.stopped)
        return !threads.others;
    return is_waiting_wrapper(rank, threads, true) && are_children_stopped(rank);
}

static struct rank *first_left(const struct launcher *l)
{
    for (int i = 0; i < l->started; i++)
        if (!l->ranks[i].exited)
            return &l->ranks[i];
    return NULL;
}

static bool are_all_stopped(const struct launcher *l)
{
    for (int i = 0; i < l->started; i++)
        if (!l->ranks[i].exited && !launcher_is_stopped(l->ranks[i].pid))
            return false;
    return l->exited < l->started;
}

static void say(const struct launcher *l)
{
    const int more = l->started - l->exited - 1;
    const struct rank *left = first_left(l);
    g_autofree char *others = more ? g_strdup_printf(" and %d more have", more) : NULL;
    g_autofree char *text = g_strdup_printf(
        "tutti run: rank %d (pid %d)%s been stopped for %d s (SIGSTOP), and all others have ended; "
        "continue it with kill -CONT %d, or the job ends in %g s (--stopped)\n",
        left->index, left->pid, others ? others : " has", l->stopped_s, left->pid,
        l->options->stopped_s);

    output_say(l->output, text);
}

static gboolean look(gpointer user)
{
    struct launcher *l = user;

    if (l->phase != RUNNING) {
        l->stopped_timer = 0;
        return G_SOURCE_REMOVE;
    }
    l->stopped_s = are_all_stopped(l) ? l->stopped_s + 1 : 0;
    if (l->stopped_s == SAY_AFTER_S)
        say(l);
    if (l->stopped_s > 0 && l->stopped_s >= SAY_AFTER_S + l->options->stopped_s) {
        l->stopped = first_left(l);
        launcher_end(l);
    }
    return G_SOURCE_CONTINUE;
}

void launcher_watch_stopped(struct launcher *l)
{
    if (!l->stopped_timer && l->phase == RUNNING && l->exited && l->exited < l->started)
        l->stopped_timer = g_timeout_add_seconds(1, look, l);
}
