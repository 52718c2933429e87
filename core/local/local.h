/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local peers: members between which a descriptor was really passed and a nonce read back through
 * the mapping. The first member of a host listens on an abstract Unix socket with a random name;
 * the others connect to it. Both sides prove that they hold the group's key (secret/proof.h); then a
 * member gives its doorbell (eventfd) and a pidfd of itself, and the first one answers with a sealed page that all map, and with everybody's descriptors. A
 * member that reads its nonce in the page is a local peer. The connections stay, as a star over
 * which plugins pass descriptors.
 *
 * The page holds a line for each local peer (does it sleep, has it left) and the verdict, so that a local peer learns
 * of the group's end from memory and a sleeper is woken by its doorbell, or several at once by the
 * bell that all of them listen to.
 *
 * An abstract name, and no directory: nothing stays behind when a process is killed here.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

#include "base/fence.h"
#include "control/control.h"
#include "secret/proof.h"

enum { LOCAL_NAME_MAX = 64 };

struct local_line {
    _Alignas(128) _Atomic uint32_t sleeping;
    _Atomic uint32_t heavy_fence; /* this local peer sleeps with membarrier(2) */
    _Atomic uint32_t left;
    _Atomic uint32_t cpu; /* on which it waited last, plus one; 0: not known */
    struct announce last; /* written before `left` */
    _Atomic uint64_t nonce;
};

struct local_page {
    _Alignas(128) _Atomic uint32_t verdict_state; /* 0 none, 1 being written, 2 there */
    int32_t status, culprit;
    char message[CONTROL_MESSAGE_MAX];
    struct local_line lines[];
};

enum local_state { LOCAL_FORMING, LOCAL_READY, LOCAL_FAILED };

/* A connection of the star: the leader's to each local peer, a local peer's to the leader. */
struct local_link {
    struct control_watch watch;
    struct local_link *next;
    int index; /* of the local peer at the other end; -1 until it has proven its key */
    int64_t hello_deadline_ns;
    struct proof proof;
    bool challenged; /* the challenge has been sent, or has come */
    bool closing;
};

/* The connections to a local peer's process, shared by all groups that have it as a local peer. */
struct local_process {
    _Atomic int holders;
    int doorbell; /* eventfd */
    int pidfd;    /* -1 where the kernel has none */
};

struct local_peer {                /* one local peer, as this process sees it */
    struct control_watch death;    /* its pidfd; fd -1: none, or it has ended */
    struct local_process *process; /* NULL: this one, or its descriptors have not come; holds it */
    struct local_process *known;   /* from the group that this one is made from; holds it */
    int rank;
    int doorbell; /* -1 until it has come */
    bool light;   /* publishing to it needs no full fence */
    bool proven;  /* the leader's view: it has read its nonce */
    struct local_link *link;
};

struct local_peers {
    struct control *control;
    const struct key *key; /* kept, of the agreement's round: a proof of an earlier one is wrong */
    int count, self;
    enum local_state state;
    bool broken;        /* READY, but descriptors cannot be shared any more */
    bool all_light;     /* publishing to any local peer needs no full fence */
    char message[256];  /* why FAILED, or broken */
    int64_t suspect_ns; /* when a local peer's connection ended while FORMING; 0: none has */
    int64_t cut_ns;     /* when one ended at any time */
    struct control_listener listener; /* the leader's, while forming */
    char leader_name[LOCAL_NAME_MAX]; /* of its socket */
    int64_t redial_ns;                /* it is dialed again then; 0: not */
    int64_t give_up_ns;               /* it is not dialed any more from then on */
    size_t page_bytes;
    struct local_page *page;
    int bell; /* eventfd that wakes all local peers of the group at once; -1: they are few */
    struct local_peer *peers;
    struct local_link *links;
    struct tutti_exchange *exchanges; /* under way */
    uint32_t exchange_count;          /* started so far */
};

/* A listening socket with a random abstract name, for the member that becomes a host's first. */
tutti_status local_listen(char ret_name[LOCAL_NAME_MAX], int *ret_listener);

/*
 * Starts the proof among the candidates `ranks` (this member among them; the first one leads).
 * `*listener` is taken over when this member leads; `doorbell` stays the caller's. `known` (NULL:
 * none), of [count]: processes whose descriptors are here already, or NULL. The local peers form as
 * control_poll() is called.
 */
tutti_status local_new(struct control *control, uint32_t round, const int *ranks, int count,
                       struct local_process *const *known, const char *leader_name, int *listener,
                       int doorbell, struct local_peers **ret_local);
void local_free(struct local_peers *local);
/* Whether their state is final. A local peer whose connection has ended may have died, which the kernel
 * tells a little later: it has a moment to. */
bool local_settled(const struct local_peers *local);
/* The process of that member; NULL: it is no local peer, or this process itself. Not held. */
struct local_process *local_process_of(const struct local_peers *local, int rank);
/* The number of a local peer's process in this PID namespace, by its index; 0: not known. Reads a file of /proc. */
int local_process_number(const struct local_peers *local, int index);
/* How the kernel has a local peer's process: "running", "stopped", …; NULL: not known. Reads files of /proc; under
 * the control lock. */
const char *local_process_state(const struct local_peers *local, int rank);

/* Says that this process is going to sleep on its doorbell; the caller puts a heavy fence behind it
 * and looks once more. */
static inline void local_sleep(struct local_peers *local)
{
    atomic_store_explicit(&local->page->lines[local->self].sleeping, 1, memory_order_release);
}

static inline void local_awake(struct local_peers *local)
{
    atomic_store_explicit(&local->page->lines[local->self].sleeping, 0, memory_order_relaxed);
}

