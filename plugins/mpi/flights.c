/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI has of an endpoint: one array of MPI requests, because asking MPI for all of them costs
 * it one turn of progress, and asking for each costs a turn each.
 */
#include "transport.h"

#include <limits.h>
#include <string.h>

enum {
    CALL_FLIGHTS = 3, /* of one call at most: another peer's frame, its own, what is behind it */
    /* The time for a message that is half-way, on either side: a moment, or longer for a long
     * piece over a slow network. If the other side has died or was stopped there, it would take
     * for ever. */
    DRAIN_MS = 100 + PIECE_BYTES / 100000,
    TOGETHER_MS = 20
};

/* ---- memory -------------------------------------------------------------------------------- */

/* While flights land each may be followed by another, and the arrays must stay where they are: so
 * there is room for twice as many. They grow to what is in flight at most and stay. */
bool flights_reserve(tutti_endpoint *endpoint)
{
    const tutti_host *host = endpoint->caller.host;
    void *self = endpoint->caller.host_self;
    uint32_t capacity = endpoint->capacity ? 2 * endpoint->capacity : 64;

    if (2 * (endpoint->count + CALL_FLIGHTS) <= endpoint->capacity)
        return true;
    MPI_Request *handles = host->allocate(self, capacity * sizeof *handles);
    struct flight *flights = host->allocate(self, capacity * sizeof *flights);
    int *indices = host->allocate(self, capacity * sizeof *indices);
    MPI_Status *statuses = host->allocate(self, capacity * sizeof *statuses);
    if (!handles || !flights || !indices || !statuses) {
        release(endpoint, handles);
        release(endpoint, flights);
        release(endpoint, indices);
        release(endpoint, statuses);
        return false;
    }
    if (endpoint->count) {
        memcpy(handles, endpoint->handles, endpoint->count * sizeof *handles);
        memcpy(flights, endpoint->flights, endpoint->count * sizeof *flights);
    }
    release(endpoint, endpoint->handles);
    release(endpoint, endpoint->flights);
    release(endpoint, endpoint->indices);
    release(endpoint, endpoint->statuses);
    endpoint->handles = handles;
    endpoint->flights = flights;
    endpoint->indices = indices;
    endpoint->statuses = statuses;
    endpoint->capacity = capacity;
    return true;
}

void flights_free(tutti_endpoint *endpoint)
{
    for (struct frame *frame; (frame = endpoint->frames);) {
        endpoint->frames = frame->next;
        release(endpoint, frame);
    }
    release(endpoint, endpoint->handles);
    release(endpoint, endpoint->flights);
    release(endpoint, endpoint->indices);
    release(endpoint, endpoint->statuses);
}

struct frame *frame_take(tutti_endpoint *endpoint)
{
    struct frame *frame = endpoint->frames;

    if (!frame)
        return endpoint->caller.host->allocate(endpoint->caller.host_self, sizeof *frame);
    endpoint->frames = frame->next;
    frame->bytes = frame->read = 0;
    return frame;
}

/* MPI may read or write it until the process ends. What it has of it in memory of its own, a leak checker does not
 * see, so it stays in reach here. */
static void frame_leave_to_mpi(struct frame *frame)
{
    static struct frame *left;

    job_lock();
    frame->next = left;
    left = frame;
    job_unlock();
}

void frame_give(tutti_endpoint *endpoint, struct frame *frame)
{
    if (!frame)
        return;
    frame->next = endpoint->frames;
    endpoint->frames = frame;
}

/* ---- to MPI -------------------------------------------------------------------------------- */

static tutti_status failure(tutti_peer *peer, const char *what, int code)
{
    tutti_endpoint *endpoint = peer->endpoint;
    char words[MPI_MAX_ERROR_STRING];
    tutti_status status = job_status(code);

    if (status == TUTTI_ERR_PEER_LOST) {
        peer->lost = peer->told = true;
        endpoint->caller.host->peer_lost(endpoint->caller.host_self, peer->label,
                                         "MPI reported an error");
    }
    return refuse(&endpoint->caller, status, "%s process %d of the job failed: %.300s", what,
                  peer->rank, job_words(code, words));
}

static void add(MPI_Request handle, const struct flight *flight)
{
    tutti_endpoint *endpoint = flight->peer->endpoint;

    if (flight->request)
        mpi_of(flight->request)->slot = endpoint->count;
    endpoint->handles[endpoint->count] = handle;
    endpoint->flights[endpoint->count++] = *flight;
}

tutti_status flight_send(tutti_peer *peer, enum flight_kind kind, tutti_request *request,
                         struct frame *frame, const void *data, uint64_t bytes)
{
    tutti_endpoint *endpoint = peer->endpoint;
    const struct flight flight = {kind, peer, request, frame};
    MPI_Request handle;
    int done = 0;

    job_lock();
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer->rank, peer->send_tag,
                         endpoint->job->messages, &handle);
    if (code == MPI_SUCCESS && kind == FRAME_OUT) /* usually it is complete at once */
        code = MPI_Test(&handle, &done, MPI_STATUS_IGNORE);
    job_unlock();
    if (code != MPI_SUCCESS) {
        frame_give(endpoint, frame);
        return failure(peer, "sending to", code);
    }
    if (!done) {
        add(handle, &flight);
        return TUTTI_OK;
    }
    frame_give(endpoint, frame);
    if (request) {
        tutti_queue_remove(request);
        request->status = TUTTI_OK;
    }
    return TUTTI_OK;
}

tutti_status flight_receive(tutti_peer *peer, enum flight_kind kind, tutti_request *request,
                            struct frame *frame, void *data, uint64_t capacity)
{
    const struct flight flight = {kind, peer, request, frame};
    MPI_Request handle;

