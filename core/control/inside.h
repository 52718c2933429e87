/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of control/ share with one another, with local/ and with the agreement. All under the
 * lock. */
#pragma once

#include "control/control.h"
#include "secret/proof.h"
#include "secret/tls.h"

enum {
    CONTROL_HALF_OPEN_MAX = 64, /* of each listener */
    CONTROL_HALF_OPEN_RETRY_MS = 10,
    CONTROL_HELLO_SECONDS = 10,
    CONTROL_OUT_MAX =
        4 << 20 /* bytes that may wait for a reader, besides one message of any size */
};

/* ---- farewell.c: leave messages that need no answer ---- */

enum { CONTROL_LEAVE_BYTES = 44, FAREWELL_BYTES = 8 + CONTROL_LEAVE_BYTES + KEY_MAC_BYTES };

/* That `rank` has left. */
tutti_status farewell_write(const struct control *control, int rank,
                            uint8_t ret_farewell[FAREWELL_BYTES]);
/* Whether these can be the first `bytes` of one. */
bool farewell_may_be(const uint8_t *data, size_t bytes);
/* False: no member has written it. */
bool farewell_take(struct control *control, const uint8_t farewell[FAREWELL_BYTES]);

/* ---- conn.c: connections, and the epoll set ---- */

/* How far a connection is; one that this member accepted is open from the beginning. */
enum conn_stage {
    CONN_FAREWELL, /* it only tells who has left, and is not answered */
    CONN_DIALING,  /* connect() is in progress, or waits for its next try */
    CONN_SECURING, /* the TLS handshake is under way, behind which the hello goes */
    CONN_GREETED,  /* the hello is sent, the challenge is not here */
    CONN_ANSWERED, /* the answer is sent, the welcome is not here */
    CONN_OPEN
};

/* A connection with a member. */
struct control_conn {
    struct control_watch watch;
    struct tls *tls; /* NULL: not encrypted */
    struct control_conn *next;
    int rank; /* of the other side */
    enum conn_stage stage;
    bool closing;
    bool heard; /* leaving: the other side knows it */
    int deaf;   /* the errno of a send: it takes nothing any more, what it had sent is still read */
    int64_t redial_ns; /* dialing: the next try is then; 0: it is under way */
    int64_t
        give_up_ns; /* dialing: a connection that is closed after this time is not tried again */
    struct proof proof;
    uint8_t challenge[PROOF_CHALLENGE_BYTES];
    size_t challenge_size;
    struct frame_parser in;
    uint8_t *out;
    size_t out_size, out_at, out_capacity;
};

/* As send(2) and recv(2) of a connection, encrypted or not, without waiting. */
static inline ssize_t control_put(int fd, struct tls *tls, const void *data, size_t bytes)
{
    return tls ? tls_send(tls, &(tutti_piece){data, bytes}, 1)
               : send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}
static inline ssize_t control_take(int fd, struct tls *tls, void *data, size_t bytes)
{
    return tls ? tls_recv(tls, data, bytes) : recv(fd, data, bytes, MSG_DONTWAIT);
}

struct control_conn *control_conn_to(struct control *control, int rank);
/* Without a socket; NULL: no memory. */
struct control_conn *control_conn_new(struct control *control, int rank, enum conn_stage stage);
/* Gives the connection its socket, which is closed with it, also when this fails. */
tutti_status control_conn_watch(struct control *control, struct control_conn *conn, int fd,
                                uint32_t events);
/* The largest message that members send each other. */
size_t control_frame_limit(const struct control *control);
/* Takes the message over, however slow the reader is. TUTTI_ERR_PEER_LOST: the connection has ended, or
 * does now, since as much waits for its reader as may. */
tutti_status control_conn_send(struct control *control, struct control_conn *conn,
                               enum frame_type type, const void *body, size_t size);
/* Makes room for `size` bytes behind what waits in conn->out. */
tutti_status control_conn_room(struct control *control, struct control_conn *conn, size_t size);
void control_conn_flush(struct control *control, struct control_conn *conn);
/* Marks it closed; control_conn_reap() frees it once no event can name it. */
void control_conn_close(struct control *control, struct control_conn *conn);
/* The same for one that has failed, and looks at what that means for its member. `error`: an errno; 0:
 * `why` has the message. */
void control_conn_failed(struct control *control, struct control_conn *conn, int error,
                         const char *why);
void control_conn_reap(struct control *control); /* frees what is closed */
tutti_status control_watch_add(struct control *control, struct control_watch *watch,
                               uint32_t events);
void control_watch_change(struct control *control, struct control_watch *watch, uint32_t events);
/* Ends the watch and closes its descriptor. */
void control_watch_remove(struct control *control, struct control_watch *watch);
/* Ends the watch of a descriptor that is others', too. */
void control_watch_forget(struct control *control, struct control_watch *watch);

/* ---- dial.c: connections that this member opens ---- */

/* A connection to the member, dialed if there is none; NULL when its address is unknown or dialing
 * failed at once. */
struct control_conn *control_dial(struct control *control, int rank);
/* Tells the member who has left, this one among them, without waiting for its answer. */
void control_dial_farewell(struct control *control, int rank);
/* The socket of one that is not answered yet is ready. */
void control_dial_ready(struct control *control, struct control_conn *conn);
/* A frame has come on one that is answered. */
void control_dial_welcomed(struct control *control, struct control_conn *conn,
                           enum frame_type type);
