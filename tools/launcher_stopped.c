/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are stopped (SIGSTOP) when all others have ended well: nothing else would end the job. Once a
 * rank has exited the others are looked at each second. What counts is how often in a row all of them
 * were seen stopped, not the clock: so a host or a job that was suspended as a whole, and the launcher
 * with it, goes on. A rank that a debugger holds is not stopped in this sense.
 */
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "launcher_inside.h"

enum { SAY_AFTER_S = 3 };

/* The letter of /proc/PID/stat, 0: there is no such process. */
static char state_of(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", pid), *text = NULL;
    const char *name_end;

    if (!g_file_get_contents(path, &text, NULL, NULL) || !(name_end = strrchr(text, ')')))
        return 0;
    return name_end[1] ? name_end[2] : 0;
}

/* Whether the rank's session has processes besides its own, and all are stopped. */
static bool are_children_stopped(pid_t rank)
{
    g_autoptr(GDir) processes = g_dir_open("/proc", 0, NULL);
    const char *name;
    bool some = false;

    while (processes && (name = g_dir_read_name(processes))) {
        int pid;

        if (!cli_parse_int(name, 1, G_MAXINT, &pid) || pid == rank || getsid(pid) != rank)
            continue;
        if (state_of(pid) != 'T')
            return false;
        some = true;
    }
    return some;
}

/* A shell that waits for the program is stopped with it. */
static bool is_stopped(pid_t rank)
{
    const char state = state_of(rank);

    return state == 'T' || (state == 'S' && are_children_stopped(rank));
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
        if (!l->ranks[i].exited && !is_stopped(l->ranks[i].pid))
            return false;
    return l->exited < l->started;
}

static void say(const struct launcher *l)
{
    const int more = l->started - l->exited - 1;
    const struct rank *left = first_left(l);
    g_autofree char *others = more ? g_strdup_printf(" and %d more are", more) : NULL;
    g_autofree char *text = g_strdup_printf(
        "tutti run: rank %d (pid %d)%s stopped since %d s (SIGSTOP), and all others have ended; it "
        "goes on with kill -CONT %d, or the job is ended in %g s (--stopped)\n",
        left->index, left->pid, others ? others : " is", l->stopped_s, left->pid,
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
