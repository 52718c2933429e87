/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine for tests: whole operations over shared memory, beside the transport of the plugin template
 * (unless FAKE_SOLO is defined), and a launcher's identity from variables FAKE_….
 *
 * Each member has an area that all see. An operation copies the input into the own area, waits until
 * all have, and computes the output from all areas. As engines do, it compares nothing, and waits for
 * ever when members call different things. Options of the plugin: version ("5.1.0"), missing (the
 * engine's library), closed (no team can be opened), fault ("fail 3", "late 3", "hang 3", "lost 3", "cut 3",
 * which says whose connection ended: in the third operation of the member fault_rank), drain (an operation in
 * flight cannot be withdrawn), pairs (operations that differ meet, and move nothing), served (a list of
 * operations). For `tutti check` it may be built with a mistake: FAKE_MAXIMUM_SUMS, FAKE_MIXES_BLOCKS, FAKE_CHANGES_ITS_MIND.
 */
#include "compat/template_alone.h"

#include <tutti/plugin_engine.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "native/gathers.h"

#ifndef FAKE_ENGINE
#define FAKE_ENGINE "Fake"
#endif
#ifndef FAKE_THREADS
#define FAKE_THREADS TUTTI_THREADS_ONE_AT_A_TIME
#endif

enum { MEMBERS_MAX = 16, DATA_MAX = 256 << 10, SUM = 0, MAX = 4 };

struct area {
    _Atomic uint64_t posted, done; /* operations */
    uint64_t what[4];
    uint64_t counts[MEMBERS_MAX];
    uint8_t data[DATA_MAX];
};

struct tutti_team {
    const tutti_host *host;
    void *self;
    int rank, size, fd;
    struct area *areas;
    uint64_t operations;
    tutti_collective what;
    char fault[16];
    uint64_t fault_at;
    bool failed, late;
    struct gathers gathers;
};

/* ---- the calling thread -------------------------------------------------------------------- */

/* True, with a message, in a thread of the core, if the plugin does not want those. */
static bool intrudes(const tutti_host *host, void *self)
{
    char name[32] = "";

    if (FAKE_THREADS != TUTTI_THREADS_CALLERS_ONLY)
        return false;
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strcmp(name, "tutti-engine") != 0)
        return false;
    host->error(self, TUTTI_ERR_INTERNAL, 0, "called from a thread of the core");
    return true;
}

#ifndef FAKE_SOLO
/* The transport of the template, which names the caller. */
static const tutti_host *last_host;
static void *last_self;

static tutti_status open_transport(const tutti_host *host, void *self,
                                   const tutti_endpoint_options *options,
                                   tutti_endpoint **ret_endpoint)
{
    last_host = host;
    last_self = self;
    return open_endpoint(host, self, options, ret_endpoint);
}

static tutti_status isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                          const void *data, uint64_t bytes, uint32_t flags, tutti_request *request)
{
    if (intrudes(last_host, last_self))
        return TUTTI_ERR_INTERNAL;
    return start_send(endpoint, peer, lane, data, bytes, flags, request);
}

static tutti_status test(tutti_endpoint *endpoint, tutti_request *request)
{
    if (intrudes(last_host, last_self))
        return TUTTI_ERR_INTERNAL;
    return test_request(endpoint, request);
}
#endif

/* ---- what is served ------------------------------------------------------------------------ */

static int32_t fake_serves(const tutti_host *host, void *self, const tutti_collective *what)
{
    static const char *const names[] = {
        "",           "all_reduce", "broadcast", "barrier",        "reduce",
        "all_gather", "gather",     "scatter",   "reduce_scatter", "all_to_all"};
    const char *served = host->config(self, "served");
    const uint64_t bytes = what->count * what->element_bytes;
    char name[32];

    if (what->operation >= sizeof names / sizeof names[0] || what->size > MEMBERS_MAX)
        return 0;
    snprintf(name, sizeof name, "%s,", names[what->operation]);
    if (served && !strstr(served, name))
        return 0;
    if (bytes > DATA_MAX / MEMBERS_MAX || (what->flags & TUTTI_COLLECTIVE_UNEVEN && !what->count))
        return 0;
#ifdef FAKE_MAXIMUM_SUMS
    if (what->op == MAX)
        return 1;
#endif
#ifdef FAKE_CHANGES_ITS_MIND
    static unsigned asked;
    if (what->operation == TUTTI_COLLECTIVE_BROADCAST)
        return ++asked % 2;
#endif
    return what->op < 0 || what->op == SUM;
}

