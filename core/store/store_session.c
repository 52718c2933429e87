/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_session.h"

#include "base/error.h"

enum { MAX_UNPROVEN_REQUEST = 256 };

static bool is_proof(const struct store_session *session, struct slice key)
{
    return store_proof_is_there(session->secret) && slice_equal(key, slice_of(STORE_PROOF_KEY));
}

/* A missing key answers with no bytes: the protocol has no other way to say so. */
static void put_value(struct store_session *session, struct slice key)
{
    struct slice value = {NULL, 0};

    (void)store_map_get(session->map, key, &value);
    buffer_put_bytes(&session->out, value);
}

static bool all_present(struct store_session *session, struct store_request request)
{
    uint64_t count = read_u64(&request.fields);

    while (count && store_map_present(session->map, store_request_bytes(&request)))
        count--;
    return count == 0;
}

static struct slice next_key(void *request)
{
    return store_request_bytes(request);
}

static tutti_status execute_wait(struct store_session *session, struct store_request *request)
{
    if (all_present(session, *request)) {
        store_map_cancel(session->map, &session->wait); /* one wait a connection, the last counts */
        buffer_put_uint(&session->out, STORE_REPLY_READY, 1);
        return TUTTI_OK;
    }

    const size_t count = (size_t)read_u64(&request->fields);

    return store_map_wait(session->map, &session->wait, count, false, next_key, request);
}

static tutti_status execute_barrier(struct store_session *session, struct store_request *request)
{
    struct store_request from_key = *request;
    const struct slice key = store_request_bytes(request);
    const int64_t world_size = (int64_t)read_u64(&request->fields);
    int64_t arrived;
    tutti_status status = store_map_add(session->map, key, 1, world_size, &arrived);

    if (status)
        return status;
    if (arrived < world_size)
        return store_map_wait(session->map, &session->wait, 1, true, next_key, &from_key);
    store_map_cancel(session->map, &session->wait);
    buffer_put_uint(&session->out, STORE_REPLY_READY, 1);
    return TUTTI_OK;
}

static tutti_status execute_proof(struct store_session *session, struct slice message)
{
    bool proven = false;
    tutti_status status =
        store_proof_serve(&session->proof, session->secret, message, &session->out, &proven);

    if (!status && proven) {
        session->known = true;
        session->must_prove = false;
        session->wire.max_request = 0;
        session->out.limit = STORE_SESSION_MAX_OUT;
    }
    return status;
}

/* A request with a key and values. */
static tutti_status execute_write(struct store_session *session, struct store_request *request)
{
    struct store_map *map = session->map;
    const struct slice key = store_request_bytes(request);
    struct slice value = {NULL, 0}, expected;
    int64_t sum = 0;
    tutti_status status = TUTTI_OK;

    switch (request->opcode) {
    case STORE_APPEND:
        return store_map_append(map, key, store_request_bytes(request));
    case STORE_QUEUE_PUSH:
        return store_map_push(map, key, store_request_bytes(request));
    case STORE_ADD:
        status = store_map_add(map, key, (int64_t)read_u64(&request->fields), INT64_MIN, &sum);
        if (!status)
            buffer_put_uint(&session->out, (uint64_t)sum, 8);
        return status;
    case STORE_COMPARE_SET:
        expected = store_request_bytes(request);
        if (is_proof(session, key))
            return execute_proof(session, expected);
        status = store_map_compare_set(map, key, expected, store_request_bytes(request), &value);
        if (!status)
            buffer_put_bytes(&session->out, value);
        return status;
    default: /* STORE_SET, and each pair of STORE_MULTI_SET */
        return store_map_set(map, key, store_request_bytes(request));
    }
}

/* What a client may send that has not proven itself. */
static tutti_status check_proven(struct store_session *session, struct store_request request)
{
    if (request.opcode == STORE_VALIDATE ||
        (request.opcode == STORE_COMPARE_SET && is_proof(session, store_request_bytes(&request))))
        return TUTTI_OK;
    return error_set(TUTTI_ERR_DENIED, "it has not proven that it has the secret of this store");
}

