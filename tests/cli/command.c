/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/stalls.h"

enum { POLL_US = 10000, PATIENCE_S = 20 };

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static double now(void)
{
    return (double)g_get_monotonic_time() / 1e6;
}

struct ran ran(const char *script, ...)
{
    struct ran result = {0};
    va_list args;
    char shell[] = "/bin/sh", option[] = "-c";
    double began = now();
    int status = -1;

    va_start(args, script);
    g_autofree char *text = g_strdup_vprintf(script, args);
    va_end(args);
    g_setenv("TUTTI", TUTTI_COMMAND, TRUE);

    char *argv[] = {shell, option, text, NULL};

    if (!g_spawn_sync(NULL, argv, NULL, G_SPAWN_CHILD_INHERITS_STDIN, NULL, NULL, &result.out,
                      &result.err, &status, NULL))
        g_error("cannot start /bin/sh");
    result.code = code_of(status);
    result.seconds = now() - began;
    return result;
}

void ran_free(struct ran *ran)
{
    g_free(ran->out);
    g_free(ran->err);
}

pid_t command_start(const char *words, const char *output_path)
{
    g_auto(GStrv) argv = NULL;
    g_autofree char *line = g_strdup_printf("%s %s", TUTTI_COMMAND, words);

    if (!g_shell_parse_argv(line, NULL, &argv, NULL))
        g_error("cannot read: %s", words);

    pid_t pid = fork();

    if (pid == 0) {
        int out = open(output_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

        signal(SIGINT, SIG_DFL);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execv(argv[0], argv);
        _exit(99);
    }
    return pid;
}

int command_wait(pid_t pid, double seconds)
{
    double deadline = now() + seconds;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now() > deadline)
            return -1;
        g_usleep(POLL_US);
    }
    return code_of(status);
}

/* How long the threads of a process were ready and had no CPU, together; proc_pid_schedstat(5). Of this process
 * the first one counts alone: others note stalls. */
static gint64 delay_ns(pid_t pid)
{
    g_autofree char *folder = g_strdup_printf("/proc/%d/task", pid);
    g_autoptr(GDir) threads = g_dir_open(folder, 0, NULL);
    const char *name;
    gint64 sum = 0;

    while (threads && (name = g_dir_read_name(threads))) {
        g_autofree char *path = g_strdup_printf("%s/%s/schedstat", folder, name), *text = NULL;
        gint64 delay;

        if ((pid != getpid() || atoi(name) == pid) &&
            g_file_get_contents(path, &text, NULL, NULL) &&
            sscanf(text, "%*d %" G_GINT64_FORMAT, &delay) == 1)
            sum += delay;
    }
    return sum;
}

struct command_ending command_ending(pid_t pid)
{
    struct command_ending ending = {.pids = {pid, child_of(pid), getpid()},
                                    .from_us = g_get_monotonic_time()};

    for (size_t i = 0; i < G_N_ELEMENTS(ending.pids); i++)
        ending.delay_ns += delay_ns(ending.pids[i]);
    return ending;
}

int command_ends_within(const struct command_ending *ending, double seconds)
{
    gint64 delays[G_N_ELEMENTS(ending->pids)] = {0}, delay = -ending->delay_ns;
    const double deadline = now() + PATIENCE_S;
    int code;

    do { /* what a process told last counts when it has ended */
        for (size_t i = 0; i < G_N_ELEMENTS(delays); i++)
            delays[i] = MAX(delays[i], delay_ns(ending->pids[i]));
        code = command_wait(ending->pids[0], POLL_US / 1e6);
    } while (code < 0 && now() < deadline);
    const gint64 at_us = g_get_monotonic_time();

    for (size_t i = 0; i < G_N_ELEMENTS(delays); i++)
        delay += delays[i];
    const double withheld =
        (double)stalls_ms(ending->from_us * 1000, at_us * 1000) / 1e3 + (double)MAX(delay, 0) / 1e9;

    return (double)(at_us - ending->from_us) / 1e6 <= seconds + withheld ? code : -1;
}

char *folder_new(void)
{
    return g_dir_make_tmp("tutti-test-XXXXXX", NULL);
}

void folder_remove(char *folder)
{
    struct ran removed = ran("rm -r '%s'", folder);

    ran_free(&removed);
    g_free(folder);
}

char *folder_read(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) ? text : g_strdup("");
}

/* Calls fn for each process until it returns true. */
static bool any_process(bool (*fn)(const char *pid, void *user), void *user)
{
    g_autoptr(GDir) processes = g_dir_open("/proc", 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(processes)))
        if (g_ascii_isdigit(name[0]) && fn(name, user))
            return true;
    return false;
}

struct counted {
    const char *marker;
    int count;
};

static bool count_marked(const char *pid, void *user)
{
    struct counted *counted = user;
    g_autofree char *path = g_strdup_printf("/proc/%s/cmdline", pid);
    g_autofree char *text = NULL;
    gsize size = 0;

    if (atoi(pid) != getpid() && g_file_get_contents(path, &text, &size, NULL) &&
        memmem(text, size, counted->marker, strlen(counted->marker)))
        counted->count++;
    return false;
}

int processes_with(const char *marker)
{
    struct counted counted = {marker, 0};

    any_process(count_marked, &counted);
    return counted.count;
}

bool wait_for_processes(const char *marker, int count, double seconds)
{
    double deadline = now() + seconds;

    while (processes_with(marker) != count) {
        if (now() > deadline)
            return false;
        g_usleep(POLL_US);
    }
    return true;
}

bool wait_for_file(const char *folder, const char *name, double seconds)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    double deadline = now() + seconds;

    while (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        if (now() > deadline)
            return false;
        g_usleep(POLL_US);
    }
    return true;
}

bool wait_for_words(const char *folder, const char *name, const char *words, double seconds)
{
    double deadline = now() + seconds;

    while (now() < deadline) {
        g_autofree char *text = folder_read(folder, name);

        if (strstr(text, words))
            return true;
        g_usleep(POLL_US);
    }
    return false;
}

struct child {
    pid_t parent, found;
};

static bool is_child(const char *pid, void *user)
{
    struct child *child = user;
    g_autofree char *path = g_strdup_printf("/proc/%s/stat", pid);
    g_autofree char *text = NULL;
    int parent = 0;

    if (!g_file_get_contents(path, &text, NULL, NULL) ||
        sscanf(strrchr(text, ')'), ") %*c %d", &parent) != 1 || parent != child->parent)
        return false;
    child->found = atoi(pid);
    return true;
}

pid_t child_of(pid_t pid)
{
    struct child child = {pid, 0};

    any_process(is_child, &child);
    return child.found;
}

int count_of(const char *text, const char *words)
{
    int count = 0;

    for (; (text = strstr(text, words)); text += strlen(words))
        count++;
    return count;
}
