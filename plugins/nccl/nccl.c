/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl: collectives of NCCL between GPUs, and long messages (channel.c). It serves tensors on CUDA devices alone.
 *
 * A group has a communicator of its own, made by the id that rank 0 puts into its address. It is non-blocking, so
 * no function here waits for a member: the core asks form_test() and test(). An operation is over for the core
 * when NCCL has put it on its stream. What fails later is an asynchronous error of the communicator. NCCL
 * notices the death of a member only while something is in flight, and often not at all, so the core watches
 * for that, keeps the deadlines and aborts the communicator; then each stream goes on.
 */
#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "channel.h"
#include "communicator.h"
#include "defaults.h"
#include "failure.h"
#include "lines.h"
#include "memory.h"
#include "operations.h"
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/reduce.h>
#include <tutti/tensor.h>

enum { UUID_BYTES = 16, HOST_BYTES = 64, ADDRESS_BYTES = 64 };

/* What a member tells the others, of the same machine type: NCCL does not join different ones. */
struct address {
    int32_t code; /* NCCL's version */
    uint8_t uuid[UUID_BYTES];
    char host[HOST_BYTES]; /* NCCL_HOSTID, by which NCCL tells hosts apart; "": its own way */
    ncclUniqueId id;       /* of rank 0 */
    struct settings settings;
};

/* The result of a sum, which a kernel behind NCCL's work divides by the number of members. */
struct average {
    tutti_device_reduction division;
    void *stream;
};

struct tutti_team {
    struct caller caller;
    const struct nccl_library *nccl;
    const tutti_device_ops *device;
    tutti_accelerator *accelerator;
    int rank, size;
    char bind_address[ADDRESS_BYTES];
    bool holds_defaults, has_channels;
    struct address own;
    struct communicator *communicator; /* NULL: not begun */
    /* Of the operations that are started. */
    struct average *averages;
    uint32_t average_count, average_room;
};

/* ---- words ---- */

static tutti_status failure(const tutti_team *team, const char *what, ncclResult_t result)
{
    return failure_tell(&team->caller, team->nccl, what, result);
}

/* ---- the library ---- */

static int32_t nccl_serves(const tutti_host *host, void *host_self, const tutti_collective *what)
{
    (void)host;
    (void)host_self;
    return operations_serve(what);
}

/* The patch is in the name, since NCCL refuses another one. */
static tutti_status nccl_engine(const tutti_host *host, void *host_self,
                                tutti_engine_version *ret_version)
{
    const struct caller caller = {host, host_self};
    const struct nccl_library *nccl;
    tutti_status status = library_open(&caller, &nccl);

    if (status)
        return status;
    ret_version->major = nccl->major;
    ret_version->minor = nccl->minor;
    ret_version->patch = nccl->patch;
    snprintf(ret_version->name, sizeof ret_version->name, "NCCL %u.%u.%u", nccl->major, nccl->minor,
             nccl->patch);
    return TUTTI_OK;
}

static void nccl_describe(const tutti_host *host, void *host_self, const tutti_collective *what,
                          char *ret_words, uint64_t capacity)
{
    const struct caller caller = {host, host_self};
    const struct nccl_library *nccl;

    *ret_words = 0;
    if (!what && !library_open(&caller, &nccl))
        snprintf(ret_words, capacity, "NCCL %u.%u.%u, %s, for the GPUs of cuda, one a rank",
                 nccl->major, nccl->minor, nccl->patch, nccl->path);
}

/* ---- making a team ---- */

static tutti_status check_options(const struct caller *c, const tutti_team_options *options)
{
    if (!TUTTI_HAS(options, accelerator) || options->device_type != TUTTI_DEVICE_CUDA)
        return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                    "nccl serves tensors in the memory of NVIDIA GPUs alone: name it for these, "
                    "as in TUTTI_BACKEND=cpu:auto,cuda:nccl");
    if (!TUTTI_HAS(options->device_ops, enter) || !TUTTI_HAS(options->device_ops, leave))
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "the plugin that drives the device is older than this one, and cannot make "
                    "it current: install both from one version of tutti");
    return TUTTI_OK;
}

/* That variable comes before what we ask for. */
static tutti_status refuse_blocking(const struct caller *c)
{
    if (strcmp(setting("NCCL_COMM_BLOCKING"), "1") != 0)
        return TUTTI_OK;
    return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                "NCCL_COMM_BLOCKING=1 makes the functions of NCCL wait for all members, "
                "without a deadline: unset it");
}

static void lend_defaults(tutti_team *team)
{
    team->holds_defaults = defaults_lend(&team->caller, team->bind_address);
}

