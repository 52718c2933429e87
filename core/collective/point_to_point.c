/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point to point of the public API, over core/p2p.
 *
 * A message is checked into its final form (struct message), then run, started, or kept for the
 * thread's batch. It is in the group's list of messages from its start to its end, however it ends:
 * one whose peer is lost stays there, failing, until the verdict or the peer's leave message ends it with a message.
 */
#include <tutti/p2p.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "collective/batch.h"
#include "collective/over_now.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "provider/routes.h"
#include "provider/wrap.h"

/* In what lies on the way `kind` is m->kind, which the compiler knows there. */
ON_THE_WAY tutti_status check_peer(const struct tutti_group *group, const struct message *m,
                                   enum call_kind kind)
{
    if (m->tag > MESSAGE_TAG_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "tag %llu is larger than 2^62-1",
                         (unsigned long long)m->tag);
    if (kind == CALL_RECV && m->peer == TUTTI_ANY_SOURCE)
        return TUTTI_OK;
    if (m->peer < 0 || m->peer >= group->size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s %d is not in a group of %d%s",
                         kind == CALL_SEND ? "destination" : "source", m->peer, group->size,
                         kind == CALL_SEND ? "" : ", nor TUTTI_ANY_SOURCE (-1)");
    return TUTTI_OK;
}

ON_THE_WAY tutti_status check(tutti_group *group, const tutti_tensor *tensor,
                              const tutti_options *options, struct message *m, enum call_kind kind)
{
    /* A stand-in in host memory is written back whole, also where a shorter message came. */
    const enum tensor_use received = m->up_to ? TENSOR_BOTH : TENSOR_WRITTEN;
    uint64_t count;

    tutti_status status = call_check(group, options, &m->timeout_ms);
    if (!status && options) {
        m->waited = call_flags(options) & TUTTI_WAITS_NEXT;
        m->packed.stream = call_stream(options);
        m->packed.timeout_ms = m->timeout_ms;
    }
    if (!status)
        status = check_peer(group, m, kind);
    m->packed.receives = kind == CALL_RECV;
    if (group && group->ways.device_native) {
        m->packed.may_move = true;
        m->packed.may_wait = m->peer >= 0 && !m->up_to;
        m->packed.peer = m->peer;
    }
    m->dtype = tensor ? tensor->dtype : 0;
    if (!status)
        status =
            call_tensor(group, tensor, "the tensor", kind == CALL_SEND ? TENSOR_READ : received,
                        &m->packed, &m->data, &count, &m->bytes);
    if (!status && (m->packed.first || m->packed.stream))
        status = call_check_stand_ins(group, &m->packed, m->timeout_ms, NULL);
    if (status == TUTTI_ERR_SYSTEM && call_others_wait(group, status))
        return group_end_by_own(group, error_prefix("%s", m->function));
    return error_of(m->function, status);
}

tutti_status message_post(struct tutti_group *group, struct message *m, struct call *call)
{
    tutti_status status;
    void *data = m->data;

    call->kind = m->kind;
    call->state.no_spin = group->needs.no_spin;
    call->packed = m->packed.first;
    call->stream = m->packed.stream;
    m->packed.first = NULL;
    call->bytes = m->bytes;
    call->tag = m->tag;
    call->peer = m->peer;
    call->timeout_ms = m->timeout_ms;
    call->batch = m->batch;
    call->announce.fields.dtype = m->dtype;
    call->message = (struct p2p_op){.done = group_message_done, .user = call, .up_to = m->up_to};
    call->record =
        record_message(group, m->kind == CALL_SEND, m->peer, m->tag, m->bytes, RECORD_RUNNING);
    if (m->packed.moves)
        data = moved_post(call);
    call->in = call->out = (struct blocks){.base = data};
    call_list_append(&group->calls.messages, call);
    if (call->packed && !call->message.has_no_buffer) {
        record_staged(group, call);
        staged_message(group, call);
    }
    if (group->ways.wrappers && !wrappers_begin(group, call)) {
        call_fails(call);
        return TUTTI_OK;
    }
    if (m->kind == CALL_SEND && (group->calls.held || call->packed) && staged_hold(group, call))
        return TUTTI_OK;
    struct p2p_group *space = route_messages(group);
    status = m->kind == CALL_SEND
                 ? p2p_send(space, &call->message, m->peer, m->tag, data, m->bytes)
                 : p2p_recv(space, &call->message, m->peer, m->tag, data, m->bytes);
    if (status == TUTTI_ERR_PEER_LOST) { /* its verdict, or its leave message, is on the way */
        call_fails(call);
        return TUTTI_OK;
    }
    if (status) {
        if (group->ways.wrappers)
            (void)wrappers_end(group, call, status);
        call_list_remove(&group->calls.messages, call);
        record_state(group, call->record, RECORD_FAILED);
        packed_end(&call->packed, false);
    }
    return status;
}

