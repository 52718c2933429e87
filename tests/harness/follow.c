/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following ranks that run: their output is gathered whenever the test waits for something, and
 * what they reported is found in it when it is asked for. A process is reaped only in ranks_free(),
 * so that its number cannot belong to somebody else while signals may still be sent to it.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/delay.h"
#include "harness/launch_inside.h"
#include "harness/stalls.h"

enum {
    OUTPUT_MAX = 64 << 20, /* bytes kept of one stream; a rank that says more is cut short */
    SHOWN_MAX = 16384,     /* of which the end is shown when something went wrong */
    READ_BYTES = 8192,
    PUMP_MS = 1000
};

/* ---- gathering ------------------------------------------------------------------------------- */

static void keep_output(struct output *output, const char *bytes, size_t size)
{
    if (output->size + size > OUTPUT_MAX)
        size = OUTPUT_MAX - output->size;
    if (output->size + size + 1 > output->room) {
        size_t room = 2 * (output->size + size + 1);
        char *text = realloc(output->text, room);

        if (!text)
            return;
        output->text = text;
        output->room = room;
    }
    memcpy(output->text + output->size, bytes, size);
    output->size += size;
    output->text[output->size] = 0;
}

static void read_output(struct output *output)
{
    char bytes[READ_BYTES];

    while (output->fd >= 0) {
        ssize_t n = read(output->fd, bytes, sizeof bytes);

        if (n > 0) {
            keep_output(output, bytes, (size_t)n);
        } else if (n == 0) {
            close(output->fd);
            output->fd = -1;
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* What follows `begin` in the next line of `text` that begins so, and has come whole; NULL: none. */
static const char *next_report(const char *text, const char *begin)
{
    const size_t n = strlen(begin);

    for (const char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        if (!strncmp(line, begin, n))
            return line + n;
    }
    return NULL;
}

/* The last line of `process`'s own reports of that kind and name, NULL: none. `first`: the first.
 */
static const char *find_report(const struct process *process, const char *kind, const char *name,
                               bool first)
{
    char begin[128];
    const char *found = NULL, *next = process->out.text;

    snprintf(begin, sizeof begin, "@tutti %s %s ", kind, name);
    while ((next = next_report(next, begin))) {
        found = next;
        if (first)
            break;
    }
    return found;
}

static void note_end(struct process *process)
{
    siginfo_t info = {.si_pid = 0};
    struct rank_result *result = &process->result;

    if (process->pid <= 0 || result->ended_ns ||
        waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
        return;
    /* What it said last is in the pipes already. A child of its own may hold them open for ever. */
    read_output(&process->out);
    read_output(&process->err);
    result->ended_ns = ranks_now_ns();
    result->ended = !process->killed;
    if (info.si_code == CLD_EXITED)
        result->exit_code = info.si_status;
    else
        result->signal = info.si_status;
    result->passed =
        result->ended && result->exit_code == 0 && find_report(process, "verdict", "pass", true);
}

/* Reads what there is, waiting for it at most `ms`. */
static void pump(struct ranks *ranks, int ms)
{
    struct pollfd fds[3 * RANKS_MAX];

    for (int i = 0; i < ranks->size; i++) {
        const struct process *process = &ranks->processes[i];

        fds[3 * i] = (struct pollfd){.fd = process->out.fd, .events = POLLIN};
        fds[3 * i + 1] = (struct pollfd){.fd = process->err.fd, .events = POLLIN};
        fds[3 * i + 2] =
            (struct pollfd){.fd = process->result.ended_ns ? -1 : process->pidfd, .events = POLLIN};
    }
    if (poll(fds, (nfds_t)(3 * ranks->size), ms) <= 0)
        return;
    for (int i = 0; i < ranks->size; i++) {
        struct process *process = &ranks->processes[i];

        read_output(&process->out);
        read_output(&process->err);
        note_end(process);
        process->result.out = process->out.text ? process->out.text : "";
        process->result.err = process->err.text ? process->err.text : "";
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

typedef bool (*condition_fn)(const struct ranks *ranks, int rank, const char *name);

static bool has_ended(const struct ranks *ranks, int rank, const char *name)
{
    (void)name;
    return ranks->processes[rank].result.ended_ns;
}

static bool has_reached_or_ended(const struct ranks *ranks, int rank, const char *name)
{
    return ranks_point_ns(ranks, rank, name) >= 0 || has_ended(ranks, rank, NULL);
}

static bool holds(const struct ranks *ranks, int rank, condition_fn condition, const char *name)
{
    if (rank != RANKS_ALL)
        return condition(ranks, rank, name);
    for (int i = 0; i < ranks->size; i++) {
        if (!condition(ranks, i, name))
            return false;
    }
    return true;
}

static void show_output(const struct output *output)
{
    const size_t shown = output->size < SHOWN_MAX ? output->size : SHOWN_MAX;

    if (shown < output->size)
        fprintf(stderr, "[… %zu bytes]\n", output->size - shown);
    if (shown)
        fwrite(output->text + output->size - shown, 1, shown, stderr);
}

static void show(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->size; i++) {
        const struct process *process = &ranks->processes[i];
        const struct rank_result *result = &process->result;

        if (result->passed)
            continue;
        fprintf(stderr, "%s: rank %d ", ranks->what, i);
        if (process->killed)
            fprintf(stderr, "was killed at the deadline");
        else if (!result->ended)
            fprintf(stderr, "is running");
        else if (result->signal)
            fprintf(stderr, "ended by signal %d (%s)", result->signal, strsignal(result->signal));
        else
            fprintf(stderr, "ended with exit code %d", result->exit_code);
        fprintf(stderr, "; it said:\n");
        show_output(&process->out);
        show_output(&process->err);
    }
}

static void kill_all(struct ranks *ranks)
{
    for (int i = 0; i < ranks->size; i++) {
        struct process *process = &ranks->processes[i];

        if (process->pid <= 0)
            continue;
        if (!process->result.ended_ns)
            process->killed = true;
        kill(-process->pid, SIGKILL); /* the group: its forked children too */
        if (!process->result.ended_ns)
            kill(process->pid, SIGKILL);
    }
}

/* At the deadline everything is killed and shown. */
static bool wait_for(struct ranks *ranks, int rank, condition_fn condition, const char *name)
{
    while (!holds(ranks, rank, condition, name)) {
        int64_t left = (ranks->deadline_ns - ranks_now_ns()) / 1000000;

        if (left <= 0) {
            kill_all(ranks);
            for (int i = 0; i < PUMP_MS && !holds(ranks, RANKS_ALL, has_ended, NULL); i++)
                pump(ranks, 1);
            show(ranks);
            return false;
        }
        pump(ranks, left < PUMP_MS ? (int)left : PUMP_MS);
    }
    return true;
}

bool ranks_reach(struct ranks *ranks, int rank, const char *name)
{
    bool reached = wait_for(ranks, rank, has_reached_or_ended, name);

    for (int i = 0; i < ranks->size && reached; i++) {
        if ((rank == RANKS_ALL || rank == i) && ranks_point_ns(ranks, i, name) < 0) {
            show(ranks);
            reached = false;
        }
    }
    return reached;
}

static bool has_said(const struct ranks *ranks, int rank, const char *words)
{
    const struct process *process = &ranks->processes[rank];

    return process->err.text && strstr(process->err.text + process->marked, words);
}

static bool has_said_or_ended(const struct ranks *ranks, int rank, const char *words)
{
    return has_said(ranks, rank, words) || has_ended(ranks, rank, NULL);
}

bool ranks_await_words(struct ranks *ranks, int rank, const char *words)
{
    return wait_for(ranks, rank, has_said_or_ended, words) && holds(ranks, rank, has_said, words);
}

void ranks_mark_words(struct ranks *ranks)
{
    pump(ranks, 0); /* what is still in a pipe was said before */
    for (int i = 0; i < ranks->size; i++)
        ranks->processes[i].marked = ranks->processes[i].err.size;
}

bool ranks_wait_rank(struct ranks *ranks, int rank)
{
    return wait_for(ranks, rank, has_ended, NULL);
}

bool ranks_wait(struct ranks *ranks)
{
    return wait_for(ranks, RANKS_ALL, has_ended, NULL);
}

/* ---- asking and telling ---------------------------------------------------------------------- */

int64_t ranks_point_ns(const struct ranks *ranks, int rank, const char *name)
{
    const char *found = find_report(&ranks->processes[rank], "point", name, true);

    return found ? strtoll(found, NULL, 10) : -1;
}

int64_t ranks_note_delays(struct ranks *ranks)
{
    for (int i = 0; i < ranks->size; i++) {
        ranks->processes[i].noted_delay = delay_of_ns(ranks->processes[i].pid);
        ranks->processes[i].noted_ns = ranks_now_ns();
    }
    return ranks_now_ns();
}

static int64_t delay_of(const struct process *process, int64_t from_ns, int64_t until_ns)
{
    long long at, delay, begun_at = -1, begun = -1, ended = 0;

    for (const char *next = process->out.text; (next = next_report(next, "@tutti point "));) {
        if (sscanf(next, "%*s %lld %lld", &at, &delay) < 2)
            continue;
        if (begun < 0 || at <= from_ns) {
            begun_at = at;
            begun = delay;
        }
        ended = delay;
        if (at >= until_ns)
            break;
    }
    if (process->noted_ns > begun_at && process->noted_ns <= from_ns)
        begun = process->noted_delay;
    return ended > begun && begun >= 0 ? ended - begun : 0;
}

int64_t ranks_withheld_ms(const struct ranks *ranks, int64_t from_ns, int64_t until_ns)
{
    int64_t delay = 0;

    for (int i = 0; i < ranks->size; i++)
        delay += delay_of(&ranks->processes[i], from_ns, until_ns);
    return stalls_ms(from_ns, until_ns) + delay / 1000000;
}

bool ranks_value(const struct ranks *ranks, int rank, const char *name, char *ret_words,
                 size_t size)
{
    const char *found = find_report(&ranks->processes[rank], "value", name, false);

    if (found)
        snprintf(ret_words, size, "%.*s", (int)strcspn(found, "\n"), found);
    return found;
}

void ranks_tell(struct ranks *ranks, int rank, const char *word)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%.100s\n", word);

    for (int i = 0; i < ranks->size; i++) {
        if (rank == RANKS_ALL || rank == i)
            send(ranks->processes[i].words_fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

int64_t ranks_signal(struct ranks *ranks, int rank, int signal)
{
    int64_t before = ranks_now_ns();

    kill(ranks->processes[rank].pid, signal);
    return before;
}

uint16_t ranks_store_port(const struct ranks *ranks)
{
    return tutti_store_server_port(ranks->server);
}

const char *ranks_run_id(const struct ranks *ranks)
{
    return strchr(ranks->mark, '=') + 1;
}

int ranks_pid(const struct ranks *ranks, int rank)
{
    return ranks->processes[rank].pid;
}

const struct rank_result *ranks_result(const struct ranks *ranks, int rank)
{
    return &ranks->processes[rank].result;
}

bool ranks_passed(const struct ranks *ranks)
{
    for (int i = 0; i < ranks->size; i++) {
        if (!ranks->processes[i].result.passed) {
            show(ranks);
            return false;
        }
    }
    return true;
}

static void close_process(struct process *process)
{
    if (process->pid <= 0)
        return;
    waitpid(process->pid, NULL, 0);
    close(process->pidfd);
    close(process->words_fd);
    if (process->out.fd >= 0)
        close(process->out.fd);
    if (process->err.fd >= 0)
        close(process->err.fd);
    free(process->out.text);
    free(process->err.text);
}

void ranks_free(struct ranks *ranks)
{
    char command[RANKS_FOLDER_MAX + 16];

    if (!ranks)
        return;
    kill_all(ranks);
    for (int i = 0; i < ranks->size; i++)
        close_process(&ranks->processes[i]);
    pmi_proxies_stop(ranks->pmi_proxies);
    tutti_store_server_stop(ranks->server);
    if (ranks->folder[0]) {
        snprintf(command, sizeof command, "rm -rf '%s'", ranks->folder);
        if (system(command))
            fprintf(stderr, "cannot remove %s\n", ranks->folder);
    }
    free(ranks);
}
