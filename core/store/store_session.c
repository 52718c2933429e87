/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_session.h"

#include "base/error.h"

typedef tutti_status execute_fn(struct store_session *session, struct store_request *request);

static tutti_status execute_validate(struct store_session *session, struct store_request *request)
{
    (void)session, (void)request; /* the parser has compared the magic; there is no reply */
    return TUTTI_OK;
}

static tutti_status execute_set(struct store_session *session, struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);

    return store_map_set(session->map, key, store_request_bytes(request));
}

static tutti_status execute_compare_set(struct store_session *session,
                                        struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);
    const struct store_slice expected = store_request_bytes(request);
    struct store_slice value;
    tutti_status status =
        store_map_compare_set(session->map, key, expected, store_request_bytes(request), &value);

    if (!status)
        store_buffer_put_bytes(&session->out, value);
    return status;
}

/* A missing key answers with no bytes: the protocol has no other way to say so. */
static void put_value(struct store_session *session, struct store_slice key)
{
    struct store_slice value = {NULL, 0};

    (void)store_map_get(session->map, key, &value);
    store_buffer_put_bytes(&session->out, value);
}

static tutti_status execute_get(struct store_session *session, struct store_request *request)
{
    put_value(session, store_request_bytes(request));
    return TUTTI_OK;
}

static tutti_status execute_add(struct store_session *session, struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);
    int64_t value;
    tutti_status status =
        store_map_add(session->map, key, (int64_t)store_request_u64(request), &value);

    if (!status)
        store_buffer_put_u64(&session->out, (uint64_t)value);
    return status;
}

static bool all_present(struct store_session *session, struct store_request request)
{
    uint64_t count = store_request_u64(&request);

    while (count && store_map_present(session->map, store_request_bytes(&request)))
        count--;
    return count == 0;
}

static tutti_status execute_check(struct store_session *session, struct store_request *request)
{
    store_buffer_put_u8(&session->out,
                        all_present(session, *request) ? STORE_REPLY_PRESENT : STORE_REPLY_MISSING);
    return TUTTI_OK;
}

static struct store_slice next_key(void *request)
{
    return store_request_bytes(request);
}

static tutti_status execute_wait(struct store_session *session, struct store_request *request)
{
    if (all_present(session, *request)) {
        store_map_cancel(session->map, &session->wait); /* one wait a connection, the last counts */
        store_buffer_put_u8(&session->out, STORE_REPLY_READY);
        return TUTTI_OK;
    }

    const size_t count = (size_t)store_request_u64(request);

    return store_map_wait(session->map, &session->wait, count, false, next_key, request);
}

static tutti_status execute_getnumkeys(struct store_session *session, struct store_request *request)
{
    (void)request;
    store_buffer_put_u64(&session->out, store_map_count(session->map));
    return TUTTI_OK;
}

static tutti_status execute_delete_key(struct store_session *session, struct store_request *request)
{
    store_buffer_put_u64(&session->out,
                         store_map_delete(session->map, store_request_bytes(request)));
    return TUTTI_OK;
}

static tutti_status execute_append(struct store_session *session, struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);

    return store_map_append(session->map, key, store_request_bytes(request));
}

static tutti_status execute_multi_get(struct store_session *session, struct store_request *request)
{
    for (uint64_t count = store_request_u64(request); count && !session->out.failed; count--)
        put_value(session, store_request_bytes(request));
    return TUTTI_OK;
}

static tutti_status execute_multi_set(struct store_session *session, struct store_request *request)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t count = store_request_u64(request); count && !status; count--)
        status = execute_set(session, request);
    return status;
}

static tutti_status execute_cancel_wait(struct store_session *session,
                                        struct store_request *request)
{
    (void)request;
    store_map_cancel(session->map, &session->wait);
    store_buffer_put_u8(&session->out, STORE_REPLY_CANCELLED);
    return TUTTI_OK;
}

static tutti_status execute_ping(struct store_session *session, struct store_request *request)
{
    store_buffer_put_u32(&session->out, store_request_u32(request));
    return TUTTI_OK;
}

static tutti_status execute_queue_push(struct store_session *session, struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);

    return store_map_push(session->map, key, store_request_bytes(request));
}