static tutti_status fake_engine(const tutti_host *host, void *self, tutti_engine_version *ret)
{
    const char *version = host->config(self, "version");

    if (host->config(self, "missing"))
        return host->error(self, TUTTI_ERR_PLUGIN, 0, "libfake.so.4 is not installed");
    snprintf(ret->name, sizeof ret->name, FAKE_ENGINE);
    if (sscanf(version ? version : "4.2.0", "%u.%u.%u", &ret->major, &ret->minor, &ret->patch) != 3)
        return host->error(self, TUTTI_ERR_INVALID_ARGUMENT, 0, "the version is not like 4.2.0");
    return TUTTI_OK;
}

/* ---- the team ------------------------------------------------------------------------------ */

/* Engines end something of their own as the process exits, by handlers that they registered when they
 * started. tutti check remarks on that, so the engine that it is to find nothing in has none. */
static bool engine_has_ended;

#ifdef FAKE_ENDS_AT_EXIT
static void end_engine(void)
{
    engine_has_ended = true;
}

static void register_end(void)
{
    atexit(end_engine);
}

static void start_engine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_end);
}
#else
static void start_engine(void)
{
}
#endif

static tutti_status fake_open(const tutti_host *host, void *self, const tutti_team_options *options,
                              tutti_team **ret_team)
{
    const char *fault = host->config(self, "fault"), *who = host->config(self, "fault_rank");
    tutti_team *team = host->allocate(self, sizeof *team);

    if (!team)
        return host->error(self, TUTTI_ERR_NO_MEMORY, 0, "no memory for a team");
    if (host->config(self, "closed")) {
        host->release(self, team);
        return host->error(self, TUTTI_ERR_SYSTEM, 0, "no device is free");
    }
    start_engine();
    *team = (tutti_team){
        .host = host, .self = self, .rank = options->rank, .size = options->size, .fd = -1};
    if (fault && (!who || atoi(who) == options->world_ranks[options->rank]))
        sscanf(fault, "%15s %lu", team->fault, &team->fault_at);
    if (options->rank == 0) {
        const size_t bytes = sizeof(struct area) * (size_t)options->size;

        team->fd = memfd_create("fake", MFD_CLOEXEC);
        if (team->fd < 0 || ftruncate(team->fd, (off_t)bytes)) {
            host->release(self, team);
            return host->error(self, TUTTI_ERR_SYSTEM, errno, "no shared memory");
        }
    }
    *ret_team = team;
    return gathers_begin(&team->gathers, host, self, options);
}

static tutti_status fake_address(tutti_team *team, void *ret_address, uint64_t capacity,
                                 uint64_t *ret_bytes)
{
    char path[64] = "";

    if (team->rank == 0)
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), team->fd);
    *ret_bytes = strlen(path);
    if (*ret_bytes > capacity)
        return team->host->error(team->self, TUTTI_ERR_INTERNAL, 0, "no room for an address");
    memcpy(ret_address, path, *ret_bytes);
    return TUTTI_OK;
}

static tutti_status fake_form(tutti_team *team, const void *const *addresses, const uint64_t *bytes)
{
    char path[64] = "";

    if (bytes[0] < sizeof path)
        memcpy(path, addresses[0], bytes[0]);
    if (team->rank)
        team->fd = open(path, O_RDWR | O_CLOEXEC);
    team->areas = mmap(NULL, sizeof(struct area) * (size_t)team->size, PROT_READ | PROT_WRITE,
                       MAP_SHARED, team->fd, 0);
    if (team->fd >= 0 && team->areas != MAP_FAILED)
        return TUTTI_OK;
    team->areas = NULL;
    return team->host->error(team->self, TUTTI_ERR_SYSTEM, errno, "no shared memory");
}

