/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL prints on stdout, or into NCCL_DEBUG_FILE, which it opens by its name, once a process. That is the writing end of a
 * pipe here, by its name in /proc, and a thread reads the other one. It stays until the process ends, as NCCL keeps the
 * file. A line goes to the host of a team. While there is no team it goes to stdout, where NCCL would have printed it: a
 * framework may use the same library. But for that the user must have asked NCCL for lines.
 *
 * Lines are "HOST:PID:THREAD [DEVICE] FILE:LINE NCCL WARN WORDS", the version's apart, and warnings have an empty one
 * before them. What follows a line without such a beginning belongs to it.
 */
#include "lines.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../common/listeners.h"

enum { LINE_BYTES = 2048, WARNING = 1, INFORMATION = 2, DETAIL = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static int ends[2] = {-1, -1};
static char file[40];
static char text[LINE_BYTES];
static size_t used;
static int32_t level = INFORMATION;
static bool is_wanted; /* on stdout */

/* What NCCL says in a line, whose level is the last one's if it has none. */
static const char *words_of(const char *line)
{
    static const struct {
        const char *begin;
        int32_t level;
    } kinds[] = {{" NCCL WARN ", WARNING},
                 {" NCCL INFO ", INFORMATION},
                 {" NCCL TRACE ", DETAIL},
                 {" NCCL CALL ", DETAIL}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *at = strstr(line, kinds[i].begin);

        if (at) {
            level = kinds[i].level;
            return at + strlen(kinds[i].begin);
        }
    }
    if (strstr(line, "NCCL version "))
        level = INFORMATION;
    return line;
}

static void take_line(char *line)
{
    if (*line && !listeners_tell(level, words_of(line)) && is_wanted)
        (void)dprintf(STDOUT_FILENO, "%s\n", line);
}

/* Under the lock. A line that is too long comes in parts. */
static void take_text(void)
{
    char *begin = text, *end;

    text[used] = 0;
    while ((end = memchr(begin, '\n', used - (size_t)(begin - text)))) {
        *end = 0;
        take_line(begin);
        begin = end + 1;
    }
    used -= (size_t)(begin - text);
    memmove(text, begin, used);
    if (used == sizeof text - 1) {
        text[used] = 0;
        take_line(text);
        used = 0;
    }
}

static void read_lines(void)
{
    ssize_t bytes;

    pthread_mutex_lock(&lock);
    while (ends[0] >= 0 && (bytes = read(ends[0], text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)bytes;
        take_text();
    }
    pthread_mutex_unlock(&lock);
}

static void *keep_reading(void *user)
{
    struct pollfd readable = {.fd = *(const int *)user, .events = POLLIN};

    for (;;) {
        (void)poll(&readable, 1, -1);
        read_lines();
    }
    return NULL;
}

static bool start_thread(void)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_there = !pthread_create(&thread, NULL, keep_reading, &ends[0]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_there)
        pthread_detach(thread);
    return is_there;
}

/* Without a reader, who writes would wait for ever. */
static void open_pipe(void)
{
    if (pipe2(ends, O_CLOEXEC))
        return;
    if (!fcntl(ends[0], F_SETFL, O_NONBLOCK) && start_thread()) {
        (void)snprintf(file, sizeof file, "/proc/self/fd/%d", ends[1]);
        return;
    }
    close(ends[0]);
    close(ends[1]);
    ends[0] = ends[1] = -1;
}

const char *lines_file(bool prints_without_teams)
{
    pthread_mutex_lock(&lock);
    is_wanted = prints_without_teams;
    if (!*file)
        open_pipe();
    pthread_mutex_unlock(&lock);
    return *file ? file : NULL;
}

tutti_status lines_join(const struct caller *caller)
{
    return listeners_join(caller);
}

void lines_leave(const struct caller *caller)
{
    read_lines();
    listeners_leave(caller);
}
