/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of the process, which all endpoints share, and its connections: one to each process,
 * whatever the number of groups.
 *
 * Threads of several contexts reach the worker, so every call of UCX is made between worker_lock() and
 * worker_unlock(). So is every access to what UCX's callbacks touch: they run inside a call of
 * whichever thread makes it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "context.h"
#include "flights.h"

/* The way to another process. */
struct link {
    struct link *next;
    struct worker *worker;
    uint64_t process; /* its address says */
    bool local;       /* UCX does not notice its death */
    ucp_ep_h ep;      /* NULL: none since the last loss */
    uint64_t losses;  /* how often it was lost; changes under the lock, read without it */
    ucs_status_t why; /* of the last loss */
};

struct worker {
    pthread_mutex_t lock;
    struct worker *next;
    unsigned users;            /* endpoints; under the lock of all workers */
    tutti_endpoint *endpoints; /* of all threads */
    const struct ucx_library *library;
    struct ucx_context *context;
    ucp_worker_h ucp;     /* NULL: not made */
    ucp_datatype_t piece; /* of a flight whose memory UCX must not know (flights.c) */
    ucp_address_t *blob;
    size_t blob_bytes;
    uint64_t process;  /* a random number, so that others tell it from a later worker */
    int event_fd;      /* UCX's */
    bool armed;        /* no call since */
    unsigned unserved; /* endpoints that sleep although something has landed for them */
    uint64_t losses;   /* of all links; as link.losses */
    struct link *links;
    struct spare_flights spare;
    struct flight *made; /* all that there are, by next_made */
};

/* Makes the worker, or takes the one that is there. */
tutti_status worker_open(const struct caller *caller, const char *bind_address,
                         struct worker **ret_worker);
/* The last user's call waits for what is on its way, some milliseconds at most, and frees the worker. */
void worker_close(const struct caller *caller, struct worker *worker);

static inline void worker_lock(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
}

static inline void worker_unlock(struct worker *worker)
{
    pthread_mutex_unlock(&worker->lock);
}

/* The link to the process of `to`; the worker's. */
tutti_status worker_link(const struct caller *caller, struct worker *worker,
                         const struct ucx_address *own, const struct ucx_address *to,
                         struct link **ret_link);

/* How often the link, or any, was lost. */
static inline uint64_t losses_of(const uint64_t *losses)
{
    return __atomic_load_n(losses, __ATOMIC_RELAXED);
}
