/* SPDX-License-Identifier: Apache-2.0 */
#include "communicator.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "worker.h"

/* What the others do not come to in so long is aborted. */
enum {
    LOOK_NS = 1000000,
    ABORT_LOOKS = 5,
    LAST_LOOKS = 2000,
    MEMORY_LOOKS = 3000,
    FINALIZE_LOOKS = 5000,
    CLOSE_LOOKS = 8000
};

/* What ncclMemAlloc() gave, and operations may use until the end. */
struct left {
    struct left *next;
    void *memory;
};

/* Of its two holders, its user and the thread that ends it, the last one frees it. */
struct communicator {
    const struct nccl_library *nccl;
    ncclComm_t handle;
    bool is_aborted, is_captured;
    bool is_given_up;      /* its end was waited for, and did not come */
    bool has_ended;        /* atomic */
    int holders;           /* atomic */
    struct left *left;     /* under the lock */
    struct worker *worker; /* NULL: NCCL needs none, or it ends the communicator */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int threads;       /* that end communicators; atomic */
static int graph_threads; /* of these, where graphs may be in the way; atomic */

static void look_later(void)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};

    nanosleep(&look, NULL);
}

struct communicator *communicator_new(const struct nccl_library *nccl)
{
    struct communicator *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (struct communicator){.nccl = nccl, .holders = 1};
    if (workers_are_needed(nccl->code) && !(c->worker = worker_start())) {
        const int error = errno;

        free(c);
        errno = error;
        return NULL;
    }
    return c;
}

ncclResult_t communicator_join(struct communicator *c, const ncclUniqueId *id, int rank, int size)
{
    ncclConfig_t config = NCCL_CONFIG(0);

    return c->nccl->ncclCommInitRankConfig(&c->handle, size, *id, rank, &config);
}

ncclResult_t communicator_call(struct communicator *c, ncclResult_t (*call)(void *user), void *user)
{
    return c->worker ? worker_call(c->worker, call, user) : call(user);
}

ncclComm_t communicator_handle(const struct communicator *communicator)
{
    return communicator->handle;
}

ncclResult_t communicator_result(const struct communicator *c)
{
    ncclResult_t of_communicator = ncclSuccess;
    const ncclResult_t result = c->nccl->ncclCommGetAsyncError(c->handle, &of_communicator);

    return result ? result : of_communicator;
}

void communicator_is_captured(struct communicator *c)
{
    c->is_captured = true;
}

static void let_go(struct communicator *c)
{
    if (__atomic_sub_fetch(&c->holders, 1, __ATOMIC_ACQ_REL) == 0)
        free(c);
}

static void *do_nothing(void *user)
{
    return user;
}

void communicator_drop(struct communicator *c)
{
    if (c->worker)
        worker_finish(c->worker, do_nothing, NULL);
    free(c);
}

/* ---- the end ---- */

/* Whether all that was begun is over, on the members of the host as on this one. */
static bool finalize(const struct communicator *c)
{
    ncclResult_t result = c->nccl->ncclCommFinalize(c->handle);

    for (int i = 0; result == ncclInProgress && i < FINALIZE_LOOKS; i++) {
        look_later();
        result = communicator_result(c);
    }
    return !result;
}

static void count(bool is_captured, int change)
{
    if (is_captured)
        __atomic_add_fetch(&graph_threads, change, __ATOMIC_RELEASE);
    __atomic_add_fetch(&threads, change, __ATOMIC_RELEASE);
}

/* Its memory is used by nothing any more. */
static void tell_end(struct communicator *c)
{
    pthread_mutex_lock(&lock);
    struct left *left = c->left;
    c->left = NULL;
    __atomic_store_n(&c->has_ended, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    while (left) {
        struct left *next = left->next;

        (void)c->nccl->ncclMemFree(left->memory);
        free(left);
        left = next;
    }
}

static void *end_it(void *user)
{
    struct communicator *c = user;
    const bool is_captured = c->is_captured;

    if (c->is_aborted || !finalize(c))
        (void)c->nccl->ncclCommAbort(c->handle);
    else
        (void)c->nccl->ncclCommDestroy(c->handle);
    tell_end(c);
    let_go(c);
    count(is_captured, -1);
    return NULL;
}

/* Without a thread it stays as it is until the process ends. */
static bool start_end(struct communicator *c)
{
    struct worker *worker = c->worker ? c->worker : worker_start();

    if (!worker)
        return false;
    __atomic_add_fetch(&c->holders, 1, __ATOMIC_RELAXED);
    count(c->is_captured, 1);
    c->worker = NULL;
    worker_finish(worker, end_it, c);
    return true;
}

static bool has_ended(const struct communicator *c)
{
    return __atomic_load_n(&c->has_ended, __ATOMIC_ACQUIRE);
}

static bool await_end(const struct communicator *c, int looks)
{
    for (int i = 0; i < looks && !has_ended(c); i++)
        look_later();
    return has_ended(c);
}

bool communicator_begin_abort(struct communicator *c)
{
    c->is_aborted = true;
    return start_end(c);
}

bool communicator_abort(struct communicator *c)
{
    if (!communicator_begin_abort(c))
        return false;
    return await_end(c, ABORT_LOOKS);
}

bool communicator_was_aborted(const struct communicator *c)
{
    return c->is_aborted;
}

bool communicator_await_end(struct communicator *c)
{
    const bool ended = await_end(c, c->is_given_up ? 0 : MEMORY_LOOKS);

    c->is_given_up = !ended;
    return ended;
}

/* Without memory for the note it stays until the process ends. */
void communicator_frees(struct communicator *c, void *memory)
{
    struct left *note = malloc(sizeof *note);

    pthread_mutex_lock(&lock);
    const bool is_late = has_ended(c);
    if (note && !is_late) {
        *note = (struct left){c->left, memory};
        c->left = note;
    }
    pthread_mutex_unlock(&lock);
    if (!is_late)
        return;
    free(note);
    (void)c->nccl->ncclMemFree(memory);
}

void communicator_close(struct communicator *c)
{
    if (!c->is_aborted)
        (void)start_end(c);
    let_go(c);
}

void communicators_wait(bool for_others)
{
    for (int i = 0; i < CLOSE_LOOKS; i++) {
        const bool is_late = i >= LAST_LOOKS;
        const int of_graphs = is_late ? __atomic_load_n(&graph_threads, __ATOMIC_ACQUIRE) : 0;

        if (__atomic_load_n(&threads, __ATOMIC_ACQUIRE) <= of_graphs || (is_late && !for_others))
            return;
        look_later();
    }
}
