/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of a TCPStore server, ours or torch's.
 *
 * Keys go out with a '/' in front, as torch's client sends them, so that both find each other's.
 * Opcodes beyond those of old torch servers (LIST_KEYS, BARRIER, queues) are not used. One call at
 * a time uses the connection. When the server ends it or breaks the protocol, it is of no more use
 * and every later call says why at once. There is no reconnect: the server keeps all state.
 *
 * Every read and write has the call's deadline. A call whose time is up returns also when the server
 * is stuck, wherever it was: what is still to be sent of its request is sent, and what is due of the
 * answer is read and dropped, before the next request. So a server that was stopped, or is slow, is
 * as good as before once it answers. A wait is cancelled besides.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/text.h"
#include "store/store.h"
#include "store/store_proof.h"
#include "store/store_tcp.h"
#include "store/store_wire.h"

enum { KEEP_REQUEST = 64 << 10, LOST_ROOM = 256 };

/* The unread part of the answer to the last request. */
struct due {
    size_t bytes;  /* that come next */
    size_t values; /* behind them, each with its length in front */
    uint8_t length[8];
    size_t length_read; /* bytes of the next value's length */
    bool cancelled;     /* the answer to CANCEL_WAIT is the last thing */
};

struct tcp_store {
    tutti_store base;
    struct store_turn turn;
    int fd;
    uint32_t pings;
    struct buffer request;
    size_t sent; /* bytes of the request */
    struct due due;
    struct store_tcp_place place;
    char lost[LOST_ROOM]; /* why the connection is of no more use; "": it is */
};

/* Ends the use of the connection. */
static tutti_status lose(struct tcp_store *tcp, const char *why)
{
    (void)snprintf(tcp->lost, sizeof tcp->lost, "%s", why);
    return error_set(TUTTI_ERR_STORE, "lost the store at %s:%u: %s", tcp->place.host,
                     tcp->place.port, why);
}

static tutti_status io_error(struct tcp_store *tcp, int result, const struct store_time *time)
{
    if (result != STORE_TCP_LATE)
        return lose(tcp, store_tcp_message(result));
    return error_set(TUTTI_ERR_TIMEOUT, "the store at %s:%u did not answer within %" PRId64 " ms",
                     tcp->place.host, tcp->place.port, time->ms);
}

/* Bytes that are due. */
static tutti_status receive(struct tcp_store *tcp, void *ret_data, size_t size,
                            const struct store_time *time)
{
    size_t received = 0;
    const int result = store_tcp_receive(tcp->fd, ret_data, size, time->deadline_ns, &received);

    tcp->due.bytes -= received;
    return result ? io_error(tcp, result, time) : TUTTI_OK;
}

/* The length of the next value that is due; from then on its bytes are. */
static tutti_status receive_length(struct tcp_store *tcp, const struct store_time *time)
{
    struct due *due = &tcp->due;
    const int result = store_tcp_receive(tcp->fd, due->length, sizeof due->length,
                                         time->deadline_ns, &due->length_read);

    if (result)
        return io_error(tcp, result, time);
    if (uint_from_bytes(due->length, 8) > TUTTI_STORE_MAX_VALUE)
        return lose(tcp, "it announced a value of more than 8 MiB");
    due->bytes = (size_t)uint_from_bytes(due->length, 8);
    due->length_read = 0;
    due->values--;
    return TUTTI_OK;
}

static tutti_status send_rest(struct tcp_store *tcp, const struct store_time *time)
{
    const int result = store_tcp_send(tcp->fd, tcp->request.data, tcp->request.size,
                                      time->deadline_ns, &tcp->sent);

    return result ? io_error(tcp, result, time) : TUTTI_OK;
}

static tutti_status drop_bytes(struct tcp_store *tcp, const struct store_time *time)
{
    char bytes[4096];

    return receive(tcp, bytes, tcp->due.bytes < sizeof bytes ? tcp->due.bytes : sizeof bytes, time);
}

