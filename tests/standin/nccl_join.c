/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators. A member that joins claims its place on the board and waits until all places are taken; then each
 * looks for itself whether versions and devices go together. One that does not come is waited for until an
 * abort. The board is memory without a name, so nothing is left when all are killed.
 */
#include "nccl.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_AGAIN_US 200

/* What an id says. */
struct place {
    pid_t pid;
    int fd;
    uint64_t secret;
};

/* NCCL 2.28 leaves the mode of a non-blocking communicator in its thread when it registers memory. */
static _Thread_local bool has_left_mode;

static ncclResult_t check_mode(const char *call)
{
    if (!has_left_mode)
        return ncclSuccess;
    return nccl_warn(ncclInvalidArgument,
                     "%s: Blocking and nonblocking communicators are not allowed in the same group",
                     call);
}

/* ---- boards --------------------------------------------------------------------------------- */

static struct place place_of(const ncclUniqueId *id)
{
    struct place place;

    memcpy(&place, id->internal, sizeof place);
    return place;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id)
{
    struct place place = {.pid = getpid(), .fd = memfd_create("standin-nccl", MFD_CLOEXEC)};

    nccl_begin();
    if (place.fd < 0 || ftruncate(place.fd, sizeof(struct board)) ||
        getrandom(&place.secret, sizeof place.secret, 0) != sizeof place.secret ||
        pwrite(place.fd, &place.secret, sizeof place.secret, 0) != sizeof place.secret)
        return nccl_warn(ncclSystemError, "no memory for an id");
    memset(ret_id, 0, sizeof *ret_id);
    memcpy(ret_id->internal, &place, sizeof place);
    return ncclSuccess;
}

static struct board *map(const ncclUniqueId *id)
{
    const struct place place = place_of(id);
    struct board *board;
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place.pid, place.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED)
        return NULL;
    if (board->secret == place.secret)
        return board;
    munmap(board, sizeof *board);
    return NULL;
}

/* The process that made the id keeps the board for those that come, until all have. */
static void let_go_of_id(const ncclUniqueId *id)
{
    const struct place place = place_of(id);

    if (place.pid == getpid())
        close(place.fd);
}

/* ---- joining -------------------------------------------------------------------------------- */

static int state_of(const struct ncclComm *comm, int rank)
{
    return atomic_load_explicit(&comm->board->members[rank].state, memory_order_acquire);
}

/* Waits until the members have that state; REMOTE where it is aborted. */
static ncclResult_t await(struct ncclComm *comm, int state)
{
    for (int r = 0; r < comm->size; r++)
        while (state_of(comm, r) < state) {
            if (atomic_load(&comm->aborted))
                return ncclRemoteError;
            nccl_sleep_us(LOOK_AGAIN_US);
        }
    return ncclSuccess;
}

/* For ever. Returns where it is aborted. */
static ncclResult_t await_abort(struct ncclComm *comm)
{
    while (!atomic_load(&comm->aborted))
        nccl_sleep_us(LOOK_AGAIN_US);
    return ncclRemoteError;
}

static ncclResult_t compare(const struct ncclComm *comm, int a, int b)
{
    const struct member *one = &comm->board->members[a], *other = &comm->board->members[b];

    if (one->version != other->version)
        return nccl_warn(ncclInvalidUsage,
                         "Mismatched NCCL version detected : rank %d %d rank %d %d", a,
                         one->version, b, other->version);
    if (one->host == other->host && !strcmp(one->bus, other->bus) &&
        !nccl_settings()->shares_devices)
        return nccl_warn(ncclInvalidUsage,
                         "Duplicate GPU detected : rank %d and rank %d both on CUDA device %s", a,
                         b, one->bus);
    return ncclSuccess;
}

static bool have_my_size(const struct ncclComm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (comm->board->members[r].size != comm->size)
            return false;
    return true;
}

static ncclResult_t claim(struct ncclComm *comm)
{
    struct member *me = &comm->board->members[comm->rank];
    int absent = ABSENT;

    if (!atomic_compare_exchange_strong(&me->state, &absent, CLAIMED))
        return await_abort(comm); /* another process has this rank */
    me->pid = getpid();
    me->size = comm->size;
    me->version = nccl_settings()->version;
    me->host = nccl_settings()->host;
    if (nccl_cuda()->cuDeviceGetPCIBusId(me->bus, sizeof me->bus, comm->device))
        return ncclUnhandledCudaError;
    atomic_store_explicit(&me->state, JOINED, memory_order_release);
    return ncclSuccess;
}

static void watch(struct ncclComm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank)
            comm->watches[r] = (int)syscall(SYS_pidfd_open, comm->board->members[r].pid, 0);
}

static void find_network(void)
{
    nccl_inform("NET/Socket", getenv("NCCL_SOCKET_IFNAME"));
}