static tutti_status start(struct tutti_group *group, struct message *m, struct call *call)
{
    return group_ended(group) ? group_refuse_message(group) : message_post(group, m, call);
}

/* As message_post(); what could not be started is complete with the reason. */
static void post_or_fail(struct tutti_group *group, struct message *m, struct call *call)
{
    tutti_status status = message_post(group, m, call);

    if (!status)
        return;
    call_list_append(&group->calls.messages, call);
    group_complete(group, call, status);
}

/* ---- over at once ---- */

/*
 * Looks for a message while the progress lock is held anyway, until `look` finds something; most that a peer on
 * another CPU answers with are here before this ends. Everything else is moved now and then: what the peer waits
 * for before it answers may be a send of this member that found no room. Another thread that wants the lock ends
 * it. `moved`: something else was moved since the last look.
 */
ON_THE_WAY enum p2p_now look_for(struct tutti_group *group,
                                 enum p2p_now (*look)(void *user, bool moved), void *user)
{
    const struct progress_engine *engine = &group->context->engine;
    const unsigned spins = group->needs.no_spin ? 0 : engine_spins(engine);
    enum p2p_now now = P2P_NOW_NOTHING;

    for (unsigned i = 1; i <= spins && now == P2P_NOW_NOTHING && !engine_is_wanted(engine); i++) {
        const bool moves = i % WAITING_VERDICT_EVERY == 0;

        if (moves) {
            if (group->source.shares_cpu(&group->source, true))
                break; /* the general wait leaves the CPU to that peer */
            (void)group->source.progress(&group->source);
        } else if (i > WAITING_VERDICT_EVERY) {
            engine_relax();
        }
        now = look(user, moves);
    }
    return now;
}

/* A receive that is not posted. */
struct unposted {
    struct tutti_group *group;
    struct p2p_group *space;
    struct plain_message *m;
};

static enum p2p_now look_unposted(void *user, bool moved)
{
    const struct unposted *receive = user;
    struct plain_message *m = receive->m;

    if (moved &&
        (group_ended(receive->group) || !p2p_may_recv_now(receive->space, m->peer, m->tag)))
        return P2P_NOW_OTHER;
    return p2p_recv_now(receive->space, m->peer, m->tag, m->data, m->bytes, m->up_to, &m->bytes);
}

__attribute__((noinline)) enum p2p_now
message_look_soon(struct tutti_group *group, struct p2p_group *space, struct plain_message *m)
{
    return look_for(group, look_unposted, &(struct unposted){group, space, m});
}

/* message_try() for a message that was checked. */
ON_THE_WAY bool try_checked(struct tutti_group *group, struct message *m, enum call_kind kind,
                            bool blocks)
{
    struct plain_message plain = {m->peer, m->up_to, m->tag, m->data, m->bytes};

    if (m->peer < 0 || m->peer == group->rank || m->packed.first ||
        !message_try(group, &plain, kind, blocks))
        return false;
    m->bytes = plain.bytes;
    return true;
}

/* ---- run, or started ---- */

/* The end of a blocking one: its stream waits for what an engine moves. */
static tutti_status await(struct call *call)
{
    const tutti_status status = call_wait(call);
    const tutti_status moved = call->mark ? moved_await(call) : TUTTI_OK;

    return status ? status : moved;
}

/* Posts it under the progress lock, which is released, and waits. */
static __attribute__((noinline)) tutti_status run_posted(struct tutti_group *group,
                                                         struct message *m)
{
    struct progress_engine *engine = &group->context->engine;
    struct call call;

    call_init(&call, group, NULL);
    tutti_status status = start(group, m, &call);
    if (!status)
        (void)p2p_finish(group->ways.p2p_engine);
    engine_release(engine);
    if (!status)
        status = await(&call);
    if (!status && m->ret_source)
        *m->ret_source = call.message.source;
    if (!status && m->ret_bytes)
        *m->ret_bytes = call.message.bytes;
    return status;
}

