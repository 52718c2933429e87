/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting MPI, or finding it started, and leaving it.
 *
 * Messages travel in a communicator of our own, so that a program's own messages never meet ours, and
 * communicators of groups are made from another. Both are made by MPI_Comm_idup, because only the
 * core, which has a deadline, may wait for the other processes; MPI_Init_thread offers no such form
 * (start.c). The second is a copy of the first, of which all processes may begin at any time.
 */
#include "job.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine_inside.h"
#include "errors.h"
#include "launched.h"
#include "start.h"

enum { NUMBERS_MAX = 1 << 14, FINALIZE_S = 5, SETTLE_MS = 50 };

struct numbers {
    int next; /* to try first */
    bool used[NUMBERS_MAX];
};

static struct {
    pthread_mutex_t lock; /* of what is below */
    bool joined, ours, ready, blocking;
    bool copies_again; /* the second copy is under way */
    MPI_Request copying;
    struct job job;
    struct numbers endpoints, meetings;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void job_lock(void)
{
    if (state.job.serialize)
        pthread_mutex_lock(&one_at_a_time);
}

void job_unlock(void)
{
    if (state.job.serialize)
        pthread_mutex_unlock(&one_at_a_time);
}

tutti_status job_status(int code)
{
    int class = MPI_ERR_OTHER;

    if (code == MPI_SUCCESS)
        return TUTTI_OK;
    MPI_Error_class(code, &class);
    switch (class) {
    case MPI_ERR_TRUNCATE:
        return TUTTI_ERR_INTERNAL;
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_NO_MEM:
    case MPI_ERR_OP:
    case MPI_ERR_RANK:
    case MPI_ERR_ROOT:
    case MPI_ERR_TAG:
    case MPI_ERR_TYPE:
        return TUTTI_ERR_PLUGIN;
    default:
        return TUTTI_ERR_PEER_LOST;
    }
}

const char *job_words(int code, char ret_words[MPI_MAX_ERROR_STRING])
{
    int length = 0;

    if (MPI_Error_string(code, ret_words, &length) != MPI_SUCCESS)
        snprintf(ret_words, MPI_MAX_ERROR_STRING, "error %d", code);
    for (char *at = ret_words; (at = strchr(at, '\n'));) /* MPICH tells a stack of lines */
        *at = ' ';
    return ret_words;
}

static tutti_status check_mpi(const struct caller *c, int code, const char *what)
{
    char words[MPI_MAX_ERROR_STRING];

    return code == MPI_SUCCESS
               ? TUTTI_OK
               : refuse(c, TUTTI_ERR_PLUGIN, "%s failed: %.300s", what, job_words(code, words));
}

/* ---- starting ------------------------------------------------------------------------------ */

static const char one_thread_words[] =
    "the program has initialised MPI for its first thread alone, and this is another one; call "
    "tutti "
    "from that thread, or ask MPI_Init_thread for MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE";

/* Whose MPI it is, and which threads may call it. */
static tutti_status look_at_threads(const struct caller *c)
{
    int ended = 0, level = MPI_THREAD_SINGLE, is_main = 1;

    MPI_Finalized(&ended);
    if (ended)
        return refuse(c, TUTTI_ERR_PLUGIN,
                      "this process has finalized %s, which cannot be started again",
                      mpi_library());
    state.ours = start_was_ours(&level);
    if (state.ours) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    } else {
        MPI_Query_thread(&level);
        MPI_Is_thread_main(&is_main);
        state.job.programs_errors = errors_are_the_programs();
    }
    if (level < MPI_THREAD_SERIALIZED && !is_main)
        return refuse(c, TUTTI_ERR_UNSUPPORTED, "%s", one_thread_words);
    state.job.serialize = level < MPI_THREAD_MULTIPLE;
    state.job.one_thread = level < MPI_THREAD_SERIALIZED;
    state.job.callers_only = !state.ours && level < MPI_THREAD_MULTIPLE;
    state.job.home = pthread_self();
    return TUTTI_OK;
}

