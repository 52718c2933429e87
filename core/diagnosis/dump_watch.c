/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a dump is made without being asked for. Only where TUTTI_DUMP_DIR names a folder: then
 *
 *   on SIGUSR2     if the program has left it at its default, which would end the process. A
 *                  handler of the program, or SIG_IGN, is left alone, and a line says so. Our
 *                  handler rings a doorbell and does nothing else; SA_RESTART, so that the
 *                  program's system calls go on.
 *   on a failure   once for each group, from whichever thread sees the verdict first.
 *
 * Both need somebody when the program's threads compute, or hang outside of tutti: one thread, which
 * sleeps on the doorbell and looks at the groups twice a second. A forked child has neither thread
 * nor watch until its own tutti_init(); the signal does nothing there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/thread.h"
#include "diagnosis/dump.h"
#include "group/groups.h"

enum {
    LOOK_MS = 500,
    WRITE_MS = 500, /* a failed call waits for its dump, not for a file server */
    LOCK_MS = 2000  /* for the progress lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t watcher;
static bool watching;
static char *folder; /* as named when the first group was made; never freed */
static _Atomic int doorbell = -1;
static _Atomic bool wanted, stopping;

/* Not for set-id programs: they would write where their caller says. */
static const char *folder_named(void)
{
    const char *name = secure_getenv("TUTTI_DUMP_DIR");

    return name && *name ? name : NULL;
}

/* ---- dumping ---- */

struct dumping {
    const char *folder, *cause;
    int contexts;
    tutti_status status; /* of the last that failed */
    struct kept_error error;
};

static void dump_context(tutti_context *context, void *user)
{
    struct dumping *dumping = user;
    bool taken = engine_take_until(&context->engine, clock_deadline_ms(LOCK_MS));
    char name[256];

    dump_name(context, !taken, name, sizeof name);
    char *text = dump_text(context, !taken, dumping->cause);
    const unsigned int number = dump_number();
    if (taken)
        engine_release(&context->engine);
    tutti_status status = dump_write(dumping->folder, name, text, number, DUMP_PATIENCE_MS);

    dumping->contexts++;
    if (status && !dumping->status) {
        dumping->status = status;
        error_keep(&dumping->error);
    }
}

static tutti_status dump_all(const char *directory, const char *cause)
{
    struct dumping dumping = {.folder = directory, .cause = cause};

    contexts_each(dump_context, &dumping);
    if (!dumping.contexts)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "nothing to dump: this process has not called tutti_init()");
    if (!dumping.status)
        return TUTTI_OK;
    error_give(dumping.status, &dumping.error);
    error_forget(&dumping.error);
    return dumping.status;
}

tutti_status tutti_recorder_dump(const char *directory)
{
    if (!directory || !*directory)
        directory = folder_named();
    if (!directory)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "no folder for dumps: give one, or set TUTTI_DUMP_DIR");
    return dump_all(directory, "request");
}

void dump_failure(struct tutti_group *group)
{
    char name[256];

    if (!folder || group->ending.dumped)
        return;
    group->ending.dumped = true;
    dump_name(group->context, false, name, sizeof name);
    char *text = dump_text(group->context, false, "error");
    tutti_status status = dump_write(folder, name, text, dump_number(), WRITE_MS);

    if (status)
        log_line(LOG_WARN, group->rank, "group %s failed, and its dump %s: %s", group->name,
                 status == TUTTI_ERR_TIMEOUT ? "is late" : "could not be written", error_message());
}

/* ---- watching ---- */

/* A member whose program computes does not look; its dump is wanted all the same. */
static void look_for_failures(tutti_context *context, void *user)
{
    (void)user;
    if (!engine_try(&context->engine))
        return; /* its holder looks */
    for (struct tutti_group *group = groups_first(context); group; group = groups_next(group)) {
        control_poll(group->control);
        if (control_verdict_status(group->control))
            dump_failure(group);
    }
    engine_release(&context->engine);
}

static void *watch(void *argument)
{
    struct pollfd ring = {.fd = atomic_load(&doorbell), .events = POLLIN};
    uint64_t rings;

    (void)argument;
    while (!atomic_load(&stopping)) {
        (void)poll(&ring, 1, LOOK_MS);
        (void)!read(ring.fd, &rings, sizeof rings);
        if (atomic_exchange(&wanted, false) && dump_all(folder, "signal"))
            log_line(LOG_WARN, -1, "no dump on SIGUSR2: %s", error_message());
        contexts_each(look_for_failures, NULL);
    }
    return NULL;
}

static void ring_doorbell(void)
{
    uint64_t one = 1;
    ssize_t ignored = write(atomic_load(&doorbell), &one, sizeof one);

    (void)ignored; /* a counter that is full rings already */
}

static void on_signal(int signal)
{
    int error = errno;

    (void)signal;
    atomic_store(&wanted, true);
    ring_doorbell();
    errno = error;
}

/* The handler stays for the life of the process, so the code must. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr(&watcher, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void take_signal(void)
{
    struct sigaction now, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};

    if (sigaction(SIGUSR2, NULL, &now))
        return;
    if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == on_signal)
        return;
    if (now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL) {
        log_line(LOG_WARN, -1,
                 "the program handles SIGUSR2 itself, so the signal makes no dump; call "
                 "tutti_recorder_dump() instead");
        return;
    }
    stay_loaded();
    sigemptyset(&ours.sa_mask);
    (void)sigaction(SIGUSR2, &ours, NULL);
}

static void start(void)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    atomic_store(&doorbell, fd);
    atomic_store(&stopping, false);
    watching = fd >= 0 && !thread_start(&watcher, "tutti-dump", watch, NULL);
    if (watching) {
        take_signal();
        return;
    }
    log_line(LOG_WARN, -1, "no dumps on SIGUSR2: no %s for it", fd < 0 ? "descriptor" : "thread");
    if (fd >= 0)
        close(fd);
}

void dump_watch_start(void)
{
    const char *name = folder_named();

    pthread_mutex_lock(&lock);
    if (!folder && name)
        folder = strdup(name);
    if (folder && !watching)
        start();
    pthread_mutex_unlock(&lock);
}

void dump_watch_stop(void)
{
    struct timespec until;

    pthread_mutex_lock(&lock);
    if (watching) {
        atomic_store(&stopping, true);
        ring_doorbell();
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* a folder that does not answer is left alone */
        watching = pthread_timedjoin_np(watcher, NULL, &until) != 0;
    }
    pthread_mutex_unlock(&lock);
}

void dump_watch_forget(void)
{
    int inherited = atomic_exchange(&doorbell, -1);

    dump_files_forget();
    pthread_mutex_init(&lock, NULL);
    watching = false;
    if (inherited >= 0)
        close(inherited);
}
