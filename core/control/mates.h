/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host-mates: members between which a descriptor was really passed and a nonce read back through
 * the mapping. The first member of a host listens on an abstract Unix socket with a random name;
 * the others connect to it, show the job's token and give their doorbell (eventfd) and a pidfd of
 * themselves; it answers with a sealed page that all map, and with everybody's descriptors. Who
 * reads its nonce in the page is a mate. The connections stay, as a star over which plugins pass
 * descriptors.
 *
 * The page holds a line a mate (does it sleep, has it left) and the verdict, so that a mate learns
 * of the group's end from memory and a sleeper is woken by its doorbell, or several at once by the
 * bell that all of them listen to.
 *
 * An abstract name, and no directory: nothing stays behind when a process is killed here.
 */
#ifndef TUTTI_CONTROL_MATES_H
#define TUTTI_CONTROL_MATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

#include "base/fence.h"
#include "control/control.h"

enum { MATES_NAME_MAX = 64 };

struct mates_line {
    _Alignas(128) _Atomic uint32_t sleeping;
    _Atomic uint32_t heavy_fence; /* this mate sleeps with membarrier(2) */
    _Atomic uint32_t left;
    struct announce last; /* written before `left` */
    _Atomic uint64_t nonce;
};

struct mates_page {
    _Alignas(128) _Atomic uint32_t verdict_state; /* 0 none, 1 being written, 2 there */
    int32_t status, culprit;
    char words[CONTROL_WORDS_MAX];
    struct mates_line lines[];
};

enum mates_state { MATES_FORMING, MATES_READY, MATES_FAILED };

/* A connection of the star: the leader's to each mate, a mate's to the leader. */
struct mates_link {
    struct control_watch watch;
    struct mates *mates;
    struct mates_link *next;
    int index; /* of the mate at the other end; -1 until its hello has come */
    int64_t hello_deadline_ns;
    bool closing;
};

/* What reaches a mate's process; of all groups that have it as a mate. */
struct mates_process {
    _Atomic int holders;
    int doorbell; /* eventfd */
    int pidfd;    /* -1 where the kernel has none */
};

struct mates_peer {                /* one mate, as this process sees it */
    struct control_watch death;    /* its pidfd; fd -1: none, or it has ended */
    struct mates_process *process; /* NULL: this one, or its descriptors have not come; holds it */
    struct mates_process *known;   /* from the group that this one is made from; holds it */
    int rank;
    int doorbell; /* -1 until it has come */
    bool light;   /* publishing to it needs no full fence */
    bool proven;  /* the leader's view: it has read its nonce */
    struct mates_link *link;
};

struct mates {
    struct control *control;
    uint32_t round; /* of the agreement: a hello of an earlier one is refused */
    int count, self;
    enum mates_state state;
    bool broken;            /* READY, but descriptors cannot be shared any more */
    bool all_light;         /* publishing to any mate needs no full fence */
    char words[256];        /* why FAILED, or broken */
    int64_t suspect_ns;     /* when a mate's connection ended while FORMING; 0: none has */
    int64_t cut_ns;         /* when one ended at any time */
    struct mates_listener { /* the leader's, while forming */
        struct control_watch watch;
        struct mates *mates;
        int64_t retry_ns; /* too many have not said hello: accepts again then; 0: accepts */
    } listener;
    size_t page_bytes;
    struct mates_page *page;
    int bell; /* eventfd that wakes all mates of the group at once; -1: they are few */
    struct mates_peer *peers;
    struct mates_link *links;
    struct tutti_exchange *exchanges; /* under way */
    uint32_t exchange_count;          /* started so far */
};

/* A listening socket with a random abstract name, for whoever becomes a host's first member. */
tutti_status mates_listen(char ret_name[MATES_NAME_MAX], int *ret_listener);

/*
 * Starts the proof among the candidates `ranks` (this member among them; the first one leads).
 * `*listener` is taken over when this member leads; `doorbell` stays the caller's. `known` (NULL:
 * none), of [count]: processes whose descriptors are here already, or NULL. The mates form as
 * control_poll() is called.
 */
tutti_status mates_new(struct control *control, uint32_t round, const int *ranks, int count,
                       struct mates_process *const *known, const char *leader_name, int *listener,
                       int doorbell, struct mates **ret_mates);
void mates_free(struct mates *mates);
/* Whether their state is final. A mate whose connection has ended may have died, which the kernel
 * tells a little later: it has a moment to. */
bool mates_settled(const struct mates *mates);
/* The process of that member; NULL: it is no mate, or this process itself. Not held. */
struct mates_process *mates_process_of(const struct mates *mates, int rank);
/* How the kernel has a mate's process: "running", "stopped", …; NULL: not known. Reads files of /proc; under
 * the control lock. */
const char *mates_process_state(const struct mates *mates, int rank);
void mates_poll(struct mates *mates); /* under the control lock */

/* Says that this process is going to sleep on its doorbell; the caller puts a heavy fence behind it
 * and looks once more. */
static inline void mates_sleep(struct mates *mates)
{
    atomic_store_explicit(&mates->page->lines[mates->self].sleeping, 1, memory_order_relaxed);
}

