/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flights, from the call that gives them to UCX to their landing.
 *
 * UCX takes a send back never, and a receive only before its message has come. So it never knows the
 * caller's memory: a frame is the plugin's own, and a piece is of a generic datatype, whose functions copy
 * between UCX's buffers and the caller's memory part by part. Withdrawn, they leave that memory
 * alone, and the flight ends whenever UCX is done with it, or with the worker. Each part is copied once on
 * each side, as UCX itself does it over shared memory and sockets; what it would do without a copy
 * (process_vm_readv(), RDMA) is given up.
 *
 * A piece ends with a byte that is packed after all others. It tells the receiver whether the sender's memory
 * was still the sender's: one that was withdrawn half-way is never taken for a message.
 *
 * UCX reports what has landed inside a call of any endpoint. What is another's waits in its list; if that
 * endpoint's thread sleeps, the worker's descriptor is made readable. Nobody arms the worker, which
 * empties the descriptor, before that thread has looked.
 */
#include "flights.h"

#include <stdlib.h>
#include <string.h>

#include "transport.h"

enum {
    END_BYTES = 1,
    WHOLE = 0x57,
    WITHDRAWN = 0,
    ARM_TURNS = 4 /* UCX has events of its own, too */
};

/* ---- memory -------------------------------------------------------------------------------- */

static struct flight **spare_of(struct spare_flights *spare, enum flight_kind kind)
{
    return kind == FRAME_OUT || kind == FRAME_IN ? &spare->frames : &spare->pieces;
}

static struct flight *take_from(struct spare_flights *spare, enum flight_kind kind)
{
    struct flight **first = spare_of(spare, kind);
    struct flight *flight = *first;

    if (flight)
        *first = flight->next;
    return flight;
}

static void put_to(struct spare_flights *spare, struct flight *flight)
{
    struct flight **first = spare_of(spare, flight->kind);

    flight->next = *first;
    *first = flight;
}

/* One that another endpoint has left, or a new one. */
static struct flight *make_unlocked(struct worker *worker, enum flight_kind kind)
{
    const bool is_frame = kind == FRAME_OUT || kind == FRAME_IN;
    struct flight *flight = take_from(&worker->spare, kind);

    if (!flight && (flight = malloc(sizeof *flight + (is_frame ? FRAME_BYTES : 0)))) {
        flight->next_made = worker->made;
        worker->made = flight;
    }
    return flight;
}

static struct flight *make(struct worker *worker, enum flight_kind kind)
{
    worker_lock(worker);
    struct flight *flight = make_unlocked(worker, kind);
    worker_unlock(worker);
    return flight;
}

struct flight *flight_take(tutti_endpoint *endpoint, enum flight_kind kind)
{
    struct flight *flight = take_from(&endpoint->spare, kind);

    if (!flight)
        flight = make(endpoint->worker, kind);
    if (flight)
        *flight = (struct flight){.kind = kind, .next_made = flight->next_made};
    return flight;
}

void flight_give(tutti_endpoint *endpoint, struct flight *flight)
{
    if (flight)
        put_to(&endpoint->spare, flight);
}

void flights_leave(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    worker_lock(worker);
    for (enum flight_kind kind = FRAME_IN; kind <= PIECE_IN; kind++)
        for (struct flight *flight; (flight = take_from(&endpoint->spare, kind));)
            put_to(&worker->spare, flight);
    worker_unlock(worker);
}

