/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bootstrap: finds, from options and a launcher's environment, the rank and size of this process
 * and the store where it meets the others. Nothing is guessed: what is missing or contradicts
 * itself is an error that names the option or variable, its value, and what to do; a process never
 * becomes «rank 0 of 1» unless it was told so.
 *
 * Order of belief: the options, TUTTI_STORE, torchrun's variables. Other launchers' variables (Open
 * MPI, PMI, PMIx, Slurm, Flux) only contradict.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/store.h>

#include "secret/secret.h"

enum { BOOTSTRAP_KEEPER_MAX = 320, BOOTSTRAP_ADDRESS_MAX = 46 };

struct identity;
struct launcher;

struct bootstrap {
    int rank, size;
    tutti_store *store; /* holds a reference */
    bool shared; /* other threads may use that object, too: no call may wait in it for a key */
    struct bootstrap_server *server; /* this process hosts the store; NULL: somebody else does */
    char run_id[128];                /* no '/' in it: it becomes a part of keys */
    int restart;                     /* attempt of the launcher, 0 first */
    char source[256];                /* where rank, size and store came from, for messages */
    /* By which the others reach this host: the local end of the route to the store, as the kernel chose it,
     * or bootstrap_own_address(). Numeric; never the host's name, never the wildcard. */
    char bind_address[BOOTSTRAP_ADDRESS_MAX];
    char host[256]; /* of a tcp store; "": it was given, or is a file */
    uint16_t port;
    char keeper
        [BOOTSTRAP_KEEPER_MAX]; /* the member that serves the store, for messages; "": none, as far as is known */
    int64_t earlier; /* how often this process has met under that name before; bootstrap_count() */
    uint64_t nonce;  /* of a count that was not answered; 0: none */
    bool was_here;   /* this rank has met in this very store before, in whatever process */
    bool one_host;   /* the store cannot be reached from other hosts */
    struct secret *secret; /* what the members prove themselves by; NULL: it was not looked for */
    int64_t deadline_ns;   /* CLOCK_MONOTONIC; as given to bootstrap_resolve() */
};

/*
 * Resolves `options` (NULL: everything from the environment), hosts the store's server when this
 * process is the one that must, and connects to the store; waits until `deadline_ns` for a store
 * that is not there yet. `handed` is the launcher's secret, or NULL. The caller ends with
 * bootstrap_release().
 *
 * INVALID_ARGUMENT: options or environment; NEWER_CALLER; STORE, TIMEOUT: the store cannot be
 * reached; PEER_LOST: rank 0 should serve it, and does not; SYSTEM: the server's port cannot be bound.
 */
tutti_status bootstrap_resolve(const tutti_init_options *options, const struct key *handed,
                               int64_t deadline_ns, struct bootstrap *ret_bootstrap);

/* The identity of this process. Opens nothing and waits for nobody. INVALID_ARGUMENT, NEWER_CALLER as
 * above. */
tutti_status bootstrap_identify(const tutti_init_options *options, struct identity *ret_identity);

/* The store that was given came from a launcher: its server, if this process has it, is the bootstrap's from
 * now on; rank 0 serves it, and where all this is from is the launcher's to say. */
tutti_status bootstrap_adopt(struct bootstrap *bootstrap, struct launcher *launcher);
/* The local end of the default route, or loopback where there is none. */
void bootstrap_own_address(char ret_address[BOOTSTRAP_ADDRESS_MAX]);
/*
 * Finds the secret of this process (secret/secret.h; `handed` is the launcher's, or NULL) and begins the keys
 * of its run. An explicit one is required of all members, and the user's own where the store says that all are
 * on one host; with TUTTI_AUTH=required, any is.
 *
 * INVALID_ARGUMENT: one that was given cannot be used, or one is required and there is none. With `unusable`
 * the secret is of source UNUSABLE instead, to tell the others.
 */
tutti_status bootstrap_find_secret(struct bootstrap *bootstrap, const struct key *handed,
                                   bool unusable);
/* The members have no secret in common: from now on the keys are those that everybody has. */
tutti_status bootstrap_go_open(struct bootstrap *bootstrap);
/* "rank 0, which serves the store at HOST:PORT" */
void bootstrap_name_keeper(const char *host, unsigned port, char ret_name[BOOTSTRAP_KEEPER_MAX]);

/*
 * Counts in the store how often this process has met there as this rank under that name (one part of
 * keys), so that keys of worlds that follow each other differ, on all members alike. Another process
 * that had the rank before leaves its count as it is: keys of an earlier attempt are not to be passed
 * by unnoticed. Waits until the deadline.
 */
tutti_status bootstrap_count(struct bootstrap *bootstrap, const char *name);

/* Whether the server of the store has ended and belonged to a world that this rank has left: the
 * server of the next world may not have started yet. */
bool bootstrap_is_outlived(const struct bootstrap *bootstrap);
/* Whether rank 0 is gone with the store that it served; then that is the thread's error. */
bool bootstrap_lost_rank_0(const struct bootstrap *bootstrap);
/* Opens the store again, until the deadline. */
tutti_status bootstrap_reopen(struct bootstrap *bootstrap);

/*
 * What a group that is made from another one begins with: the same store and server, a rank and a
 * size of its own. No call; ends with bootstrap_release().
 */
void bootstrap_inherit(const struct bootstrap *parent, int rank, int size, int64_t deadline_ns,
                       struct bootstrap *ret_bootstrap);

/*
 * The store for one agreement, if it is there still; the caller drops it. Waits `ms` at most. STORE: the
 * store is gone. TIMEOUT: it has not answered so far; may be repeated.
 */
tutti_status bootstrap_meet(const struct bootstrap *bootstrap, int64_t ms, tutti_store **ret_store);

/* Sets a key in the store, by a new connection where the one that is there has ended. Waits twice `ms` at
 * most, and says nothing of a store that cannot be reached. */
void bootstrap_tell(const struct bootstrap *bootstrap, const char *key, const void *data,
                    size_t size, int64_t ms);

/* Drops the store and, where this is the last that holds it, stops the server once its clients have
 * left, or after two seconds, or half a second when the deadline has passed; zeroes the struct. */
void bootstrap_release(struct bootstrap *bootstrap);

/* Drops this holder's share of the server. The last one gets the server, which it has to stop;
 * NULL: none, or others hold it still. */
tutti_store_server *bootstrap_take_server(struct bootstrap *bootstrap);