/* Nobody of ours may be inside MPI, which then keeps the progress lock, while the program waits for others. */
uint32_t job_threads(void)
{
    return state.job.callers_only || state.blocking ? TUTTI_THREADS_CALLERS_ONLY
                                                    : TUTTI_THREADS_ONE_AT_A_TIME;
}

bool job_blocks(const tutti_host *host, void *host_self)
{
    const char *value = host->config(host_self, "blocking");

    return value && !strcmp(value, "1");
}

static const char over_words[] = "the program has finalized MPI, over which this group goes; "
                                 "destroy its groups before MPI_Finalize";

tutti_status job_refuse_call(const struct caller *c, const struct job *job)
{
    return job_is_foreign(job) ? refuse(c, TUTTI_ERR_UNSUPPORTED, "%s", one_thread_words)
                               : refuse(c, TUTTI_ERR_PLUGIN, "%s", over_words);
}

void job_warn_of_call(const struct caller *c, const struct job *job)
{
    static int warned;

    if (!__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
        c->host->log(c->host_self, 1, job_is_foreign(job) ? one_thread_words : over_words);
}

/* A tag names the receiving and the sending endpoint, so both numbers must fit; or a process and its
 * number for a group that is made (form.c). */
static void count_numbers(void)
{
    int *bound, there = 0, bits = 0;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &there);
    const long most = there ? *bound : 32767, a_process = (most + 1) / state.job.size;
    for (; most >> (bits + 1); bits++)
        ;
    state.job.numbers = 1 << bits / 2;
    if (state.job.numbers > NUMBERS_MAX)
        state.job.numbers = NUMBERS_MAX;
    state.job.meetings = a_process < state.job.numbers ? (int)a_process : state.job.numbers;
}

static tutti_status join_locked(const struct caller *c)
{
    tutti_engine_version version = {.struct_size = sizeof version};
    tutti_status status = look_at_threads(c);

    if (!status)
        status = check_mpi(c, MPI_Comm_rank(MPI_COMM_WORLD, &state.job.rank), "MPI_Comm_rank");
    if (!status)
        status = check_mpi(c, MPI_Comm_size(MPI_COMM_WORLD, &state.job.size), "MPI_Comm_size");
    if (!status)
        status = launched_not_alone(c, state.job.size);
    if (status)
        return status;
    count_numbers();
    state.blocking = job_blocks(c->host, c->host_self);
    job_version(&version);
    snprintf(state.job.version, sizeof state.job.version, "%.10s %u.%u.%u", version.name,
             version.major, version.minor, version.patch);
    job_lock();
    status = check_mpi(c, MPI_Comm_idup(MPI_COMM_WORLD, &state.job.messages, &state.copying),
                       "MPI_Comm_idup");
    job_unlock();
    state.joined = !status;
    return status;
}

tutti_status job_join(const tutti_host *host, void *host_self, int64_t deadline_ns,
                      const struct job **ret_job)
{
    const struct caller c = {.host = host, .host_self = host_self};
    tutti_status status = start_mpi(&c, deadline_ns);
    int ended = 0;

    if (status)
        return status;
    pthread_mutex_lock(&state.lock);
    status = state.joined ? TUTTI_OK : join_locked(&c);
    MPI_Finalized(&ended);
    if (!status && ended)
        status = refuse(&c, TUTTI_ERR_PLUGIN, "the program has finalized %s", mpi_library());
    pthread_mutex_unlock(&state.lock);
    if (!status)
        *ret_job = &state.job;
    return status;
}

/* One that was given back is used again as late as can be: nothing that was sent to its last holder
 * should meet the next. */
static tutti_status take(const struct caller *c, struct numbers *of, int count, int *ret_number)
{
    int number = -1;

    pthread_mutex_lock(&state.lock);
    for (int tries = 0; tries < count && number < 0; tries++) {
        if (!of->used[of->next])
            number = of->next;
        of->next = (of->next + 1) % count;
    }
    if (number >= 0)
        of->used[number] = true;
    pthread_mutex_unlock(&state.lock);
    if (number < 0)
        return refuse(c, TUTTI_ERR_NO_MEMORY, "a process has at most %d groups over MPI at a time",
                      count);
    *ret_number = number;
    return TUTTI_OK;
}