void flights_free(struct worker *worker)
{
    for (struct flight *flight; (flight = worker->made);) {
        worker->made = flight->next_made;
        free(flight);
    }
    worker->spare = (struct spare_flights){.frames = NULL};
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* The flight is the buffer that UCX is given, and the state of its way through UCX. */
static void *start_pack(void *context, const void *flight, size_t count)
{
    (void)context;
    (void)count;
    return (void *)(uintptr_t)flight;
}

static void *start_unpack(void *context, void *flight, size_t count)
{
    (void)context;
    (void)count;
    return flight;
}

static size_t packed_size(void *of)
{
    const struct flight *flight = of;

    return flight->bytes + END_BYTES;
}

static size_t pack(void *of, size_t offset, void *to, size_t capacity)
{
    struct flight *flight = of;
    const size_t left = flight->bytes - offset; /* UCX asks for nothing behind the end */
    const size_t body = left < capacity ? left : capacity;

    if (flight->withdrawn)
        memset(to, 0, body);
    else if (body)
        memcpy(to, flight->data + offset, body);
    if (left >= capacity)
        return body;
    ((uint8_t *)to)[body] = flight->withdrawn ? WITHDRAWN : WHOLE;
    return body + END_BYTES;
}

static ucs_status_t unpack(void *of, size_t offset, const void *from, size_t count)
{
    struct flight *flight = of;

    if (offset > flight->bytes || count > flight->bytes + END_BYTES - offset)
        return UCS_ERR_MESSAGE_TRUNCATED;
    const size_t left = flight->bytes - offset;
    const size_t body = left < count ? left : count;
    if (body && !flight->withdrawn)
        memcpy(flight->data + offset, from, body);
    if (count > left)
        flight->whole = ((const uint8_t *)from)[left] == WHOLE;
    return UCS_OK;
}

static void finish(void *flight)
{
    (void)flight;
}

ucs_status_t flights_describe(struct worker *worker)
{
    const ucp_generic_dt_ops_t functions = {.start_pack = start_pack,
                                            .start_unpack = start_unpack,
                                            .packed_size = packed_size,
                                            .pack = pack,
                                            .unpack = unpack,
                                            .finish = finish};

    return worker->library->ucp_dt_create_generic(&functions, NULL, &worker->piece);
}

/* ---- landing, under the lock --------------------------------------------------------------- */

static void wake(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    if (!endpoint->asleep || endpoint->unserved)
        return;
    endpoint->unserved = true;
    worker->unserved++;
    worker->library->ucp_worker_signal(worker->ucp);
}

void flights_wake_all(struct worker *worker)
{
    for (tutti_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
        wake(endpoint);
}

/* The endpoint's thread is here. */
static void is_up(tutti_endpoint *endpoint)
{
    endpoint->worker->unserved -= endpoint->unserved;
    endpoint->unserved = endpoint->asleep = false;
}

static void land(struct flight *flight, void *request, ucs_status_t status, uint64_t received)
{
    tutti_endpoint *endpoint = flight->peer ? flight->peer->endpoint : NULL;

    flight->status = status;
    flight->received = received;
    flight->ucx = NULL;
    flight->in_ucx = false;
    flight->next_landed = NULL;
    if (!endpoint) {
        put_to(&flight->worker->spare, flight);
        flight->worker->library->ucp_request_free(request);
        return;
    }
    endpoint->worker->library->ucp_request_free(request);
    *endpoint->last_landed = flight;
    endpoint->last_landed = &flight->next_landed;
    wake(endpoint);
}

static void has_left(void *request, ucs_status_t status, void *flight)
{
    land(flight, request, status, 0);
}

static void has_come(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                     void *flight)
{
    land(flight, request, status, info ? info->length : 0);
}

/* ---- to UCX -------------------------------------------------------------------------------- */

static bool is_piece(const struct flight *flight)
{
    return flight->kind == PIECE_OUT || flight->kind == PIECE_IN;
}

static void *buffer_of(struct flight *flight)
{
    return is_piece(flight) ? (void *)flight : flight->frame;
}

static ucp_request_param_t param_of(const struct worker *worker, struct flight *flight)
{
    const uint32_t always =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;

    return (ucp_request_param_t){.op_attr_mask =
                                     always | (is_piece(flight) ? UCP_OP_ATTR_FIELD_DATATYPE : 0),
                                 .datatype = worker->piece,
                                 .user_data = flight,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
}

/* Before UCX gets it: it may land inside the call. */
static void enlist(tutti_peer *peer, struct flight *flight)
{
    peer->endpoint->worker->armed = false;
    flight->in_ucx = true;
    flight->ucx = NULL;
    flight->peer = peer;
    flight->worker = peer->endpoint->worker;
    flight->previous = NULL;
    flight->next = peer->flights;
    if (flight->next)
        flight->next->previous = flight;
    peer->flights = flight;
}

static void unlink_flight(struct flight *flight)
{
    if (flight->previous)
        flight->previous->next = flight->next;
    else
        flight->peer->flights = flight->next;
    if (flight->next)
        flight->next->previous = flight->previous;
}

/* One that has landed, and was not reported, leaves the endpoint's list. */
static void drop_landed(tutti_endpoint *endpoint, const struct flight *flight)
{
    struct flight **at = &endpoint->landed;

    while (*at != flight)
        at = &(*at)->next_landed;
    *at = flight->next_landed;
    if (!*at)
        endpoint->last_landed = at;
}

/* UCX has it, has had it, or refuses it. */
static tutti_status given(struct flight *flight, ucs_status_ptr_t answer, bool *ret_landed)
{
    *ret_landed = !answer;
    if (UCS_PTR_IS_PTR(answer)) {
        if (flight->in_ucx) {
            flight->ucx = answer;
            return TUTTI_OK;
        }
        drop_landed(flight->peer->endpoint, flight);
        *ret_landed = true;
    } else {
        flight->in_ucx = false;
        flight->status = UCS_PTR_STATUS(answer);
    }
    unlink_flight(flight);
    return answer == NULL || *ret_landed ? TUTTI_OK : flight_status(flight->status);
}

tutti_status flight_send(tutti_peer *peer, struct flight *flight, bool *ret_landed)
{
    struct worker *worker = peer->endpoint->worker;
    ucp_request_param_t param = param_of(worker, flight);
    tutti_status status = TUTTI_ERR_PEER_LOST;

    param.cb.send = has_left;
    worker_lock(worker);
    if (peer->losses == peer->link->losses) {
        enlist(peer, flight);
        status = given(flight,
                       worker->library->ucp_tag_send_nbx(peer->link->ep, buffer_of(flight),
                                                         is_piece(flight) ? 1 : flight->bytes,
                                                         peer->send_tag, &param),
                       ret_landed);
    }
    worker_unlock(worker);
    return status;
}

tutti_status flight_receive(tutti_peer *peer, struct flight *flight, bool *ret_landed)
{
    struct worker *worker = peer->endpoint->worker;
    ucp_request_param_t param = param_of(worker, flight);

    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL; /* which has no length in UCX 1.13 */
    param.cb.recv = has_come;
    worker_lock(worker);
    enlist(peer, flight);
    tutti_status status =
        given(flight,
              worker->library->ucp_tag_recv_nbx(worker->ucp, buffer_of(flight),
                                                is_piece(flight) ? 1 : FRAME_BYTES,
                                                peer->receive_tag, UINT64_MAX, &param),
              ret_landed);
    worker_unlock(worker);
    return status;
}

/* ---- from UCX ------------------------------------------------------------------------------ */

void flight_withdraw(struct flight *flight)
{
    struct worker *worker = flight->peer->endpoint->worker;

    worker_lock(worker);
    flight->request = NULL;
    flight->withdrawn = true;
    flight->data = NULL;
    worker_unlock(worker);
}

void flight_forget(struct flight *flight)
{
    tutti_endpoint *endpoint = flight->peer->endpoint;
    struct worker *worker = endpoint->worker;
    const bool is_receive = flight->kind == FRAME_IN || flight->kind == PIECE_IN;

    flight_withdraw(flight);
    worker_lock(worker);
    unlink_flight(flight);
    flight->peer = NULL;
    if (!flight->in_ucx) {
        drop_landed(endpoint, flight);
        put_to(&endpoint->spare, flight);
    } else if (is_receive) { /* which may land inside the call */
        worker->armed = false;
        worker->library->ucp_request_cancel(worker->ucp, flight->ucx);
    }
    worker_unlock(worker);
}

/* A frame, received for nobody as if it were a piece. */
static bool drop_one(struct worker *worker, ucp_tag_t tag, ucp_tag_t mask)
{
    const struct ucx_library *library = worker->library;
    ucp_tag_recv_info_t info;

    if (!library->ucp_tag_probe_nb(worker->ucp, tag, mask, 0, &info) ||
        info.length > FRAME_MESSAGE_BYTES || info.length < END_BYTES)
        return false;
    struct flight *flight = make_unlocked(worker, PIECE_IN);
    ucp_tag_message_h message =
        flight ? library->ucp_tag_probe_nb(worker->ucp, tag, mask, 1, &info) : NULL;
    if (!message)
        return false;
    *flight = (struct flight){.kind = PIECE_IN,
                              .next_made = flight->next_made,
                              .worker = worker,
                              .bytes = info.length - END_BYTES,
                              .withdrawn = true};
    ucp_request_param_t param = param_of(worker, flight);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = has_come;
    return UCS_PTR_IS_PTR(library->ucp_tag_msg_recv_nbx(worker->ucp, flight, 1, message, &param));
}

void flights_drop(struct worker *worker, ucp_tag_t tag, ucp_tag_t mask)
{
    while (drop_one(worker, tag, mask))
        continue;
}

struct flight *flights_advance(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    worker_lock(worker);
    is_up(endpoint);
    worker->armed = false;
    worker->library->ucp_worker_progress(worker->ucp);
    struct flight *landed = endpoint->landed;
    endpoint->landed = NULL;
    endpoint->last_landed = &endpoint->landed;
    for (struct flight *flight = landed; flight; flight = flight->next_landed)
        unlink_flight(flight);
    worker_unlock(worker);
    return landed;
}

int32_t flights_arm(tutti_endpoint *endpoint)
{
    struct worker *worker = endpoint->worker;

    worker_lock(worker);
    is_up(endpoint);
    for (int turn = 0; turn < ARM_TURNS && !worker->armed && !endpoint->landed; turn++) {
        if (worker->unserved)
            break;
        worker->armed = worker->library->ucp_worker_arm(worker->ucp) == UCS_OK;
        if (!worker->armed)
            worker->library->ucp_worker_progress(worker->ucp);
    }
    const bool sleeps = worker->armed && !endpoint->landed;
    endpoint->asleep = sleeps;
    worker_unlock(worker);
    return sleeps ? TUTTI_ARMED : TUTTI_EVENTS_PENDING;
}

tutti_status flight_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return TUTTI_OK;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
        return TUTTI_ERR_NO_MEMORY;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return TUTTI_ERR_INTERNAL;
    case UCS_ERR_CANCELED:
        return TUTTI_ERR_ABORTED;
    default:
        return TUTTI_ERR_PEER_LOST;
    }
}
