/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi: messages and collectives through Open MPI, MPICH or an MPI with the standard ABI, whichever
 * this process runs under, and its rank in their job.
 *
 * What the plugin exports is constant, and which engine serves it comes out when it is first asked
 * for; so these functions hand each call on. An endpoint, a team or a bootstrap exists only once an
 * engine does.
 */
#include <limits.h>
#include <stdbool.h>

#include <tutti/tensor.h>
#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "choose.h"

static const struct mpi_engine *engine;

static tutti_status need_engine(const tutti_host *host, void *host_self)
{
    const struct mpi_engine *chosen;
    tutti_status status = choose_engine(host, host_self, &chosen);

    if (!status)
        __atomic_store_n(&engine, chosen, __ATOMIC_RELEASE);
    return status;
}

/* Whose threads may call MPI is the program's choice where it has initialised MPI: it comes out as the
 * first endpoint is opened, and is the same ever after. */
static void adopt_threads(uint32_t threads);
static void adopt_pieces(uint64_t bytes);

/* ---- messages ------------------------------------------------------------------------------ */

static tutti_status mpi_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    tutti_status status = need_engine(host, host_self);

    if (!status)
        status = engine->transport->open(host, host_self, options, ret_endpoint);
    if (!status) {
        adopt_threads(engine->threads());
        adopt_pieces(engine->transport->piece_bytes);
    }
    return status;
}

static const tutti_transport_ops *transport(void)
{
    return __atomic_load_n(&engine, __ATOMIC_RELAXED)->transport;
}

static tutti_status mpi_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    return transport()->address(endpoint, ret_address, capacity, ret_bytes);
}

static tutti_status mpi_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    return transport()->connect(endpoint, address, bytes, label, ret_peer);
}

static tutti_status mpi_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *data, uint64_t bytes, uint32_t flags,
                              tutti_request *request)
{
    return transport()->isend(endpoint, peer, lane, data, bytes, flags, request);
}

static tutti_status mpi_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                              uint64_t capacity, tutti_request *request)
{
    return transport()->irecv(endpoint, peer, lane, data, capacity, request);
}

static tutti_status mpi_test(tutti_endpoint *endpoint, tutti_request *request)
{
    return transport()->test(endpoint, request);
}

static void mpi_close(tutti_endpoint *endpoint)
{
    transport()->close(endpoint);
}

static uint32_t mpi_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    return transport()->progress(endpoint, ret_done, capacity);
}

static void mpi_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    transport()->cancel(endpoint, request);
}

static void mpi_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    transport()->disconnect(endpoint, peer);
}

static void mpi_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    transport()->traffic(endpoint, ret_counters);
}

static tutti_transport_ops mpi_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .max_message =
        UINT64_C(1) << 30, /* MPI counts in int; the core sends what is longer in pieces */
    .lanes = 1,
    .open = mpi_open,
    .address = mpi_address,
    .connect = mpi_connect,
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .close = mpi_close,
    .progress = mpi_progress,
    .cancel = mpi_cancel,
    .disconnect = mpi_disconnect,
    .traffic = mpi_traffic,
};

/* ---- collectives --------------------------------------------------------------------------- */

/* Whether MPI's operation has the meaning of tutti's. MPI leaves open what MIN and MAX of a NaN
 * are, and has no average; tutti's bool is any byte. */
static bool reduces(uint32_t dtype, int32_t op)
{
    switch (dtype) {
    case TUTTI_F32:
    case TUTTI_F64:
        return op == TUTTI_SUM || op == TUTTI_PRODUCT;
    case TUTTI_U8:
    case TUTTI_U16:
    case TUTTI_U32:
    case TUTTI_U64:
    case TUTTI_I8:
    case TUTTI_I16:
    case TUTTI_I32:
    case TUTTI_I64:
        return op != TUTTI_AVG && op >= TUTTI_SUM && op <= TUTTI_BXOR;
    default:
        return false;
    }
}

/* In all blocks together: libraries count bytes in ints where the standard counts elements in them. */
static bool too_long(const tutti_collective *what)
{
    const bool one = what->flags & TUTTI_COLLECTIVE_UNEVEN || /* then the count is of all */
                     what->operation == TUTTI_COLLECTIVE_ALL_REDUCE ||
                     what->operation == TUTTI_COLLECTIVE_REDUCE ||
                     what->operation == TUTTI_COLLECTIVE_BROADCAST;

    return what->count > INT_MAX / what->element_bytes / (one ? 1 : (uint64_t)what->size);
}

/* Calls that are too long go the core's way, and so do uneven ones if not every member knows all
 * lengths. */
static int32_t mpi_serves(const tutti_host *host, void *host_self, const tutti_collective *what)
{
    const bool uneven = what->flags & TUTTI_COLLECTIVE_UNEVEN;

    (void)host;
    (void)host_self;
    if (too_long(what) || (what->op >= 0 && !reduces(what->dtype, what->op)))
        return 0;
    return !uneven || what->operation == TUTTI_COLLECTIVE_ALL_GATHER ||
           what->operation == TUTTI_COLLECTIVE_REDUCE_SCATTER;
}

