/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane of one group: connections in a tree of degree 16, liveness, byes and the
 * verdict.
 *
 * It has no thread. Whoever waits calls control_poll(), which never blocks; everything here is
 * under one lock, so any thread may call. The abort word, control_verdict_status(), is one atomic
 * load: every wait looks at it in each spin.
 *
 * Liveness is the kernel's: EOF or a keepalive that ran out on a connection, a pidfd of a
 * host-mate. A member that ends without a bye is lost. Who finds a cause proposes it to the lowest
 * living member, which fixes the verdict and floods it; a fixed verdict never changes and its words
 * are copied.
 */
#ifndef TUTTI_CONTROL_CONTROL_H
#define TUTTI_CONTROL_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <tutti/status.h>

#include "base/call.h"
#include "base/codec.h"
#include "control/frame.h"

enum {
    CONTROL_TREE_DEGREE = 16,
    CONTROL_TOKEN_BYTES = 16,
    CONTROL_WORDS_MAX = 1024, /* bytes of a verdict's words */
    CONTROL_HOST_MAX = 64,
    CONTROL_NAME_MAX = 256, /* of a group, with the NUL */
    CONTROL_PROVIDERS =
        5, /* local, remote, two that rules name, and an engine of whole operations */
    CONTROL_PROVIDER_ADDRESS_MAX = 65536, /* bytes of one of them */
    /* What a message that says something of each member may say of one: all addresses, and words. */
    CONTROL_MEMBER_MAX = CONTROL_PROVIDERS * CONTROL_PROVIDER_ADDRESS_MAX + 8192,
    CONTROL_HALF_OPEN_MAX = 64, /* of each listener */
    CONTROL_HALF_OPEN_RETRY_MS = 10,
    CONTROL_HELLO_SECONDS = 10,
    CONTROL_OUT_MAX =
        4 << 20, /* bytes that may wait for a reader, besides one message of any size */
    CONTROL_NOTE_MAX = 256,
    SIDES_CALL_BYTES = 40, /* of a call in a frame */
    CONTROL_NO_CALL = 1    /* the signature of who leaves without any collective */
};

struct control;

/* Something in the control plane's epoll set. */
struct control_watch {
    int fd;
    void (*ready)(struct control *control, struct control_watch *watch, uint32_t events);
};

/* What everybody knows of a member once the roster has come. */
struct control_member {
    struct sockaddr_storage address; /* of its control listener; family 0: not known yet */
    socklen_t address_size;
    int32_t pid;
    int32_t world_rank; /* -1: this group is a world */
    char host[CONTROL_HOST_MAX];
    uint8_t *provider_address[CONTROL_PROVIDERS];
    uint32_t provider_address_size[CONTROL_PROVIDERS];
    bool dead;
    _Atomic bool left; /* written under the lock, read anywhere */
    bool vanished;     /* its host does not answer: so it may live on */
    bool dead_after;   /* the group had failed before it died, as far as is known here */
    bool passed_over;  /* did not answer a proposal */
    char unreachable[64];
    int64_t unreachable_ns; /* when dialing it failed; 0: never. Its bye may be on the way */
    struct announce last;   /* left: its last collective; no operation: only its number is known */
    bool compared;          /* that one, with this member's */
    bool agrees;            /* it has made the same last call as this member, which leaves */
};

/* The reason why a group ended. */
struct control_verdict {
    tutti_status status; /* TUTTI_OK: none */
    int culprit;         /* -1: none */
    char words[CONTROL_WORDS_MAX];
};

/* What a member said when a call of its timed out. */
struct control_timeout {
    struct control_verdict verdict; /* status TUTTI_OK: nothing */
    uint64_t sequence;              /* of the collective; 0: it was a message */
    int32_t heard[2];               /* members that are known to have called it; -1: none */
};

/* Two members that called different things, as one of them saw it. */
struct control_difference {
    uint64_t sequence; /* of the collective; 0: none */
    int rank[2];
    struct announce call[2]; /* sequence 0: not known */
};

/* What a member called as the collective in which members differ; sides.c. */
struct control_side {
    bool answered;
    uint64_t called;      /* answered: its last collective */
    struct announce call; /* sequence 0: not known */
};

/* Of a member that was asked how far it has called. */
struct control_answer {
    bool has_come;
    uint64_t called; /* its last collective; 0: none */
};

/* A connection; conn.c. */
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

struct control_handlers { /* of the agreement; called under the lock */
    void (*report)(void *user, const uint8_t *body, size_t size);
    void (*roster)(void *user, const uint8_t *body, size_t size);
    void (*outcome)(void *user, const uint8_t *body, size_t size);
    /* A member was lost or left before the group was ready. */
    void (*gone)(void *user, int rank, const char *words);
    /* A child of this member in the tree has connected. */
    void (*joined)(void *user, struct control_conn *conn);
};

/* What a member told the first one; notes.c. */
struct control_note {
    struct control_note *next;
    int rank; /* who */
    size_t size;
    uint8_t data[];
};