static tutti_status fake_form_test(tutti_team *team)
{
    return gathers_test(&team->gathers);
}

static tutti_status fake_abort(tutti_team *team)
{
    team->failed = true;
    return team->host->config(team->self, "drain") ? TUTTI_ERR_NOT_READY : TUTTI_OK;
}

static void fake_close(tutti_team *team)
{
    gathers_end(&team->gathers);
    if (team->areas)
        munmap(team->areas, sizeof(struct area) * (size_t)team->size);
    if (team->fd >= 0)
        close(team->fd);
    team->host->release(team->self, team);
}

/* ---- operations ---------------------------------------------------------------------------- */

static bool has_blocks_in(uint32_t operation)
{
    return operation == TUTTI_COLLECTIVE_SCATTER || operation == TUTTI_COLLECTIVE_REDUCE_SCATTER ||
           operation == TUTTI_COLLECTIVE_ALL_TO_ALL;
}

static bool has_blocks_out(uint32_t operation)
{
    return operation == TUTTI_COLLECTIVE_GATHER || operation == TUTTI_COLLECTIVE_ALL_GATHER ||
           operation == TUTTI_COLLECTIVE_ALL_TO_ALL;
}

/* Elements of block `i` of member `from`, and of all before it. */
static uint64_t block_of(const tutti_team *team, int from, int i, uint64_t *ret_before)
{
    const struct area *area = &team->areas[from];

    *ret_before = 0;
    for (int b = 0; b < i; b++)
        *ret_before += area->counts[b];
    return area->counts[i];
}

static void post(tutti_team *team, const tutti_collective *what)
{
    struct area *mine = &team->areas[team->rank];
    uint64_t total = 0;

    for (int i = 0; i < team->size; i++) {
        const bool blocks = has_blocks_in(what->operation);

        mine->counts[i] = !blocks           ? i ? 0 : what->own_count
                          : what->in_counts ? what->in_counts[i]
                                            : what->count;
        total += mine->counts[i];
    }
    if (what->in)
        memcpy(mine->data, what->in, total * what->element_bytes);
    mine->what[0] = what->operation;
    mine->what[1] = what->dtype;
    mine->what[2] = what->in_counts || what->out_counts ? 0 : what->count;
    mine->what[3] = (uint64_t)(int64_t)what->root;
    atomic_store(&mine->posted, team->operations);
}

static bool fault_is(const tutti_team *team, const char *name)
{
    return team->fault_at && team->operations + 1 == team->fault_at && !strcmp(team->fault, name);
}

static tutti_status fake_start(tutti_team *team, const tutti_collective *what,
                               tutti_request *request)
{
    if (intrudes(team->host, team->self))
        return TUTTI_ERR_INTERNAL;
    for (int r = 0; r < team->size; r++) /* they may still read what I gave */
        if (atomic_load(&team->areas[r].done) < team->operations)
            return TUTTI_ERR_BUSY;
    if (fault_is(team, "fail"))
        return team->host->error(team->self, TUTTI_ERR_SYSTEM, 0, "the engine broke at the start");
    if (fault_is(team, "cut"))
        team->host->peer_lost(team->self, 2, "the cable is out");
    if (fault_is(team, "lost") || fault_is(team, "cut"))
        request->status = TUTTI_ERR_PEER_LOST;
    team->late = fault_is(team, "late");
    team->operations++;
    team->what = *what;
    if (strcmp(team->fault, "hang") != 0 || team->operations != team->fault_at)
        post(team, what);
    return TUTTI_OK;
}

static void take(const tutti_team *team, int from, int block, uint64_t at)
{
    const uint64_t element = team->what.element_bytes;
    uint64_t before, count = block_of(team, from, block, &before);

    if (count)
        memcpy((char *)team->what.out + at * element, team->areas[from].data + before * element,
               count * element);
}

