/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the processes of an MPI job.
 *
 * The tag of a message names the endpoint that it is for and the one that it is from, the numbers
 * that both processes have given them; MPI keeps those of one tag in order, which is all that a lane
 * needs. What is under way lies in one array of MPI requests for each endpoint, because asking MPI
 * for all of them costs it one turn of progress, and asking for each costs a turn each.
 *
 * MPI completes receives of one peer in any order. The core hears of them in the order in which they
 * were posted: each waits for those before it.
 *
 * MPI never tells that a peer is gone; the core watches processes itself.
 */
#include "caller.h"
#include "job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../request.h"
#include "engine_inside.h"

enum {
    ADDRESS_BYTES = 40,
    EAGER_BYTES = 4096, /* up to here a send is usually complete at once, so it is asked for */
    DRAIN_MS = 100      /* for a message that is half-way in when its receive is cancelled */
};

/* What a request holds while it is ours (tutti_request.opaque). */
struct __attribute__((may_alias)) mpi_request {
    struct request_place place; /* first */
    uint64_t bytes;             /* received */
    uint32_t slot;              /* in the endpoint's array, while it is under way */
    int32_t status;             /* NOT_READY: under way */
};
_Static_assert(sizeof(struct mpi_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

static struct mpi_request *mpi_of(tutti_request *request)
{
    return (struct mpi_request *)request->opaque;
}

struct tutti_peer {
    tutti_endpoint *endpoint;
    tutti_peer *next;
    uint64_t label;
    int rank; /* in MPI_COMM_WORLD */
    int send_tag, receive_tag;
    bool lost, told;
    struct request_queue sends, receives; /* in the order posted */
};

struct tutti_endpoint {
    struct caller caller;
    const struct job *job;
    int number;
    bool ready; /* the job is */
    tutti_peer *peers;
    uint32_t count, capacity; /* under way */
    MPI_Request *handles;
    tutti_request **owners;
    int *indices; /* room for what MPI_Testsome says */
    MPI_Status *statuses;
    struct request_queue done; /* complete, not yet reported */
    uint64_t sent_bytes, received_bytes, sent_messages, received_messages;
};

static tutti_status mpi_failure(tutti_endpoint *endpoint, tutti_peer *peer, const char *what,
                                int code)
{
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

/* ---- endpoints ----------------------------------------------------------------------------- */

static void release(tutti_endpoint *endpoint, void *memory)
{
    if (memory)
        endpoint->caller.host->release(endpoint->caller.host_self, memory);
}

/* Makes room for one request more. The arrays grow to what is in flight at most and stay. */
static bool reserve(tutti_endpoint *endpoint)
{
    const tutti_host *host = endpoint->caller.host;
    uint32_t capacity = endpoint->capacity ? 2 * endpoint->capacity : 64;

    if (endpoint->count < endpoint->capacity)
        return true;
    MPI_Request *handles = host->allocate(endpoint->caller.host_self, capacity * sizeof *handles);
    tutti_request **owners = host->allocate(endpoint->caller.host_self, capacity * sizeof *owners);
    int *indices = host->allocate(endpoint->caller.host_self, capacity * sizeof *indices);
    MPI_Status *statuses = host->allocate(endpoint->caller.host_self, capacity * sizeof *statuses);
    if (!handles || !owners || !indices || !statuses) {
        release(endpoint, handles);
        release(endpoint, owners);
        release(endpoint, indices);
        release(endpoint, statuses);
        return false;
    }
    if (endpoint->count) {
        memcpy(handles, endpoint->handles, endpoint->count * sizeof *handles);
        memcpy(owners, endpoint->owners, endpoint->count * sizeof(tutti_request *));
    }
    release(endpoint, endpoint->handles);
    release(endpoint, endpoint->owners);
    release(endpoint, endpoint->indices);
    release(endpoint, endpoint->statuses);
    endpoint->handles = handles;
    endpoint->owners = owners;
    endpoint->indices = indices;
    endpoint->statuses = statuses;
    endpoint->capacity = capacity;
    return true;
}

static tutti_status mpi_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    tutti_endpoint *endpoint = host->allocate(host_self, sizeof *endpoint);

    (void)options;
    if (!endpoint)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    tutti_status status = job_join(host, host_self, &endpoint->job);
    if (!status)
        status = job_take_number(host, host_self, &endpoint->number);
    if (status) {
        host->release(host_self, endpoint);
        return status;
    }
    endpoint->caller.host = host;
    endpoint->caller.host_self = host_self;
    *ret_endpoint = endpoint;
    return TUTTI_OK;
}

/* ---- addresses and peers ------------------------------------------------------------------- */

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* Rank, size, number, and how the MPI calls itself: 24 letters of its name and version. */
static tutti_status mpi_address(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                                uint64_t *ret_bytes)
{
    uint8_t *to = ret_address;

    if (capacity < ADDRESS_BYTES)
        return refuse(&endpoint->caller, TUTTI_ERR_INTERNAL, "the address needs %d bytes",
                      ADDRESS_BYTES);
    memset(to, 0, ADDRESS_BYTES);
    put(to, (uint64_t)endpoint->job->rank, 4);
    put(to + 4, (uint64_t)endpoint->job->size, 4);
    put(to + 8, (uint64_t)endpoint->number, 4);
    snprintf((char *)to + 16, ADDRESS_BYTES - 16, "%s", endpoint->job->version);
    *ret_bytes = ADDRESS_BYTES;
    return TUTTI_OK;
}

static tutti_status check_address(tutti_endpoint *endpoint, const uint8_t *from, uint64_t bytes)
{
    const struct job *job = endpoint->job;

    if (bytes != ADDRESS_BYTES || from[ADDRESS_BYTES - 1])
        return refuse(&endpoint->caller, TUTTI_ERR_MISMATCH,
                      "the peer's address is of another kind or version");
    const char *version = (const char *)from + 16;
    const size_t major = strcspn(job->version, ".");
    if (strncmp(version, job->version, major) != 0 || (version[major] && version[major] != '.'))
        return refuse(&endpoint->caller, TUTTI_ERR_MISMATCH, "the peer has %s, this process %s",
                      version, job->version);
    uint64_t rank = get(from, 4), size = get(from + 4, 4);
    if (size != (uint64_t)job->size || rank >= size)
        return refuse(
            &endpoint->caller, TUTTI_ERR_MISMATCH,
            "the peer is process %llu of %llu in another MPI job, this is process %d of %d",
            (unsigned long long)rank, (unsigned long long)size, job->rank, job->size);
    if (get(from + 8, 4) >= (uint64_t)job->numbers)
        return refuse(&endpoint->caller, TUTTI_ERR_MISMATCH,
                      "the peer's address has a number out of range");
    return TUTTI_OK;
}

static tutti_status mpi_connect(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                uint64_t label, tutti_peer **ret_peer)
{
    tutti_status status = check_address(endpoint, address, bytes);

    if (status)
        return status;
    int rank = (int)get(address, 4), number = (int)get((const uint8_t *)address + 8, 4);
    int tag = number * endpoint->job->numbers + endpoint->number;

    for (const tutti_peer *peer = endpoint->peers; peer; peer = peer->next)
        if (peer->rank == rank && peer->send_tag == tag)
            return refuse(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT,
                          "process %d of the job is a peer of this endpoint already", rank);
    if (rank == endpoint->job->rank && number == endpoint->number)
        return refuse(
            &endpoint->caller, TUTTI_ERR_MISMATCH,
            "the peer takes itself for process %d of the job, as this one does: two MPI jobs",
            rank);
    tutti_peer *peer = endpoint->caller.host->allocate(endpoint->caller.host_self, sizeof *peer);
    if (!peer)
        return refuse(&endpoint->caller, TUTTI_ERR_NO_MEMORY, "out of memory");
    *peer = (tutti_peer){.endpoint = endpoint,
                         .next = endpoint->peers,
                         .label = label,
                         .rank = rank,
                         .send_tag = tag,
                         .receive_tag = endpoint->number * endpoint->job->numbers + number};
    endpoint->peers = peer;
    *ret_peer = peer;
    return TUTTI_OK;
}

/* ---- requests ------------------------------------------------------------------------------ */

static void forget_slot(tutti_endpoint *endpoint, uint32_t slot)
{
    uint32_t last = --endpoint->count;

    if (slot != last) {
        endpoint->handles[slot] = endpoint->handles[last];
        endpoint->owners[slot] = endpoint->owners[last];
        mpi_of(endpoint->owners[slot])->slot = slot;
    }
}

/* MPI is done with the request in a slot; those of the peer that are done in their order go on to
 * be reported. */
static void complete(tutti_request *request, int code, const MPI_Status *mpi_status)
{
    struct mpi_request *r = mpi_of(request);
    tutti_peer *peer = r->place.peer;
    tutti_endpoint *endpoint = peer->endpoint;
    struct request_queue *queue = r->place.queue;
    int bytes = 0;

    r->status = job_status(code);
    if (queue == &peer->receives && r->status == TUTTI_OK) {
        MPI_Get_count(mpi_status, MPI_BYTE, &bytes);
        endpoint->received_bytes += (uint64_t)bytes;
        endpoint->received_messages++;
    }
    r->bytes = (uint64_t)bytes;
    peer->lost |= r->status == TUTTI_ERR_PEER_LOST;
    while (queue->first && mpi_of(queue->first)->status != TUTTI_ERR_NOT_READY) {
        tutti_request *first = queue->first;

        request_finish(&endpoint->done, first, mpi_of(first)->status, mpi_of(first)->bytes);
    }
}

static void begin(tutti_request *request, tutti_peer *peer, struct request_queue *queue,
                  MPI_Request handle)
{
    tutti_endpoint *endpoint = peer->endpoint;
    struct mpi_request *r = mpi_of(request);

    request->status = TUTTI_ERR_NOT_READY;
    *r = (struct mpi_request){
        .place = {.peer = peer}, .slot = endpoint->count, .status = TUTTI_ERR_NOT_READY};
    endpoint->handles[endpoint->count] = handle;
    endpoint->owners[endpoint->count++] = request;
    request_push(queue, request);
}

/* Whether requests can be taken at all. */
static tutti_status can_take(tutti_endpoint *endpoint, uint32_t lane)
{
    tutti_status status = job_check_thread(&endpoint->caller, endpoint->job);

    if (status)
        return status;
    if (lane != 0)
        return refuse(&endpoint->caller, TUTTI_ERR_INVALID_ARGUMENT, "there is one lane, 0");
    if (!endpoint->ready && !(endpoint->ready = job_ready()))
        return TUTTI_ERR_BUSY;
    return reserve(endpoint) ? TUTTI_OK
                             : refuse(&endpoint->caller, TUTTI_ERR_NO_MEMORY, "out of memory");
}

static tutti_status mpi_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *data, uint64_t bytes, uint32_t flags,
                              tutti_request *request)
{
    tutti_status status = can_take(endpoint, lane);
    MPI_Request handle;
    int done = 0;

    (void)flags;
    if (status)
        return status;
    job_lock();
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer->rank, peer->send_tag,
                         endpoint->job->messages, &handle);
    if (code == MPI_SUCCESS && bytes <= EAGER_BYTES)
        code = MPI_Test(&handle, &done, MPI_STATUS_IGNORE);
    job_unlock();
    if (code != MPI_SUCCESS)
        return mpi_failure(endpoint, peer, "sending to", code);
    endpoint->sent_bytes += bytes;
    endpoint->sent_messages++;
    if (done)
        request->status = TUTTI_OK;
    else
        begin(request, peer, &peer->sends, handle);
    return TUTTI_OK;
}

