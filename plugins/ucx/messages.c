/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's messages, in UCX's.
 *
 * A short message goes into a frame, with a mark in front of it, its length. What is sent with
 * TUTTI_SEND_MORE waits in the frame for what follows at once: a header and its payload leave together.
 * A long message is a piece, a message of UCX's by itself. The last mark of the frame before it has the
 * bit BEHIND and the piece's length. So the receiver knows what comes next, and asks UCX for one at a
 * time: UCX keeps those of one tag in order.
 *
 * The tag is made of the random numbers of both endpoints, so it names the pair and the direction.
 *
 * A frame may be read without a request, too: show() points into it.
 */
#include "transport.h"

#include <string.h>

static const uint64_t BEHIND = UINT64_C(1) << 63; /* in a mark: a piece of this length follows */

enum { SENDING_MAX = 256 /* frames and pieces to one peer that UCX has not got rid of */ };

static tutti_status no_memory(tutti_endpoint *endpoint)
{
    return fail(&endpoint->caller, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
}

static tutti_status lost(const tutti_peer *peer)
{
    const struct link *link = peer->link;

    return fail(&peer->endpoint->caller, TUTTI_ERR_PEER_LOST, 0, "UCX has lost the connection: %s",
                peer->endpoint->worker->library->ucs_status_string(link->why));
}

static bool is_gone(const tutti_peer *peer)
{
    return losses_of(&peer->link->losses) != peer->losses;
}

/* ---- out ----------------------------------------------------------------------------------- */

static void put_mark(struct flight *frame, uint64_t mark)
{
    memcpy(frame->frame + frame->bytes, &mark, MARK_BYTES);
    frame->bytes += MARK_BYTES;
}

static void put(struct flight *frame, const void *data, uint64_t bytes)
{
    if (bytes)
        memcpy(frame->frame + frame->bytes, data, bytes);
    frame->bytes += bytes;
}

/* Gives it to UCX with `request`, which may be NULL and which is complete if the flight has landed. */
static tutti_status launch(tutti_peer *peer, struct flight *flight, tutti_request *request)
{
    bool landed;

    flight->request = request;
    tutti_status status = flight_send(peer, flight, &landed);
    if (status == TUTTI_OK && !landed) {
        peer->sending++;
        if (request)
            ucx_of(request)->flight = flight;
        return TUTTI_OK;
    }
    flight_give(peer->endpoint, flight);
    if (status)
        return status == TUTTI_ERR_PEER_LOST
                   ? lost(peer)
                   : fail(&peer->endpoint->caller, status, 0, "UCX did not take a message");
    if (request) {
        tutti_queue_remove(request);
        request->status = TUTTI_OK;
    }
    return TUTTI_OK;
}

static tutti_status launch_frame(tutti_peer *peer, tutti_request *request)
{
    struct flight *frame = peer->out;

    peer->out = NULL;
    if (peer->endpoint->holding == peer)
        peer->endpoint->holding = NULL;
    return launch(peer, frame, request);
}

void messages_let_out(tutti_endpoint *endpoint)
{
    if (endpoint->holding) /* a failure is that of the connection, which progress reports */
        (void)launch_frame(endpoint->holding, NULL);
}

/* A frame that has room for a mark and `bytes`, in peer->out. */
static tutti_status need_frame(tutti_peer *peer, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (endpoint->holding &&
        (endpoint->holding != peer || FRAME_BYTES - peer->out->bytes < MARK_BYTES + bytes))
        messages_let_out(endpoint);
    if (!peer->out)
        peer->out = flight_take(endpoint, FRAME_OUT);
    return peer->out ? TUTTI_OK : no_memory(endpoint);
}

static tutti_status can_send(const tutti_peer *peer, uint32_t lane)
{
    if (lane != 0)
        return fail(&peer->endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, 0, "there is lane 0 only");
    if (is_gone(peer))
        return lost(peer);
    if (peer->took_back)
        return fail(&peer->endpoint->caller, TUTTI_ERR_ABORTED, 0,
                    "a message was cancelled half-way, nothing can follow it");
    return peer->sending < SENDING_MAX ? TUTTI_OK : TUTTI_ERR_BUSY;
}

static void begin(tutti_request *request, tutti_peer *peer, tutti_request_queue *queue)
{
    request->status = TUTTI_ERR_NOT_READY;
    *ucx_of(request) = (struct ucx_request){.place = {.peer = peer}};
    tutti_queue_push(queue, request);
}

static tutti_status send_short(tutti_peer *peer, const void *data, uint64_t bytes, bool more,
                               tutti_request *request)
{
    tutti_status status = need_frame(peer, bytes);

    if (status)
        return status;
    put_mark(peer->out, bytes);
    put(peer->out, data, bytes);
    if (!more)
        return launch_frame(peer, request);
    peer->endpoint->holding = peer;
    tutti_queue_remove(request);
    request->status = TUTTI_OK;
    return TUTTI_OK;
}

static tutti_status send_long(tutti_peer *peer, const void *data, uint64_t bytes,
                              tutti_request *request)
{
    struct flight *piece = flight_take(peer->endpoint, PIECE_OUT);

    if (!piece)
        return no_memory(peer->endpoint);
    tutti_status status = need_frame(peer, 0);
    if (!status) {
        put_mark(peer->out, BEHIND | bytes);
        status = launch_frame(peer, NULL);
    }
    if (status) {
        flight_give(peer->endpoint, piece);
        return status;
    }
    piece->data = (uint8_t *)(uintptr_t)data;
    piece->bytes = bytes;
    return launch(peer, piece, request);
}

tutti_status messages_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                            const void *data, uint64_t bytes, uint32_t flags,
                            tutti_request *request)
{
    tutti_status status = can_send(peer, lane);

    if (status)
        return status;
    begin(request, peer, &peer->sends);
    status = bytes > FRAME_MESSAGE_BYTES
                 ? send_long(peer, data, bytes, request)
                 : send_short(peer, data, bytes, flags & TUTTI_SEND_MORE, request);
    if (status) {
        tutti_queue_remove(request);
        return status;
    }
    endpoint->sent_bytes += MARK_BYTES + bytes;
    endpoint->sent_messages++;
    return TUTTI_OK;
}

