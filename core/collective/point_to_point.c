/* SPDX-License-Identifier: Apache-2.0 */
/* send, recv, isend, irecv of the public API, over core/p2p. */
#include <tutti/p2p.h>

#include <stdlib.h>

#include "base/error.h"
#include "collective/call.h"
#include "group/recorder.h"
#include "group/wrap.h"

#define TAG_MAX ((UINT64_C(1) << 62) - 1)

struct message {
    enum call_kind kind;
    void *data;
    uint64_t bytes;
    uint64_t tag;
    int32_t peer;
    int64_t timeout_ms;
};

static tutti_status check(tutti_group *group, const tutti_tensor *tensor,
                          const tutti_options *options, struct message *m)
{
    uint64_t count;

    tutti_status status = call_check(group, options, &m->timeout_ms);
    if (!status)
        status = call_tensor(tensor, "the tensor", &m->data, &count, &m->bytes);
    if (status)
        return status;
    if (m->tag > TAG_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "tag %llu is larger than 2^62-1",
                         (unsigned long long)m->tag);
    if (m->kind == CALL_RECV && m->peer == TUTTI_ANY_SOURCE && group->size > 1)
        return TUTTI_OK;
    if (m->peer < 0 || m->peer >= group->size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "rank %d is not in a group of %d", m->peer,
                         group->size);
    if (m->peer == group->rank)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "rank %d cannot send to itself", m->peer);
    return TUTTI_OK;
}

/* With the baton; afterwards the call is in the group's list, or complete. */
static tutti_status start(struct tutti_group *group, const struct message *m, struct call *call)
{
    tutti_status status;

    if (group_ended(group))
        return group_verdict(group);
    call->kind = m->kind;
    call->bytes = m->bytes;
    call->tag = m->tag;
    call->peer = m->peer;
    call->timeout_ms = m->timeout_ms;
    call->message = (struct p2p_op){.done = group_message_done, .user = call};
    call->record = record_message(group, call, m->kind == CALL_SEND);
    call->in = call->out = (struct blocks){.base = m->data};
    call_list_append(&group->messages, call);
    if (group->wrappers && !wrappers_begin(group, call)) {
        call->doomed = true;
        return TUTTI_OK;
    }
    status = m->kind == CALL_SEND
                 ? p2p_send(group->p2p, &call->message, m->peer, m->tag, m->data, m->bytes)
                 : p2p_recv(group->p2p, &call->message, m->peer, m->tag, m->data, m->bytes);
    if (status == TUTTI_ERR_PEER_LOST) { /* its verdict, or its bye, is on the way */
        call->doomed = true;
        return TUTTI_OK;
    }
    if (status) {
        if (group->wrappers)
            (void)wrappers_end(group, call, status);
        call_list_remove(&group->messages, call);
        record_state(group, call->record, RECORD_FAILED);
    }
    return status;
}

static tutti_status run_blocking(struct tutti_group *group, const struct message *m,
                                 int32_t *ret_source)
{
    struct engine *engine = &group->context->engine;
    struct call call = {.state = {.status = TUTTI_ERR_NOT_READY}, .group = group};

    engine_take(engine);
    tutti_status status = start(group, m, &call);
    engine_release(engine);
    if (!status)
        status = call_wait(&call);
    if (!status && ret_source)
        *ret_source = call.message.source;
    return status;
}

static tutti_status cancel(struct tutti_work *work)
{
    struct call *call = &call_of_work(work)->call;
    tutti_status status = p2p_cancel(&call->message);

    if (status)
        return status;
    error_set(TUTTI_ERR_ABORTED, "the %s was cancelled", call->kind == CALL_SEND ? "send" : "recv");
    group_complete(call->group, call, TUTTI_ERR_ABORTED);
    return TUTTI_OK;
}

static tutti_status run_async(struct tutti_group *group, const struct message *m,
                              tutti_work **ret_work)
{
    struct engine *engine = &group->context->engine;
    struct async_call *async;

    if (!ret_work)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_work is NULL");
    tutti_status status = call_allocate(group, &async);
    if (status)
        return status;
    async->work.cancel = cancel;
    engine_take(engine);
    return call_started(async, start(group, m, &async->call), ret_work);
}

tutti_status tutti_send(tutti_group *group, const tutti_tensor *tensor, int32_t destination,
                        uint64_t tag, const tutti_options *options)
{
    struct message m = {.kind = CALL_SEND, .tag = tag, .peer = destination};
    tutti_status status = check(group, tensor, options, &m);

    return status ? status : run_blocking(group, &m, NULL);
}

tutti_status tutti_recv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                        uint64_t tag, const tutti_options *options, int32_t *ret_source)
{
    struct message m = {.kind = CALL_RECV, .tag = tag, .peer = source};
    tutti_status status = check(group, tensor, options, &m);

    return status ? status : run_blocking(group, &m, ret_source);
}

tutti_status tutti_isend(tutti_group *group, const tutti_tensor *tensor, int32_t destination,
                         uint64_t tag, const tutti_options *options, tutti_work **ret_work)
{
    struct message m = {.kind = CALL_SEND, .tag = tag, .peer = destination};
    tutti_status status = check(group, tensor, options, &m);

    return status ? status : run_async(group, &m, ret_work);
}

tutti_status tutti_irecv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                         uint64_t tag, const tutti_options *options, tutti_work **ret_work)
{
    struct message m = {.kind = CALL_RECV, .tag = tag, .peer = source};
    tutti_status status = check(group, tensor, options, &m);

    return status ? status : run_async(group, &m, ret_work);
}