/* Reads what CANCEL_WAIT is answered: 1, or 0 and 1 when the keys came in the same moment. */
static tutti_status drop_cancelled(struct tcp_store *tcp, const struct store_time *time)
{
    uint8_t answer;
    size_t received = 0;
    const int result = store_tcp_receive(tcp->fd, &answer, 1, time->deadline_ns, &received);

    if (result)
        return io_error(tcp, result, time);
    tcp->due.cancelled = answer != STORE_REPLY_CANCELLED;
    return !tcp->due.cancelled || answer == STORE_REPLY_READY
               ? TUTTI_OK
               : lose(tcp, "it broke the protocol: an unknown answer to CANCEL_WAIT");
}

/* Reads the answers that a call which gave up has left. */
static tutti_status settle(struct tcp_store *tcp, const struct store_time *time)
{
    tutti_status status = send_rest(tcp, time);

    while (!status && (tcp->due.bytes || tcp->due.values))
        status = tcp->due.bytes ? drop_bytes(tcp, time) : receive_length(tcp, time);
    while (!status && tcp->due.cancelled)
        status = drop_cancelled(tcp, time);
    return status;
}

/* Nothing may come unasked: what does is the end of the connection, or a server that is none. */
static tutti_status check_quiet(struct tcp_store *tcp)
{
    char byte;
    const ssize_t n = recv(tcp->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n > 0)
        return lose(tcp, "it broke the protocol: an unexpected answer");
    if (n == 0)
        return lose(tcp, store_tcp_message(STORE_TCP_ENDED));
    return errno == EAGAIN || errno == EINTR ? TUTTI_OK : lose(tcp, store_tcp_message(errno));
}

/* Takes the turn and begins a request. */
static tutti_status begin(struct tcp_store *tcp, const struct store_time *time)
{
    tutti_status status = store_turn_take(&tcp->turn, time);

    if (status)
        return error_prefix("store at %s:%u", tcp->place.host, tcp->place.port);
    if (tcp->lost[0])
        status = error_set(TUTTI_ERR_STORE, "the store at %s:%u was lost before: %s",
                           tcp->place.host, tcp->place.port, tcp->lost);
    if (!status)
        status = settle(tcp, time);
    if (!status)
        status = check_quiet(tcp);
    if (status)
        store_turn_give(&tcp->turn);
    return status;
}

static void put_key(struct buffer *request, const char *key)
{
    const size_t size = strlen(key);

    buffer_put_uint(request, size + 1, 8);
    buffer_put_uint(request, '/', 1);
    buffer_put(request, key, size);
}

/* Begins the request of a call, as `opcode`: calls that get values wait for their keys first. SET and APPEND
 * are not answered. A ping behind them is, so that the value is there, for every other client, when the call
 * returns. */
static void put_request(struct tcp_store *tcp, enum store_opcode opcode,
                        const struct store_call *call)
{
    struct buffer *request = &tcp->request;

    buffer_clear(request, KEEP_REQUEST);
    request->failed = request->full = false;
    tcp->sent = 0;
    buffer_put_uint(request, (uint8_t)opcode, 1);
    if (opcode == STORE_CHECK || opcode == STORE_WAIT || opcode == STORE_MULTI_GET)
        buffer_put_uint(request, call->count, 8);
    for (size_t i = 0; i < call->count && !request->failed; i++)
        put_key(request, call->keys[i]);
    if (opcode == STORE_COMPARE_SET)
        buffer_put_bytes(request, call->expected);
    if (opcode == STORE_COMPARE_SET || opcode == STORE_SET || opcode == STORE_APPEND)
        buffer_put_bytes(request, call->value);
    if (opcode == STORE_ADD)
        buffer_put_uint(request, (uint64_t)call->delta, 8);
    if (opcode == STORE_SET || opcode == STORE_APPEND) {
        buffer_put_uint(request, STORE_PING, 1);
        buffer_put_uint(request, ++tcp->pings, 4);
    }
}

/* Sends the request, which is answered by `bytes` or by `values`. */
static tutti_status send_request(struct tcp_store *tcp, const struct store_time *time, size_t bytes,
                                 size_t values)
{
    if (tcp->request.failed) {
        const bool full = tcp->request.full;

        buffer_clear(&tcp->request, KEEP_REQUEST);
        return full
                   ? error_set(TUTTI_ERR_INVALID_ARGUMENT,
                               "a request to the store at %s:%u is too large: more than %zu bytes",
                               tcp->place.host, tcp->place.port, STORE_WIRE_MAX_REQUEST)
                   : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a request to the store at %s:%u",
                               tcp->place.host, tcp->place.port);
    }
    tcp->due = (struct due){.bytes = bytes, .values = values};
    return send_rest(tcp, time);
}

