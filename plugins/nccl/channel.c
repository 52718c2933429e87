/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include <string.h>

#include "communicator.h"
#include "failure.h"
#include "settings.h"
#include "worker.h"

enum { SENDER, RECEIVER, MEMBERS };

/* Shorter ones are as fast through pinned memory, and need no communicator. */
static const uint64_t BYTES_MIN = 64 << 10;

struct tutti_message_channel {
    struct channel_home home;
    struct communicator *communicator;
    bool sends;
    bool is_open;
};

/* With implicit launch order NCCL runs all operations of a GPU in the order of their calls, and members call
 * messages and collectives in different orders. */
bool channels_are_possible(void)
{
    return strcmp(setting("NCCL_LAUNCH_ORDER_IMPLICIT"), "1") != 0;
}

bool channels_are_apart(int code)
{
    return !workers_are_needed(code);
}

bool channel_carries(uint64_t bytes)
{
    return bytes >= BYTES_MIN;
}

tutti_status channel_name(const struct caller *caller, const struct nccl_library *nccl,
                          void *ret_name, uint64_t capacity, uint64_t *ret_bytes)
{
    ncclUniqueId id;

    if (capacity < sizeof id)
        return TUTTI_ERR_INTERNAL;
    const ncclResult_t result = nccl->ncclGetUniqueId(&id);
    if (result)
        return failure_tell(caller, nccl, "ncclGetUniqueId for messages", result);
    memcpy(ret_name, &id, sizeof id);
    *ret_bytes = sizeof id;
    return TUTTI_OK;
}

static ncclResult_t make(tutti_message_channel *channel, const ncclUniqueId *id)
{
    struct communicator *c = communicator_new(channel->home.nccl);
    ncclResult_t result = ncclSystemError;

    if (c)
        result = communicator_join(c, id, channel->sends ? SENDER : RECEIVER, MEMBERS);
    channel->communicator = c;
    if (c && communicator_handle(c))
        return ncclSuccess; /* channel_test() tells of an error */
    if (c)
        communicator_drop(c);
    return result;
}

tutti_status channel_open(const struct channel_home *home,
                          const tutti_message_channel_options *options, bool sends,
                          tutti_message_channel **ret_channel)
{
    const struct caller *c = &home->caller;
    ncclUniqueId id;
    int32_t before;

    if (options->name_bytes != sizeof id)
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "rank %d names a communicator by %llu bytes, which is not one of this plugin",
                    options->source, (unsigned long long)options->name_bytes);
    memcpy(&id, options->name, sizeof id);
    tutti_message_channel *channel = c->host->allocate(c->self, sizeof *channel);
    if (!channel)
        return fail(c, TUTTI_ERR_NO_MEMORY, 0, "no memory for a communicator of two members");
    *channel = (tutti_message_channel){.home = *home, .sends = sends};
    tutti_status status = home->device->enter(home->accelerator, &before);
    if (!status) {
        const ncclResult_t result = make(channel, &id);

        home->device->leave(home->accelerator, before);
        if (result)
            status = failure_tell(c, home->nccl, "making a communicator for messages", result);
    }
    if (status)
        c->host->release(c->self, channel);
    else
        *ret_channel = channel;
    return status;
}

static tutti_status of_result(const tutti_message_channel *channel, ncclResult_t result)
{
    if (!result || result == ncclInProgress)
        return result ? TUTTI_ERR_NOT_READY : TUTTI_OK;
    return failure_tell(
        &channel->home.caller, channel->home.nccl,
        channel->is_open ? "a message on a stream" : "making a communicator for messages", result);
}

tutti_status channels_begin(const struct channel_home *home)
{
    const ncclResult_t result = home->nccl->ncclGroupStart();

    return result ? failure_tell(&home->caller, home->nccl, "ncclGroupStart for messages", result)
                  : TUTTI_OK;
}

/* The group of NCCL's is over in any case. It makes other devices current. */
tutti_status channels_end(const struct channel_home *home)
{
    int32_t before;
    const tutti_status status = home->device->enter(home->accelerator, &before);
    const ncclResult_t result = home->nccl->ncclGroupEnd();

    if (!status)
        home->device->leave(home->accelerator, before);
    if (!status && result && result != ncclInProgress)
        return failure_tell(&home->caller, home->nccl, "putting messages on streams", result);
    return !status && result ? TUTTI_ERR_NOT_READY : status;
}

/* In a group, where a call that is in progress has not failed. */
tutti_status channel_move(tutti_message_channel *channel, void *memory, uint64_t bytes,
                          void *stream)
{
    const struct channel_home *home = &channel->home;
    ncclComm_t comm = communicator_handle(channel->communicator);
    int32_t before;
    const tutti_status status = home->device->enter(home->accelerator, &before);

    if (status)
        return status;
    const ncclResult_t result =
        channel->sends ? home->nccl->ncclSend(memory, bytes, ncclInt8, RECEIVER, comm, stream)
                       : home->nccl->ncclRecv(memory, bytes, ncclInt8, SENDER, comm, stream);
    home->device->leave(home->accelerator, before);
    return result == ncclInProgress ? TUTTI_OK : of_result(channel, result);
}

tutti_status channel_test(tutti_message_channel *channel)
{
    const tutti_status status = of_result(channel, communicator_result(channel->communicator));

    channel->is_open |= !status;
    return status;
}

/* Does not look for its end: a group may have a hundred. */
tutti_status channel_abort(tutti_message_channel *channel)
{
    (void)communicator_begin_abort(channel->communicator);
    return TUTTI_ERR_NOT_READY;
}

void channel_close(tutti_message_channel *channel)
{
    const struct caller c = channel->home.caller;

    communicator_close(channel->communicator);
    c.host->release(c.self, channel);
}