ON_THE_WAY tutti_status run_blocking(struct tutti_group *group, struct message *m,
                                     enum call_kind kind)
{
    struct progress_engine *engine = &group->context->engine;

    engine_take(engine);
    if (m->tried || !try_checked(group, m, kind, true))
        return run_posted(group, m);
    engine_release(engine);
    if (m->ret_source)
        *m->ret_source = m->peer;
    if (m->ret_bytes)
        *m->ret_bytes = m->bytes;
    return TUTTI_OK;
}

static tutti_status cancel(struct tutti_work *work)
{
    struct call *call = &call_of_work(work)->call;
    tutti_status status =
        staged_withdraw(call->group, call) ? TUTTI_OK : p2p_cancel(&call->message);

    if (status)
        return status;
    error_set(TUTTI_ERR_ABORTED, "the %s was cancelled", call->kind == CALL_SEND ? "send" : "recv");
    group_complete(call->group, call, TUTTI_ERR_ABORTED);
    return TUTTI_OK;
}

/* OTHER: the receive is complete, or what it waits for is not shown. */
static enum p2p_now look_posted(void *user, bool moved)
{
    struct p2p_op *op = user;

    (void)moved;
    if (!p2p_can_look(op))
        return P2P_NOW_OTHER;
    (void)p2p_look(op);
    return P2P_NOW_NOTHING;
}

static void spin(struct tutti_work *work)
{
    struct call *call = &call_of_work(work)->call;

    (void)look_for(call->group, look_posted, &call->message);
}

/* Posts it under the progress lock, which is released. */
static __attribute__((noinline)) tutti_status start_posted(struct tutti_group *group,
                                                           struct message *m,
                                                           struct async_call *async,
                                                           tutti_work **ret_work)
{
    async->work.spin = m->kind == CALL_RECV ? spin : NULL;
    call_prepare(group, async);
    /* What a receive waits for comes from elsewhere; its path was looked at just now. */
    return call_started(async, start(group, m, &async->call), m->kind == CALL_SEND, m->waited,
                        ret_work);
}

ON_THE_WAY tutti_status run_async(struct tutti_group *group, struct message *m, enum call_kind kind,
                                  tutti_work **ret_work)
{
    struct progress_engine *engine = &group->context->engine;
    struct async_call *async;

    if (!ret_work)
        return error_of(m->function, error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_work is NULL"));
    engine_take(engine);
    tutti_status status = call_memory(group, &async);
    if (status) {
        engine_release(engine);
        return status;
    }
    const bool over = try_checked(group, m, kind, false);
    call_work_init(group, async); /* while the message flies */
    async->work.cancel = cancel;
    if (!over)
        return start_posted(group, m, async, ret_work);
    engine_release(engine);
    *ret_work = call_over(async, m->bytes, kind == CALL_RECV ? m->peer : -1);
    return TUTTI_OK;
}

/* Runs it, starts it (`blocks` false), or keeps it for the batch that this thread has open. */
ON_THE_WAY tutti_status run(tutti_group *group, struct message *m, enum call_kind kind,
                            const tutti_tensor *tensor, const tutti_options *options, bool blocks,
                            tutti_work **ret_work)
{
    tutti_status status = check(group, tensor, options, m, kind);
    struct batch *batch = batch_of(group);

    if (batch)
        status = batch_add_message(batch, m, status, ret_work != NULL);
    else if (!status)
        status = blocks ? run_blocking(group, m, kind) : run_async(group, m, kind, ret_work);
    packed_end(&m->packed.first, false);
    return status;
}

static struct message sending(const char *function, int32_t destination, uint64_t tag)
{
    return (struct message){
        .function = function, .kind = CALL_SEND, .tag = tag, .peer = destination};
}

static struct message receiving(const char *function, int32_t source, uint64_t tag, bool up_to,
                                int32_t *ret_source, uint64_t *ret_bytes)
{
    return (struct message){.function = function,
                            .kind = CALL_RECV,
                            .tag = tag,
                            .peer = source,
                            .up_to = up_to,
                            .ret_source = ret_source,
                            .ret_bytes = ret_bytes};
}

/* A blocking one that is not over at once, or is no plain message. */
static __attribute__((noinline)) tutti_status run_any(tutti_group *group, struct message m,
                                                      const tutti_tensor *tensor,
                                                      const tutti_options *options)
{
    return run(group, &m, m.kind, tensor, options, true, NULL);
}

tutti_status tutti_send(tutti_group *group, const tutti_tensor *tensor, int32_t destination,
                        uint64_t tag, const tutti_options *options)
{
    struct plain_message plain = {.up_to = false};
    const bool tried = message_is_plain(group, tensor, destination, tag, options, &plain);

    if (tried && message_try_blocking(group, &plain, CALL_SEND))
        return TUTTI_OK;
    struct message m = sending(__func__, destination, tag);
    m.tried = tried;
    return run_any(group, m, tensor, options);
}

tutti_status tutti_recv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                        uint64_t tag, const tutti_options *options, int32_t *ret_source)
{
    struct plain_message plain = {.up_to = false};
    const bool tried = message_is_plain(group, tensor, source, tag, options, &plain);

    if (tried && message_try_blocking(group, &plain, CALL_RECV)) {
        if (ret_source)
            *ret_source = source;
        return TUTTI_OK;
    }
    struct message m = receiving(__func__, source, tag, false, ret_source, NULL);
    m.tried = tried;
    return run_any(group, m, tensor, options);
}