static tutti_status reduce_all(const tutti_team *team, int block)
{
    const tutti_collective *what = &team->what;
    tutti_status status = TUTTI_OK;
    uint64_t before;

    take(team, 0, block, 0);
    for (int r = 1; r < team->size && !status; r++) {
        uint64_t count = block_of(team, r, block, &before);

        status =
            team->host->reduce_local(team->self, what->dtype, SUM, what->out, what->out,
                                     team->areas[r].data + before * what->element_bytes, count);
    }
    return status;
}

static tutti_status compute(const tutti_team *team)
{
    const tutti_collective *what = &team->what;
    uint64_t at = 0, before;

    if (!what->out)
        return TUTTI_OK;
    if (what->op >= 0)
        return reduce_all(team, has_blocks_in(what->operation) ? team->rank : 0);
    if (!has_blocks_out(what->operation)) {
        take(team, what->root, what->operation == TUTTI_COLLECTIVE_SCATTER ? team->rank : 0, 0);
        return TUTTI_OK;
    }
    for (int r = 0; r < team->size; r++) {
        const int block = has_blocks_in(what->operation) ? team->rank : 0;
#ifdef FAKE_MIXES_BLOCKS
        const int from = (r + 1) % team->size;
#else
        const int from = r;
#endif

        take(team, from, block, at);
        at += block_of(team, from, block, &before);
    }
    return TUTTI_OK;
}

static tutti_status fake_test(tutti_team *team, tutti_request *request)
{
    const struct area *mine = &team->areas[team->rank];
    bool differ = false;

    if (intrudes(team->host, team->self))
        return TUTTI_ERR_INTERNAL;
    if (request->status != TUTTI_ERR_NOT_READY)
        return request->status;
    for (int r = 0; r < team->size; r++) {
        if (atomic_load(&team->areas[r].posted) < team->operations)
            return TUTTI_ERR_NOT_READY;
        differ |= memcmp(team->areas[r].what, mine->what, sizeof mine->what) != 0;
        if (differ && !team->host->config(team->self, "pairs"))
            return request->status = team->host->config(team->self, "complains")
                                         ? team->host->error(team->self, TUTTI_ERR_INTERNAL, 0,
                                                             "what came is too long")
                                         : TUTTI_ERR_NOT_READY;
    }
    if (team->late)
        return request->status = team->host->error(team->self, TUTTI_ERR_SYSTEM, 0,
                                                   "the engine broke in the middle");
    request->status = differ ? TUTTI_OK : compute(team);
    atomic_store(&team->areas[team->rank].done, team->operations);
    return request->status;
}

/* ---- the launcher -------------------------------------------------------------------------- */

struct tutti_bootstrap {
    const tutti_host *host;
    void *self;
    int rank;
    unsigned broadcasts;
};

static int32_t fake_detect(const tutti_host *host, void *self)
{
    (void)host;
    (void)self;
    return getenv("FAKE_SIZE") != NULL;
}

static tutti_status fake_bootstrap_open(const tutti_host *host, void *self, int64_t deadline_ns,
                                        tutti_identity *ret_identity,
                                        tutti_bootstrap **ret_bootstrap)
{
    const char *rank = getenv("FAKE_RANK"), *size = getenv("FAKE_SIZE"), *job = getenv("FAKE_JOB");

    (void)deadline_ns;
    if (!rank || !size || !job)
        return host->error(self, TUTTI_ERR_SYSTEM, 0, "the launcher does not answer");
    tutti_bootstrap *bootstrap = host->allocate(self, sizeof *bootstrap);
    if (!bootstrap)
        return host->error(self, TUTTI_ERR_NO_MEMORY, 0, "no memory");
    *bootstrap = (tutti_bootstrap){.host = host, .self = self, .rank = atoi(rank)};
    ret_identity->rank = ret_identity->local_rank = atoi(rank);
    ret_identity->size = ret_identity->local_size = atoi(size);
    snprintf(ret_identity->job, sizeof ret_identity->job, "%s", job);
    *ret_bootstrap = bootstrap;
    return TUTTI_OK;
}

