/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of store implements. store.c checks arguments, turns time-outs into deadlines,
 * refuses handles that were inherited by fork, counts references, and calls the table; what it
 * hands on is valid: keys are not NULL and short enough, a count is within its limit.
 *
 * Each kind calls keys by the user's name plus a leading '/', as torch does, where others can see
 * them (tcp, file), and is safe to call from several threads.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <tutti/store.h>

#include "secret/key.h"
#include "store/store_wire.h"

/* A call's time-out: the number for messages, the point of time for waiting. */
struct store_time {
    int64_t ms;
    int64_t deadline_ns;
};

enum { STORE_ADDRESS_ROOM = 46 }; /* a numeric address and its NUL */

/* A call is a request of the wire: its opcode, arguments and results. What an opcode has no use for is zero. */
struct store_call {
    enum store_opcode opcode;
    const char *const *keys;
    size_t count;          /* of keys */
    struct slice expected; /* COMPARE_SET */
    struct slice value;    /* SET, APPEND; COMPARE_SET: the desired one */
    int64_t delta;         /* ADD */
    struct store_time time;
    tutti_store_value *ret_values; /* GET and COMPARE_SET: one; MULTI_GET: one a key */
    int64_t number; /* result of ADD, GETNUMKEYS; of CHECK, DELETE_KEY: whether it was there */
};

static inline bool store_call_writes(const struct store_call *call)
{
    return call->opcode == STORE_SET || call->opcode == STORE_COMPARE_SET ||
           call->opcode == STORE_ADD || call->opcode == STORE_DELETE_KEY ||
           call->opcode == STORE_APPEND;
}

struct store_ops {
    void (*close)(tutti_store *store); /* frees; the last reference is gone */
    tutti_status (*call)(tutti_store *store, struct store_call *call);
    bool has_multi_get; /* call() takes it too; else it is a wait, and a get of each key */
    /* Another connection to the same keys. NULL: this kind has none. */
    tutti_status (*clone)(tutti_store *store, const struct store_time *time,
                          tutti_store **ret_store);
    /* As store_local_address(). NULL: "". */
    void (*local_address)(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM]);
};

struct tutti_store { /* the first member of every kind */
    const struct store_ops *ops;
    atomic_int references;
    pid_t pid; /* the process that may use it */
};

/* A store with one reference, zeroed behind its base; NULL: no memory, with a message. */
void *store_new(size_t size, const struct store_ops *ops);
/* The numeric address by which this process reaches the service, and so probably other members this
 * process; "" when the service is reached by no address (a file). */
void store_local_address(tutti_store *store, char ret_address[STORE_ADDRESS_ROOM]);
/*
 * Another connection to the keys of a tcp store, where the one that is there was lost; any other store as it
 * is. The caller drops it with tutti_store_unref().
 */
tutti_status store_clone(tutti_store *store, int64_t timeout_ms, tutti_store **ret_store);
/* tutti_store_open_tcp() of a server that a member has, `server` in words; `handed` is the launcher's secret,
 * or NULL; `rank` is for what is logged, or -1. PEER_LOST, as below: nobody serves it until the deadline. */
tutti_status store_open_member(const char *host, uint16_t port, const char *server,
                               const struct key *handed, int rank, int64_t timeout_ms,
                               tutti_store **ret_store);
/* The error of all members when the one that serves the store is not there, with the same message
 * whether it never was, or was and died. */
tutti_status store_server_lost(const char *server);
/* Whether the service is gone, and not only slow; waits at most `ms`. */
bool store_is_gone(tutti_store *store, int64_t ms);
/* Checks a public time-out and starts its clock; 0 is 300 s. */
tutti_status store_time_start(int64_t timeout_ms, struct store_time *ret_time);
/* Sleeps a little, and sets `*pause_us` for a longer pause the next time, at most `last_us`; false: the deadline
 * has passed. */
bool store_pause(int *pause_us, int last_us, const struct store_time *time);
/* Copies bytes into a value of the user's. */
tutti_status store_value_copy(struct slice bytes, tutti_store_value *ret_value);
/* Room for `size` bytes and the NUL behind them. */
tutti_status store_value_allocate(size_t size, tutti_store_value *ret_value);
/* A call that is checked, on any kind of store; MULTI_GET by its own way or one by one. */
tutti_status store_call(tutti_store *store, struct store_call *call);
/* FORKED in a child of the process that opened the store. */
tutti_status store_check_process(const tutti_store *store);
/* The TIMEOUT of a call whose keys were not written; the format says in which store. */
tutti_status store_keys_missing(const struct store_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * One caller at a time, for a whole call with its I/O. It is taken under the caller's deadline: the call that has
 * it may be deep in a wait of its own. A mutex held as long could not be given up in time, so it guards only
 * the flag.
 */
struct store_turn {
    pthread_mutex_t mutex;
    pthread_cond_t free;
    bool taken;
};

void store_turn_init(struct store_turn *turn);
void store_turn_destroy(struct store_turn *turn);
tutti_status store_turn_take(struct store_turn *turn, const struct store_time *time);
void store_turn_give(struct store_turn *turn);

/* tutti_store_server_start() with the launcher's secret, or NULL. */
tutti_status store_server_start(const char *address, uint16_t port, const struct key *handed,
                                tutti_store_server **ret_server);
/* The same from a socket that is bound already; owns `fd` from the call on, also when it fails. */
tutti_status store_server_start_on(int fd, const struct key *handed,
                                   tutti_store_server **ret_server);

/* Waits until every client has closed its connection, at most `ms`. */
void store_server_drain(const tutti_store_server *server, int64_t ms);