tutti_status tutti_recv_up_to(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                              uint64_t tag, const tutti_options *options, int32_t *ret_source,
                              uint64_t *ret_bytes)
{
    struct message m = receiving(__func__, source, tag, true, ret_source, ret_bytes);

    return run_any(group, m, tensor, options);
}

tutti_status tutti_isend(tutti_group *group, const tutti_tensor *tensor, int32_t destination,
                         uint64_t tag, const tutti_options *options, tutti_work **ret_work)
{
    struct message m = sending(__func__, destination, tag);

    return run(group, &m, CALL_SEND, tensor, options, false, ret_work);
}

tutti_status tutti_irecv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                         uint64_t tag, const tutti_options *options, tutti_work **ret_work)
{
    struct message m = receiving(__func__, source, tag, false, NULL, NULL);

    return run(group, &m, CALL_RECV, tensor, options, false, ret_work);
}

tutti_status tutti_irecv_up_to(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                               uint64_t tag, const tutti_options *options, tutti_work **ret_work)
{
    struct message m = receiving(__func__, source, tag, true, NULL, NULL);

    return run(group, &m, CALL_RECV, tensor, options, false, ret_work);
}

/* Both calls are on this stack, so both are over when it returns. */
static tutti_status exchange(struct tutti_group *group, struct message *out, struct message *in)
{
    struct progress_engine *engine = &group->context->engine;
    struct call send, recv;

    call_init(&send, group, NULL);
    call_init(&recv, group, NULL);
    engine_take(engine);
    if (group_ended(group)) {
        const tutti_status ended = group_refuse_message(group);

        engine_release(engine);
        return ended;
    }
    post_or_fail(group, in, &recv);
    post_or_fail(group, out, &send);
    tutti_status failed = atomic_load(&send.state.status);
    if (failed && failed != TUTTI_ERR_NOT_READY && !p2p_cancel(&recv.message)) {
        error_give(failed, &send.error);
        group_complete(group, &recv, failed);
    }
    engine_release(engine);
    /* Other calls may fail in this thread's hands while it waits, so the errors are taken last. */
    engine_wait(engine, &recv.state, INT64_MAX);
    tutti_status sent = await(&send);
    tutti_status received = await(&recv);
    if (!received && !sent && in->ret_source)
        *in->ret_source = recv.message.source;
    return received ? received : sent;
}

tutti_status tutti_sendrecv(tutti_group *group, const tutti_tensor *send, int32_t destination,
                            uint64_t send_tag, const tutti_tensor *recv, int32_t source,
                            uint64_t recv_tag, const tutti_options *options, int32_t *ret_source)
{
    struct message out = sending(__func__, destination, send_tag),
                   in = receiving(__func__, source, recv_tag, false, ret_source, NULL);
    tutti_status status = check(group, send, options, &out, CALL_SEND);
    struct batch *batch = batch_of(group);

    if (!status)
        status = check(group, recv, options, &in, CALL_RECV);
    const char *from = out.data, *to = in.data;
    if (!status && from < to + in.bytes && to < from + out.bytes)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                           "the tensor that is sent and the one that is received into overlap");
    if (batch) {
        status = batch_add_message(batch, &in, status, false);
        if (!status)
            status = batch_add_message(batch, &out, status, false);
    } else if (!status) {
        status = exchange(group, &out, &in);
    }
    packed_end(&out.packed.first, false);
    packed_end(&in.packed.first, false);
    return status;
}