static tutti_status write_file(const tutti_bootstrap *b, const char *path, const void *bytes,
                               uint64_t count)
{
    char draft[512];

    snprintf(draft, sizeof draft, "%.500s.new", path);
    FILE *file = fopen(draft, "wxe");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) || rename(draft, path))
        return b->host->error(b->self, TUTTI_ERR_SYSTEM, errno, "cannot write to FAKE_FOLDER");
    return TUTTI_OK;
}

static tutti_status fake_broadcast(tutti_bootstrap *b, void *bytes, uint64_t count,
                                   int64_t deadline_ns)
{
    char path[400];
    FILE *file;

    snprintf(path, sizeof path, "%.300s/broadcast-%u", getenv("FAKE_FOLDER"), b->broadcasts++);
    if (b->rank == 0)
        return write_file(b, path, bytes, count);
    while (!(file = fopen(path, "re"))) {
        if (b->host->now_ns(b->self) > deadline_ns)
            return b->host->error(b->self, TUTTI_ERR_TIMEOUT, 0, "rank 0 says nothing");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    const bool read = fread(bytes, 1, count, file) == count;
    fclose(file);
    return read ? TUTTI_OK : b->host->error(b->self, TUTTI_ERR_SYSTEM, 0, "too little came");
}

static void fake_bootstrap_close(tutti_bootstrap *bootstrap)
{
    bootstrap->host->release(bootstrap->self, bootstrap);
}

/* Tells the test that the process left, and how. */
static void fake_leave(int32_t clean)
{
    if (getenv("FAKE_TELL"))
        dprintf(1, "@tutti value left %s\n",
                !clean             ? "not clean"
                : engine_has_ended ? "too late"
                                   : "clean");
}

/* ---- what is exported ---------------------------------------------------------------------- */

static const tutti_collectives_ops fake_collectives_ops = {
    .struct_size = sizeof(tutti_collectives_ops),
    .threads = FAKE_THREADS,
    .serves = fake_serves,
    .open = fake_open,
    .address = fake_address,
    .form = fake_form,
    .form_test = fake_form_test,
    .start = fake_start,
    .test = fake_test,
    .abort = fake_abort,
    .close = fake_close,
    .engine = fake_engine,
};
static const tutti_bootstrap_ops fake_bootstrap_ops = {
    .struct_size = sizeof(tutti_bootstrap_ops),
    .detect = fake_detect,
    .open = fake_bootstrap_open,
    .broadcast = fake_broadcast,
    .close = fake_bootstrap_close,
};

static const tutti_provider collectives = {sizeof(tutti_provider), TUTTI_PROVIDER_COLLECTIVES,
                                           FAKE_NAME, &fake_collectives_ops};
static const tutti_provider launcher = {sizeof(tutti_provider), TUTTI_PROVIDER_BOOTSTRAP, FAKE_NAME,
                                        &fake_bootstrap_ops};
#ifdef FAKE_SOLO
static const tutti_provider *const providers[] = {&collectives, &launcher};
#else
static const tutti_transport_ops fake_transport_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = FAKE_THREADS,
    .capabilities = TUTTI_CAP_HOST_ONLY,
    .lanes = 1,
    .open = open_transport,
    .address = write_address,
    .connect = connect_peer,
    .isend = isend,
    .irecv = start_receive,
    .test = test,
    .close = close_endpoint,
};
static const tutti_provider transport = {sizeof(tutti_provider), TUTTI_PROVIDER_TRANSPORT,
                                         FAKE_NAME, &fake_transport_ops};
static const tutti_provider *const providers[] = {&transport, &collectives, &launcher};
#endif

TUTTI_PLUGIN_EXPORT_LEAVE(FAKE_NAME, "1.0, for tests", "Apache-2.0", providers,
                          sizeof providers / sizeof providers[0], fake_leave);
