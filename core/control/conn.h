/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the control plane, and its epoll set. All under the lock. */
#pragma once

#include "control/control.h"

enum {
    CONTROL_HALF_OPEN_MAX = 64, /* of each listener */
    CONTROL_HALF_OPEN_RETRY_MS = 10,
    CONTROL_HELLO_SECONDS = 10,
    CONTROL_OUT_MAX =
        4 << 20 /* bytes that may wait for a reader, besides one message of any size */
};

/* A connection with a member. */
struct control_conn {
    struct control_watch watch;
    struct control_conn *next;
    int rank; /* of the other side; -1 until its hello has come */
    bool dialing, closing;
    bool heard; /* leaving: the other side knows it */
    bool owed;  /* it left, and waits until its last collective was compared */
    int deaf;   /* the errno of a send: it takes nothing any more, what it had sent is still read */
    int64_t hello_deadline_ns;
    struct frame_parser in;
    uint8_t *out;
    size_t out_size, out_at, out_capacity;
};

/* In a time that does not depend on where the first difference is. */
bool control_same_token(const uint8_t *a, const uint8_t *b);
tutti_status control_listen(struct control *control, const char *bind_address);
struct control_conn *control_conn_to(struct control *control, int rank);
/* A connection to the member, dialed if there is none; NULL when its address is unknown or dialing
 * failed at once. */
struct control_conn *control_dial(struct control *control, int rank);
/* The largest message that members send each other. */
size_t control_frame_limit(const struct control *control);
/* Takes the message over, however slow the reader is. TUTTI_ERR_PEER_LOST: the connection has ended, or
 * does now, since as much waits for its reader as may. */
tutti_status control_conn_send(struct control *control, struct control_conn *conn,
                               enum frame_type type, const void *body, size_t size);
void control_conn_reap(struct control *control); /* frees what is closed */
void control_flood(struct control *control, const struct control_conn *except, enum frame_type type,
                   const void *body, size_t size);
tutti_status control_watch_add(struct control *control, struct control_watch *watch,
                               uint32_t events);
void control_watch_change(struct control *control, struct control_watch *watch, uint32_t events);
/* Ends the watch and closes its descriptor. */
void control_watch_remove(struct control *control, struct control_watch *watch);
/* Ends the watch of a descriptor that is others', too. */
void control_watch_forget(struct control *control, struct control_watch *watch);