/* One operation of the caller's array, whose elements may be longer or shorter than ours. */
static tutti_status read_op(const void *ops, uint32_t op_size, uint32_t index, tutti_p2p_op *ret_op)
{
    const unsigned char *bytes = (const unsigned char *)ops + (size_t)index * op_size;
    size_t known = op_size < sizeof *ret_op ? op_size : sizeof *ret_op;

    for (size_t i = known; i < op_size; i++)
        if (bytes[i])
            return error_set(TUTTI_ERR_NEWER_CALLER,
                             "byte %zu is set, but this libtutti knows %zu bytes only; the program "
                             "was built for a newer libtutti",
                             i, known);
    *ret_op = (tutti_p2p_op){0};
    memcpy(ret_op, bytes, known);
    return TUTTI_OK;
}

static tutti_status message_of(tutti_group *group, const tutti_p2p_op *op,
                               const tutti_options *options, struct message *ret_message)
{
    *ret_message = (struct message){.function = "",
                                    .kind = op->kind == TUTTI_P2P_SEND ? CALL_SEND : CALL_RECV,
                                    .tag = op->tag,
                                    .peer = op->peer,
                                    .up_to = op->kind == TUTTI_P2P_RECV_UP_TO};
    if (op->kind != TUTTI_P2P_SEND && op->kind != TUTTI_P2P_RECV &&
        op->kind != TUTTI_P2P_RECV_UP_TO)
        return error_set(TUTTI_ERR_UNSUPPORTED, "kind %d is not known", op->kind);
    return check(group, op->tensor, options, ret_message, ret_message->kind);
}

struct batch_item {
    struct message message;
    struct async_call *async;
};

static tutti_status prepare(tutti_group *group, const void *ops, uint32_t op_size, uint32_t count,
                            const tutti_options *options, struct batch_item *items)
{
    for (uint32_t i = 0; i < count; i++) {
        tutti_p2p_op op;
        tutti_status status = read_op(ops, op_size, i, &op);

        if (!status)
            status = message_of(group, &op, options, &items[i].message);
        if (status)
            return error_prefix("operation %u of %u", i, count);
    }
    return TUTTI_OK;
}

static tutti_status allocate(struct tutti_group *group, struct batch_item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tutti_status status = call_allocate(group, &items[i].async);

        if (status)
            return status;
        call_prepare(group, items[i].async);
    }
    return TUTTI_OK;
}

tutti_status tutti_batch_isend_irecv(tutti_group *group, const tutti_p2p_op *ops, uint32_t op_size,
                                     uint32_t count, const tutti_options *options,
                                     tutti_work **ret_works)
{
    tutti_status status = group_check(group);

    if (status || !count)
        return status;
    if (batch_of(group))
        return error_set(TUTTI_ERR_BUSY,
                         "a batch of this thread is open on the group: send and receive in it");
    if (!ops || !ret_works || !op_size || op_size > OPTIONS_SIZE_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "ops and ret_works must be given, and op_size be sizeof(tutti_p2p_op)");
    struct batch_item *items = calloc(count, sizeof *items);
    if (!items)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %u operations", count);
    status = error_named(prepare(group, ops, op_size, count, options, items));
    struct progress_engine *engine = &group->context->engine;
    engine_take(engine);
    if (!status)
        status = allocate(group, items, count);
    if (!status && group_ended(group))
        status = group_refuse_message(group);
    const uint64_t batch = moved_batch(group);
    for (uint32_t i = 0; i < count && !status; i++) {
        items[i].message.batch = batch;
        items[i].async->work.cancel = cancel; /* NOLINT: allocate() has made them */
        post_or_fail(group, &items[i].message, &items[i].async->call);
        ret_works[i] = &items[i].async->work;
    }
    if (!status)
        (void)group->source.progress(&group->source);
    for (uint32_t i = 0; i < count && status; i++)
        if (items[i].async)
            call_give_back(items[i].async);
    engine_release(engine);
    for (uint32_t i = 0; i < count && status; i++)
        packed_end(&items[i].message.packed.first, false);
    free(items);
    if (!status && atomic_load(&engine->unattended))
        engine_visit(engine);
    return status;
}