static void give(struct numbers *of, int number)
{
    pthread_mutex_lock(&state.lock);
    of->used[number] = false;
    pthread_mutex_unlock(&state.lock);
}

tutti_status job_take_number(const tutti_host *host, void *host_self, int *ret_number)
{
    const struct caller c = {.host = host, .host_self = host_self};

    return take(&c, &state.endpoints, state.job.numbers - 1, ret_number);
}

void job_give_number(int number)
{
    give(&state.endpoints, number);
}

tutti_status job_take_meeting(const tutti_host *host, void *host_self, int *ret_number)
{
    const struct caller c = {.host = host, .host_self = host_self};

    return take(&c, &state.meetings, state.job.meetings, ret_number);
}

void job_give_meeting(int number)
{
    give(&state.meetings, number);
}

void job_version(tutti_engine_version *ret_version)
{
    char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    MPI_Get_library_version(words, &length);
    (void)sscanf(words + strcspn(words, "0123456789"), "%u.%u.%u", &ret_version->major,
                 &ret_version->minor, &ret_version->patch);
    snprintf(ret_version->name, sizeof ret_version->name, "%s", mpi_library());
}

/* Goes on with the copies; whether both are there. */
static bool go_on_copying(void)
{
    int done = 0;

    if (MPI_Test(&state.copying, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
        return false;
    if (state.copies_again) {
        MPI_Comm_set_errhandler(state.job.forming, MPI_ERRORS_RETURN);
        return true;
    }
    MPI_Comm_set_errhandler(state.job.messages, MPI_ERRORS_RETURN);
    state.copies_again =
        MPI_Comm_idup(state.job.messages, &state.job.forming, &state.copying) == MPI_SUCCESS;
    return false;
}

bool job_ready(void)
{
    if (__atomic_load_n(&state.ready, __ATOMIC_ACQUIRE))
        return true;
    pthread_mutex_lock(&state.lock);
    if (!state.ready) {
        job_lock();
        if (go_on_copying())
            __atomic_store_n(&state.ready, true, __ATOMIC_RELEASE);
        job_unlock();
    }
    pthread_mutex_unlock(&state.lock);
    return state.ready;
}

void job_await(void)
{
    while (!job_ready())
        sched_yield();
}

/* ---- leaving ------------------------------------------------------------------------------- */

#if defined(MPICH_VERSION)
static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * MPICH 4.0 over UCX closes its connections in MPI_Finalize, and then waits for the others by its launcher,
 * without looking at the connections any more. Over UCX's tcp, to close one takes an answer from its other
 * side, so a process that closes later waits for ever. This makes all begin together, and gives those that
 * are still connecting a moment; a process that is off its CPU for longer still comes too late.
 */
static void settle(void)
{
    MPI_Request meeting;
    int done = 0;

    if (MPI_Ibarrier(state.job.messages, &meeting) != MPI_SUCCESS)
        return;
    while (!done && MPI_Test(&meeting, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
        sched_yield();
    for (const int64_t until = now_ns() + SETTLE_MS * INT64_C(1000000); now_ns() < until;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, state.job.messages, &done, MPI_STATUS_IGNORE);
        sched_yield();
    }
}
#else
static void settle(void)
{
}
#endif

static void *finalize(void *unused)
{
    (void)unused;
    job_await(); /* nobody may ever have sent anything */
    settle();
    MPI_Finalize();
    return NULL;
}

void job_warn_of_finalize(const struct caller *c)
{
    static int warned;

    if (!state.ours && !job_is_over() && !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
        c->host->log(
            c->host_self, 1,
            "the program has initialised MPI, and its MPI_Finalize may wait for ever for a "
            "member that is lost; leave by exit() without it");
}

/* On a thread, because others may die now, and a finalize that waits for them must not keep this
 * process; the thread ends with it. */
void job_leave(int32_t clean)
{
    struct timespec until;
    pthread_t thread;
    int ended = 1;

    if (!clean || !state.ours || !state.joined)
        return;
    MPI_Finalized(&ended);
    if (ended || pthread_create(&thread, NULL, finalize, NULL) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FINALIZE_S;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
}
