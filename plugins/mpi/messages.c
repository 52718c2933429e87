/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's messages, in messages of MPI's.
 *
 * The core sends a header in front of each payload, and what a short message of MPI's costs hardly
 * depends on its length. So short messages travel in frames: what is sent with TUTTI_SEND_MORE waits
 * for what follows at once, and both leave together. In a frame a mark stands in front of each
 * message, its length. A long one is a message of MPI's own, from the core's memory to the core's; the
 * frame before it ends with the mark BEHIND. So the receiver knows which of the two comes next, and
 * asks MPI for one at a time: MPI keeps those of one tag in order.
 *
 * The tag names the endpoint that a message is for and the one that it is from, the numbers that
 * both processes have given them.
 *
 * MPI never tells that a peer is gone; the core watches processes itself.
 */
#include "transport.h"

#include <string.h>

static const uint64_t BEHIND = UINT64_MAX; /* a mark: the message comes behind the frame */

/* The core is told by the next advance(). */
static void lose(tutti_peer *peer)
{
    peer->lost = peer->endpoint->any_lost = true;
}

/* ---- out ----------------------------------------------------------------------------------- */

static void append(struct frame *frame, uint64_t mark, const void *data, uint64_t bytes)
{
    memcpy(frame->data + frame->bytes, &mark, FRAME_MARK_BYTES);
    frame->bytes += FRAME_MARK_BYTES;
    if (bytes)
        memcpy(frame->data + frame->bytes, data, bytes);
    frame->bytes += (uint32_t)bytes;
}

/* The frame that the peer's next message goes into leaves, with `request`, which may be NULL. */
static tutti_status send_frame(tutti_peer *peer, tutti_request *request)
{
    struct frame *frame = peer->out;

    peer->out = NULL;
    if (peer->endpoint->holding == peer)
        peer->endpoint->holding = NULL;
    return flight_send(peer, FRAME_OUT, request, frame, frame->data, frame->bytes);
}

/* Lets out messages that should have been followed at once and were not. */
static void let_out(tutti_endpoint *endpoint)
{
    tutti_peer *peer = endpoint->holding;

    if (peer && send_frame(peer, NULL))
        lose(peer);
}

/* Begins a frame, unless one is begun that has room for a mark and `bytes`. */
static tutti_status begin_frame(tutti_peer *peer, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (endpoint->holding &&
        (endpoint->holding != peer || peer->out->bytes + FRAME_MARK_BYTES + bytes > FRAME_BYTES))
        let_out(endpoint);
    if (!peer->out)
        peer->out = frame_take(endpoint);
    return peer->out ? TUTTI_OK : refuse(&endpoint->caller, TUTTI_ERR_NO_MEMORY, "out of memory");
}

/* Whether requests can be taken at all. */
static tutti_status can_take(tutti_endpoint *endpoint, uint32_t lane)
{
    tutti_status status = job_check_call(&endpoint->caller, endpoint->job);

    if (status)
        return status;
    if (lane != 0)
        return refuse(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, "there is one lane, 0");
    if (!endpoint->ready && !(endpoint->ready = job_ready()))
        return TUTTI_ERR_BUSY;
    return flights_reserve(endpoint)
               ? TUTTI_OK
               : refuse(&endpoint->caller, TUTTI_ERR_NO_MEMORY, "out of memory");
}

static void begin(tutti_request *request, tutti_peer *peer, void *data, uint64_t capacity,
                  tutti_request_queue *queue)
{
    request->status = TUTTI_ERR_NOT_READY;
    *mpi_of(request) = (struct mpi_request){
        .place = {.peer = peer}, .data = data, .capacity = capacity, .slot = NO_SLOT};
    tutti_queue_push(queue, request);
}

static tutti_status send_short(tutti_peer *peer, const void *data, uint64_t bytes, bool more,
                               tutti_request *request)
{
    append(peer->out, bytes, data, bytes);
    if (!more)
        return send_frame(peer, request);
    peer->endpoint->holding = peer;
    tutti_queue_remove(request);
    request->status = TUTTI_OK;
    return TUTTI_OK;
}

static tutti_status send_long(tutti_peer *peer, const void *data, uint64_t bytes,
                              tutti_request *request)
{
    append(peer->out, BEHIND, NULL, 0);

    tutti_status status = send_frame(peer, NULL);
    return status ? status : flight_send(peer, LONG_OUT, request, NULL, data, bytes);
}

tutti_status messages_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                            const void *data, uint64_t bytes, uint32_t flags,
                            tutti_request *request)
{
    const bool is_long = bytes > FRAME_MESSAGE_BYTES;
    tutti_status status = can_take(endpoint, lane);

    if (!status)
        status = begin_frame(peer, is_long ? 0 : bytes);
    if (status)
        return status;
    begin(request, peer, NULL, 0, &peer->sends);
    status = is_long ? send_long(peer, data, bytes, request)
                     : send_short(peer, data, bytes, flags & TUTTI_SEND_MORE, request);
    if (status) {
        tutti_queue_remove(request);
        return status;
    }
    endpoint->sent_bytes += bytes;
    endpoint->sent_messages++;
    return TUTTI_OK;
}

/* ---- in ------------------------------------------------------------------------------------ */

static void received(tutti_peer *peer, tutti_status status, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (!status) {
        endpoint->received_bytes += bytes;
        endpoint->received_messages++;
    }
    tutti_queue_finish(&endpoint->done, peer->receives.first, status, bytes);
}