/* The listener has closed one that it has not welcomed. */
void control_dial_closed(struct control *control, struct control_conn *conn);
/* Tries again those whose time has come. */
void control_dial_again(struct control *control);

/* ---- listen.c: connections that others open ---- */

/* A connection whose other side has not proven to be a member; fd -1: none. */
struct control_guest {
    struct control_watch watch;
    struct tls *tls; /* NULL: not encrypted, or nothing has come */
    uint64_t number; /* guests come in this order */
    int64_t deadline_ns;
    bool challenged; /* its hello has come */
    struct proof proof;
    uint8_t in[FAREWELL_BYTES]; /* a hello, an answer or a farewell */
    size_t size;
};

tutti_status control_listen(struct control *control, const char *bind_address);
void control_listen_close(struct control *control);
/* Closes guests whose time is over. */
void control_listen_expire(struct control *control);
/* Looks again in `ms` instead of spinning on it; until then new connections wait in the backlog. */
void control_accept_later(struct control *control, struct control_listener *listener, int ms);
/* Accepts again if that time has come. */
void control_accept_again(struct control *control, struct control_listener *listener);

/* ---- control.c: members connect, leave or are lost ---- */

static inline bool member_is_gone(const struct control_member *member)
{
    return member->dead || member->left;
}

void control_flood(struct control *control, const struct control_conn *except, enum frame_type type,
                   const void *body, size_t size);
/* Hands a frame to the function that takes its type. */
void control_frame(struct control *control, struct control_conn *from, enum frame_type type,
                   const uint8_t *body, size_t size);
void control_connected(struct control *control, struct control_conn *conn);
size_t control_write_leave(const struct control *control, int rank,
                           uint8_t body[CONTROL_LEAVE_BYTES]);
/* False: it makes no sense. */
bool control_read_leave(const struct control *control, struct reader *r, int *ret_rank,
                        struct announce *ret_last);
void control_disconnected(struct control *control, int rank, const char *message);
/* `rank` left in order; passed on to all connections but `except`. */
void control_left(struct control *control, int rank, const struct announce *last,
                  const struct control_conn *except);
/* Dialing `rank` failed: it has left and its leave message is on the way, or it is lost. */
void control_unreachable(struct control *control, int rank, const char *message);
/* The process of `rank` ended, or cannot be reached any more. */
void control_lost(struct control *control, int rank, const char *message);
/* The lowest member that is not known to be dead, left or passed over; may be this one. */
int control_lowest_living(const struct control *control);
/* Tells once more which member was lost, as a verdict if the group is ready by now. */
void control_tell_lost(struct control *control);

/* ---- verdict.c: how a cause that a member proposes becomes the verdict of all ---- */

void verdict_propose(struct control *control, tutti_status status, int culprit,
                     const char *message);
void verdict_on_propose(struct control *control, struct control_conn *from, struct reader *r);
void verdict_on_verdict(struct control *control, struct control_conn *from, struct reader *r);
void verdict_adopt(struct control *control, const struct control_verdict *verdict,
                   const struct control_conn *except);
void verdict_timers(struct control *control);
/* Tells a connection that is new what is known already. */
void verdict_greet(struct control *control, struct control_conn *conn);

/* ---- liveness.c: asking members how far they have called ---- */

/* Asks those that have not timed out, this member among them. */
void liveness_query_all(struct control *control);
/* `by` asks this member how far it has called, and for its call of that number; 0: for none. */
void liveness_asked(struct control *control, int by, uint64_t sequence);
/* Asks one member; whether it has answered. */
void liveness_query(struct control *control, int rank);
bool liveness_has_answered(const struct control *control, int rank);
void liveness_on_query(struct control *control, struct control_conn *from, struct reader *r);
void liveness_on_answer(struct control *control, struct control_conn *from, struct reader *r);
/* Adds to a time-out of that collective what was answered. Where the culprit waits for another member
 * itself, that one becomes the culprit. */
void liveness_judge(const struct control *control, uint64_t sequence,
                    struct control_verdict *verdict);

/* ---- sides.c: the calls that members made under the number in which they differ ---- */

enum { SIDES_CALL_BYTES = 40 }; /* of a call in a frame */

/* A member's call under that number. */
struct control_side {
    bool answered;
    uint64_t called;      /* answered: its last collective */
    struct announce call; /* sequence 0: not known */
};

void sides_write_call(struct writer *writer, const struct announce *call);
void sides_read_call(struct reader *reader, struct announce *ret_call);
/* Asks all members for their call of the difference's number. */
void sides_gather(struct control *control);
/* Notes the calls of a difference's pair, if it is of the number that is gathered. */
void sides_note_pair(struct control *control, const struct control_difference *difference);
/* `rank` has left. */
void sides_left(struct control *control, int rank);
void sides_answered(struct control *control, int rank, uint64_t called,
                    const struct announce *call);
/* Whether every member that can answer has. */
bool sides_complete(const struct control *control);
/* Writes the sets of members with the same call into the verdict's message. */
void sides_tell(const struct control *control, struct control_verdict *verdict);

/* ---- notes.c; the rest is in control.h ---- */

void control_on_note(struct control *control, struct control_conn *from, struct reader *r);
void control_notes_free(struct control *control);

/* ---- gather.c; the rest is in gather.h ---- */

/* What `from` and all below it give. */
void gather_on_bytes(struct control *control, struct control_conn *from, struct reader *r);
/* What all members give, from the parent. */
void gather_on_whole(struct control *control, struct control_conn *from, struct reader *r);