/* A message in a frame of its own, which UCX may keep. What it does not take goes by messages_isend(). */
tutti_status messages_send_short(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                 const void *head, uint64_t head_bytes, const void *body,
                                 uint64_t body_bytes)
{
    bool landed;

    if (lane != 0 || is_gone(peer) || peer->took_back || peer->sending >= SENDING_MAX)
        return TUTTI_ERR_BUSY;
    if (endpoint->holding)
        messages_let_out(endpoint);
    struct flight *frame = flight_take(endpoint, FRAME_OUT);
    if (!frame)
        return TUTTI_ERR_BUSY;
    put_mark(frame, head_bytes + body_bytes);
    put(frame, head, head_bytes);
    put(frame, body, body_bytes);
    const tutti_status status = flight_send(peer, frame, &landed);
    if (status || landed)
        flight_give(endpoint, frame);
    if (status)
        return TUTTI_ERR_BUSY;
    peer->sending += !landed;
    endpoint->sent_bytes += MARK_BYTES + head_bytes + body_bytes;
    endpoint->sent_messages++;
    return TUTTI_OK;
}

/* ---- in ------------------------------------------------------------------------------------ */

/* Nobody has looked for it by show() since it came. Then the endpoint's thread does not sleep. */
static void set_unseen(tutti_peer *peer, bool unseen)
{
    if (unseen && !peer->unseen)
        peer->endpoint->unseen++;
    if (!unseen && peer->unseen)
        peer->endpoint->unseen--;
    peer->unseen = unseen;
}