/*
 * Tells on which CPU this thread waits. `asks`: whether a local peer that is awake was on the same one when it waited
 * last: then this CPU does its work as soon as the thread leaves it. The peer may run elsewhere by now.
 */
bool local_shares_cpu(struct local_peers *local, bool asks);

void local_ring(const struct local_peers *local, int index);
void local_ring_all(const struct local_peers *local);
/* Rings the local peers that sleep, except those that `spare` (NULL: none) picks; each once a
 * sleep. */
void local_ring_sleepers(struct local_peers *local, bool (*spare)(const void *user, int index),
                         const void *user);

static inline bool local_sleeps(const struct local_peers *local, int index)
{
    return atomic_load_explicit(&local->page->lines[index].sleeping, memory_order_relaxed);
}

/* Rings once a sleep: the thread that clears the mark rings; later callers skip it until the
 * sleeper is awake again (on an oversubscribed host that may be one or two calls later). */
static inline void local_ring_once(struct local_peers *local, int index)
{
    _Atomic uint32_t *sleeping = &local->page->lines[index].sleeping;

    if (atomic_load_explicit(sleeping, memory_order_relaxed) && atomic_exchange(sleeping, 0))
        local_ring(local, index);
}

/* Wakes the local peer if it sleeps. What was published before is seen by it. */
static inline void local_notify(struct local_peers *local, int index)
{
    fence_publish(local->peers[index].light);
    local_ring_once(local, index);
}

/* As local_notify(), with one fence for all of them but those of whom `spare` (NULL: none) says so. */
static inline void local_notify_but(struct local_peers *local,
                                    bool (*spare)(const void *user, int index), const void *user)
{
    fence_publish(local->all_light);
    for (int i = 0; i < local->count; i++)
        if (i != local->self && local_sleeps(local, i) && !(spare && spare(user, i))) {
            local_ring_sleepers(local, spare, user);
            return;
        }
}

static inline void local_notify_all(struct local_peers *local)
{
    local_notify_but(local, NULL, NULL);
}

static inline bool local_have_verdict(const struct local_peers *local)
{
    return atomic_load_explicit(&local->page->verdict_state, memory_order_relaxed) == 2;
}

/* ---- between local.c and the files local_….c, under the control lock ---- */

enum local_message {                  /* first word of each message of the star */
                     LOCAL_HELLO = 1, /* to the leader: the proof's hello */
                     LOCAL_CHALLENGE, /* of the leader: the proof's challenge */
                     LOCAL_ANSWER,    /* to the leader: the proof's answer; doorbell, pidfd */
                     LOCAL_PAGE,      /* nonce; the page, the bell if there is one */
                     LOCAL_PEER,      /* index; doorbell, pidfd */
                     LOCAL_PROVEN,    /* to the leader: the nonce as read in the page */
                     LOCAL_SHARE,     /* to the leader: exchange; descriptors */
                     LOCAL_SHARED     /* exchange, index; descriptors */
};

enum { LOCAL_MESSAGE_MAX = 4 + PROOF_CHALLENGE_BYTES, LOCAL_DESCRIPTORS_MAX = 8 };

tutti_status local_bell_new(struct local_peers *local);           /* the leader's */
struct local_process *local_process_new(int doorbell, int pidfd); /* takes both over */
/* NULL: as many groups hold it as may; the next one takes descriptors of its own. */
struct local_process *local_process_hold(struct local_process *process);
void local_process_drop(struct local_process *process);
struct local_link *local_link_new(struct local_peers *local, int fd, int index);
/* A message of the star to the local peer `to`, with descriptors, which stay the caller's.
 * TUTTI_ERR_PEER_LOST: its connection has ended, which may be before its death is known. */
tutti_status local_send(struct local_peers *local, int to, const void *data, size_t size,
                        const int *descriptors, uint32_t count);
tutti_status local_link_send(const struct local_link *link, const void *data, size_t size,
                             const int *descriptors, uint32_t count);
void local_link_close(struct local_peers *local, struct local_link *link);
void local_close_all(const int *descriptors, int count);
/* Whether the message is the answer of a member that has not proven itself before. */
bool local_proves(const struct local_peers *local, const struct local_link *link,
                  const uint8_t *data, size_t size);
/* Dials the leader again when its time has come. */
void local_join_again(struct local_peers *local);
/* How many have not proven their key yet. */
int local_half_open(const struct local_peers *local);
/* Closes connections whose proof is late. */
void local_expire_half_open(struct local_peers *local);
void local_free_closed_links(struct local_peers *local);
/* The page's part in the control plane. */
extern const struct control_local_ops local_page_ops;
/* A local peer's pidfd is readable; `watch` is local_peer.death. */
void local_on_death(struct control *control, struct control_watch *watch, uint32_t events);
void local_message(struct local_peers *local, struct local_link *link, const uint8_t *data,
                   size_t size, int *descriptors, int count);
void local_fail(struct local_peers *local, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void local_suspect(struct local_peers *local); /* a local peer's connection has ended */
/* Whether one ended so long ago that its death would have been told, if that was the reason. */
bool local_is_cut_off(const struct local_peers *local);
void local_share_message(struct local_peers *local, struct local_link *link,
                         enum local_message type, const uint8_t *data, size_t size,
                         int *descriptors, int count);
void local_share_free(struct local_peers *local);

/* ---- host services share_start and share_test, and what they take ---- */

tutti_status local_share_start(struct local_peers *local, const int32_t *descriptors,
                               uint32_t count, tutti_exchange **ret_exchange);
tutti_status local_share_test(struct local_peers *local, tutti_exchange *exchange,
                              int32_t *ret_descriptors);