struct mates;

struct control {
    pthread_mutex_t lock;
    int rank, size;
    char name[CONTROL_NAME_MAX]; /* the group's */
    uint8_t token[CONTROL_TOKEN_BYTES];
    bool started, leaving;
    struct announce last;   /* leaving: the last collective */
    bool compares;          /* control_compared() says that a bye is known */
    _Atomic int uncompared; /* byes after a call with a root, for control_compared() */
    bool ready;             /* the group has committed: losses become verdicts */
    int epoll_fd;
    struct control_watch listener;
    int64_t accept_retry_ns; /* not now: accept again then */
    bool accept_warned;      /* of too few descriptors, or memory */
    struct sockaddr_storage address;
    socklen_t address_size;
    struct control_conn *connections;
    struct control_member *members;
    const struct control_handlers *handlers;
    void *handler_user;
    struct mates *mates; /* NULL until proven */
    struct control_note *notes, *notes_last;
    unsigned notes_count;
    bool takes_notes; /* somebody here wants them */

    _Atomic tutti_status verdict_status;
    struct control_verdict verdict;       /* fixed */
    struct control_verdict proposal;      /* the best cause known here, while not fixed */
    struct control_timeout *timeouts;     /* [size] that members proposed; NULL: none */
    struct control_answer *answers;       /* [size]; NULL: nobody was asked */
    struct control_difference difference; /* of a proposal of a mismatch */
    struct control_side *sides;           /* [size]; NULL: I gather no calls */
    /* How a call is told; NULL: only as the member that proposes tells it. */
    void (*call_text)(const struct call_words *words, char *ret_text, size_t capacity);
    bool expects_verdict;        /* who fixes it has asked for this member's call */
    _Atomic int asked_by;        /* who wants to know how far this member has called; -1: nobody */
    _Atomic uint64_t asked_call; /* and what it called under this number; 0: nothing */
    int64_t roll_at_ns;          /* I ask then; 0: not */
    int64_t fix_at_ns;           /* I fix then; 0: not me or nothing to fix */
    int64_t pass_over_at_ns;     /* the fixer is passed over then; 0: none asked */
    int fixer;                   /* who was asked, -1: nobody */
};

/* Binds the listener to `bind_address` (numeric). `world_ranks`, of [size]: what the members are
 * called in the world, for messages; NULL: this group is a world. */
tutti_status control_open(int rank, int size, const char *name, const int32_t *world_ranks,
                          const char *bind_address, struct control **ret_control);
/* Closes everything; says nothing to anybody. */
void control_close(struct control *control);

/* The token is agreed: from now on connections are taken, and the uplink is dialed. */
tutti_status control_start(struct control *control, const uint8_t token[CONTROL_TOKEN_BYTES]);

static inline int control_parent(int rank)
{
    return rank ? (rank - 1) / CONTROL_TREE_DEGREE : -1;
}

/* Moves whatever can move: connections, liveness, timers. Never blocks. */
void control_poll(struct control *control);

/* To the parent in the tree (or who took its place). Nothing happens on the root. */
tutti_status control_send_up(struct control *control, enum frame_type type, const void *body,
                             size_t size);
/* To every child in the tree that is connected. */
tutti_status control_send_down(struct control *control, enum frame_type type, const void *body,
                               size_t size);

/* Proposes a cause; returns at once. The verdict shows in control_verdict_status() later. */
void control_propose(struct control *control, tutti_status status, int culprit, const char *words);

/* The same for members that called different things: before it becomes the verdict, the calls of all
 * members are gathered for its words. Where they cannot be, `words` stay. */
void control_differ(struct control *control, int culprit,
                    const struct control_difference *difference, const char *words);

/* The same for the end of a deadline; its verdict has no status, and words without the group's name. */
void control_time_out(struct control *control, const struct control_timeout *timeout);

/* Whether somebody wants to know how far this member has called; then control_answer(), with its last
 * collective, and its call of the number control_asked_call(); NULL: not made or not known. */
static inline bool control_is_asked(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->asked_by, memory_order_acquire) >= 0;
}
static inline uint64_t control_asked_call(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->asked_call, memory_order_relaxed);
}
void control_answer(struct control *control, uint64_t called, const struct announce *call);

/* TUTTI_OK while the group is fine. */
static inline tutti_status control_verdict_status(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->verdict_status, memory_order_acquire);
}

/* Sets the thread's error to the verdict and returns its status. */
tutti_status control_verdict_error(struct control *control);

/* Tells everybody that this member leaves in order; `last` as in control_member. */
void control_bye(struct control *control, const struct announce *last);
/*
 * After that: whether each neighbour has left, too, or has answered that it knows. Until then one that
 * leaves in the same moment may have told this member alone, who is to pass it on. Where last calls are
 * compared: each member.
 */