    job_lock();
    int code = MPI_Irecv(data, capacity < INT_MAX ? (int)capacity : INT_MAX, MPI_BYTE, peer->rank,
                         peer->receive_tag, peer->endpoint->job->messages, &handle);
    job_unlock();
    if (code != MPI_SUCCESS)
        return failure(peer, "receiving from", code);
    add(handle, &flight);
    return TUTTI_OK;
}

/* ---- taking back --------------------------------------------------------------------------- */

static void forget(tutti_endpoint *endpoint, uint32_t slot)
{
    uint32_t last = --endpoint->count;

    if (slot == last)
        return;
    endpoint->handles[slot] = endpoint->handles[last];
    endpoint->flights[slot] = endpoint->flights[last];
    if (endpoint->flights[slot].request)
        mpi_of(endpoint->flights[slot].request)->slot = slot;
}

static bool is_receive(enum flight_kind kind)
{
    return kind == FRAME_IN || kind == LONG_IN;
}

/* Until when to wait for one; those that are taken back one after the other share it. */
static int64_t drained_by(tutti_endpoint *endpoint, enum flight_kind kind, int64_t now_ns)
{
    const int64_t ms = INT64_C(1000000);

    if (kind == FRAME_OUT)
        return now_ns;
    if (now_ns > endpoint->drained_ns + TOGETHER_MS * ms)
        endpoint->draining_ns = now_ns;
    return endpoint->draining_ns + DRAIN_MS * ms;
}

/* Whether MPI has let go of the message. */
static bool let_go(tutti_endpoint *endpoint, MPI_Request *handle, enum flight_kind kind)
{
    const struct caller *c = &endpoint->caller;
    const int64_t deadline = drained_by(endpoint, kind, c->host->now_ns(c->host_self));
    int done = 0;

    if (job_is_foreign(endpoint->job) || job_is_over())
        return false;
    job_lock();
    if (is_receive(kind))
        MPI_Cancel(handle);
    do {
        if (MPI_Test(handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            done = 1;
    } while (!done && c->host->now_ns(c->host_self) < deadline);
    if (!done)
        MPI_Request_free(handle);
    job_unlock();
    endpoint->drained_ns = c->host->now_ns(c->host_self);
    return done;
}

/*
 * A receive that has matched nothing is gone at once; one whose message is half-way in has its
 * message in a moment, or never, when the sender died. A send cannot be taken back by every MPI. One
 * from the core's memory that the peer is receiving has gone in a moment; one that it does not receive
 * is left to MPI, which reads it only for a receive that the peer posts for this endpoint. A thread
 * that may not call MPI leaves both to it. A frame that MPI keeps is not used again.
 */
void flight_withdraw(tutti_endpoint *endpoint, uint32_t slot)
{
    const struct flight flight = endpoint->flights[slot];

    if (let_go(endpoint, &endpoint->handles[slot], flight.kind)) {
        if (flight.kind == FRAME_OUT)
            frame_give(endpoint, flight.frame);
    } else if (flight.kind == FRAME_OUT) {
        frame_leave_to_mpi(flight.frame);
    } else if (flight.kind == FRAME_IN) {
        frame_leave_to_mpi(flight.frame);
        flight.peer->in = NULL;
    } else if (flight.kind == LONG_IN) {
        endpoint->caller.host->log(
            endpoint->caller.host_self, 1,
            "a message that stopped half-way, or that this thread may not ask MPI about, cannot be "
            "taken back from MPI; it may still be written if its sender goes on");
    }
    if (is_receive(flight.kind))
        flight.peer->receiving = false;
    forget(endpoint, slot);
}

/* ---- from MPI ------------------------------------------------------------------------------ */

/* Removes requests that MPI has completed, whose handle is null. */
static void close_up(tutti_endpoint *endpoint)
{
    uint32_t kept = 0;

    for (uint32_t slot = 0; slot < endpoint->count; slot++) {
        if (endpoint->handles[slot] == MPI_REQUEST_NULL)
            continue;
        endpoint->handles[kept] = endpoint->handles[slot];
        endpoint->flights[kept] = endpoint->flights[slot];
        if (endpoint->flights[kept].request)
            mpi_of(endpoint->flights[kept].request)->slot = kept;
        kept++;
    }
    endpoint->count = kept;
}

static void land(tutti_endpoint *endpoint, int slot, int code, const MPI_Status *mpi_status)
{
    const struct flight flight = endpoint->flights[slot];
    int bytes = 0;

    job_lock();
    const tutti_status status = job_status(code);
    if (!status && is_receive(flight.kind))
        MPI_Get_count(mpi_status, MPI_BYTE, &bytes);
    job_unlock();
    messages_landed(&flight, status, (uint64_t)bytes);
}

void flights_end(tutti_endpoint *endpoint)
{
    for (uint32_t slot = 0; slot < endpoint->count; slot++)
        if (endpoint->flights[slot].kind == FRAME_OUT)
            frame_give(endpoint, endpoint->flights[slot].frame);
    endpoint->count = 0;
}

void flights_advance(tutti_endpoint *endpoint)
{
    int found = 0;

    job_lock();
    int code = MPI_Testsome((int)endpoint->count, endpoint->handles, &found, endpoint->indices,
                            endpoint->statuses);
    job_unlock();
    for (int i = 0; i < found; i++) { /* MPI_UNDEFINED is negative */
        const MPI_Status *status = &endpoint->statuses[i];

        land(endpoint, endpoint->indices[i],
             code == MPI_ERR_IN_STATUS ? status->MPI_ERROR : MPI_SUCCESS, status);
    }
    if (found > 0)
        close_up(endpoint);
}