/* The mark of the next message in the frame; false: the frame has none. */
static bool next_mark(const struct flight *frame, uint64_t *ret_mark)
{
    if (!frame || frame->read >= frame->bytes)
        return false;
    *ret_mark = UINT64_MAX; /* what is no mark: a piece that is too long for everybody */
    if (frame->bytes - frame->read < MARK_BYTES)
        return true;
    memcpy(ret_mark, frame->frame + frame->read, MARK_BYTES);
    if (!(*ret_mark & BEHIND) && *ret_mark > frame->bytes - frame->read - MARK_BYTES)
        *ret_mark = UINT64_MAX;
    return true;
}

/* The first of the receives is complete. */
static void received(tutti_peer *peer, tutti_status status, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;

    if (!status) {
        endpoint->received_bytes += MARK_BYTES + bytes;
        endpoint->received_messages++;
    }
    tutti_queue_finish(&endpoint->done, peer->receives.first, status, bytes);
}

/* What the peer sends makes no sense, and so does all that follows. */
static void cut(tutti_peer *peer)
{
    peer->cut = true;
    if (peer->in)
        peer->in->read = (uint32_t)peer->in->bytes;
}

static void frame_has_come(tutti_peer *peer, struct flight *frame)
{
    frame->bytes = frame->status ? 0 : frame->received;
    frame->read = 0;
    peer->in = frame;
    if (!peer->heard) { /* UCX's thread has accepted its connection */
        peer->heard = true;
        inherited_accepted(&peer->endpoint->worker->context->listening);
    }
    if (frame->status)
        cut(peer);
    set_unseen(peer, !peer->receives.first);
}

/* Without a request it has been dropped. One that its sender has taken back keeps the receive waiting: nothing
 * follows, and the core of the sender tells why. */
static void piece_has_come(tutti_peer *peer, struct flight *piece)
{
    tutti_status status = flight_status(piece->status);

    if (!status && piece->received != piece->bytes + 1)
        status = TUTTI_ERR_INTERNAL;
    if (!status && !piece->whole)
        peer->halted = true;
    else if (piece->request)
        received(peer, status, piece->bytes);
    flight_give(peer->endpoint, piece);
}

static void has_come(tutti_peer *peer, struct flight *flight)
{
    peer->asked = NULL;
    if (flight->kind == FRAME_IN)
        frame_has_come(peer, flight);
    else
        piece_has_come(peer, flight);
}

/* UCX receives into the flight. What is there already, it has brought when this returns. */
static tutti_status ask(tutti_peer *peer, struct flight *flight)
{
    bool landed;
    tutti_status status = flight_receive(peer, flight, &landed);

    if (status) {
        flight_give(peer->endpoint, flight);
        return status;
    }
    peer->asked = flight;
    if (landed) {
        has_come(peer, flight);
    } else if (is_gone(peer)) { /* nothing comes any more */
        peer->asked = NULL;
        flight_forget(flight);
        return TUTTI_ERR_PEER_LOST;
    }
    return TUTTI_OK;
}

static tutti_status ask_for_frame(tutti_peer *peer)
{
    struct flight *frame = peer->in;

    peer->in = NULL;
    if (!frame)
        frame = flight_take(peer->endpoint, FRAME_IN);
    return frame ? ask(peer, frame) : no_memory(peer->endpoint);
}

/* The first of the receives is too short for the message, which is dropped. */
static void too_long(tutti_peer *peer, uint64_t bytes)
{
    const uint64_t capacity = ucx_of(peer->receives.first)->capacity;

    received(peer,
             fail(&peer->endpoint->caller, TUTTI_ERR_INTERNAL, 0,
                  "a message of %llu bytes has come, where at most %llu were expected",
                  (unsigned long long)bytes, (unsigned long long)capacity),
             0);
}