static tutti_status execute_queue_pop(struct store_session *session, struct store_request *request)
{
    const struct store_slice key = store_request_bytes(request);
    struct store_slice value;

    store_buffer_put_u64(&session->out, store_map_queue_length(session->map, key));
    if (store_map_front(session->map, key, &value)) {
        store_buffer_put_bytes(&session->out, value);
        store_map_pop(session->map, key);
    }
    return TUTTI_OK;
}

static tutti_status execute_queue_len(struct store_session *session, struct store_request *request)
{
    store_buffer_put_u64(&session->out,
                         store_map_queue_length(session->map, store_request_bytes(request)));
    return TUTTI_OK;
}

static tutti_status execute_list_keys(struct store_session *session, struct store_request *request)
{
    struct store_cursor cursor = {0};
    struct store_slice key;

    (void)request;
    store_buffer_put_u64(&session->out, store_map_count(session->map));
    while (!session->out.failed && store_map_next(session->map, &cursor, &key))
        store_buffer_put_bytes(&session->out, key);
    return TUTTI_OK;
}

static tutti_status execute_barrier(struct store_session *session, struct store_request *request)
{
    struct store_request from_key = *request;
    const struct store_slice key = store_request_bytes(request);
    bool passed;
    tutti_status status =
        store_map_arrive(session->map, key, (int64_t)store_request_u64(request), &passed);

    if (status)
        return status;
    if (!passed)
        return store_map_wait(session->map, &session->wait, 1, true, next_key, &from_key);
    store_map_cancel(session->map, &session->wait);
    store_buffer_put_u8(&session->out, STORE_REPLY_READY);
    return TUTTI_OK;
}

static execute_fn *const execute[STORE_OPCODES] = {
    [STORE_VALIDATE] = execute_validate,
    [STORE_SET] = execute_set,
    [STORE_COMPARE_SET] = execute_compare_set,
    [STORE_GET] = execute_get,
    [STORE_ADD] = execute_add,
    [STORE_CHECK] = execute_check,
    [STORE_WAIT] = execute_wait,
    [STORE_GETNUMKEYS] = execute_getnumkeys,
    [STORE_DELETE_KEY] = execute_delete_key,
    [STORE_APPEND] = execute_append,
    [STORE_MULTI_GET] = execute_multi_get,
    [STORE_MULTI_SET] = execute_multi_set,
    [STORE_CANCEL_WAIT] = execute_cancel_wait,
    [STORE_PING] = execute_ping,
    [STORE_QUEUE_PUSH] = execute_queue_push,
    [STORE_QUEUE_POP] = execute_queue_pop,
    [STORE_QUEUE_LEN] = execute_queue_len,
    [STORE_LIST_KEYS] = execute_list_keys,
    [STORE_BARRIER] = execute_barrier,
};

void store_session_init(struct store_session *session, struct store_map *map,
                        void (*woken)(struct store_session *session))
{
    *session = (struct store_session){.map = map, .woken = woken};
    session->wait.owner = session;
    session->out.limit = STORE_SESSION_MAX_OUT;
}

void store_session_free(struct store_session *session)
{
    store_map_cancel(session->map, &session->wait);
    store_wire_free(&session->wire);
    store_buffer_free(&session->out);
}

static void answer_ready_waits(struct store_session *session)
{
    struct store_wait *wait;

    while ((wait = store_map_take_ready(session->map))) {
        struct store_session *other = wait->owner;

        store_buffer_put_u8(&other->out, STORE_REPLY_READY);
        if (other != session && other->woken)
            other->woken(other);
    }
}

tutti_status store_session_run(struct store_session *session)
{
    while (!store_session_blocked(session)) {
        struct store_request request;
        bool whole;
        tutti_status status = store_wire_next(&session->wire, &request, &whole);

        if (status || !whole)
            return status;
        status = execute[request.opcode](session, &request);
        answer_ready_waits(session); /* also of a request that failed in its middle */
        if (status)
            return status;
        if (session->out.failed)
            return error_set(TUTTI_ERR_STORE,
                             "a reply to opcode %d of more than %zu bytes, or no memory",
                             (int)request.opcode, STORE_SESSION_MAX_OUT);
    }
    return TUTTI_OK;
}

tutti_status store_session_feed(struct store_session *session, const void *data, size_t size)
{
    tutti_status status = store_wire_feed(&session->wire, data, size);

    return status ? status : store_session_run(session);
}
