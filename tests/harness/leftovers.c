/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run leaves behind: processes that carry its mark in their environment (forked children
 * included), files and sockets in its folder, and anything of ours in /dev/shm. Anonymous memory
 * and abstract sockets live as long as the processes that hold them, so those need no count of
 * their own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch_inside.h"

enum { ENVIRONMENT_MAX = 256 << 10, PATIENCE_MS = 2000 /* with children of ranks */ };

struct tally {
    int count;
    bool rank_lives; /* not only what it has started */
    char *words;
    size_t size;
};

static void found(struct tally *tally, const char *kind, const char *name)
{
    const size_t n = strlen(tally->words);

    tally->count++;
    snprintf(tally->words + n, tally->size - n, "%s%s %s", n ? ", " : "", kind, name);
}

/* Whether /proc/PID/environ has the mark; an environment that is gone or not ours has not. */
static bool carries_mark(const char *pid, const char *mark)
{
    static char text[ENVIRONMENT_MAX];
    char path[300];
    size_t size = 0;

    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t n; (n = read(fd, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)n;
    close(fd);
    text[size] = 0;
    for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
        if (!strcmp(text + at, mark))
            return true;
    }
    return false;
}

static void each_entry(const char *folder,
                       void (*visit)(const char *name, const struct ranks *ranks,
                                     struct tally *tally),
                       const struct ranks *ranks, struct tally *tally)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.')
            visit(entry->d_name, ranks, tally);
    }
    if (dir)
        closedir(dir);
}

static void visit_process(const char *name, const struct ranks *ranks, struct tally *tally)
{
    if (strspn(name, "0123456789") != strlen(name) || !carries_mark(name, ranks->mark))
        return;
    found(tally, "process", name);
    for (int i = 0; i < ranks->size; i++)
        tally->rank_lives |= ranks->processes[i].pid == atoi(name);
}

int ranks_processes(const struct ranks *ranks, int *ret_pids, int most)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    for (struct dirent *entry; dir && count < most && (entry = readdir(dir));)
        if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) &&
            carries_mark(entry->d_name, ranks->mark))
            ret_pids[count++] = atoi(entry->d_name);
    if (dir)
        closedir(dir);
    return count;
}

static void visit_file(const char *name, const struct ranks *ranks, struct tally *tally)
{
    (void)ranks;
    if (strcmp(name, "store")) /* the harness's own */
        found(tally, "file or socket", name);
}

static void visit_segment(const char *name, const struct ranks *ranks, struct tally *tally)
{
    (void)ranks;
    /* Others name theirs after the host, which may be called so. */
    if (!strncmp(name, "tutti", 5) || !strncmp(name, "sem.tutti", 9))
        found(tally, "segment", name);
}

/* A rank that was killed may need a CPU for its end, so it has as long as the run. */
int ranks_leftovers(const struct ranks *ranks, char *ret_words, size_t size)
{
    struct tally tally = {.words = ret_words, .size = size};

    for (int waited = 0;; waited += 10) {
        tally.count = 0;
        tally.rank_lives = false;
        *ret_words = 0;
        each_entry("/proc", visit_process, ranks, &tally);
        if (!tally.count ||
            (tally.rank_lives ? ranks_now_ns() >= ranks->deadline_ns : waited >= PATIENCE_MS))
            break;
        poll(NULL, 0, 10);
    }
    each_entry(ranks->folder, visit_file, ranks, &tally);
    each_entry("/dev/shm", visit_segment, ranks, &tally);
    return tally.count;
}
