/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine of messages tells a group, and asks of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "base/call.h"

/* A place in memory that this member and its receiver map: as the sender names it. */
struct p2p_place {
    uint32_t memory; /* its number; 0: none */
    uint32_t claim;  /* the number of a word that both can write */
    uint64_t offset;
};

/*
 * Called from p2p_progress() in the middle of the engine's work: take a note and act on it when
 * p2p_progress() has returned; no function of p2p.h may be called from here.
 */
struct p2p_events {
    /* Called for the header of every message of a collective that arrives from `source`, so that
     * the caller compares it with its own call of that sequence. If no receive is posted: then, and
     * once more from the p2p_collective_recv() that meets it. */
    void (*announce)(void *user, int source, const struct announce *a);
    /*
     * Nothing can be exchanged with `source` any more (PEER_LOST; INTERNAL after a header that
     * makes no sense; ABORTED when a transfer of another, failed group was cut off half way), or
     * `source` has sent more messages than can be kept (NO_MEMORY). Operations that need it
     * complete with `status` after this event; what had arrived whole can still be received.
     */
    void (*peer_failed)(void *user, int source, tutti_status status, const char *message);
    /* NULL, or called after `announce` for what p2p_announce() has sent, unless as an answer. */
    void (*announced)(void *user, int source, uint64_t sequence);

    /* The payload of a long message may be copied from place to place, see p2p_place.c. All of these, or NULL: */
    /* Whether `destination` maps the memory at `buffer`. Then it stays, with its claim, until unplace(). */
    bool (*place)(void *user, int destination, const void *buffer, uint64_t bytes,
                  struct p2p_place *ret_place, _Atomic uint64_t **ret_claim);
    void (*unplace)(void *user, _Atomic uint64_t *claim);
    /* Where `bytes` at the place that `source` names are mapped here, while p2p_is_placed(). NOT_READY: the
     * memory is not known here, yet or any more. INTERNAL: `source` has no such place. */
    tutti_status (*find)(void *user, int source, const struct p2p_place *place, uint64_t bytes,
                         unsigned char **ret_at, _Atomic uint64_t **ret_claim);
};
