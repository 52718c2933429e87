/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX has of this process's messages. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>
#include <ucp/api/ucp.h>

struct worker;

enum {
    HEADER_BYTES = 64, /* the longest of the core's */
    /* The longest message that goes in a frame: a header and 4 KiB. The frame fits into what UCX's shared
     * memory and tcp take in one part, 8 KiB. */
    FRAME_MESSAGE_BYTES = HEADER_BYTES + 4096,
    MARK_BYTES = 8, /* in front of each: its length */
    FRAME_BYTES = MARK_BYTES + HEADER_BYTES + MARK_BYTES + FRAME_MESSAGE_BYTES
};

enum flight_kind { FRAME_OUT, FRAME_IN, PIECE_OUT, PIECE_IN };

/* Flights that nobody needs now. */
struct spare_flights {
    struct flight *frames, *pieces;
};

/* A message of UCX's: a frame with several of the core's, or a piece, which is one. */
struct flight {
    enum flight_kind kind;
    ucs_status_t status;            /* when it has landed */
    tutti_peer *peer;               /* NULL: UCX still has it, and nobody wants it */
    struct worker *worker;          /* also without a peer */
    tutti_request *request;         /* that is complete with it, or NULL */
    struct flight *next, *previous; /* of the peer's; `next`: also of a pool */
    struct flight *next_landed;     /* of the endpoint's */
    struct flight *next_made;       /* of all that there are */
    void *ucx;                      /* UCX's request, while it has one */
    uint64_t received;              /* when it has landed */
    uint8_t *data;                  /* of a piece: the caller's memory */
    uint64_t bytes;               /* of a frame: filled, or arrived. Of a piece: without its end */
    uint32_t read;                /* of a frame: handed over */
    bool in_ucx;                  /* given to UCX, and not landed */
    bool withdrawn;               /* a piece whose memory is the caller's again */
    bool whole;                   /* a piece that has come with its end */
    _Alignas(16) uint8_t frame[]; /* FRAME_BYTES, of a frame */
};

/* Makes worker->piece. */
ucs_status_t flights_describe(struct worker *worker);
/* Every endpoint that sleeps looks again; under the lock. */
void flights_wake_all(struct worker *worker);
/* Frees all; UCX has nothing any more. */
void flights_free(struct worker *worker);

/* An empty one; NULL: there is no memory. */
struct flight *flight_take(tutti_endpoint *endpoint, enum flight_kind kind);
/* Keeps it for the next flight_take(); NULL is allowed. */
void flight_give(tutti_endpoint *endpoint, struct flight *flight);
/* The endpoint ends: others take its spare ones. */
void flights_leave(tutti_endpoint *endpoint);

/*
 * Gives a flight to UCX. TUTTI_OK and *ret_landed: it has landed already, and is not reported. Else the next
 * flights_advance() that finds it landed reports it. On a failure it is the caller's again.
 */
tutti_status flight_send(tutti_peer *peer, struct flight *flight, bool *ret_landed);
tutti_status flight_receive(tutti_peer *peer, struct flight *flight, bool *ret_landed);

/* The request and the caller's memory are free of the flight, which goes on. */
void flight_withdraw(struct flight *flight);
/* UCX may keep the flight; the peer and the caller's memory are free of it. */
void flight_forget(struct flight *flight);

/* Drops frames that have come, and that nobody will ask for; under the lock. */
void flights_drop(struct worker *worker, ucp_tag_t tag, ucp_tag_t mask);

/* Moves the worker, and returns what has landed for the endpoint, linked by next_landed. */
struct flight *flights_advance(tutti_endpoint *endpoint);
/* tutti_transport_ops.arm */
int32_t flights_arm(tutti_endpoint *endpoint);

/* What the status of a flight to or from the peer means. */
tutti_status flight_status(ucs_status_t status);
