/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/message.h"

enum { TAG = 0 };

static int peer_of(const struct bench_call *call)
{
    return call->rank ? 0 : call->root;
}

/* Message `i` of the side's window. */
static tutti_tensor message_of(const struct bench_call *call, const struct bench_side *side, int i)
{
    tutti_tensor tensor = side->tensor;

    tensor.shape = &call->count;
    tensor.byte_offset = (uint64_t)i * (uint64_t)call->count * tutti_dtype_size(call->dtype);
    return tensor;
}

/* Waits for the first `count` works and frees them. */
static tutti_status finish(struct bench_call *call, uint32_t count)
{
    const tutti_status status = tutti_work_wait_all(call->works, count, 0, NULL);

    for (uint32_t i = 0; i < count; i++) {
        tutti_work_free(call->works[i]);
        call->works[i] = NULL;
    }
    return status;
}

static tutti_status start_send(struct bench_call *call, int i, tutti_work **ret_work)
{
    const tutti_tensor tensor = message_of(call, &call->in, i);

    return tutti_isend(call->world, &tensor, peer_of(call), TAG, NULL, ret_work);
}

static tutti_status start_receive(struct bench_call *call, int i, tutti_work **ret_work)
{
    const tutti_tensor tensor = message_of(call, &call->out, i);

    return tutti_irecv(call->world, &tensor, peer_of(call), TAG, NULL, ret_work);
}

static tutti_status send_one(struct bench_call *call, int i)
{
    if (call->async) {
        const tutti_status status = start_send(call, i, &call->works[0]);

        return status ? status : finish(call, 1);
    }

    const tutti_tensor tensor = message_of(call, &call->in, i);

    return tutti_send(call->world, &tensor, peer_of(call), TAG, NULL);
}

static tutti_status receive_one(struct bench_call *call, int i)
{
    if (call->async) {
        const tutti_status status = start_receive(call, i, &call->works[0]);

        return status ? status : finish(call, 1);
    }

    const tutti_tensor tensor = message_of(call, &call->out, i);

    return tutti_recv(call->world, &tensor, peer_of(call), TAG, NULL, NULL);
}

tutti_status message_ping_pong(struct bench_call *call, tutti_work **work)
{
    tutti_status status;

    (void)work;
    if (call->rank == 0) {
        status = send_one(call, 0);
        return status ? status : receive_one(call, 0);
    }
    status = receive_one(call, 0);
    return status ? status : send_one(call, 0);
}

tutti_status message_both_ways(struct bench_call *call, tutti_work **work)
{
    (void)work;
    if (!call->async)
        return tutti_sendrecv(call->world, &call->in.tensor, peer_of(call), TAG, &call->out.tensor,
                              peer_of(call), TAG, NULL, NULL);

    tutti_status status = start_receive(call, 0, &call->works[0]);

    if (status)
        return status;
    status = start_send(call, 0, &call->works[1]);
    return status ? status : finish(call, 2);
}

tutti_status message_burst(struct bench_call *call, tutti_work **work)
{
    tutti_status status = TUTTI_OK;
    const bool sends = call->rank == 0;

    (void)work;
    for (int i = 0; i < call->window && !status; i++) {
        if (!call->async)
            status = sends ? send_one(call, i) : receive_one(call, i);
        else
            status = sends ? start_send(call, i, &call->works[i])
                           : start_receive(call, i, &call->works[i]);
    }
    return status || !call->async ? status : finish(call, (uint32_t)call->window);
}
