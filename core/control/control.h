/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane of one group: connections in a tree of degree 16, liveness, leave messages and the
 * verdict.
 *
 * It has no thread. A waiting thread calls control_poll(), which never blocks; everything here is
 * under one lock, so any thread may call. The abort word, control_verdict_status(), is one atomic
 * load: every wait looks at it in each spin.
 *
 * Liveness is the kernel's: EOF or a keepalive that ran out on a connection, a pidfd of a
 * local peer. A member that ends before it has left is lost. A member that finds a cause proposes
 * it to the lowest living member, which fixes the verdict and floods it. A fixed verdict never
 * changes, and its message is copied.
 */
#pragma once

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
#include "control/gather.h"
#include "secret/key.h"

enum {
    CONTROL_TREE_DEGREE = 16,
    CONTROL_SALT_BYTES = 16,
    CONTROL_MESSAGE_MAX = 1024, /* bytes of a verdict's message */
    CONTROL_HOST_MAX = 64,
    CONTROL_NAME_MAX = 256, /* of a group, with the NUL */
    /* Local, remote, two that rules name, an engine of whole operations, and one for tensors on devices. */
    CONTROL_PROVIDERS = 6,
    CONTROL_PROVIDER_ADDRESS_MAX = 65536, /* bytes of one of them */
    /* Bytes that a message about all members may have for one of them: all addresses, and text. */
    CONTROL_MEMBER_MAX = CONTROL_PROVIDERS * CONTROL_PROVIDER_ADDRESS_MAX + 8192,
    CONTROL_NOTE_MAX = 256,
    CONTROL_NO_CALL = 1 /* the signature of a member that leaves without any collective */
};

struct control;
struct control_conn;
struct local_peers;
struct tls_keys;

/* Something in the control plane's epoll set. */
struct control_watch {
    int fd;
    void (*ready)(struct control *control, struct control_watch *watch, uint32_t events);
};

/* A socket that accepts connections in that set. */
struct control_listener {
    struct control_watch watch;
    int64_t retry_ns; /* accepts again then; 0: it accepts */
};

/* The facts about a member that everybody knows once the roster has come. */
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
    int64_t unreachable_ns; /* when dialing it failed; 0: never. Its leave may be on the way */
    struct announce last; /* it leaves, or has: its last collective, or the number of that alone */
    bool compared;        /* that one, with this member's */
    bool agrees;          /* it has made the same last call as this member, which leaves */
};

/* The reason why a group ended. */
struct control_verdict {
    tutti_status status; /* TUTTI_OK: none */
    int culprit;         /* -1: none */
    char message[CONTROL_MESSAGE_MAX];
};

/* A member's report of a call that timed out. */
struct control_timeout {
    struct control_verdict verdict; /* status TUTTI_OK: nothing */
    uint64_t sequence;              /* of the collective; 0: it was a message */
    int32_t heard[2];               /* members that are known to have called it; -1: none */
};

/* How far a member has called. */
struct control_answer {
    bool has_come;
    uint64_t called;   /* its last collective; 0: none */
    uint64_t waits_in; /* the collective that it waits in; 0: none */
    int32_t waits_for; /* the rank that it waits for there; -1: none that it knows */
};

/* Two members that called different things, as one of them saw it. */
struct control_difference {
    uint64_t sequence; /* of the collective; 0: none */
    int rank[2];
    struct announce call[2]; /* sequence 0: not known */
};

struct control_handlers { /* of the agreement; called under the lock */
    /* A report, the roster or an outcome has come. */
    void (*frame)(void *user, enum frame_type type, const uint8_t *body, size_t size);
    /* A member was lost or left before the group was ready. */
    void (*gone)(void *user, int rank, const char *message);
    /* A child of this member in the tree has connected. */
    void (*joined)(void *user, struct control_conn *conn);
};

/* A message of a member to the first one; notes.c. */
struct control_note {
    struct control_note *next;
    int rank; /* the sender */
    size_t size;
    uint8_t data[];
};

/* The functions of a host's local peers that the control plane calls, under its lock; local_new()
 * registers them. */
struct control_local_ops {
    /* Moves what can move, and takes in what the page tells. */
    void (*poll)(struct local_peers *local);
    void (*leave)(struct local_peers *local, const struct announce *last);
    /* Fixes it for the host; what another local peer has fixed before replaces it. */
    void (*publish_verdict)(struct local_peers *local, struct control_verdict *verdict);
    /* Whether every member of the group reads one page. */
    bool (*are_all)(const struct local_peers *local);
};

struct control {
    pthread_mutex_t lock;
    int rank, size;
    char name[CONTROL_NAME_MAX];      /* the group's */
    uint8_t salt[CONTROL_SALT_BYTES]; /* of the group's key: public, and no other group's */
    const struct key *group_key;      /* kept; NULL: not agreed yet */
    const struct key *key;            /* kept, of control connections */
    struct tls_keys *keys;            /* of their encryption; NULL: there is none */
    bool encrypts, started, leaving;
    bool compares;          /* control_compared() says that a leave message is known */
    _Atomic int uncompared; /* leave messages after a call with a root, for control_compared() */
    bool ready;             /* the group has committed: losses become verdicts */
    int epoll_fd;
    struct control_listener listener;
    struct control_guest *guests; /* [CONTROL_HALF_OPEN_MAX]; listen.c */
    uint64_t guest_count;         /* so far */
    int half_open;                /* of them now */
    bool accept_warned;           /* of too few descriptors, or memory */
    struct sockaddr_storage address;
    socklen_t address_size;
    struct control_conn *connections;
    struct control_member *members;
    const struct control_handlers *handlers;
    void *handler_user;
    struct local_peers *local; /* NULL until proven */
    const struct control_local_ops *local_ops;
    struct control_note *notes, *notes_last;
    unsigned notes_count;
    bool takes_notes; /* somebody here wants them */
    struct gathers gathers;