static tutti_status mpi_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                              uint64_t capacity, tutti_request *request)
{
    tutti_status status = can_take(endpoint, lane);
    int most = capacity < INT_MAX ? (int)capacity : INT_MAX;
    MPI_Request handle;

    if (status)
        return status;
    job_lock();
    int code = MPI_Irecv(data, most, MPI_BYTE, peer->rank, peer->receive_tag,
                         endpoint->job->messages, &handle);
    job_unlock();
    if (code != MPI_SUCCESS)
        return mpi_failure(endpoint, peer, "receiving from", code);
    begin(request, peer, &peer->receives, handle);
    return TUTTI_OK;
}

/* ---- taking back --------------------------------------------------------------------------- */

/*
 * Afterwards MPI does not write to the request's memory. A receive that has matched nothing is gone
 * at once; one whose message is half-way in has its message in a moment, or never, when the sender
 * died. A send cannot be taken back by every MPI: it is left to MPI, which only reads, and only for a
 * receive that the peer posts for this endpoint. A thread that may not call MPI leaves both to it.
 */
static void withdraw(tutti_endpoint *endpoint, MPI_Request *handle, bool receive)
{
    int64_t deadline =
        endpoint->caller.host->now_ns(endpoint->caller.host_self) + DRAIN_MS * INT64_C(1000000);
    int done = 0;

    job_lock();
    if (!job_is_foreign(endpoint->job)) {
        if (receive)
            MPI_Cancel(handle);
        do {
            if (MPI_Test(handle, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                done = 1;
        } while (!done && receive &&
                 endpoint->caller.host->now_ns(endpoint->caller.host_self) < deadline);
        if (!done)
            MPI_Request_free(handle);
    }
    job_unlock();
    if (!done && receive)
        endpoint->caller.host->log(
            endpoint->caller.host_self, 1,
            "a message that stopped half-way, or that this thread may not ask MPI about, cannot be "
            "taken back from MPI; it may still be written if its sender goes on");
}

static void take_back(tutti_endpoint *endpoint, tutti_request *request)
{
    struct mpi_request *r = mpi_of(request);
    tutti_peer *peer = r->place.peer;
    bool receive = r->place.queue == &peer->receives;

    if (r->place.queue && r->status == TUTTI_ERR_NOT_READY) {
        withdraw(endpoint, &endpoint->handles[r->slot], receive);
        forget_slot(endpoint, r->slot);
    }
    request_remove(request);
}

static void free_peer(tutti_endpoint *endpoint, tutti_peer *peer)
{
    while (peer->receives.first)
        take_back(endpoint, peer->receives.first);
    while (peer->sends.first)
        take_back(endpoint, peer->sends.first);
    request_forget_peer(&endpoint->done, peer);
    release(endpoint, peer);
}

static void mpi_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    tutti_peer **at = &endpoint->peers;

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    free_peer(endpoint, peer);
}

static void mpi_close(tutti_endpoint *endpoint)
{
    int ended = 0;

    MPI_Finalized(&ended);
    if (ended) /* by the program, which took all requests with it */
        endpoint->count = 0;
    while (endpoint->peers && !ended)
        mpi_disconnect(endpoint, endpoint->peers);
    while (endpoint->peers) {
        tutti_peer *peer = endpoint->peers;

        endpoint->peers = peer->next;
        release(endpoint, peer);
    }
    job_give_number(endpoint->number);
    release(endpoint, endpoint->handles);
    release(endpoint, endpoint->owners);
    release(endpoint, endpoint->indices);
    release(endpoint, endpoint->statuses);
    release(endpoint, endpoint);
}

/* ---- progress ------------------------------------------------------------------------------ */

static void tell_lost(tutti_endpoint *endpoint)
{
    for (tutti_peer *peer = endpoint->peers; peer; peer = peer->next) {
        if (!peer->lost || peer->told)
            continue;
        peer->told = true;
        endpoint->caller.host->peer_lost(endpoint->caller.host_self, peer->label,
                                         "MPI reported an error");
    }
}

/* Those that MPI has completed have a null handle; the others close up. */
static void close_up(tutti_endpoint *endpoint)
{
    uint32_t kept = 0;

    for (uint32_t slot = 0; slot < endpoint->count; slot++) {
        if (endpoint->handles[slot] == MPI_REQUEST_NULL)
            continue;
        endpoint->handles[kept] = endpoint->handles[slot];
        endpoint->owners[kept] = endpoint->owners[slot];
        mpi_of(endpoint->owners[kept])->slot = kept;
        kept++;
    }
    endpoint->count = kept;
}

static void advance(tutti_endpoint *endpoint)
{
    int found = 0;
    bool any_lost = false;

    if (job_is_barred(&endpoint->caller, endpoint->job))
        return;
    if (!endpoint->count) {
        if (!endpoint->ready)
            endpoint->ready = job_ready();
        return;
    }
    job_lock();
    int code = MPI_Testsome((int)endpoint->count, endpoint->handles, &found, endpoint->indices,
                            endpoint->statuses);
    for (int i = 0; i < found; i++) { /* MPI_UNDEFINED is negative */
        const MPI_Status *status = &endpoint->statuses[i];
        tutti_request *request = endpoint->owners[endpoint->indices[i]];

        complete(request, code == MPI_ERR_IN_STATUS ? status->MPI_ERROR : MPI_SUCCESS, status);
        any_lost |= mpi_of(request)->status == TUTTI_ERR_PEER_LOST;
    }
    job_unlock();
    if (found > 0)
        close_up(endpoint);
    if (any_lost)
        tell_lost(endpoint);
}

static uint32_t mpi_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    advance(endpoint);
    return request_report(&endpoint->done, ret_done, capacity);
}

static tutti_status mpi_test(tutti_endpoint *endpoint, tutti_request *request)
{
    advance(endpoint);
    request_posted(request);
    return request->status;
}

static void mpi_traffic(tutti_endpoint *endpoint, uint64_t ret_counters[5])
{
    ret_counters[0] = endpoint->sent_bytes;
    ret_counters[1] = endpoint->received_bytes;
    ret_counters[2] = endpoint->sent_messages;
    ret_counters[3] = endpoint->received_messages;
    ret_counters[4] = 0; /* nothing is mapped */
}

const tutti_transport_ops mpi_transport_ops = {
    .struct_size = sizeof(tutti_transport_ops),
    .open = mpi_open,
    .address = mpi_address,
    .connect = mpi_connect,
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .close = mpi_close,
    .progress = mpi_progress,
    .cancel = take_back,
    .disconnect = mpi_disconnect,
    .traffic = mpi_traffic,
};
