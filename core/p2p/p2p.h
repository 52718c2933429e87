/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the members of groups, over any transport: matching, any source, unexpected
 * messages, flow control, rendezvous and the multiplexing of groups, once for all transports.
 *
 * An engine belongs to a context and has no lock: the caller holds the context's progress lock.
 * Starting an operation never blocks and never fails because the transport is full: it queues.
 * Operations are the caller's memory, with the engine's links inside, and must stay where they are
 * until their status is no longer TUTTI_ERR_NOT_READY (with a `done` callback: until that was
 * called). When an operation is complete, well or badly, its buffer is the caller's again and
 * nothing touches it any more.
 *
 * Two separate spaces: user messages match on (group, source, tag), messages of collectives on
 * (group, source, sequence), both in the order sent and posted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>
#include <tutti/status.h>

#include "base/call.h"
#include "p2p/p2p_events.h"
#include "p2p/p2p_move.h"

enum {
    P2P_ANY_SOURCE = -1,
    P2P_EAGER_MAX = 64 << 10, /* bytes that need no grant … */
    P2P_PAIR_MAX =
        256 << 10 /* … nor do a user's, if they can leave at once, in one call with their header */
};

struct p2p_engine; /* one per context */
struct p2p_path;   /* the way to one process through one endpoint; shared by all groups */
struct p2p_group;

/* ---- engine, endpoints, paths ---- */

tutti_status p2p_engine_new(struct p2p_engine **ret_engine);

/*
 * Frees the engine, its paths and all its memory. First every group must be freed, then every
 * endpoint closed by its owner (which drops the requests that lie in the engine's memory): no
 * transport is called here. NULL is fine.
 */
void p2p_engine_free(struct p2p_engine *engine);

/*
 * `ops` and `endpoint` stay the caller's and must outlive the groups. UNSUPPORTED when the
 * transport limits messages to less than 64 KiB.
 */
tutti_status p2p_engine_add_endpoint(struct p2p_engine *engine, const tutti_transport_ops *ops,
                                     tutti_endpoint *endpoint, unsigned *ret_index);

/*
 * `label_rank` names the process in messages (its rank in the world). `members` is the number of
 * processes of the job and sets the credit; both ends must give the same. Each process has
 * at most one path per engine and endpoint; a path lives as long as the engine.
 */
tutti_status p2p_engine_add_path(struct p2p_engine *engine, unsigned endpoint_index,
                                 tutti_peer *peer, int label_rank, int members,
                                 struct p2p_path **ret_path);

/*
 * Marks a path as failed, also where a pidfd or the control connection knows better than the
 * transport. Callbacks come from the next p2p_progress(), which does the rest.
 */
