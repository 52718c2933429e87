/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a check. They are forked without exec, share one page of findings with the
 * parent, and write what they print into a file without a name, whose end is quoted when one crashes.
 * Between any two of them there is a socket for descriptors, and each has a doorbell to sleep on.
 */
#include "check/check_trial.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORDS_MAX = 2048,
    DOING_MAX = 256,
    GIVEN_MAX = 64 << 10,
    LOOK_US = 2000,
    TOLD_LOOKS = 10, /* after a failure was told, for a crash that caused it */
    COUNTS_US = 100000,
    SLOW_TIMES = 10, /* the deadline of a step, for a whole check */
    CALL_MS = 1000,  /* inside one function of a transport, of which none may block */
    OPEN_MS = 5000,  /* inside open, which may start a runtime, as MPI's */
    CALL_LOOK_US = 20000,
    TAIL_MAX = 400 /* bytes quoted of what a crashed process printed */
};

/* Shared by all processes of one check. */
struct world {
    _Atomic int told; /* whose words count: 0 nobody's yet, else 1 + result */
    _Atomic int complete;
    char words[WORDS_MAX];
    char doing[CHECK_MEMBERS_MAX][DOING_MAX];
    _Atomic uint64_t steps; /* how often a process has begun to do something else */
    _Atomic bool dies[CHECK_MEMBERS_MAX], over[CHECK_MEMBERS_MAX];
    pthread_barrier_t barrier;
    uint64_t given_bytes[CHECK_MEMBERS_MAX];
    uint8_t given[CHECK_MEMBERS_MAX][GIVEN_MAX];
    struct check_gathers gathers[CHECK_MEMBERS_MAX][CHECK_GATHER_WAYS];
    int sockets[CHECK_MEMBERS_MAX][CHECK_MEMBERS_MAX]; /* [of][to] */
    int doorbells[CHECK_MEMBERS_MAX];
    _Atomic bool asleep[CHECK_MEMBERS_MAX];
    const char *_Atomic inside[CHECK_MEMBERS_MAX]; /* the function; NULL: none */
    _Atomic uint64_t calls[CHECK_MEMBERS_MAX];
};

static struct world *world; /* of the check that runs */
static int self;            /* this process's index in it */

struct check_time check_time_of(int ms)
{
    return (struct check_time){ms * G_GINT64_CONSTANT(1000), g_get_monotonic_time()};
}

bool check_time_is_left(struct check_time *time)
{
    const gint64 now = g_get_monotonic_time();

    time->left_us -= MIN(now - time->looked_us, COUNTS_US);
    time->looked_us = now;
    return time->left_us > 0;
}

/* ---- in the children ------------------------------------------------------------------------- */

static void tell(enum check_result result, const char *format, va_list args)
{
    int nobody = 0;

    if (!atomic_compare_exchange_strong(&world->told, &nobody, 1 + (int)result))
        return;
    vsnprintf(world->words, sizeof world->words, format, args);
    atomic_store(&world->complete, 1);
}

#define TELL_AND_END(result)                                                                       \
    do {                                                                                           \
        va_list args;                                                                              \
                                                                                                   \
        va_start(args, format);                                                                    \
        tell((result), format, args);                                                              \
        va_end(args);                                                                              \
        _exit(0);                                                                                  \
    } while (0)

void check_fails(const char *format, ...)
{
    TELL_AND_END(CHECK_FAILED);
}

void check_skips(const char *format, ...)
{
    TELL_AND_END(CHECK_SKIPPED);
}

void check_remarks(const char *format, ...)
{
    TELL_AND_END(CHECK_REMARK);
}

void check_doing(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(world->doing[self], DOING_MAX, format, args);
    va_end(args);
    atomic_fetch_add_explicit(&world->steps, 1, memory_order_relaxed);
}

void check_enters(const char *function)
{
    atomic_fetch_add_explicit(&world->calls[self], 1, memory_order_relaxed);
    atomic_store_explicit(&world->inside[self], function, memory_order_release);
}

void check_leaves(void)
{
    atomic_store_explicit(&world->inside[self], NULL, memory_order_release);
}

void check_meet(void)
{
    pthread_barrier_wait(&world->barrier);
}

void check_dies(void)
{
    atomic_store(&world->dies[self], true);
}

void check_over(void)
{
    atomic_store(&world->over[self], true);
}

void check_give(const void *bytes, uint64_t count)
{
    memcpy(world->given[self], bytes, MIN(count, GIVEN_MAX));
    world->given_bytes[self] = MIN(count, GIVEN_MAX);
}

const uint8_t *check_take(int member, uint64_t *ret_count)
{
    *ret_count = world->given_bytes[member];
    return world->given[member];
}

struct check_gathers *check_gathers_of(int member, int way)
{
    return &world->gathers[member][way];
}

int check_socket(int member)
{
    return world->sockets[self][member];
}

int check_sleeps(void)
{
    atomic_store(&world->asleep[self], true);
    return world->doorbells[self];
}

