/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the processes of an MPI job: endpoints, their addresses and peers. */
#include "transport.h"

#include <stdio.h>
#include <string.h>

#include "engine_inside.h"

/* How messages travel (messages.c); it changes when those of the version before could not be read. */
enum { WIRE_FORMAT = 2 };
enum { ADDRESS_BYTES = 40 };

/* ---- endpoints ----------------------------------------------------------------------------- */

static tutti_status mpi_open(const tutti_host *host, void *host_self,
                             const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint)
{
    tutti_endpoint *endpoint = host->allocate(host_self, sizeof *endpoint);

    if (!endpoint)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    tutti_status status =
        job_join(host, host_self, TUTTI_HAS(options, deadline_ns) ? options->deadline_ns : 0,
                 &endpoint->job);
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

/* Rank, size, number, the format, and how the MPI calls itself: 24 letters of its name and version. */
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
    put(to + 12, WIRE_FORMAT, 4);
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
    const uint64_t format = get(from + 12, 4);
    if (format != WIRE_FORMAT)
        return refuse(&endpoint->caller, TUTTI_ERR_MISMATCH,
                      "the peer sends messages in format %llu, this process in format %d: take the "
                      "same version of tutti everywhere",
                      (unsigned long long)format, WIRE_FORMAT);
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

/* ---- leaving ------------------------------------------------------------------------------- */

static void mpi_disconnect(tutti_endpoint *endpoint, tutti_peer *peer)
{
    tutti_peer **at = &endpoint->peers;

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    messages_forget(endpoint, peer);
    release(endpoint, peer);
}

static void mpi_close(tutti_endpoint *endpoint)
{
    int ended = 0;

    MPI_Finalized(&ended);
    if (ended) /* by the program, which took all requests with it */
        flights_end(endpoint);
    while (endpoint->peers)
        mpi_disconnect(endpoint, endpoint->peers);
    job_give_number(endpoint->number);
    flights_free(endpoint);
    release(endpoint, endpoint);
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
    .isend = messages_isend,
    .irecv = messages_irecv,
    .test = messages_test,
    .close = mpi_close,
    .progress = messages_progress,
    .cancel = messages_cancel,
    .disconnect = mpi_disconnect,
    .traffic = mpi_traffic,
    .piece_bytes = PIECE_BYTES,
};