/* The next message of the frame goes to the receive that waits for it. */
static void hand_over(tutti_peer *peer, struct frame *frame)
{
    const struct mpi_request *r = mpi_of(peer->receives.first);
    const uint32_t left = frame->bytes - frame->read;
    uint64_t mark = 0;

    if (left >= FRAME_MARK_BYTES)
        memcpy(&mark, frame->data + frame->read, FRAME_MARK_BYTES);
    if (left < FRAME_MARK_BYTES || mark > left - FRAME_MARK_BYTES || mark > r->capacity) {
        frame->read = frame->bytes;
        received(peer, TUTTI_ERR_INTERNAL, 0);
        return;
    }
    if (mark)
        memcpy(r->data, frame->data + frame->read + FRAME_MARK_BYTES, mark);
    frame->read += FRAME_MARK_BYTES + (uint32_t)mark;
    received(peer, TUTTI_OK, mark);
}

static bool is_behind(const struct frame *frame)
{
    return frame->bytes - frame->read == FRAME_MARK_BYTES &&
           memcmp(frame->data + frame->read, &BEHIND, FRAME_MARK_BYTES) == 0;
}

/* Asks MPI for the next message of its own: a frame, or what comes behind one. */
static tutti_status ask(tutti_peer *peer)
{
    tutti_endpoint *endpoint = peer->endpoint;
    tutti_request *first = peer->receives.first;
    tutti_status status;

    if (!peer->in && !(peer->in = frame_take(endpoint)))
        return refuse(&endpoint->caller, TUTTI_ERR_NO_MEMORY, "out of memory");
    if (peer->in->read < peer->in->bytes) {
        peer->in->read = peer->in->bytes;
        status = flight_receive(peer, LONG_IN, first, NULL, mpi_of(first)->data,
                                mpi_of(first)->capacity);
    } else {
        status = flight_receive(peer, FRAME_IN, NULL, peer->in, peer->in->data, FRAME_BYTES);
    }
    peer->receiving = !status;
    return status;
}

/* Waiting receives get what has arrived; for the rest MPI is asked. */
static void serve(tutti_peer *peer)
{
    while (peer->receives.first && !peer->receiving) {
        struct frame *frame = peer->in;

        if (frame && frame->read < frame->bytes && !is_behind(frame)) {
            hand_over(peer, frame);
        } else {
            tutti_status status = ask(peer);

            if (status)
                received(peer, status, 0);
        }
    }
}

tutti_status messages_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                            uint64_t capacity, tutti_request *request)
{
    tutti_status status = can_take(endpoint, lane);

    if (status)
        return status;
    begin(request, peer, data, capacity, &peer->receives);
    serve(peer);
    return tutti_queue_posted(request);
}

/* ---- taking back --------------------------------------------------------------------------- */

void messages_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    struct mpi_request *r = mpi_of(request);
    const uint32_t slot = r->slot;

    if (r->place.queue && r->place.queue != &endpoint->done && slot != NO_SLOT) {
        if (endpoint->flights[slot].kind == FRAME_OUT)
            endpoint->flights[slot].request = NULL; /* the frame has its bytes, and goes on */
        else
            flight_withdraw(endpoint, slot);
    }
    tutti_queue_remove(request);
}

void messages_forget(tutti_endpoint *endpoint, tutti_peer *peer)
{
    for (uint32_t slot = endpoint->count; slot-- > 0;)
        if (endpoint->flights[slot].peer == peer)
            flight_withdraw(endpoint, slot);
    tutti_queue_clear(&peer->receives);
    tutti_queue_clear(&peer->sends);
    tutti_queue_remove_peer(&endpoint->done, peer);
    if (endpoint->holding == peer)
        endpoint->holding = NULL;
    frame_give(endpoint, peer->in);
    frame_give(endpoint, peer->out);
}

/* ---- progress ------------------------------------------------------------------------------ */

void messages_landed(const struct flight *flight, tutti_status status, uint64_t bytes)
{
    tutti_peer *peer = flight->peer;
    tutti_endpoint *endpoint = peer->endpoint;

    if (status == TUTTI_ERR_PEER_LOST)
        lose(peer);
    switch (flight->kind) {
    case FRAME_OUT:
    case LONG_OUT:
        frame_give(endpoint, flight->frame);
        if (flight->request)
            tutti_queue_finish(&endpoint->done, flight->request, status, 0);
        else if (status)
            lose(peer);
        return;
    case FRAME_IN:
        flight->frame->bytes = (uint32_t)bytes;
        flight->frame->read = 0;
        peer->receiving = false;
        if (status && peer->receives.first)
            received(peer, status, 0);
        break;
    case LONG_IN:
        peer->receiving = false;
        received(peer, status, bytes);
    }
    if (!peer->lost)
        serve(peer);
}

static void tell_lost(tutti_endpoint *endpoint)
{
    endpoint->any_lost = false;
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next) {
        if (!peer->lost || peer->told)
            continue;
        peer->told = true;
        endpoint->caller.host->peer_lost(endpoint->caller.host_self, peer->label,
                                         "MPI reported an error");
    }
}

static void advance(tutti_endpoint *endpoint)
{
    if (job_is_barred(&endpoint->caller, endpoint->job))
        return;
    if (endpoint->holding && flights_reserve(endpoint))
        let_out(endpoint);
    if (endpoint->count)
        flights_advance(endpoint);
    else if (!endpoint->ready)
        endpoint->ready = job_ready();
    if (endpoint->any_lost)
        tell_lost(endpoint);
}

uint32_t messages_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    advance(endpoint);
    return tutti_queue_report(&endpoint->done, ret_done, capacity);
}

tutti_status messages_test(tutti_endpoint *endpoint, tutti_request *request)
{
    advance(endpoint);
    tutti_queue_posted(request);
    return request->status;
}
