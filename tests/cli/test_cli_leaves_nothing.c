/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However `tutti run` ends, no process of the job is left. The ranks here ignore SIGTERM, and each
 * has a child in its own group and one that has left it with setsid(): the worst that programs do.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "harness/stalls.h"

/* Ctrl-C gives the ranks 1.2 s, and the prompt back after 2. */
#define INTERRUPTED_S 2.0
#define GRACE_S 1.2

enum { RANKS = 3, PROCESSES_A_RANK = 3, PATIENCE_S = 20 };

struct job {
    char *folder, *log, *marker, *words;
    pid_t pid;
};

/* A number of seconds that no other sleep(1) has marks the processes of this test. `on_term`: what
 * the shell of a rank does instead of ending. */
static struct job job_words(const char *on_term)
{
    static int jobs;
    struct job job = {.folder = folder_new()};

    job.log = g_build_filename(job.folder, "log", NULL);
    job.marker = g_strdup_printf("9%d.%d", getpid(), ++jobs);
    job.words = g_strdup_printf("run -n %d -- sh -c 'cd %s; trap \"%s\" TERM; sleep %s & "
                                "setsid sleep %s & while :; do sleep %s; done'",
                                RANKS, job.folder, on_term, job.marker, job.marker, job.marker);
    stalls_watch();
    return job;
}

static struct job job_start(const char *on_term)
{
    struct job job = job_words(on_term);

    job.pid = command_start(job.words, job.log);
    /* the sleeps, their shells, guard and launcher */
    cr_assert(wait_for_processes(job.marker, RANKS * (PROCESSES_A_RANK + 1) + 2, PATIENCE_S));
    return job;
}

static void job_free(struct job *job)
{
    folder_remove(job->folder);
    g_free(job->log);
    g_free(job->marker);
    g_free(job->words);
}

Test(leaves_nothing, when_a_signal_ends_it_within_two_seconds, .timeout = 60)
{
    static const struct {
        int sig, code;
    } cases[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {SIGQUIT, 131}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct job job = job_start("");
        const struct command_ending ending = command_ending(job.pid);

        kill(job.pid, cases[i].sig);
        cr_assert_eq(command_ends_within(&ending, INTERRUPTED_S), cases[i].code, "signal %d",
                     cases[i].sig);
        cr_assert_eq(processes_with(job.marker), 0);
        job_free(&job);
    }
}

Test(leaves_nothing, when_ctrl_c_is_pressed_on_the_terminal, .timeout = 30)
{
    struct job job = job_words("");
    g_autofree char *command = g_strdup_printf("exec %s %s", TUTTI_COMMAND, job.words);
    char said[4096];
    int terminal, code;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(99);
    }
    cr_assert(wait_for_processes(job.marker, RANKS * (PROCESSES_A_RANK + 1) + 2, PATIENCE_S));
    const struct command_ending ending = command_ending(pid);
    cr_assert_eq(write(terminal, "\003", 1), 1);
    code = command_ends_within(&ending, INTERRUPTED_S);
    cr_assert(code == 130, "exit code %d", code);
    cr_assert_eq(processes_with(job.marker), 0);

    ssize_t got = read(terminal, said, sizeof said - 1);

    cr_assert_gt(got, 0);
    said[got] = 0;
    cr_assert_not_null(strstr(said, "Ctrl-C again kills them"), "%s", said);
    close(terminal);
    job_free(&job);
}

Test(leaves_nothing, at_once_when_ctrl_c_comes_twice, .timeout = 30)
{
    struct job job = job_start("echo > told");
    const struct command_ending ending = command_ending(job.pid);

    kill(job.pid, SIGINT);
    cr_assert(wait_for_file(job.folder, "told", PATIENCE_S)); /* or it were one signal */
    kill(job.pid, SIGINT);
    cr_assert_eq(command_ends_within(&ending, GRACE_S), 130);
    cr_assert_eq(processes_with(job.marker), 0);
    job_free(&job);
}