static void take_back_defaults(tutti_team *team, bool has_made)
{
    if (team->holds_defaults)
        defaults_take_back(has_made);
    team->holds_defaults = false;
}

/* NCCL listens for the members from now on. */
static tutti_status make_id(tutti_team *team)
{
    lend_defaults(team);
    const ncclResult_t result = team->nccl->ncclGetUniqueId(&team->own.id);
    take_back_defaults(team, false);
    return result ? failure(team, "ncclGetUniqueId", result) : TUTTI_OK;
}

static void team_close(tutti_team *team)
{
    const struct caller c = team->caller;

    take_back_defaults(team, false);
    if (team->communicator)
        communicator_close(team->communicator);
    lines_leave(&c);
    c.host->release(c.self, team->averages);
    c.host->release(c.self, team);
}

static tutti_status team_open(const tutti_host *host, void *host_self,
                              const tutti_team_options *options, tutti_team **ret_team)
{
    const struct caller caller = {host, host_self};
    const struct nccl_library *nccl;
    tutti_status status = check_options(&caller, options);

    if (!status)
        status = library_open(&caller, &nccl);
    if (!status)
        status = refuse_blocking(&caller);
    if (status)
        return status;
    tutti_team *team = host->allocate(host_self, sizeof *team);
    if (!team)
        return fail(&caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for a team");
    *team = (tutti_team){.caller = caller,
                         .nccl = nccl,
                         .device = options->device_ops,
                         .accelerator = options->accelerator,
                         .rank = options->rank,
                         .size = options->size,
                         .has_channels = channels_are_possible() && channels_are_apart(nccl->code),
                         .own.code = nccl->code};
    settings_read(&team->own.settings);
    memcpy(team->own.uuid, options->device_uuid, UUID_BYTES);
    snprintf(team->own.host, sizeof team->own.host, "%s", setting("NCCL_HOSTID"));
    snprintf(team->bind_address, sizeof team->bind_address, "%s",
             options->bind_address ? options->bind_address : "");
    status = lines_join(&caller);
    if (status) {
        host->release(host_self, team);
        return status;
    }
    status = team->rank == 0 ? make_id(team) : TUTTI_OK;
    if (status)
        team_close(team);
    else
        *ret_team = team;
    return status;
}

static tutti_status team_address(tutti_team *team, void *ret_address, uint64_t capacity,
                                 uint64_t *ret_bytes)
{
    if (capacity < sizeof team->own)
        return TUTTI_ERR_INTERNAL;
    memcpy(ret_address, &team->own, sizeof team->own);
    *ret_bytes = sizeof team->own;
    return TUTTI_OK;
}

/* NCCL 2.30 has a variable for that; earlier ones take two members for such of two hosts, if these say so. */
static bool may_share(const struct address *one, const struct address *other)
{
    return (one->code >= 23000 && !strcmp(setting("NCCL_MULTI_RANK_GPU_ENABLE"), "1")) ||
           strncmp(one->host, other->host, HOST_BYTES) != 0;
}

/* NCCL would say the same of both, and not which GPU it is. */
static tutti_status check_devices(const tutti_team *team, const void *const *addresses)
{
    for (int a = 0; a < team->size; a++)
        for (int b = a + 1; b < team->size; b++) {
            const struct address *one = addresses[a], *other = addresses[b];

            if (!memcmp(one->uuid, other->uuid, UUID_BYTES) && !may_share(one, other))
                return fail(&team->caller, TUTTI_ERR_UNSUPPORTED, 0,
                            "rank %d and rank %d use the same GPU, and NCCL needs one for each: "
                            "give each rank another one by TUTTI_DEVICE or CUDA_VISIBLE_DEVICES, "
                            "start fewer ranks, or use another backend for devices",
                            a, b);
        }
    return TUTTI_OK;
}

/* All compare with rank 0, so that all say the same. */
static tutti_status check_settings(const tutti_team *team, const void *const *addresses)
{
    const struct address *first = addresses[0];
    tutti_status status = TUTTI_OK;

    for (int r = 1; r < team->size && !status; r++) {
        const struct address *theirs = addresses[r];

        status = settings_compare(&team->caller, 0, &first->settings, r, &theirs->settings);
    }
    return status;
}

static tutti_status check_addresses(const tutti_team *team, const void *const *addresses,
                                    const uint64_t *bytes)
{
    for (int r = 0; r < team->size; r++) {
        const struct address *theirs = addresses[r];

        if (bytes[r] != sizeof *theirs)
            return fail(&team->caller, TUTTI_ERR_PLUGIN, 0,
                        "rank %d has an address of %llu bytes, which is not one of this plugin", r,
                        (unsigned long long)bytes[r]);
        if (theirs->code != team->own.code)
            return fail(&team->caller, TUTTI_ERR_MISMATCH, 0,
                        "rank %d has NCCL %d and rank %d has NCCL %d, which do not understand each "
                        "other: install the same on all hosts, or set TUTTI_NCCL",
                        team->rank, team->own.code, r, theirs->code);
    }
    const tutti_status status = check_settings(team, addresses);
    return status ? status : check_devices(team, addresses);
}

/* A call on the device of the team. */
struct on_device {
    tutti_team *team;
    const ncclUniqueId *id;              /* to make its communicator, or NULL: */
    const tutti_collective *const *what; /* operations */
    uint32_t count;
    tutti_status status; /* of the device */
};

static ncclResult_t call_there(void *user)
{
    struct on_device *on = user;
    const tutti_team *team = on->team;
    struct communicator *c = team->communicator;
    ncclResult_t result;
    int32_t before;

    on->status = team->device->enter(team->accelerator, &before);
    if (on->status)
        return ncclSystemError;
    if (on->id)
        result = communicator_join(c, on->id, team->rank, team->size);
    else if (on->count == 1)
        result = operations_start(team->nccl, communicator_handle(c), team->rank, *on->what);
    else
        result = operations_start_all(team->nccl, communicator_handle(c), team->rank, on->what,
                                      on->count);
    team->device->leave(team->accelerator, before);
    return result;
}

/* The driver's words may be another thread's. */
static tutti_status no_device(const tutti_team *team, tutti_status status)
{
    return fail(&team->caller, status, 0, "the device of the group cannot be made current");
}

static tutti_status team_form(tutti_team *team, const void *const *addresses, const uint64_t *bytes)
{
    tutti_status status = check_addresses(team, addresses, bytes);

    if (status)
        return status;
    team->communicator = communicator_new(team->nccl);
    if (!team->communicator)
        return fail(&team->caller, TUTTI_ERR_SYSTEM, errno, "a communicator cannot be made");
    lend_defaults(team);
    struct on_device making = {.team = team, .id = &((const struct address *)addresses[0])->id};
    const ncclResult_t result = communicator_call(team->communicator, call_there, &making);
    if (communicator_handle(team->communicator))
        return TUTTI_OK; /* form_test() tells of an error, and an abort ends it */
    communicator_drop(team->communicator);
    team->communicator = NULL;
    take_back_defaults(team, false);
    return making.status ? no_device(team, making.status)
                         : failure(team, "ncclCommInitRankConfig", result);
}

/* ---- operations ---- */

static tutti_status look(const tutti_team *team, const char *what)
{
    const ncclResult_t result = communicator_result(team->communicator);

    if (result == ncclInProgress)
        return TUTTI_ERR_NOT_READY;
    return result ? failure(team, what, result) : TUTTI_OK;
}

static tutti_status team_form_test(tutti_team *team)
{
    const tutti_status status = look(team, "making a communicator");

    if (status != TUTTI_ERR_NOT_READY)
        take_back_defaults(team, !status);
    return status;
}

static tutti_status make_room(tutti_team *team, uint32_t averages)
{
    const struct caller *c = &team->caller;

    if (averages <= team->average_room)
        return TUTTI_OK;
    struct average *room = c->host->allocate(c->self, averages * sizeof *room);
    if (!room)
        return fail(c, TUTTI_ERR_NO_MEMORY, 0, "no memory for %u averages", averages);
    c->host->release(c->self, team->averages);
    team->averages = room;
    team->average_room = averages;
    return TUTTI_OK;
}

static void note_average(tutti_team *team, const tutti_collective *what)
{
    if (what->op != TUTTI_AVG || !what->out)
        return;
    const bool scatters = what->operation == TUTTI_COLLECTIVE_REDUCE_SCATTER;
    const tutti_device_reduction division = {.struct_size = sizeof division,
                                             .dtype = what->dtype,
                                             .op = what->op,
                                             .dst = what->out,
                                             .first = what->out,
                                             .count = scatters ? what->own_count : what->count,
                                             .operands = 1,
                                             .members = (uint32_t)team->size};

    team->averages[team->average_count++] = (struct average){division, what->stream};
}

/* NCCL has put its work on the streams. */
static tutti_status finish(tutti_team *team)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < team->average_count && !status; i++)
        status = team->device->reduce(team->accelerator, team->averages[i].stream,
                                      &team->averages[i].division);
    team->average_count = 0;
    return status;
}