static ncclResult_t join(struct ncclComm *comm)
{
    static pthread_once_t network = PTHREAD_ONCE_INIT;
    const struct settings *s = nccl_settings();
    ncclResult_t result;

    static atomic_long joins;
    const long number = atomic_fetch_add(&joins, 1) + 1;
    const bool fails = s->join && (!s->join_at || s->join_at == number);

    nccl_sleep_us(s->join_ms * 1000);
    pthread_once(&network, find_network);
    if (fails && s->join == ncclInProgress)
        return await_abort(comm);
    if (fails)
        return nccl_warn((ncclResult_t)s->join, "the fault of this stand-in's variables");
    comm->board = map(&comm->id);
    if (!comm->board)
        return nccl_warn(ncclRemoteError, "the process that made the id is not there");
    result = claim(comm);
    if (!result)
        result = await(comm, JOINED);
    let_go_of_id(&comm->id);
    if (!result && !have_my_size(comm))
        return await_abort(comm);
    for (int a = 0; a < comm->size && !result; a++)
        for (int b = a + 1; b < comm->size && !result; b++)
            result = compare(comm, a, b);
    if (!result)
        watch(comm);
    return result;
}

/* ---- threads of non-blocking communicators -------------------------------------------------- */

struct job {
    struct ncclComm *comm;
    ncclResult_t (*run)(struct ncclComm *comm);
};

static void *run_job(void *argument)
{
    struct job job = *(struct job *)argument;
    ncclResult_t result;

    free(argument);
    result = job.run(job.comm);
    atomic_store(&job.comm->result, (int)result);
    return NULL;
}

static void end_thread(struct ncclComm *comm)
{
    if (comm->has_thread)
        pthread_join(comm->thread, NULL);
    comm->has_thread = false;
}

/* Before 2.27 NCCL keeps the state of calls for each thread. */
static _Thread_local struct ncclComm *of_thread;

static void check_apart(const char *call, const struct ncclComm *comm)
{
    const struct ncclComm *other = of_thread;

    if (nccl_settings()->version < 22700 && other && other != comm && atomic_load(&other->alive))
        nccl_die(call,
                 "this thread has made a call of communicator %p, and one of %p would overwrite "
                 "its state",
                 (const void *)other, (const void *)comm);
}

/* An abort looks at the state of its own thread. */
static void check_thread(const char *call, const struct ncclComm *comm)
{
    if (nccl_settings()->version < 22700 && of_thread != comm)
        nccl_die(call, "another thread has made the calls of communicator %p", (const void *)comm);
}

ncclResult_t nccl_run(struct ncclComm *comm, ncclResult_t (*run)(struct ncclComm *comm))
{
    struct job *job;

    check_apart(__func__, comm);
    of_thread = comm;
    if (comm->blocking) {
        const ncclResult_t result = run(comm);

        atomic_store(&comm->result, (int)result);
        return result;
    }
    end_thread(comm);
    job = malloc(sizeof *job);
    *job = (struct job){comm, run};
    atomic_store(&comm->result, ncclInProgress);
    if (pthread_create(&comm->thread, NULL, run_job, job))
        nccl_die(__func__, "pthread_create failed");
    comm->has_thread = true;
    return ncclInProgress;
}

ncclResult_t nccl_ready(const char *call, struct ncclComm *comm)
{
    if (!comm)
        return nccl_warn(ncclInvalidArgument, "%s : comm argument is NULL", call);
    if (!comm->alive)
        nccl_die(call, "communicator %p was destroyed or aborted", (void *)comm);
    nccl_check_registering(call, comm);
    check_apart(call, comm);
    if (atomic_load(&comm->result) == ncclInProgress)
        return nccl_warn(ncclInvalidArgument,
                         "Attempt to use communicator before the previous operation returned "
                         "ncclSuccess");
    return (ncclResult_t)atomic_load(&comm->result);
}

/* ---- making --------------------------------------------------------------------------------- */