bool control_bye_is_known(struct control *control);
/* How a member has left. */
struct control_farewell {
    struct announce last; /* its last collective; sequence 0: it made none */
    bool known;           /* what `last` was, not only its number */
    bool compared;        /* with this member's */
};
/* False: it has not left. */
bool control_has_left(struct control *control, int rank, struct control_farewell *ret);
/* The last collective of `rank`, which has left, was compared with this member's. */
void control_compared(struct control *control, int rank);
/* Whether the last call of a member that has left is still to be compared. */
static inline bool control_has_uncompared(const struct control *control)
{
    return control->compares ||
           atomic_load_explicit(&((struct control *)control)->uncompared, memory_order_relaxed) > 0;
}
/* This member leaves; `rank` has made the same last call. */
void control_agrees(struct control *control, int rank);
/* Whether this member has proposed a cause, or was asked for its call because of one, and no verdict is
 * known. */
bool control_has_proposed(struct control *control);
/* Waits until what was said has left this process, at most `ms`. */
void control_flush(struct control *control, int64_t ms);

/* Waits until what was proposed is fixed, at most `ms`. */
void control_await_verdict(struct control *control, int64_t ms);

/* "rank 2 (host h, pid 17)" into `ret_text`, in a group that is not a world "rank 2 (world rank 5,
 * host h, pid 17)". */
void control_describe(const struct control *control, int rank, char *ret_text, size_t capacity);

/* A rank that has left before collective `sequence`, or -1; its words into `ret_words`. */
int control_left_before(struct control *control, uint64_t sequence, char *ret_words,
                        size_t capacity);

/* Under the lock: tells once more, as a verdict if the group is ready by now, who was lost. */
void control_tell_lost(struct control *control);

/* Tells the group's first member something, CONTROL_NOTE_MAX bytes at most, without waiting; it may be
 * dropped where somebody on the way is slow. */
void control_tell(struct control *control, const void *data, size_t size);
/* The first member: the oldest note that nobody has taken, for the caller to free(); NULL: none. */
struct control_note *control_take_note(struct control *control);

/* ---- between the files of this folder, under the lock ---- */

void control_on_note(struct control *control, const uint8_t *body, size_t size);
void control_notes_free(struct control *control);

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

void control_frame(struct control *control, struct control_conn *conn, enum frame_type type,
                   const uint8_t *body, size_t size);
void control_connected(struct control *control, struct control_conn *conn);
void control_disconnected(struct control *control, int rank, const char *words);
/* `rank` left in order; passed on to all connections but `except`. */
void control_left(struct control *control, int rank, const struct announce *last,
                  const struct control_conn *except);
/* Dialing `rank` failed: it has left and its bye is on the way, or it is lost. */
void control_unreachable(struct control *control, int rank, const char *words);
/* The process of `rank` ended, or cannot be reached any more. */
void control_lost(struct control *control, int rank, const char *words);
/* The lowest member that is not known to be dead, left or passed over; may be this one. */
int control_lowest_living(const struct control *control);

/* ---- roll.c ---- */

/* Asks those that have not timed out. */
void roll_call(struct control *control);
/* Asks one member; whether it has answered. */
void roll_ask(struct control *control, int rank);
bool roll_has_answered(const struct control *control, int rank);
void roll_on_call(struct control *control, const struct control_conn *from, const uint8_t *body,
                  size_t size);
void roll_on_answer(struct control *control, const struct control_conn *from, const uint8_t *body,
                    size_t size);
/* Adds to a time-out of that collective what was answered, and whom it shows. */
void roll_judge(const struct control *control, uint64_t sequence, struct control_verdict *verdict);

/* ---- sides.c ---- */

void sides_write_call(struct writer *writer, const struct announce *call);
void sides_read_call(struct reader *reader, struct announce *ret_call);
/* Asks all members for their call of the difference's number. */
void sides_gather(struct control *control);
/* What the pair of a difference called, if it is of the number that is gathered. */
void sides_note_pair(struct control *control, const struct control_difference *difference);
/* `rank` has left. */
void sides_left(struct control *control, int rank);
void sides_answered(struct control *control, int rank, uint64_t called,
                    const struct announce *call);
/* Whether every member that can answer has. */
bool sides_complete(const struct control *control);
/* Puts the sets of members with the same call into the words. */
void sides_tell(const struct control *control, struct control_verdict *verdict);

/* ---- verdict.c ---- */

void verdict_differ(struct control *control, int culprit,
                    const struct control_difference *difference, const char *words);
void verdict_propose(struct control *control, tutti_status status, int culprit, const char *words);
void verdict_time_out(struct control *control, const struct control_timeout *timeout);
void verdict_on_propose(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size);
void verdict_on_verdict(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size);
void verdict_adopt(struct control *control, const struct control_verdict *verdict,
                   const struct control_conn *except);
void verdict_timers(struct control *control);
/* Tells a connection that is new what is known already. */
void verdict_greet(struct control *control, struct control_conn *conn);

#endif