static tutti_status team_start_batch(tutti_team *team, const tutti_collective *const *what,
                                     uint32_t count, tutti_request *request)
{
    struct on_device on = {.team = team, .what = what, .count = count};
    const tutti_status status = make_room(team, count);

    if (status)
        return status;
    for (uint32_t i = 0; i < count; i++)
        note_average(team, what[i]);
    if ((*what)->flags & TUTTI_COLLECTIVE_CAPTURED)
        communicator_is_captured(team->communicator);
    const ncclResult_t result = communicator_call(team->communicator, call_there, &on);
    if (on.status)
        return no_device(team, on.status);
    if (result && result != ncclInProgress)
        return failure(team, count == 1 ? "the operation" : "the operations of a batch", result);
    request->status = result ? TUTTI_ERR_NOT_READY : finish(team);
    return TUTTI_OK;
}

static tutti_status team_start(tutti_team *team, const tutti_collective *what,
                               tutti_request *request)
{
    return team_start_batch(team, &what, 1, request);
}

static tutti_status team_test(tutti_team *team, tutti_request *request)
{
    tutti_status status = look(team, "an operation on a stream");

    if (!request)
        return status;
    if (!status)
        status = finish(team);
    return request->status = status;
}

/* ---- messages ---- */

static int32_t team_carries(tutti_team *team, uint64_t bytes)
{
    return (team ? team->has_channels : channels_are_possible()) && channel_carries(bytes);
}