void check_awake(void)
{
    uint64_t rings;

    atomic_store(&world->asleep[self], false);
    if (read(world->doorbells[self], &rings, sizeof rings) < 0 && errno != EAGAIN)
        check_fails("cannot be tried: %s", g_strerror(errno));
}

void check_ring(int member)
{
    const uint64_t one = 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&world->asleep[member]) &&
        write(world->doorbells[member], &one, sizeof one) < 0 && errno != EAGAIN)
        check_fails("cannot be tried: %s", g_strerror(errno));
}

/* The parent ends it at the deadline. */
static _Noreturn void run(check_body *body, const struct check_member *member,
                          const struct check_job *job, int output, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    self = member->index;
    check_trial_enter(job, self);
    body(member);
    check_over();
    _exit(0);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static struct check_finding failed(const char *format, ...) G_GNUC_PRINTF(1, 2);

static struct check_finding failed(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    struct check_finding finding = {CHECK_FAILED, g_strdup_vprintf(format, args), true};
    va_end(args);
    return finding;
}

/* ---- calls that block ------------------------------------------------------------------------ */

/* How long a process has been inside one call, less what it waited for a CPU. */
struct stay {
    uint64_t call, waited_ns;
    gint64 us, looked_us;
};

uint64_t check_waited_ns(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/schedstat", (int)pid);
    g_autofree char *text = NULL;
    unsigned long long waited = 0;

    if (!g_file_get_contents(path, &text, NULL, NULL) || sscanf(text, "%*u %llu", &waited) != 1)
        return 0;
    return waited;
}

static int most_ms(const char *function)
{
    return g_strcmp0(function, "open") ? CALL_MS : OPEN_MS;
}

static bool stays_too_long(struct stay *stay, int index, pid_t pid)
{
    const gint64 now = g_get_monotonic_time();
    const uint64_t call = atomic_load(&world->calls[index]);
    const char *function = atomic_load(&world->inside[index]);

    if (!function || call != stay->call) {
        *stay = (struct stay){.call = call, .looked_us = now};
        return false;
    }
    if (now - stay->looked_us < CALL_LOOK_US)
        return false;
    const uint64_t waited = check_waited_ns(pid);
    const gint64 withheld = stay->waited_ns ? (gint64)(waited - stay->waited_ns) / 1000 : 0;
    stay->us += MAX(MIN(now - stay->looked_us, COUNTS_US) - withheld, 0);
    stay->looked_us = now;
    stay->waited_ns = waited;
    return stay->us > most_ms(function) * G_GINT64_CONSTANT(1000);
}

static struct check_finding why_blocked(int index)
{
    const char *function = atomic_load(&world->inside[index]);

    return failed("process %d has been inside %s() for %d s, while %s: it blocks, which this "
                  "function must not",
                  index, function ? function : "a function", most_ms(function) / 1000,
                  world->doing[index]);
}

/* The end of what the processes printed, on one line. */
static char *said(int output)
{
    char text[TAIL_MAX + 1];
    off_t end = lseek(output, 0, SEEK_END);
    ssize_t n = pread(output, text, TAIL_MAX, MAX(end - TAIL_MAX, 0));

    if (n <= 0)
        return g_strdup("");
    text[n] = 0;
    g_autofree char *valid = g_utf8_make_valid(g_strstrip(text), -1);
    g_strdelimit(valid, "\n", '|');
    return g_strdup_printf("; it printed: %s", valid);
}

static struct check_finding why_ended(int index, int count, int status, int output)
{
    g_autofree char *tail = said(output);
    g_autofree char *who = count > 1 ? g_strdup_printf("process %d ", index) : g_strdup("it ");
    const char *doing = world->doing[index][0] ? world->doing[index] : "starting";

    if (WIFSIGNALED(status))
        return failed("%sdied of signal %d (%s) while %s%s", who, WTERMSIG(status),
                      strsignal(WTERMSIG(status)), doing, tail);
    if (!WEXITSTATUS(status))
        return failed("%sended the process with code 0 before the check was over, while %s: does "
                      "the plugin call exit()?%s",
                      who, doing, tail);
    return failed("%sended the process with exit code %d while %s%s", who, WEXITSTATUS(status),
                  doing, tail);
}

static struct check_finding why_late(const pid_t *pids, int count, int deadline_s)
{
    GString *words = g_string_new(NULL);

    for (int i = 0; i < count; i++)
        if (pids[i] > 0)
            g_string_append_printf(words, "%sprocess %d was %s", words->len ? "; " : "", i,
                                   world->doing[i][0] ? world->doing[i] : "starting");
    struct check_finding finding =
        failed("no end after %d s without a step: %s", deadline_s, words->str);
    g_string_free(words, TRUE);
    return finding;
}

/* How long the processes may go without a step, and in all. A busy machine may make a check of thousands of steps
 * slow, but not a step. */
struct pace {
    struct check_time step, all;
    uint64_t steps;
};

static bool goes_on(struct pace *pace, int deadline_s)
{
    const uint64_t steps = atomic_load_explicit(&world->steps, memory_order_relaxed);

    if (steps != pace->steps)
        pace->step = check_time_of(deadline_s * 1000);
    pace->steps = steps;
    return check_time_is_left(&pace->step) && check_time_is_left(&pace->all);
}

/*
 * Until all have ended, one has told something, or nothing goes on. A process that crashes closes its connections
 * a moment before its end can be waited for; its peer may tell of their loss first, and the crash is the cause.
 */
static struct check_finding follow(pid_t *pids, int count, int deadline_s, int output)
{
    struct pace pace = {.step = check_time_of(deadline_s * 1000),
                        .all = check_time_of(deadline_s * SLOW_TIMES * 1000)};
    struct stay stays[CHECK_MEMBERS_MAX] = {{0}};
    int looks = 0;

    for (;;) {
        int left = 0;

        for (int i = 0; i < count; i++) {
            int status;

            if (pids[i] <= 0)
                continue;
            if (waitpid(pids[i], &status, WNOHANG) != pids[i]) {
                left++;
                if (!atomic_load(&world->told) && stays_too_long(&stays[i], i, pids[i]))
                    return why_blocked(i);
                continue;
            }
            pids[i] = 0;
            const bool right =
                atomic_load(&world->dies[i]) || (!status && atomic_load(&world->over[i]));
            if (!right && (WIFSIGNALED(status) || !atomic_load(&world->told)))
                return why_ended(i, count, status, output);
        }
        if (atomic_load(&world->complete) &&
            (!left || atomic_load(&world->told) != 1 + CHECK_FAILED || looks++ == TOLD_LOOKS))
            return (struct check_finding){(enum check_result)(atomic_load(&world->told) - 1),
                                          g_strdup(world->words), false};
        if (!left && atomic_load(&world->told))
            return failed("a process was killed while it said what it had found");
        if (!left)
            return (struct check_finding){CHECK_PASSED, NULL, false};
        if (!atomic_load(&world->complete) && !goes_on(&pace, deadline_s))
            return why_late(pids, count, deadline_s);
        g_usleep(LOOK_US);
    }
}

static void end_all(pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        if (pids[i] <= 0)
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static bool make_ways(int count)
{
    for (int i = 0; i < count; i++) {
        world->doorbells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (world->doorbells[i] < 0)
            return false;
        for (int k = 0; k < i; k++) {
            int pair[2];

            if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
                return false;
            world->sockets[i][k] = pair[0];
            world->sockets[k][i] = pair[1];
        }
    }
    return true;
}

static void free_world(int count)
{
    for (int i = 0; i < count; i++) {
        if (world->doorbells[i] > 0)
            close(world->doorbells[i]);
        for (int k = 0; k < count; k++)
            if (world->sockets[i][k] > 0)
                close(world->sockets[i][k]);
    }
    munmap(world, sizeof *world);
}

static bool make_world(int count)
{
    pthread_barrierattr_t shared;

    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED)
        return false;
    if (!make_ways(count)) {
        free_world(count);
        return false;
    }
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&world->barrier, &shared, (unsigned)count);
    pthread_barrierattr_destroy(&shared);
    return true;
}