static tutti_status ask_for_piece(tutti_peer *peer, uint64_t bytes)
{
    tutti_request *request = peer->receives.first;
    struct flight *piece = flight_take(peer->endpoint, PIECE_IN);

    if (!piece)
        return no_memory(peer->endpoint);
    peer->in->read += MARK_BYTES;
    piece->bytes = bytes;
    if (bytes > ucx_of(request)->capacity) {
        piece->withdrawn = true;
        too_long(peer, bytes);
    } else {
        piece->data = ucx_of(request)->data;
        piece->request = request;
        ucx_of(request)->flight = piece;
    }
    return ask(peer, piece);
}

static void hand_over(tutti_peer *peer, uint64_t bytes)
{
    const struct ucx_request *r = ucx_of(peer->receives.first);
    struct flight *frame = peer->in;
    const uint8_t *from = frame->frame + frame->read + MARK_BYTES;

    frame->read += MARK_BYTES + (uint32_t)bytes;
    if (bytes > r->capacity) {
        too_long(peer, bytes);
        return;
    }
    if (bytes)
        memcpy(r->data, from, bytes);
    received(peer, TUTTI_OK, bytes);
}

/* Waiting receives get what has come; UCX is asked for the rest. */
static void serve(tutti_peer *peer)
{
    while (peer->receives.first && !peer->asked && (!peer->halted || is_gone(peer))) {
        tutti_status status = TUTTI_OK;
        uint64_t mark;

        if (peer->cut || peer->halted)
            status = is_gone(peer) ? TUTTI_ERR_PEER_LOST : TUTTI_ERR_INTERNAL;
        else if (!next_mark(peer->in, &mark))
            status = ask_for_frame(peer);
        else if (mark == UINT64_MAX)
            cut(peer);
        else if (mark & BEHIND)
            status = ask_for_piece(peer, mark & ~BEHIND);
        else
            hand_over(peer, mark);
        if (status && peer->receives.first)
            received(peer, status, 0);
    }
}

tutti_status messages_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                            uint64_t capacity, tutti_request *request)
{
    if (lane != 0)
        return fail(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, 0, "there is lane 0 only");
    set_unseen(peer, false);
    begin(request, peer, &peer->receives);
    ucx_of(request)->data = data;
    ucx_of(request)->capacity = capacity;
    serve(peer);
    tutti_queue_posted(request);
    return request->status == TUTTI_ERR_PEER_LOST ? lost(peer) : TUTTI_OK;
}

/* ---- taking back --------------------------------------------------------------------------- */

/*
 * A frame has the message's bytes, and goes on. A piece goes on without the caller's memory: it is received for
 * nobody, or its end tells the receiver that it is no message.
 */
void messages_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    struct flight *flight = ucx_of(request)->flight;

    if (flight && ucx_of(request)->place.queue && ucx_of(request)->place.queue != &endpoint->done) {
        flight->peer->took_back |= flight->kind == PIECE_OUT;
        flight_withdraw(flight);
    }
    tutti_queue_remove(request);
}

void messages_forget(tutti_endpoint *endpoint, tutti_peer *peer)
{
    while (peer->flights)
        flight_forget(peer->flights);
    worker_lock(endpoint->worker);
    flights_drop(endpoint->worker, peer->receive_tag, UINT64_MAX);
    worker_unlock(endpoint->worker);
    set_unseen(peer, false);
    tutti_queue_clear(&peer->receives);
    tutti_queue_clear(&peer->sends);
    tutti_queue_remove_peer(&endpoint->done, peer);
    if (endpoint->holding == peer)
        endpoint->holding = NULL;
    flight_give(endpoint, peer->in);
    flight_give(endpoint, peer->out);
}

/* ---- progress ------------------------------------------------------------------------------ */

static void has_landed(struct flight *flight)
{
    tutti_peer *peer = flight->peer;
    tutti_endpoint *endpoint = peer->endpoint;

    if (flight->kind == FRAME_IN || flight->kind == PIECE_IN) {
        has_come(peer, flight);
        serve(peer);
        return;
    }
    peer->sending--;
    if (flight->request)
        tutti_queue_finish(&endpoint->done, flight->request, flight_status(flight->status), 0);
    flight_give(endpoint, flight);
}