/* Makes the request of a call, as `opcode`, that a number of so many bytes answers. */
static tutti_status ask(struct tcp_store *tcp, enum store_opcode opcode,
                        const struct store_call *call, size_t bytes, uint64_t *ret_answer)
{
    uint8_t answer[8] = {0};

    put_request(tcp, opcode, call);

    tutti_status status = send_request(tcp, &call->time, bytes, 0);

    if (!status)
        status = receive(tcp, answer, bytes, &call->time);
    *ret_answer = uint_from_bytes(answer, 8);
    return status;
}

static tutti_status ask_number(struct tcp_store *tcp, struct store_call *call)
{
    uint64_t number;
    tutti_status status = ask(tcp, call->opcode, call, sizeof number, &number);

    if (status == TUTTI_ERR_STORE && call->opcode == STORE_ADD)
        /* the one answer that a server has for it */
        return error_prefix("adding to \"/%.*s\" (is its value a number?)",
                            TEXT_CUT(call->keys[0], 100));
    call->number = call->opcode == STORE_DELETE_KEY ? (int64_t)number > 0 : (int64_t)number;
    return status;
}

static tutti_status receive_value(struct tcp_store *tcp, const struct store_time *time,
                                  tutti_store_value *ret_value)
{
    tutti_store_value value;
    tutti_status status = receive_length(tcp, time);

    if (status)
        return status;
    status = store_value_allocate(tcp->due.bytes, &value);
    if (status)
        return error_set(status, "no memory for a value from the store");
    status = receive(tcp, value.data, value.size, time);
    if (status)
        tutti_store_value_free(&value);
    else
        *ret_value = value;
    return status;
}

/* The time of a wait is up: tells the server, and leaves the answer to the next call. */
static tutti_status give_up(struct tcp_store *tcp, const struct store_call *call)
{
    buffer_put_uint(&tcp->request, STORE_CANCEL_WAIT, 1);
    tcp->due = (struct due){.cancelled = true};
    if (tcp->request.failed)
        (void)lose(tcp, "a wait could not be cancelled");
    else
        (void)send_rest(tcp, &call->time);
    return store_keys_missing(call, "the store at %s:%u", tcp->place.host, tcp->place.port);
}

static tutti_status wait_for_keys(struct tcp_store *tcp, const struct store_call *call)
{
    uint64_t answer;
    tutti_status status = ask(tcp, STORE_WAIT, call, 1, &answer);

    if (status)
        return status == TUTTI_ERR_TIMEOUT ? give_up(tcp, call) : status;
    return answer == STORE_REPLY_READY
               ? TUTTI_OK
               : lose(tcp, "it broke the protocol: an unknown answer to WAIT");
}

static tutti_status write_value(struct tcp_store *tcp, const struct store_call *call)
{
    uint64_t answer;
    tutti_status status = ask(tcp, call->opcode, call, sizeof tcp->pings, &answer);

    return !status && answer != tcp->pings
               ? lose(tcp, "it broke the protocol: a wrong answer to PING")
               : status;
}

/* Sends the request and receives its answer of `count` values. */
static tutti_status ask_values(struct tcp_store *tcp, const struct store_call *call, size_t count)
{
    size_t received = 0;

    put_request(tcp, call->opcode, call);

    tutti_status status = send_request(tcp, &call->time, 0, count);

    while (!status && received < count) {
        status = receive_value(tcp, &call->time, &call->ret_values[received]);
        received += !status;
    }
    while (status && received > 0)
        tutti_store_value_free(&call->ret_values[--received]);
    return status;
}

static tutti_status check(struct tcp_store *tcp, struct store_call *call)
{
    uint64_t answer;
    tutti_status status = ask(tcp, STORE_CHECK, call, 1, &answer);

    if (!status && answer != STORE_REPLY_PRESENT && answer != STORE_REPLY_MISSING)
        status = lose(tcp, "it broke the protocol: an unknown answer to CHECK");
    call->number = !status && answer == STORE_REPLY_PRESENT;
    return status;
}

