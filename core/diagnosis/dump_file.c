/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a dump to a file. The text goes to a temporary file that is renamed when it is whole, so a reader
 * never sees half a dump, and an old file or link of the name is replaced, never written through.
 *
 * A folder on a network may hang, and a call that fails must not wait for it. So a thread writes, and its caller
 * gives up at a deadline; they share the memory, and the last of them frees it. A busy disk takes seconds for a
 * file, so a process that ends waits for such threads once more. Several may write the same file: each text has
 * a number, and an older one does not replace a newer one.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text.h"
#include "diagnosis/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

/* ---- newer and older texts ---- */

enum { PLACED = 16 }; /* files that are remembered; a process has few */

static pthread_mutex_t placing = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t path; /* its hash */
    unsigned int number;
} placed[PLACED];
static unsigned int placed_next;
static _Atomic unsigned int numbers;

unsigned int dump_number(void)
{
    return atomic_fetch_add(&numbers, 1) + 1;
}

/* Where the number of the file's text is kept. */
static unsigned int *number_of(const char *path)
{
    const uint64_t hash = XXH3_64bits(path, strlen(path));

    for (int i = 0; i < PLACED; i++)
        if (placed[i].path == hash && placed[i].number)
            return &placed[i].number;
    unsigned int at = placed_next++ % PLACED;
    placed[at].path = hash;
    placed[at].number = 0;
    return &placed[at].number;
}

/* Gives the file its name, unless it has a newer text already. Returns 0 or an errno. */
static int place(const char *temporary, const char *path, unsigned int number)
{
    LOCK_SCOPE(&placing);
    unsigned int *there = number_of(path);

    if (*there > number)
        return unlink(temporary) ? errno : 0;
    if (rename(temporary, path))
        return errno;
    *there = number;
    return 0;
}

/* ---- writing ---- */

/* Another's file of that name is never written through: what stands there goes first. */
static int open_new(const char *path)
{
    if (unlink(path) && errno != ENOENT)
        return -1;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/* Returns 0 or an errno. */
static int write_all(int fd, const char *text)
{
    while (*text) {
        ssize_t put = write(fd, text, strlen(text));

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put ? errno : EIO;
        text += put;
    }
    return 0;
}

static tutti_status write_file(const char *folder, const char *name, const char *text,
                               unsigned int number)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    int m = snprintf(temporary, sizeof temporary, "%s/.%s.%u.part", folder, name, number);

    if (n < 0 || m < 0 || (size_t)n >= sizeof path || (size_t)m >= sizeof temporary)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the folder's name is too long: %.*s…",
                         TEXT_CUT(folder, 80));
    if (mkdir(folder, 0777) && errno != EEXIST)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the folder %s", folder);
    int fd = open_new(temporary);
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make a file in %s", folder);
    int error = write_all(fd, text);
    if (close(fd) && !error) /* where a network's file system tells of a full disk */
        error = errno;
    if (!error)
        error = place(temporary, path, number);
    if (!error)
        return TUTTI_OK;
    (void)unlink(temporary);
    return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot write %s", path);
}

/* ---- under a deadline ---- */

static _Atomic int writers; /* threads that have not ended their file */

struct writing {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int users;           /* the thread, until it is done, and its waiting caller */
    tutti_status status; /* of the thread */
    struct kept_error error;
    char *folder, *name, *text;
    unsigned int number;
};

static void release(struct writing *w)
{
    pthread_mutex_lock(&w->lock);
    bool last = --w->users == 0;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    error_forget(&w->error);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w->folder);
    free(w->name);
    free(w->text);
    free(w);
}

static void *write_it(void *argument)
{
    struct writing *w = argument;

    w->status = write_file(w->folder, w->name, w->text, w->number);
    if (w->status)
        error_keep(&w->error);
    pthread_mutex_lock(&w->lock);
    const bool is_late = w->users == 1;
    pthread_mutex_unlock(&w->lock);
    if (w->status && is_late) /* nobody else tells of it */
        log_line(LOG_WARN, -1, "a dump could not be written: %s", error_message());
    release(w);
    atomic_fetch_sub(&writers, 1);
    return NULL;
}

static struct writing *writing_new(const char *folder, const char *name)
{
    struct writing *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    thread_condition_init(&w->ended);
    pthread_mutex_init(&w->lock, NULL);
    w->users = 1;
    w->folder = strdup(folder);
    w->name = strdup(name);
    return w;
}

/* Once it is done, or the deadline has come. */
static tutti_status await(struct writing *w, int64_t ms)
{
    int64_t at = clock_deadline_ms(ms);

    LOCK_SCOPE(&w->lock);
    while (w->users > 1 && thread_condition_wait(&w->ended, &w->lock, at))
        ;
    if (w->users > 1)
        return error_set(TUTTI_ERR_TIMEOUT, "%s takes longer than %lld ms; still writing %s",
                         w->folder, (long long)ms, w->name);
    return w->status ? error_give(w->status, &w->error) : TUTTI_OK;
}

tutti_status dump_write(const char *folder, const char *name, char *text, unsigned int number,
                        int64_t ms)
{
    struct writing *w = writing_new(folder, name);
    pthread_t thread;
    tutti_status status;

    if (!text || !w || !w->folder || !w->name) {
        if (w)
            release(w);
        free(text);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a dump");
    }
    w->text = text;
    w->number = number;
    w->users = 2;
    atomic_fetch_add(&writers, 1);
    if (thread_start(&thread, "tutti-dump", write_it, w)) {
        atomic_fetch_sub(&writers, 1);
        w->users = 1;
        status = write_file(folder, name, text, number);
    } else {
        pthread_detach(thread);
        status = await(w, ms);
    }
    release(w);
    return status;
}

void dump_files_await(void)
{
    const int64_t until = clock_deadline_ms(DUMP_PATIENCE_MS);
    int left;

    while ((left = atomic_load(&writers)) && clock_left_ms(until, DUMP_PATIENCE_MS))
        (void)usleep(1000);
    if (left)
        log_line(LOG_WARN, -1, "%d dump%s lost: the disk takes longer than %d ms", left,
                 left == 1 ? " is" : "s are", DUMP_PATIENCE_MS);
}

void dump_files_forget(void)
{
    pthread_mutex_init(&placing, NULL);
    atomic_store(&writers, 0);
}
