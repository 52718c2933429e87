/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Init returns once every process of the job has called it. One may have ended before, or lack the
 * plugin, and no MPI tells of that. So a thread calls it. The waiting caller has a deadline and
 * looks after the group meanwhile, which may have lost a member. Both MPIs let a process exit while
 * a thread of it is in MPI_Init.
 *
 * For MPI that thread is the main one (MPI_Is_thread_main). With MPI_THREAD_SERIALIZED and above, which
 * is all that is accepted here, that changes nothing: MPI is called, and finalized, from any.
 */
#include "start.h"

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "launched.h"

enum { STALL_WARNING_S = 30, PLACE_MAX = 128, WORDS_MAX = 512, LOOK_MS = 50 };

/* Leaves the core, which knows the ranks that do not answer, time to report the deadline. */
static const int64_t AFTER_DEADLINE_NS = 1000000000;

static struct {
    pthread_mutex_t lock; /* of what is below */
    pthread_cond_t ended;
    bool begun, done;
    int code, level;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* MPIs, and what they load, take signals over to print where a process crashed. A program's handlers
 * are its own. */
static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT,
                              SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

/*
 * MPICH may use UCX. With cma, that aborts the process when it reads from the memory of one that has
 * died. With tcp, closing a connection needs an answer from the other side, and MPICH's MPI_Finalize stops
 * answering once its own connections are closed: a process that is later waits for ever there. So tcp is
 * used between hosts alone.
 */
static const char ucx_transports[] = "UCX_TLS", between_hosts[] = "^cma",
                  on_one_host[] = "^cma,tcp";

static void *initialise(void *unused)
{
    int level = MPI_THREAD_SINGLE;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);

    pthread_mutex_lock(&state.lock);
    state.code = code;
    state.level = level;
    state.done = true;
    pthread_cond_broadcast(&state.ended);
    pthread_mutex_unlock(&state.lock);
    return unused;
}

static tutti_status begin(const struct caller *c)
{
    pthread_condattr_t attributes;
    pthread_t thread;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&state.ended, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = pthread_create(&thread, NULL, initialise, NULL);
    if (error)
        return c->host->error(c->host_self, TUTTI_ERR_SYSTEM, error, "cannot start a thread");
    pthread_detach(thread);
    state.begun = true;
    return TUTTI_OK;
}

/* The known state of a wait in MPI_Init. */
static const char *in_init(char ret_words[WORDS_MAX])
{
    char place[PLACE_MAX];

    launched_place(place, sizeof place);
    snprintf(ret_words, WORDS_MAX,
             "in MPI_Init, which waits for all processes of the MPI job (this is %s). Look at the "
             "output of the others: one may have ended, may not have called tutti_init(), or "
             "cannot use the plugin mpi",
             place);
    return ret_words;
}

/* 0: never. */
static int warning_s(void)
{
    const char *value = getenv("TUTTI_STALL_WARNING");

    return value && *value ? atoi(value) : STALL_WARNING_S;
}

/* Whether the group may still be made; a core of before minor 4 does not say. */
static tutti_status ask_the_core(const struct caller *c)
{
    if (!TUTTI_HAS(c->host, keep_waiting))
        return TUTTI_OK;
    pthread_mutex_unlock(&state.lock);
    tutti_status status = c->host->keep_waiting(c->host_self);
    pthread_mutex_lock(&state.lock);
    return status;
}

/* Until then (0: for ever), or the end, or until the core wants no more: TIMEOUT: the deadline is over. */
static tutti_status await_until(const struct caller *c, int64_t until_ns)
{
    for (;;) {
        int64_t look_ns = c->host->now_ns(c->host_self) + LOOK_MS * INT64_C(1000000);

        if (until_ns && look_ns > until_ns)
            look_ns = until_ns;
        const struct timespec look = {.tv_sec = (time_t)(look_ns / 1000000000),
                                      .tv_nsec = (long)(look_ns % 1000000000)};
        while (!state.done && !pthread_cond_timedwait(&state.ended, &state.lock, &look))
            ;
        tutti_status status = state.done ? TUTTI_OK : ask_the_core(c);
        if (status || state.done || (until_ns && look_ns == until_ns))
            return status;
    }
}

static tutti_status await(const struct caller *c, int64_t deadline_ns)
{
    const int seconds = warning_s();
    const int64_t warns_ns = c->host->now_ns(c->host_self) + seconds * INT64_C(1000000000);
    char where[WORDS_MAX], words[WORDS_MAX + 32];

    if (seconds > 0 && (!deadline_ns || warns_ns < deadline_ns)) {
        tutti_status status = await_until(c, warns_ns);
        if (status || state.done)
            return status;
        snprintf(words, sizeof words, "has waited for %d s %s", seconds, in_init(where));
        c->host->log(c->host_self, 1, words);
    }
    if (deadline_ns && TUTTI_HAS(c->host, keep_waiting))
        deadline_ns += AFTER_DEADLINE_NS;
    return await_until(c, deadline_ns);
}

/* MPI reads variables and sets handlers long before it waits for others. */
static tutti_status begin_quietly(const struct caller *c, int64_t deadline_ns)
{
    struct sigaction before[SIGNALS];
    const bool chosen = getenv(ucx_transports);

    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], NULL, &before[i]);
    if (!chosen)
        setenv(ucx_transports, launched_on_one_host() ? on_one_host : between_hosts, 1);
    tutti_status status = begin(c);
    if (!status)
        status = await(c, deadline_ns);
    if (!chosen)
        unsetenv(ucx_transports);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return status;
}

static tutti_status tell(const struct caller *c)
{
    char words[MPI_MAX_ERROR_STRING], where[WORDS_MAX];
    int length = 0;

    if (!state.done)
        return refuse(c, TUTTI_ERR_TIMEOUT, "timed out %s", in_init(where));
    if (state.code != MPI_SUCCESS) {
        if (MPI_Error_string(state.code, words, &length) != MPI_SUCCESS)
            snprintf(words, sizeof words, "error %d", state.code);
        return refuse(c, TUTTI_ERR_PLUGIN, "MPI_Init_thread failed: %.300s", words);
    }
    if (state.level < MPI_THREAD_SERIALIZED)
        return refuse(c, TUTTI_ERR_UNSUPPORTED,
                      "this MPI allows no thread but the one that initialises it, which has to be "
                      "the program's then: call MPI_Init before tutti_init()");
    return TUTTI_OK;
}

tutti_status start_mpi(const struct caller *c, int64_t deadline_ns)
{
    tutti_status status = TUTTI_OK;
    int started = 0, ended = 0;

    pthread_mutex_lock(&state.lock);
    if (state.begun) {
        status = await(c, deadline_ns);
        if (!status || status == TUTTI_ERR_TIMEOUT)
            status = tell(c);
        pthread_mutex_unlock(&state.lock);
        return status;
    }
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started && !ended) {
        status = launched_for_this_mpi(c);
        if (!status)
            status = begin_quietly(c, deadline_ns);
        if (!status || status == TUTTI_ERR_TIMEOUT)
            status = tell(c);
    }
    pthread_mutex_unlock(&state.lock);
    return status;
}

bool start_was_ours(int *ret_level)
{
    pthread_mutex_lock(&state.lock);
    const bool ours = state.begun;
    if (ours)
        *ret_level = state.level;
    pthread_mutex_unlock(&state.lock);
    return ours;
}