Test(leaves_nothing, when_its_output_is_not_read, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *path = g_build_filename(folder, "pipe", NULL);
    const gint64 until_us = g_get_monotonic_time() + PATIENCE_S * G_USEC_PER_SEC;

    stalls_watch();
    cr_assert_eq(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const pid_t pid = command_start("run -n 2 -- yes", path);

    /* How many bytes a full pipe holds depends on the lengths of the writes. */
    while (poll(&(struct pollfd){.fd = writer, .events = POLLOUT}, 1, 0) == 1) {
        cr_assert_lt(g_get_monotonic_time(), until_us);
        g_usleep(10000);
    }
    const struct command_ending ending = command_ending(pid);
    kill(pid, SIGTERM);
    cr_assert_eq(command_ends_within(&ending, INTERRUPTED_S), 143);
    close(writer);
    close(fd);
    folder_remove(folder);
}

Test(leaves_nothing, when_the_launcher_is_killed, .timeout = 60)
{
    for (int inner = 0; inner < 2; inner++) { /* the process that the user sees, and its child */
        struct job job = job_start("");

        kill(inner ? child_of(job.pid) : job.pid, SIGKILL);
        cr_assert(wait_for_processes(job.marker, 0, PATIENCE_S), "%d are left",
                  processes_with(job.marker));
        cr_assert_eq(command_wait(job.pid, PATIENCE_S), 137);
        job_free(&job);
    }
}

Test(leaves_nothing, when_a_rank_fails, .timeout = 30)
{
    g_autofree char *marker = g_strdup_printf("8%d.1", getpid());
    struct ran r = ran("$TUTTI run -n 2 --grace 0.5 -- sh -c 'setsid sleep %s & sleep %s &"
                       "[ $RANK = 0 ] && exit 1; trap \"\" TERM; wait; wait'",
                       marker, marker);

    cr_assert_eq(r.code, 1);
    cr_assert_eq(processes_with(marker), 0);
    ran_free(&r);
}

Test(leaves_nothing, when_every_rank_is_done, .timeout = 30)
{
    g_autofree char *marker = g_strdup_printf("7%d.1", getpid());
    struct ran r = ran("$TUTTI run -n 2 -- sh -c 'setsid sleep %s & echo done'", marker);

    cr_assert_eq(r.code, 0);
    cr_assert_eq(processes_with(marker), 0);
    cr_assert_lt(r.seconds, PATIENCE_S);
    ran_free(&r);
}

/* timeout(1) begins a process group, which is orphaned with its rank. */
Test(leaves_nothing, that_a_rank_has_stopped, .timeout = 30)
{
    g_autofree char *marker = g_strdup_printf("6%d.1", getpid());
    struct ran r = ran("$TUTTI run -n 2 --grace 20 -- sh -c 'timeout 60 sh -c \"kill -STOP \\$\\$; "
                       "exec sleep %s\" & sleep 0.3'",
                       marker);

    cr_assert_eq(r.code, 0);
    cr_assert_eq(processes_with(marker), 0);
    cr_assert_lt(r.seconds, PATIENCE_S);
    ran_free(&r);
}

Test(leaves_nothing, and_twenty_launches_at_once_do_not_meet, .timeout = 120)
{
    char *folder = folder_new();
    /* Rank 0 of each job shows its port, connects to its store and waits for the other jobs. */
    struct ran r =
        ran("cd '%s'; for i in $(seq 20); do $TUTTI run -n 2 -- bash -c '"
            "[ $RANK = 0 ] || exit 0; echo $MASTER_PORT > port.'$i'; exec "
            "3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT"
            " || exit 1; while [ $(ls | grep -c port) -lt 20 ]; do sleep 0.1; done; sleep 0.3' ||"
            " echo job $i failed & done; wait; sort -u port.* | wc -l",
            folder);

    cr_assert_str_eq(g_strstrip(r.out), "20", "%s%s", r.out, r.err);
    folder_remove(folder);
    ran_free(&r);
}