void p2p_path_fail(struct p2p_path *path, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The transport has ended a receive with `status`. */
void p2p_path_fail_receive(struct p2p_path *path, tutti_status status);

/* How many headers and payloads have come over it: whether something still arrives. */
uint64_t p2p_path_arrived(const struct p2p_path *path);

/*
 * Operations that are started between the two queue their messages. release() gives those of each
 * path to its transport in a row, which may send them as one.
 */
void p2p_gather(struct p2p_engine *engine);
void p2p_release(struct p2p_engine *engine);

/*
 * Moves everything that can move, calls events and `done` callbacks. Returns how many things moved;
 * 0: nothing did. Cost when idle: one call per endpoint. After something that was complete when it was started, the
 * transports are asked at the next call only.
 */
unsigned p2p_progress(struct p2p_engine *engine);

/* The same, and asks the transports in any case: before something is judged by what has arrived. */
unsigned p2p_hear(struct p2p_engine *engine);

/* Calls the `done` callbacks of what is complete, as p2p_progress() does, and no more. */
unsigned p2p_finish(struct p2p_engine *engine);

/*
 * True when the caller may sleep on the endpoints' descriptors (wait_fd): every endpoint is armed
 * and nothing is left to do. False: call p2p_progress() again, or, when an endpoint has no
 * descriptor or a transport is full, after a short pause.
 */
bool p2p_arm(struct p2p_engine *engine);

/* Bytes of large messages that began to move, in or out, since this was asked last. */
uint64_t p2p_begun(struct p2p_engine *engine);

/* Whether messages are copied from place to place: then what find() gave must stay mapped. */
bool p2p_is_placed(const struct p2p_engine *engine);

/* Whether some transport has nothing that wakes a sleeper, so that p2p_arm() never says true. */
bool p2p_is_polled(const struct p2p_engine *engine);

/*
 * True when the transports have let go of everything that this side sends. Credits and grants
 * belong to no operation, and closing an endpoint drops what it still has: before an orderly close,
 * progress until this is true, under a deadline. Failed paths do not count.
 */
bool p2p_idle(const struct p2p_engine *engine);

/* ---- groups ---- */

/*
 * `paths[size]` is copied; NULL at the own rank. `group_id` is the same on all members and
 * never used twice in an engine. Messages that arrived before are delivered by the next
 * p2p_progress().
 */
tutti_status p2p_group_new(struct p2p_engine *engine, uint32_t group_id, int rank, int size,
                           struct p2p_path *const *paths, const struct p2p_events *events,
                           void *user, struct p2p_group **ret_group);

/* From how many bytes on a receiver's buffer does not stay in a cache; unknown at first. */
void p2p_group_tell_uncached(struct p2p_group *group, uint64_t bytes);

/* Some member may receive what is longer than P2P_EAGER_MAX without a buffer (has_no_buffer). All members tell. */
void p2p_group_tell_bare(struct p2p_group *group);

/*
 * Completes every operation of the group with `status` (calling `done`) and gives their
 * buffers back before it returns; later ones are refused with the same status. A transfer that the
 * transport holds half way in a caller's buffer is cancelled, which ends its path: other
 * groups that use that path hear it as peer_failed. Not from a callback.
 */
void p2p_group_fail(struct p2p_group *group, tutti_status status);

/* Fails what is still in flight with ABORTED, then frees. Messages that still arrive are dropped.
 * Not from a callback. NULL is fine. */
void p2p_group_free(struct p2p_group *group);

/* ---- operations ---- */

struct p2p_link {
    struct p2p_link *prev, *next;
};

struct p2p_op {
    /* The caller reads these. */
    tutti_status status; /* TUTTI_ERR_NOT_READY until complete */
    int32_t source;      /* of a received message: its rank */
    uint64_t bytes;      /* sent or received; on MISMATCH the size that arrived */

    /* The caller sets these before starting. */
    /* NULL, or called once, from p2p_progress() or p2p_group_fail(), with nothing of the engine in
     * between: it may start operations (this one too) and free the op; not free or fail groups. */
    void (*done)(struct p2p_op *op);
    void *user;
    /* A receive accepts a shorter message, too; `bytes` gives its length. */
    bool up_to;
    /*
     * NULL, or for long messages whose buffer is filled, or emptied, while they are on their way. Both are called in the
     * middle of the engine's work, as events are, and for no message to oneself.
     */
    /* Whether the first `bytes` of a send may be read. It is asked again until they may, in p2p_progress(). */
    bool (*may_read)(struct p2p_op *op, uint64_t bytes);
    /* So many bytes of a receive have arrived at `offset`; not told of all of them. */
    void (*arrived)(struct p2p_op *op, uint64_t offset, uint64_t bytes);

    bool may_move; /* an engine can move the bytes, if it can on the other side */
    /* Its buffer comes later, by p2p_give_buffer(). A receive names its source then, and is longer than P2P_EAGER_MAX. */
    bool has_no_buffer;
    void (*meets)(struct p2p_op *op, enum p2p_meeting what); /* called as events are */

    /* The engine's. */
    struct p2p_group *group;
    struct p2p_path *path; /* NULL while an any-source receive has not matched */
    void *buffer;
    uint64_t capacity; /* of a receive that has met its message: that one's bytes */
    uint64_t room;     /* of a receive: what the caller gave */
    uint64_t met;      /* of a receive that has met its message: path->met then */
    uint64_t tag;      /* or sequence */
    uint64_t order;
    uint64_t issued, moved; /* bytes given to the transport, and through it */
    void *packet;           /* of a send that still queues */
    void *held_by;          /* the bin or envelope that names this operation */
    /* Of a message that is copied from place to place, or offered for that. */
    _Atomic uint64_t *held;  /* the own claim; NULL: none */
    _Atomic uint64_t *claim; /* the send's; NULL: none */
    unsigned char *other;    /* where the other side's memory is mapped */
    uint32_t id, peer_id;
    uint8_t state;
    uint8_t space;
    uint8_t announced, has_id, any_source;
    struct p2p_link queue, member, finished;
};

/*
 * Each returns OK when the operation was started; it may be complete already. Otherwise it was
 * not started: INVALID_ARGUMENT (rank), NO_MEMORY, the status that the group or the path failed
 * with. A message of 0 bytes is legal with a NULL buffer. A message to oneself meets its receive
 * as any other does; a collective sends none to itself.
 */
tutti_status p2p_send(struct p2p_group *group, struct p2p_op *op, int destination, uint64_t tag,
                      const void *buffer, uint64_t bytes);

/*
 * Completes with MISMATCH when the message that matches has not exactly `bytes` (with `up_to`: has
 * more); it is dropped, and nothing else is disturbed. `source` may be P2P_ANY_SOURCE: an
 * any-source receive that was posted before a specific one is served before it, and the earliest
 * message that arrived is taken.
 */
tutti_status p2p_recv(struct p2p_group *group, struct p2p_op *op, int source, uint64_t tag,
                      void *buffer, uint64_t bytes);

/* `announce` is copied; its sequence is what the message matches on. */
tutti_status p2p_collective_send(struct p2p_group *group, struct p2p_op *op, int destination,
                                 const struct announce *announce, const void *buffer,
                                 uint64_t bytes);

/* A large one tells the sender at once that it is posted, so that the payload needs no further
 * round trip; it cannot be cancelled then. */
tutti_status p2p_collective_recv(struct p2p_group *group, struct p2p_op *op, int source,
                                 uint64_t sequence, void *buffer, uint64_t bytes);

/* Tells `destination` of a call of which no message tells it; its own calls are compared with it. Lost
 * where the path has failed. NO_MEMORY. */
tutti_status p2p_announce(struct p2p_group *group, int destination, const struct announce *announce,
                          bool answers);

/*
 * The same for a blocking call, without an operation, where nothing has to wait. False: p2p_send() is to be
 * called, which also says why if it cannot be sent. `destination` is a rank of the group.
 */
bool p2p_send_now(struct p2p_group *group, int destination, uint64_t tag, const void *buffer,
                  uint64_t bytes);

/* Whether the next message of (source, tag) could be received by p2p_recv_now(): no other receive takes it, and
 * none has arrived. Holds until something else is done with the engine. */
bool p2p_may_recv_now(const struct p2p_group *group, int source, uint64_t tag);

/* DONE: received. NOTHING: no message is there. OTHER: p2p_recv() is to be called, since another message comes
 * first, or this one does not fit, or has not come whole; of that the buffer may hold a part. */
enum p2p_now { P2P_NOW_DONE, P2P_NOW_NOTHING, P2P_NOW_OTHER };
enum p2p_now p2p_recv_now(struct p2p_group *group, int source, uint64_t tag, void *buffer,
                          uint64_t capacity, bool up_to, uint64_t *ret_bytes);
/* p2p_recv_now() if p2p_may_recv_now(), else OTHER. */
enum p2p_now p2p_recv_at_once(struct p2p_group *group, int source, uint64_t tag, void *buffer,
                              uint64_t capacity, bool up_to, uint64_t *ret_bytes);

/*
 * Withdraws a user's operation: a receive that has not matched, a send of which nothing was given to the
 * transport, or a large one that was announced and of whose grant nothing has been heard: OK, its status is
 * ABORTED, `done` is not called. BUSY otherwise. A receive that had met such a send takes the next message
 * in its place; where later messages of the same path have met others meanwhile, it completes with ABORTED.
 */
tutti_status p2p_cancel(struct p2p_op *op);

/* Whether p2p_look() can complete it: a receive that waits for its message over a transport that shows. */
bool p2p_can_look(const struct p2p_op *op);
/* The short form of p2p_progress() for a spin: looks at the path of this operation alone. How many messages were
 * there. */
unsigned p2p_look(struct p2p_op *op);

/* Whether it is a send that was announced, and that no receive has met as far as is known here. */
bool p2p_is_unmatched(const struct p2p_op *op);

/* Whether a user's message has arrived from `source` for which no receive was posted, and its tag. Looks at all of
 * the group's bins. */
bool p2p_has_unclaimed(const struct p2p_group *group, int source, uint64_t *ret_tag);

/* Makes the failure of a completed operation the thread's error, and returns its status. */
tutti_status p2p_op_error(const struct p2p_op *op);