/* Its files only: nothing that runs in it makes folders. */
static void remove_folder(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *file;

    while (dir && (file = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, file, NULL);
        g_unlink(path);
    }
    g_rmdir(folder);
}

static struct check_finding run_all(const struct check_subject *subject, check_body *body,
                                    int count, int deadline_s, const struct check_job *job)
{
    g_autofree char *folder = g_dir_make_tmp("tutti-check-XXXXXX", NULL);
    int output = memfd_create("tutti-check", MFD_CLOEXEC);
    const pid_t parent = getpid();
    pid_t pids[CHECK_MEMBERS_MAX] = {0};
    struct check_finding finding = {CHECK_FAILED, NULL, false};

    if (!folder || output < 0 || !make_world(count)) {
        finding = failed("cannot be tried: %s", strerror(errno));
    } else {
        int started = 0;

        fflush(NULL); /* else the children have our unwritten text too */
        for (; started < count; started++) {
            const struct check_member member = {subject, folder, started, count};

            pids[started] = fork();
            if (pids[started] == 0)
                run(body, &member, job, output, parent);
            if (pids[started] < 0)
                break;
        }
        finding = started < count
                      ? failed("cannot be tried: process %d of %d cannot be started: %s", started,
                               count, strerror(errno))
                      : follow(pids, count, deadline_s, output);
        end_all(pids, count);
        free_world(count);
    }
    if (output >= 0)
        close(output);
    if (folder)
        remove_folder(folder);
    return finding;
}

struct check_finding check_in_children(const struct check_subject *subject, check_body *body,
                                       int count, int deadline_s)
{
    struct check_finding finding = {CHECK_SKIPPED, NULL, false};
    struct check_job job;

    if (!check_trial_start(subject, count, &job, &finding.words))
        return finding;
    finding = run_all(subject, body, count, deadline_s, &job);
    check_trial_stop(&job);
    return finding;
}