/* UCX's status is «Endpoint timeout» for a process that has ended and for a network that does not answer. So the link
 * is reported: the core names the process if its own watch finds it dead within a second. */
static void tell_lost(const tutti_peer *peer)
{
    const struct caller *caller = &peer->endpoint->caller;
    const char *words = peer->endpoint->worker->library->ucs_status_string(peer->link->why);

    if (TUTTI_HAS(caller->host, link_lost))
        caller->host->link_lost(caller->self, peer->label, words);
    else
        caller->host->peer_lost(caller->self, peer->label, words);
}

/* A receive that UCX has keeps waiting when its peer is gone. */
static void lose(tutti_peer *peer)
{
    struct flight *asked = peer->asked;

    peer->lost = true;
    if (asked) {
        peer->asked = NULL;
        if (asked->request) {
            received(peer, TUTTI_ERR_PEER_LOST, 0);
        }
        flight_forget(asked);
    }
    set_unseen(peer, !peer->receives.first);
    serve(peer);
    tell_lost(peer);
}

static void look_for_losses(tutti_endpoint *endpoint)
{
    const uint64_t losses = losses_of(&endpoint->worker->losses);

    if (losses == endpoint->losses)
        return;
    endpoint->losses = losses;
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (!peer->lost && is_gone(peer))
            lose(peer);
}

static void advance(tutti_endpoint *endpoint)
{
    endpoint->turns++;
    messages_let_out(endpoint);
    for (struct flight *flight = flights_advance(endpoint), *next; flight; flight = next) {
        next = flight->next_landed;
        has_landed(flight);
    }
    look_for_losses(endpoint);
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

int32_t messages_arm(tutti_endpoint *endpoint)
{
    messages_let_out(endpoint);
    if (endpoint->done.first || endpoint->unseen ||
        endpoint->losses != losses_of(&endpoint->worker->losses))
        return TUTTI_EVENTS_PENDING;
    return flights_arm(endpoint);
}

/* ---- in, without requests ------------------------------------------------------------------- */

/* What is here; NOT_READY: nothing. */
static tutti_status glance(tutti_peer *peer, tutti_shown *ret_message)
{
    uint64_t mark;

    if (peer->cut || peer->halted)
        return is_gone(peer)  ? TUTTI_ERR_PEER_LOST
               : peer->halted ? TUTTI_ERR_NOT_READY
                              : TUTTI_ERR_INTERNAL;
    if (!next_mark(peer->in, &mark))
        return TUTTI_ERR_NOT_READY;
    if (mark == UINT64_MAX) {
        cut(peer);
        return TUTTI_ERR_INTERNAL;
    }
    if (mark > FRAME_MESSAGE_BYTES)
        return TUTTI_ERR_BUSY;
    *ret_message =
        (tutti_shown){.data = peer->in->frame + peer->in->read + MARK_BYTES, .bytes = mark};
    return TUTTI_OK;
}

/* Where a peer has nothing, its first call since the worker was moved does not move it: so a look at all peers, after
 * progress(), moves nothing. */
tutti_status messages_show(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                           tutti_shown *ret_message)
{
    tutti_status status = lane ? TUTTI_ERR_INVALID_ARGUMENT : glance(peer, ret_message);

    if (status == TUTTI_ERR_NOT_READY && !peer->halted) {
        const bool is_asked = peer->asked;

        status = is_asked ? TUTTI_OK : ask_for_frame(peer);
        if (is_asked && peer->looked == endpoint->turns)
            advance(endpoint);
        peer->looked = endpoint->turns;
        if (!status)
            status = glance(peer, ret_message);
    }
    set_unseen(peer, false);
    return status;
}

void messages_take(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane)
{
    uint64_t mark;

    if (lane != 0 || !next_mark(peer->in, &mark))
        return;
    peer->in->read += MARK_BYTES + (uint32_t)mark;
    endpoint->received_bytes += MARK_BYTES + mark;
    endpoint->received_messages++;
}