static tutti_status call_in_turn(struct tcp_store *tcp, struct store_call *call)
{
    tutti_status status = TUTTI_OK;

    switch (call->opcode) {
    case STORE_SET:
    case STORE_APPEND:
        return write_value(tcp, call);
    case STORE_WAIT:
        return wait_for_keys(tcp, call);
    case STORE_GET:
    case STORE_MULTI_GET:
        status = wait_for_keys(tcp, call);
        return status ? status : ask_values(tcp, call, call->count);
    case STORE_COMPARE_SET:
        return ask_values(tcp, call, 1);
    case STORE_CHECK:
        return check(tcp, call);
    default: /* STORE_ADD, STORE_DELETE_KEY, STORE_GETNUMKEYS */
        return ask_number(tcp, call);
    }
}

static tutti_status tcp_call(tutti_store *store, struct store_call *call)
{
    struct tcp_store *tcp = (struct tcp_store *)store;
    tutti_status status = begin(tcp, &call->time);

    if (status)
        return status;
    status = call_in_turn(tcp, call);
    store_turn_give(&tcp->turn);
    return status;
}

static void tcp_close(tutti_store *store)
{
    struct tcp_store *tcp = (struct tcp_store *)store;

    fork_close_now(tcp->fd);
    buffer_free(&tcp->request);
    store_turn_destroy(&tcp->turn);
    secret_unref(tcp->place.secret);
    free(tcp);
}

static void tcp_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM])
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;

    if (getsockname(((struct tcp_store *)store)->fd, (struct sockaddr *)&own, &size) ||
        getnameinfo((struct sockaddr *)&own, size, ret_address, STORE_ADDRESS_ROOM, NULL, 0,
                    NI_NUMERICHOST))
        *ret_address = 0;
}

/* Takes over the place's secret. */
static tutti_status open_client(const struct store_ops *ops, const struct store_tcp_place *place,
                                const char *server, const struct store_time *time,
                                tutti_store **ret_store)
{
    struct tcp_store *tcp = store_new(sizeof *tcp, ops);

    if (!tcp) {
        secret_unref(place->secret);
        return TUTTI_ERR_NO_MEMORY;
    }
    tcp->request.limit = STORE_WIRE_MAX_REQUEST;
    tcp->place = *place;
    store_turn_init(&tcp->turn);

    tutti_status status = store_tcp_connect(&tcp->place, server, time, &tcp->fd);

    if (status) {
        store_turn_destroy(&tcp->turn);
        secret_unref(tcp->place.secret);
        free(tcp);
        return status;
    }
    *ret_store = &tcp->base;
    return TUTTI_OK;
}

static tutti_status tcp_clone(tutti_store *store, const struct store_time *time,
                              tutti_store **ret_store)
{
    const struct store_tcp_place *place = &((struct tcp_store *)store)->place;

    if (place->secret)
        (void)secret_ref(place->secret);
    return open_client(store->ops, place, NULL, time, ret_store);
}

static const struct store_ops tcp_ops = {
    .close = tcp_close,
    .call = tcp_call,
    .has_multi_get = true,
    .clone = tcp_clone,
    .local_address = tcp_local_address,
};

tutti_status store_open_member(const char *host, uint16_t port, const char *server,
                               const struct key *handed, int rank, int64_t timeout_ms,
                               tutti_store **ret_store)
{
    struct store_tcp_place place = {.port = port, .rank = rank};
    struct store_time time;
    tutti_status status = store_time_start(timeout_ms, &time);

    if (status)
        return status;
    if (!host || !*host || !ret_store || !port)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "host and ret_store must not be NULL, and port must not be 0");
    if (strlen(host) >= sizeof place.host)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the host name \"%.*s…\" is too long",
                         TEXT_CUT(host, 32));
    memcpy(place.host, host, strlen(host) + 1);
    if (handed)
        place.secret = store_proof_secret(handed);
    return open_client(&tcp_ops, &place, server, &time, ret_store);
}

tutti_status tutti_store_open_tcp(const char *host, uint16_t port, int64_t timeout_ms,
                                  tutti_store **ret_store)
{
    return error_named(store_open_member(host, port, NULL, NULL, -1, timeout_ms, ret_store));
}