static tutti_status mpi_engine_version(const tutti_host *host, void *host_self,
                                       tutti_engine_version *ret_version)
{
    tutti_status status = need_engine(host, host_self);

    if (!status)
        engine->version(ret_version);
    return status;
}

static tutti_status team_open(const tutti_host *host, void *host_self,
                              const tutti_team_options *options, tutti_team **ret_team)
{
    tutti_status status = need_engine(host, host_self);

    if (!status)
        status = engine->collectives->open(host, host_self, options, ret_team);
    if (!status)
        adopt_threads(engine->threads());
    return status;
}

static const tutti_collectives_ops *collectives(void)
{
    return __atomic_load_n(&engine, __ATOMIC_RELAXED)->collectives;
}

static tutti_status team_address(tutti_team *team, void *ret_address, uint64_t capacity,
                                 uint64_t *ret_bytes)
{
    return collectives()->address(team, ret_address, capacity, ret_bytes);
}

static tutti_status team_form(tutti_team *team, const void *const *addresses, const uint64_t *bytes)
{
    return collectives()->form(team, addresses, bytes);
}

static tutti_status team_form_test(tutti_team *team)
{
    return collectives()->form_test(team);
}

static tutti_status team_start(tutti_team *team, const tutti_collective *what,
                               tutti_request *request)
{
    return collectives()->start(team, what, request);
}

static tutti_status team_test(tutti_team *team, tutti_request *request)
{
    return collectives()->test(team, request);
}

static tutti_status team_abort(tutti_team *team)
{
    return collectives()->abort(team);
}

static void team_close(tutti_team *team)
{
    collectives()->close(team);
}

static tutti_collectives_ops mpi_collectives_table = {
    .struct_size = sizeof(tutti_collectives_ops),
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .serves = mpi_serves,
    .open = team_open,
    .address = team_address,
    .form = team_form,
    .form_test = team_form_test,
    .start = team_start,
    .test = team_test,
    .abort = team_abort,
    .close = team_close,
    .engine = mpi_engine_version,
};

/* ---- the rank of this process --------------------------------------------------------------- */

static int32_t bootstrap_detect(const tutti_host *host, void *host_self)
{
    (void)host;
    (void)host_self;
    return choose_is_launched();
}

static tutti_status bootstrap_open(const tutti_host *host, void *host_self, int64_t deadline_ns,
                                   tutti_identity *ret_identity, tutti_bootstrap **ret_bootstrap)
{
    tutti_status status = need_engine(host, host_self);

    return status
               ? status
               : engine->bootstrap->open(host, host_self, deadline_ns, ret_identity, ret_bootstrap);
}

static tutti_status bootstrap_broadcast(tutti_bootstrap *bootstrap, void *bytes, uint64_t count,
                                        int64_t deadline_ns)
{
    return engine->bootstrap->broadcast(bootstrap, bytes, count, deadline_ns);
}

static void bootstrap_close(tutti_bootstrap *bootstrap)
{
    engine->bootstrap->close(bootstrap);
}

static const tutti_bootstrap_ops mpi_bootstrap_table = {
    .struct_size = sizeof(tutti_bootstrap_ops),
    .detect = bootstrap_detect,
    .open = bootstrap_open,
    .broadcast = bootstrap_broadcast,
    .close = bootstrap_close,
};

static void adopt_threads(uint32_t threads)
{
    if (mpi_ops.threads == threads)
        return;
    __atomic_store_n(&mpi_ops.threads, threads, __ATOMIC_RELAXED);
    __atomic_store_n(&mpi_collectives_table.threads, threads, __ATOMIC_RELAXED);
}

static void adopt_pieces(uint64_t bytes)
{
    __atomic_store_n(&mpi_ops.piece_bytes, bytes, __ATOMIC_RELAXED);
}

/* ---- what is exported ---------------------------------------------------------------------- */

static void mpi_leave(int32_t clean)
{
    const struct mpi_engine *chosen = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);

    if (chosen)
        chosen->leave(clean);
}

static const tutti_provider mpi_transport = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_TRANSPORT,
                                             .name = "mpi",
                                             .ops = &mpi_ops};
static const tutti_provider mpi_collectives = {.struct_size = sizeof(tutti_provider),
                                               .kind = TUTTI_PROVIDER_COLLECTIVES,
                                               .name = "mpi",
                                               .ops = &mpi_collectives_table};
static const tutti_provider mpi_bootstrap = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_BOOTSTRAP,
                                             .name = "mpi",
                                             .ops = &mpi_bootstrap_table};
static const tutti_provider *const providers[] = {&mpi_transport, &mpi_collectives, &mpi_bootstrap};

static const char *const trial[] = {"launcher=mpi", NULL};

static const tutti_plugin_option options[] = {MPI_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};
static const tutti_launcher_variable launchers[] = {MPI_LAUNCHERS(ABOUT_LAUNCHER)
                                                        ABOUT_LAUNCHERS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("mpi", TUTTI_VERSION ", Open MPI 4, MPICH 4 and the standard MPI ABI",
                          "Apache-2.0", providers, 3, mpi_leave, trial, options, launchers, NULL);
