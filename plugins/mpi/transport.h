/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the transport know of each other.
 *
 *   transport.c  endpoints, addresses and peers
 *   messages.c   the core's messages in frames, and the order in which they come
 *   flights.c    what MPI has of an endpoint
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin_queue.h>

#include "caller.h"
#include "job.h"

enum {
    /* The longest message that goes in a frame. With 8 KiB a frame would be just too long for what
     * MPICH sends at once, and ten times as slow: bench/README.md. */
    FRAME_MESSAGE_BYTES = 4096,
    FRAME_MARK_BYTES = 8, /* in front of each: its length, or that it comes behind the frame */
    FRAME_BYTES = FRAME_MARK_BYTES + 64 + FRAME_MARK_BYTES + FRAME_MESSAGE_BYTES
};

/* One message of MPI's, which carries several of the core's. */
struct frame {
    struct frame *next; /* in endpoint->frames, or of those left to MPI */
    uint32_t bytes;     /* filled, or arrived */
    uint32_t read;      /* and handed over */
    _Alignas(16) uint8_t data[FRAME_BYTES];
};

/*
 * Open MPI takes 0.2 ms for the sixteen pieces of 1 MiB that 16 MiB would else be, on top of 1.8 ms for the
 * whole. MPICH is faster in these: 4 ms against 5. A message that is taken back is waited for while it is
 * half-way (flights.c).
 */
#if defined(OPEN_MPI)
#define PIECE_BYTES (16 << 20)
#else
#define PIECE_BYTES 0 /* the core's choice */
#endif

enum flight_kind { FRAME_OUT, LONG_OUT, FRAME_IN, LONG_IN };

/* A message that MPI has. */
struct flight {
    enum flight_kind kind;
    tutti_peer *peer;
    tutti_request *request; /* that is complete with it; NULL: none, or none any more */
    struct frame *frame;    /* OUT: to be given back; IN: the peer's; NULL: the core's memory */
};

/* The plugin's part of a request (tutti_request.opaque). */
struct __attribute__((may_alias)) mpi_request {
    tutti_request_place place; /* first */
    void *data;                /* of a receive */
    uint64_t capacity;
    uint32_t slot; /* of its flight, or NO_SLOT */
};
_Static_assert(sizeof(struct mpi_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

enum { NO_SLOT = UINT32_MAX };

static inline struct mpi_request *mpi_of(tutti_request *request)
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
    bool receiving;                      /* MPI has a receive of this peer: one at a time */
    tutti_request_queue sends, receives; /* in the order posted */
    struct frame *out;                   /* that is begun, or NULL */
    struct frame *in;                    /* NULL until the first is received */
};

struct tutti_endpoint {
    struct caller caller;
    const struct job *job;
    int number;
    bool ready;    /* the job is */
    bool any_lost; /* and not told */
    tutti_peer *peers;
    tutti_peer *holding;      /* whose `out` waits for more; NULL: nobody's */
    struct frame *frames;     /* that nobody needs now */
    uint32_t count, capacity; /* of flights */
    struct flight *flights;
    MPI_Request *handles; /* of each */
    int *indices;         /* room for what MPI_Testsome says */
    MPI_Status *statuses;
    tutti_request_queue done; /* complete, not yet reported */
    int64_t draining_ns,
        drained_ns; /* messages are taken back: since when, and until when so far */
    uint64_t sent_bytes, received_bytes, sent_messages, received_messages;
};

static inline void release(tutti_endpoint *endpoint, void *memory)
{
    if (memory)
        endpoint->caller.host->release(endpoint->caller.host_self, memory);
}

/* flights.c */
/* Makes room for a call of messages.c; false: there is no memory. */
bool flights_reserve(tutti_endpoint *endpoint);
/* MPI has ended, and nothing is under way any more. */
void flights_end(tutti_endpoint *endpoint);
void flights_free(tutti_endpoint *endpoint);
/* A frame that is empty; NULL: there is no memory. */
struct frame *frame_take(tutti_endpoint *endpoint);
/* NULL is fine. */
void frame_give(tutti_endpoint *endpoint, struct frame *frame);
/* Gives a message to MPI. What it has done when it returns is complete then, and has no flight. */
tutti_status flight_send(tutti_peer *peer, enum flight_kind kind, tutti_request *request,
                         struct frame *frame, const void *data, uint64_t bytes);
tutti_status flight_receive(tutti_peer *peer, enum flight_kind kind, tutti_request *request,
                            struct frame *frame, void *data, uint64_t capacity);
/* Afterwards MPI does not write to the flight's memory, and the flight is gone. */
void flight_withdraw(tutti_endpoint *endpoint, uint32_t slot);
/* Asks MPI what has come and gone. */
void flights_advance(tutti_endpoint *endpoint);

/* messages.c */
tutti_status messages_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                            const void *data, uint64_t bytes, uint32_t flags,
                            tutti_request *request);
tutti_status messages_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                            uint64_t capacity, tutti_request *request);
tutti_status messages_test(tutti_endpoint *endpoint, tutti_request *request);
uint32_t messages_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity);
void messages_cancel(tutti_endpoint *endpoint, tutti_request *request);
/* The peer goes: nothing of it is under way afterwards. */
void messages_forget(tutti_endpoint *endpoint, tutti_peer *peer);
/* MPI is done with a flight, which is gone. */
void messages_landed(const struct flight *flight, tutti_status status, uint64_t bytes);