static tutti_status team_channel_name(tutti_team *team, void *ret_name, uint64_t capacity,
                                      uint64_t *ret_bytes)
{
    return channel_name(&team->caller, team->nccl, ret_name, capacity, ret_bytes);
}

static struct channel_home home_of(const tutti_team *team)
{
    return (struct channel_home){team->caller, team->nccl, team->device, team->accelerator};
}

static tutti_status team_channel_open(tutti_team *team,
                                      const tutti_message_channel_options *options,
                                      tutti_message_channel **ret_channel)
{
    const struct channel_home home = home_of(team);

    return channel_open(&home, options, options->source == team->rank, ret_channel);
}

static tutti_status team_launch_begin(tutti_team *team)
{
    const struct channel_home home = home_of(team);

    return channels_begin(&home);
}

static tutti_status team_launch_end(tutti_team *team)
{
    const struct channel_home home = home_of(team);

    return channels_end(&home);
}

/* ---- memory ---- */

static tutti_status team_memory_register(tutti_team *team, void *address, uint64_t bytes,
                                         void **ret_address, tutti_team_memory **ret_memory)
{
    const struct channel_home home = home_of(team);

    return memory_register(&home, team->communicator, address, bytes, ret_address, ret_memory);
}

static void team_memory_release(tutti_team *team, tutti_team_memory *memory)
{
    const struct channel_home home = home_of(team);

    memory_release(&home, team->communicator, memory);
}

/* ---- the end ---- */

static tutti_status team_abort(tutti_team *team)
{
    return !team->communicator || communicator_abort(team->communicator) ? TUTTI_OK
                                                                         : TUTTI_ERR_NOT_READY;
}

static void nccl_leave(int32_t clean)
{
    communicators_wait(clean);
}

/* ---- what is exported ---- */

static const tutti_collectives_ops operations = {
    .struct_size = sizeof operations,
    .threads = TUTTI_THREADS_ONE_AT_A_TIME,
    .device_types = UINT64_C(1) << TUTTI_DEVICE_CUDA,
    .serves = nccl_serves,
    .open = team_open,
    .address = team_address,
    .form = team_form,
    .form_test = team_form_test,
    .start = team_start,
    .test = team_test,
    .abort = team_abort,
    .close = team_close,
    .engine = nccl_engine,
    .describe = nccl_describe,
    .start_batch = team_start_batch,
    .captures = 1,
    .carries = team_carries,
    .channel_name = team_channel_name,
    .channel_open = team_channel_open,
    .channel_move = channel_move,
    .channel_test = channel_test,
    .channel_abort = channel_abort,
    .channel_close = channel_close,
    .launch_begin = team_launch_begin,
    .launch_end = team_launch_end,
    .memory_register = team_memory_register,
    .memory_release = team_memory_release,
};

static const tutti_provider collectives = {.struct_size = sizeof(tutti_provider),
                                           .kind = TUTTI_PROVIDER_COLLECTIVES,
                                           .name = "nccl",
                                           .ops = &operations};
static const tutti_provider *const providers[] = {&collectives};
static const tutti_plugin_option options[] = {NCCL_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("nccl", TUTTI_VERSION ", NCCL 2.18 or later", "Apache-2.0", providers, 1,
                          nccl_leave, NULL, options, NULL, NULL);