/* The current context of the thread, or device 0's, as CUDA's runtime has it. */
static ncclResult_t bind_device(struct ncclComm *comm)
{
    const struct cuda *cu = nccl_cuda();

    if (!cu)
        return ncclUnhandledCudaError;
    if (cu->cuCtxGetCurrent(&comm->context))
        return ncclUnhandledCudaError;
    if (!comm->context) {
        comm->device = 0;
        return cu->cuDevicePrimaryCtxRetain(&comm->context, 0) ? ncclUnhandledCudaError
                                                               : ncclSuccess;
    }
    return cu->cuCtxGetDevice(&comm->device) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t check_config(const ncclConfig_t *config)
{
    if (config->magic != NCCL_MAGIC || config->size < sizeof *config)
        return nccl_warn(ncclInvalidArgument,
                         "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (config->blocking != NCCL_NOT_SET && config->blocking != 0 && config->blocking != 1)
        return nccl_warn(ncclInvalidArgument, "Invalid config blocking attribute value %d",
                         config->blocking);
    return ncclSuccess;
}

/* It stays where sanitizers find it. */
static void keep(struct ncclComm *comm)
{
    static struct ncclComm *_Atomic all;

    comm->next = all;
    while (!atomic_compare_exchange_weak(&all, &comm->next, comm))
        ;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int size, ncclUniqueId id,
                                           int rank, ncclConfig_t *config)
{
    ncclResult_t result = config ? check_config(config) : ncclSuccess;
    struct ncclComm *comm;

    nccl_begin();
    if (!result)
        result = check_mode(__func__);
    if (!result && (size < 1 || rank < 0 || rank >= size))
        result = nccl_warn(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, size);
    if (result)
        return result;
    if (size > MEMBERS_MAX)
        nccl_die(__func__, "%d members, and this stand-in takes %d", size, MEMBERS_MAX);
    comm = calloc(1, sizeof *comm);
    *comm = (struct ncclComm){.alive = true,
                              .blocking = !config || config->blocking != 0,
                              .rank = rank,
                              .size = size,
                              .id = id};
    for (int r = 0; r < MEMBERS_MAX; r++)
        comm->watches[r] = -1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    result = bind_device(comm);
    if (result) {
        free(comm);
        return result;
    }
    keep(comm);
    *ret_comm = comm;
    return nccl_run(comm, join);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_error)
{
    if (!comm || !ret_error)
        return ncclInvalidArgument;
    if (!comm->alive)
        nccl_die(__func__, "communicator %p was destroyed or aborted", (void *)comm);
    *ret_error = (ncclResult_t)atomic_load(&comm->result);
    return ncclSuccess;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Own operations first, and those of graphs, then all members. */
static ncclResult_t finalize(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while ((comm->done < comm->issued || comm->graphs) && !atomic_load(&comm->aborted))
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
    atomic_store_explicit(&comm->board->members[comm->rank].state, FINALIZED, memory_order_release);
    comm->finalized = true;
    return await(comm, FINALIZED);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result = nccl_ready(__func__, comm);

    if (!result)
        check_thread(__func__, comm);
    if (!result)
        result = check_mode(__func__);
    if (!result)
        nccl_check_registered(__func__, comm);
    if (!result && comm->finalized)
        result = nccl_warn(ncclInvalidArgument, "communicator has already been finalized");
    return result ? result : nccl_run(comm, finalize);
}

static void let_go(struct ncclComm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (comm->watches[r] >= 0)
            close(comm->watches[r]);
    if (comm->board)
        munmap(comm->board, sizeof *comm->board);
    comm->board = NULL;
    comm->alive = false;
}

/* Waits for all members where nobody has finalized it. */
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result;

    if (!comm)
        return ncclSuccess;
    result = nccl_ready(__func__, comm);
    if (result)
        return result;
    nccl_check_registered(__func__, comm);
    end_thread(comm);
    if (!comm->finalized)
        finalize(comm);
    let_go(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const long abort_ms = nccl_settings()->abort_ms;

    if (!comm)
        return ncclSuccess;
    if (!comm->alive)
        nccl_die(__func__, "communicator %p was destroyed or aborted", (void *)comm);
    check_thread(__func__, comm);
    nccl_check_registering(__func__, comm);
    while (abort_ms < 0)
        pause();
    nccl_sleep_us(abort_ms * 1000);
    pthread_mutex_lock(&comm->lock);
    atomic_store(&comm->aborted, true);
    pthread_cond_broadcast(&comm->changed);
    while (comm->runs || comm->graphs) /* those that begin later end at once */
        pthread_cond_wait(&comm->changed, &comm->lock);
    pthread_mutex_unlock(&comm->lock);
    end_thread(comm);
    nccl_forget_memory(comm);
    let_go(comm);
    return ncclSuccess;
}

/* ---- memory --------------------------------------------------------------------------------- */

struct ncclWindow_vidmem {
    struct ncclComm *comm;
};

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                           ncclWindow_t *ret_window, int flags)
{
    const ncclResult_t result = nccl_ready(__func__, comm);

    (void)flags;
    if (result)
        return result;
    if (!memory || !bytes)
        return nccl_warn(ncclInvalidArgument, "no memory to register");
    *ret_window = malloc(sizeof **ret_window);
    (*ret_window)->comm = comm;
    if (!comm->blocking)
        has_left_mode = true;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    const ncclResult_t result = nccl_ready(__func__, comm);

    if (!result && window->comm != comm)
        nccl_die(__func__, "the window is another communicator's");
    if (!result)
        free(window);
    return result;
}