    _Atomic tutti_status verdict_status;
    struct control_verdict verdict;       /* fixed */
    struct control_verdict proposal;      /* the best cause known here, while not fixed */
    struct control_timeout *timeouts;     /* [size] that members proposed; NULL: none */
    struct control_answer *answers;       /* [size]; NULL: nobody was asked; liveness.c */
    struct control_difference difference; /* of a proposal of a mismatch */
    struct control_side *sides;           /* [size]; NULL: I gather no calls */
    /* How a call is told; NULL: only as the member that proposes tells it. */
    void (*call_text)(const struct call_fields *fields, char *ret_text, size_t capacity);
    bool expects_verdict;        /* the fixing member has asked for this member's call */
    _Atomic int asked_by;        /* the rank that asks how far this member has called; -1: none */
    _Atomic uint64_t asked_call; /* and what it called under this number; 0: nothing */
    int64_t query_at_ns;         /* I ask then; 0: not */
    int64_t fix_at_ns;           /* I fix then; 0: not me or nothing to fix */
    int64_t pass_over_at_ns;     /* the fixer is passed over then; 0: none asked */
    int fixer;                   /* the rank that was asked, -1: none */
    bool has_fixed;              /* I have fixed the verdict and dialed the others to tell it */
};

/* Binds the listener to `bind_address` (numeric). `world_ranks`, of [size]: what the members are
 * called in the world, for messages; NULL: this group is a world. */
tutti_status control_open(int rank, int size, const char *name, const int32_t *world_ranks,
                          const char *bind_address, struct control **ret_control);
/* Closes everything; says nothing to anybody. */
void control_close(struct control *control);

/* The group's key is agreed: from now on connections are taken, and the uplink is dialed. */
tutti_status control_start(struct control *control, const uint8_t salt[CONTROL_SALT_BYTES],
                           const struct key *group_key);

static inline int control_parent(int rank)
{
    return rank ? (rank - 1) / CONTROL_TREE_DEGREE : -1;
}

/* Moves whatever can move: connections, liveness, timers. Never blocks. */
void control_poll(struct control *control);

/* To the parent in the tree (or the member that took its place). Nothing happens on the root. */
tutti_status control_send_up(struct control *control, enum frame_type type, const void *body,
                             size_t size);
/* To every child in the tree that is connected. */
void control_send_down(struct control *control, enum frame_type type, const void *body,
                       size_t size);

/* Proposes a cause; returns at once. The verdict shows in control_verdict_status() later. */
void control_propose(struct control *control, tutti_status status, int culprit,
                     const char *message);

/* The same for members that called different things: before it becomes the verdict, the calls of all
 * members are gathered for its words. Where they cannot be, `message` stays. */
void control_differ(struct control *control, int culprit,
                    const struct control_difference *difference, const char *message);

/* The same for the end of a deadline; its verdict has no status, and words without the group's name. */
void control_time_out(struct control *control, const struct control_timeout *timeout);

/* Whether somebody wants to know how far this member has called; then control_answer(), with its call of
 * the number control_asked_call(); NULL: not made or not known. */
static inline bool control_is_asked(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->asked_by, memory_order_acquire) >= 0;
}
static inline uint64_t control_asked_call(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->asked_call, memory_order_relaxed);
}
void control_answer(struct control *control, const struct control_answer *answer,
                    const struct announce *call);

/* TUTTI_OK while the group is fine. */
static inline tutti_status control_verdict_status(const struct control *control)
{
    return atomic_load_explicit(&((struct control *)control)->verdict_status, memory_order_acquire);
}

/* Sets the thread's error to the verdict and returns its status. */
tutti_status control_verdict_error(struct control *control);

/* Tells everybody that this member leaves in order; `last` as in control_member. */
void control_leave(struct control *control, const struct announce *last);
/*
 * After that: whether each neighbour has left, too, or has answered that it knows. Until then a
 * neighbour that leaves in the same moment may have told this member alone, which has to pass it
 * on. Where last calls are compared: each member.
 */
bool control_leave_is_known(struct control *control);
/* How a member has left. */
struct control_leave_state {
    struct announce last; /* its last collective; sequence 0: it made none */
    bool known;           /* what `last` was, not only its number */
    bool compared;        /* with this member's */
};
/* False: it has not left. */
bool control_has_left(struct control *control, int rank, struct control_leave_state *ret);
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

/* A rank that has left before collective `sequence`, or -1; its message into `ret_message`. */
int control_left_before(struct control *control, uint64_t sequence, char *ret_message,
                        size_t capacity);

/* Tells the group's first member something, CONTROL_NOTE_MAX bytes at most, without waiting; it may be
 * dropped where somebody on the way is slow. */
void control_tell(struct control *control, const void *data, size_t size);
/* The first member: the oldest note that nobody has taken, for the caller to free(); NULL: none. */
struct control_note *control_take_note(struct control *control);
