/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker for the process, unless endpoints differ in their settings (context.c). A worker takes 4.3 MiB of /dev/shm, ten descriptors and tens of
 * milliseconds, which a host with many groups does not have for each of them.
 *
 * UCX has two modes for a connection. With PEER it tells of a process that is gone, and does without shared
 * memory; with NONE it tells nothing. A connection that is of one mode here and of the other there
 * hangs, so both sides derive it from both addresses: NONE where they share a host, since the core
 * watches its processes.
 *
 * A connection lives until the worker ends, also if no group uses it: UCX matches both sides of a pair by
 * how many connections they have made, and the next group of the same processes finds it. One that was
 * lost is closed; a later group makes another.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    FLUSH_MS = 200,
    CLOSE_TURNS = 100, /* UCX takes a connection apart in several turns */
    DESCRIPTORS = 32   /* more than UCX opens while it starts */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct worker *workers;

/* ---- links --------------------------------------------------------------------------------- */

/* UCX calls it inside a call under the lock. */
static void is_lost(void *of, ucp_ep_h ep, ucs_status_t status)
{
    struct link *link = of;

    if (link->ep != ep) /* a second word about it */
        return;
    link->why = status;
    __atomic_store_n(&link->losses, link->losses + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&link->worker->losses, link->worker->losses + 1, __ATOMIC_RELAXED);
    flights_wake_all(link->worker);
}

/* Of mode PEER. UCX drops its requests, which it would not do as the worker ends: it ends the process. */
static void close_ep(struct link *link)
{
    const struct ucx_library *library = link->worker->library;
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t closing = library->ucp_ep_close_nbx(link->ep, &force);

    link->ep = NULL;
    if (UCS_PTR_IS_PTR(closing))
        library->ucp_request_free(closing);
}

static ucs_status_t make_ep(struct link *link, const struct ucx_address *to)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA,
        .address = to->blob,
        .err_mode = link->local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = is_lost, .arg = link},
        .user_data = link};

    struct descriptors before;

    link->worker->armed = false;
    inherited_begin(&before);
    ucs_status_t status =
        link->worker->library->ucp_ep_create(link->worker->ucp, &params, &link->ep);
    inherited_end(&before, NULL);
    return status;
}

static struct link *find_link(struct worker *worker, uint64_t process)
{
    struct link *link = worker->links;

    while (link && link->process != process)
        link = link->next;
    return link;
}

tutti_status worker_link(const struct caller *caller, struct worker *worker,
                         const struct ucx_address *own, const struct ucx_address *to,
                         struct link **ret_link)
{
    ucs_status_t status = UCS_OK;

    worker_lock(worker);
    struct link *link = find_link(worker, to->process);
    if (!link && (link = calloc(1, sizeof *link))) {
        *link = (struct link){.next = worker->links,
                              .worker = worker,
                              .process = to->process,
                              .local = address_is_local(own, to)};
        worker->links = link;
    }
    if (link && link->ep && link->why != UCS_OK && !link->local)
        close_ep(link);
    if (link && !link->ep) {
        link->why = UCS_OK;
        status = make_ep(link, to);
        if (status)
            link->ep = NULL;
    }
    worker_unlock(worker);
    if (!link)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    if (status)
        return fail(caller, TUTTI_ERR_UNSUPPORTED, 0,
                    "UCX has no way to the peer: %s; TUTTI_UCX_TLS and TUTTI_UCX_NET_DEVICES limit "
                    "what it may take, and `tutti info` lists what it has",
                    worker->library->ucs_status_string(status));
    *ret_link = link;
    return TUTTI_OK;
}

/* ---- beginning ----------------------------------------------------------------------------- */

static tutti_status refused(const struct caller *caller, const struct worker *worker,
                            const char *what, ucs_status_t status)
{
    return fail(caller, TUTTI_ERR_PLUGIN, 0, "%s of UCX failed: %s", what,
                worker->library->ucs_status_string(status));
}

static tutti_status learn(const struct caller *caller, struct worker *worker)
{
    const struct ucx_library *library = worker->library;
    ucs_status_t status = flights_describe(worker);

    if (status)
        return refused(caller, worker, "ucp_dt_create_generic()", status);
    if (getrandom(&worker->process, sizeof worker->process, 0) != sizeof worker->process)
        return fail(caller, TUTTI_ERR_INTERNAL, 0, "getrandom() failed");
    status = library->ucp_worker_get_efd(worker->ucp, &worker->event_fd);
    if (status)
        return refused(caller, worker, "ucp_worker_get_efd()", status);
    status = library->ucp_worker_get_address(worker->ucp, &worker->blob, &worker->blob_bytes);
    return status ? refused(caller, worker, "ucp_worker_get_address()", status) : TUTTI_OK;
}