static tutti_status execute(struct store_session *session, struct store_request *request)
{
    struct store_map *map = session->map;
    struct buffer *out = &session->out;
    struct slice key;
    tutti_status status = TUTTI_OK;

    switch (request->opcode) {
    case STORE_WAIT:
        return execute_wait(session, request);
    case STORE_BARRIER:
        return execute_barrier(session, request);
    case STORE_MULTI_SET:
        for (uint64_t count = read_u64(&request->fields); count && !status; count--)
            status = execute_write(session, request);
        return status;
    case STORE_MULTI_GET:
        for (uint64_t count = read_u64(&request->fields); count && !out->failed; count--)
            put_value(session, store_request_bytes(request));
        return TUTTI_OK;
    case STORE_GET:
        put_value(session, store_request_bytes(request));
        return TUTTI_OK;
    case STORE_CHECK:
        buffer_put_uint(
            out, all_present(session, *request) ? STORE_REPLY_PRESENT : STORE_REPLY_MISSING, 1);
        return TUTTI_OK;
    case STORE_GETNUMKEYS:
        buffer_put_uint(out, store_map_count(map), 8);
        return TUTTI_OK;
    case STORE_DELETE_KEY:
        buffer_put_uint(out, store_map_delete(map, store_request_bytes(request)), 8);
        return TUTTI_OK;
    case STORE_CANCEL_WAIT:
        store_map_cancel(map, &session->wait);
        buffer_put_uint(out, STORE_REPLY_CANCELLED, 1);
        return TUTTI_OK;
    case STORE_PING:
        buffer_put_uint(out, read_u32(&request->fields), 4);
        return TUTTI_OK;
    case STORE_QUEUE_POP:
        key = store_request_bytes(request);
        buffer_put_uint(out, store_map_queue_length(map, key), 8);
        store_map_pop(map, key, out);
        return TUTTI_OK;
    case STORE_QUEUE_LEN:
        buffer_put_uint(out, store_map_queue_length(map, store_request_bytes(request)), 8);
        return TUTTI_OK;
    case STORE_LIST_KEYS:
        buffer_put_uint(out, store_map_count(map), 8);
        store_map_put_keys(map, out);
        return TUTTI_OK;
    case STORE_VALIDATE: /* the parser has compared the magic; there is no reply */
        return TUTTI_OK;
    default:
        return execute_write(session, request);
    }
}

void store_session_init(struct store_session *session, struct store_map *map, bool known,
                        void (*woken)(struct store_session *session))
{
    *session = (struct store_session){.map = map, .known = known, .woken = woken};
    session->wait.owner = session;
    session->out.limit = known ? STORE_SESSION_MAX_OUT : STORE_SESSION_UNKNOWN_MAX_OUT;
}

void store_session_expect_proof(struct store_session *session, const struct secret *secret,
                                bool must)
{
    session->secret = secret;
    session->must_prove = must;
    session->wire.max_request = must ? MAX_UNPROVEN_REQUEST : 0;
}

void store_session_free(struct store_session *session)
{
    store_map_cancel(session->map, &session->wait);
    buffer_free(&session->wire.in);
    buffer_free(&session->out);
}

static void answer_ready_waits(struct store_session *session)
{
    struct store_wait *wait;

    while ((wait = store_map_take_ready(session->map))) {
        struct store_session *other = wait->owner;

        buffer_put_uint(&other->out, STORE_REPLY_READY, 1);
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
        if (session->must_prove)
            status = check_proven(session, request);
        store_map_keep_reserve(session->map, !session->known);
        if (!status)
            status = execute(session, &request);
        session->asked |= request.opcode != STORE_VALIDATE && !session->must_prove;
        answer_ready_waits(session); /* also of a request that failed in its middle */
        if (status)
            return status;
        if (session->out.failed)
            return error_set(TUTTI_ERR_STORE,
                             "no memory for the reply to request %d, or it has more than %zu bytes",
                             (int)request.opcode, session->out.limit);
    }
    return TUTTI_OK;
}

tutti_status store_session_feed(struct store_session *session, const void *data, size_t size)
{
    tutti_status status = store_wire_feed(&session->wire, data, size);

    return status ? status : store_session_run(session);
}