static inline void mates_awake(struct mates *mates)
{
    atomic_store_explicit(&mates->page->lines[mates->self].sleeping, 0, memory_order_relaxed);
}

void mates_ring(const struct mates *mates, int index);
void mates_ring_all(const struct mates *mates);
/* Rings those who sleep, but for those of whom `spare` (NULL: none) says so; each once a sleep. */
void mates_ring_sleepers(struct mates *mates, bool (*spare)(const void *user, int index),
                         const void *user);

static inline bool mates_sleeps(const struct mates *mates, int index)
{
    return atomic_load_explicit(&mates->page->lines[index].sleeping, memory_order_relaxed);
}

/* One ring a sleep: who takes the mark away rings, and whoever comes before the sleeper is up again
 * (on a crowded host the next call, or the one after that) need not. */
static inline void mates_ring_once(struct mates *mates, int index)
{
    _Atomic uint32_t *sleeping = &mates->page->lines[index].sleeping;

    if (atomic_load_explicit(sleeping, memory_order_relaxed) && atomic_exchange(sleeping, 0))
        mates_ring(mates, index);
}

/* Wakes the mate if it sleeps. What was published before is seen by it. */
static inline void mates_wake(struct mates *mates, int index)
{
    fence_publish(mates->peers[index].light);
    mates_ring_once(mates, index);
}

/* As mates_wake(), with one fence for all of them but those of whom `spare` (NULL: none) says so. */
static inline void mates_wake_but(struct mates *mates, bool (*spare)(const void *user, int index),
                                  const void *user)
{
    fence_publish(mates->all_light);
    for (int i = 0; i < mates->count; i++)
        if (i != mates->self && mates_sleeps(mates, i) && !(spare && spare(user, i))) {
            mates_ring_sleepers(mates, spare, user);
            return;
        }
}

static inline void mates_wake_all(struct mates *mates)
{
    mates_wake_but(mates, NULL, NULL);
}

static inline bool mates_have_verdict(const struct mates *mates)
{
    return atomic_load_explicit(&mates->page->verdict_state, memory_order_relaxed) == 2;
}

/* Writes the verdict into the page, or takes over the one that is there; wakes all. */
void mates_publish_verdict(struct mates *mates, struct control_verdict *verdict);
/* The page's verdict, if there is one. */
bool mates_read_verdict(const struct mates *mates, struct control_verdict *ret_verdict);
void mates_say_bye(struct mates *mates, const struct announce *last);

/* ---- between mates.c and the files mates_….c, under the control lock ---- */

enum mates_message {                  /* first word of each message of the star */
                     MATES_HELLO = 1, /* to the leader: token, rank; doorbell, pidfd */
                     MATES_PAGE,      /* nonce; the page, the bell if there is one */
                     MATES_PEER,      /* index; doorbell, pidfd */
                     MATES_PROVEN,    /* to the leader: the nonce as read in the page */
                     MATES_SHARE,     /* to the leader: exchange; descriptors */
                     MATES_SHARED     /* exchange, index; descriptors */
};

enum { MATES_MESSAGE_MAX = 64, MATES_DESCRIPTORS_MAX = 8 };

tutti_status mates_bell_new(struct mates *mates);                 /* the leader's */
struct mates_process *mates_process_new(int doorbell, int pidfd); /* takes both over */
/* NULL: as many groups hold it as may; the next one takes descriptors of its own. */
struct mates_process *mates_process_hold(struct mates_process *process);
void mates_process_drop(struct mates_process *process);
struct mates_link *mates_link_new(struct mates *mates, int fd, int index);
/* A message of the star to the mate `to`, with descriptors, which stay the caller's.
 * TUTTI_ERR_PEER_LOST: its connection has ended, which may be before its death is known. */
tutti_status mates_send(struct mates *mates, int to, const void *data, size_t size,
                        const int *descriptors, uint32_t count);
void mates_link_close(struct mates_link *link);
/* How many have not said hello yet. */
int mates_half_open(const struct mates *mates);
/* Closes whoever did not in time. */
void mates_expire_half_open(struct mates *mates);
/* The listener goes on when it has waited for those who are to say hello. */
void mates_accept_again(struct mates *mates);
void mates_free_closed_links(struct mates *mates);
/* A mate's pidfd is readable; `watch` is mates_peer.death. */
void mates_on_death(struct control *control, struct control_watch *watch, uint32_t events);
void mates_message(struct mates *mates, struct mates_link *link, const uint8_t *data, size_t size,
                   int *descriptors, int count);
void mates_fail(struct mates *mates, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mates_suspect(struct mates *mates); /* a mate's connection has ended */
/* Whether one ended so long ago that its death would have been told, if that was the reason. */
bool mates_is_cut_off(const struct mates *mates);
void mates_share_message(struct mates *mates, struct mates_link *link, enum mates_message type,
                         const uint8_t *data, size_t size, int *descriptors, int count);
void mates_share_free(struct mates *mates);

/* ---- host services share_start and share_test, and what they take ---- */

tutti_status mates_share_start(struct mates *mates, const int32_t *descriptors, uint32_t count,
                               tutti_exchange **ret_exchange);
tutti_status mates_share_test(struct mates *mates, tutti_exchange *exchange,
                              int32_t *ret_descriptors);

#endif