static void end(struct worker *worker)
{
    const struct ucx_library *library = worker->library;

    if (worker->blob)
        library->ucp_worker_release_address(worker->ucp, worker->blob);
    if (worker->ucp)
        library->ucp_worker_destroy(worker->ucp);
    if (worker->piece)
        library->ucp_dt_destroy(worker->piece);
    flights_free(worker);
    for (struct link *link; (link = worker->links);) {
        worker->links = link->next;
        free(link);
    }
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

static tutti_status begin(const struct caller *caller, struct ucx_context *context,
                          struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    pthread_mutex_init(&worker->lock, NULL);
    worker->library = context->library;
    worker->context = context;
    tutti_status status = context_worker(caller, context, &worker->ucp);
    if (!status)
        status = learn(caller, worker);
    if (status) {
        end(worker);
        return status;
    }
    worker->next = workers;
    workers = worker;
    *ret_worker = worker;
    return TUTTI_OK;
}

static struct worker *find(const struct ucx_context *context)
{
    struct worker *worker = workers;

    while (worker && worker->context != context)
        worker = worker->next;
    return worker;
}

/* UCX ends the process if it gets no descriptor for its thread. */
static tutti_status check_descriptors(const struct caller *caller)
{
    int opened[DESCRIPTORS], count = 0;

    while (count < DESCRIPTORS && (opened[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    const int error = errno;
    for (int i = 0; i < count; i++)
        close(opened[i]);
    return count == DESCRIPTORS ? TUTTI_OK
                                : fail(caller, TUTTI_ERR_SYSTEM, error,
                                       "UCX needs %d descriptors, and only %d can be opened; raise "
                                       "the limit (ulimit -n)",
                                       DESCRIPTORS, count);
}

static tutti_status find_or_begin(const struct caller *caller, const char *bind_address,
                                  struct worker **ret_worker)
{
    struct ucx_context *context;
    tutti_status status = context_open(caller, bind_address, &context);

    if (status)
        return status;
    pthread_mutex_lock(&lock);
    struct worker *worker = find(context);
    if (!worker)
        status = begin(caller, context, &worker);
    if (worker)
        worker->users++;
    pthread_mutex_unlock(&lock);
    if (!worker)
        context_close(caller, context);
    *ret_worker = worker;
    return status;
}

/* A child of fork() has the memory and the descriptors of its parent's workers, and not UCX's thread. */
static tutti_status check_process(const struct caller *caller)
{
    static pid_t owner; /* of the workers; 0: there have been none */
    const pid_t before = __atomic_load_n(&owner, __ATOMIC_RELAXED), own = getpid();

    if (before && before != own && workers)
        return fail(
            caller, TUTTI_ERR_UNSUPPORTED, 0,
            "this process was forked while its parent, process %d, had a group over UCX: UCX "
            "cannot be used in such a child; start it by exec, or use another backend",
            (int)before);
    __atomic_store_n(&owner, own, __ATOMIC_RELAXED);
    return TUTTI_OK;
}

tutti_status worker_open(const struct caller *caller, const char *bind_address,
                         struct worker **ret_worker)
{
    tutti_status status = check_process(caller);

    if (!status)
        status = check_descriptors(caller);

    if (!status)
        status = find_or_begin(caller, bind_address, ret_worker);
    if (status == TUTTI_ERR_NOT_READY) /* UCX cannot use /dev/shm: once more, without it */
        status = find_or_begin(caller, bind_address, ret_worker);
    return status;
}

/* ---- ending -------------------------------------------------------------------------------- */

static void close_all(struct worker *worker)
{
    for (struct link *link = worker->links; link; link = link->next)
        if (link->ep && !link->local)
            close_ep(link);
    for (int turn = 0; turn < CLOSE_TURNS; turn++)
        worker->library->ucp_worker_progress(worker->ucp);
    flights_drop(worker, 0, 0);
}

/* What UCX has taken leaves its buffers. A dead process takes nothing, so this has an end. */
static void flush(const struct caller *caller, struct worker *worker)
{
    const struct ucx_library *library = worker->library;
    const int64_t deadline = caller->host->now_ns(caller->self) + FLUSH_MS * INT64_C(1000000);
    const ucp_request_param_t plain = {.op_attr_mask = 0};

    for (struct link *link = worker->links; link; link = link->next) {
        if (!link->ep || link->why != UCS_OK)
            continue;
        ucs_status_ptr_t flushing = library->ucp_ep_flush_nbx(link->ep, &plain);

        while (UCS_PTR_IS_PTR(flushing) &&
               library->ucp_request_check_status(flushing) == UCS_INPROGRESS &&
               caller->host->now_ns(caller->self) < deadline)
            library->ucp_worker_progress(worker->ucp);
        if (UCS_PTR_IS_PTR(flushing))
            library->ucp_request_free(flushing);
    }
}

static void forget(const struct worker *worker)
{
    struct worker **at = &workers;

    while (*at != worker)
        at = &(*at)->next;
    *at = worker->next;
}

void worker_close(const struct caller *caller, struct worker *worker)
{
    struct ucx_context *context = worker->context;

    pthread_mutex_lock(&lock);
    if (!--worker->users) {
        forget(worker);
        flush(caller, worker);
        close_all(worker);
        end(worker);
    }
    pthread_mutex_unlock(&lock);
    context_close(caller, context);
}
