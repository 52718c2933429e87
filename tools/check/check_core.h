/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small core for one transport: host services, one endpoint, one peer, requests that are waited for
 * as the core of tutti does. Everything that goes wrong in the transport's own words ends the check.
 */
#pragma once

#include "check/check.h"

enum {
    CORE_WAIT_MS = 2000,
    CORE_LABEL = 1000,
    CORE_MAP_BYTES = 4096,
    CORE_MEMBERS = 2,
    CORE_TOKEN = 0x5a
};

/* The two processes, as transports that map memory are given them. */
struct tutti_host_mates {
    struct core *core;
};

/* Memory that a transport has mapped for both. */
struct core_memory {
    tutti_map *map; /* NULL: none */
    uint8_t *bases[CORE_MEMBERS];
    uint64_t bytes;
};

struct core {
    const tutti_transport_ops *ops;
    tutti_host host;
    tutti_endpoint *endpoint;
    tutti_peer *peer;
    int index;              /* of this process: 0 or 1 */
    uint8_t token;          /* repeated 16 times; 0: that of the check; MACs follow from it */
    uint32_t lane;          /* of sends and receives */
    bool fenced;            /* memory that the host gives is gone once it is released */
    int times_lost;         /* that it said so of the peer */
    char words[512];        /* of its last error */
    _Atomic int64_t pieces; /* of memory that it has allocated and not released */

    tutti_host_mates local;
    struct core_memory memory; /* of a transport that maps */
    uint32_t exchanges_started, exchanges_over;
    _Atomic bool gathers; /* a gather is under way */
};

enum { CORE_CANARY = 4 };

/* A request with what may not be touched on both sides, and how often `progress` has reported it. */
struct transfer {
    uint64_t before[CORE_CANARY];
    tutti_request request;
    uint64_t after[CORE_CANARY];
    int reported;
    bool at_once; /* complete when the call returned */
    bool cancelled;
};

/* Opens an endpoint of a transport of which nothing else is asked. */
void core_open_alone(struct core *core, const tutti_transport_ops *ops);
/* Opens an endpoint and gives its address to the other member. */
void core_open(struct core *core, const struct check_member *member);
/* Connects to the other member; returns what the transport says. */
tutti_status core_connect(struct core *core, const void *address, uint64_t bytes);
/* Opens, meets, connects to the other member, and maps memory where the transport does. */
void core_start(struct core *core, const struct check_member *member);
/* The same for two endpoints at once, of different tokens. */
void core_start_two(struct core cores[2], const struct check_member *member);
void core_close(struct core *core);
bool core_maps(const struct core *core);
/* Maps `bytes` of each member; all map in the same order. */
void core_map(struct core *core, uint64_t bytes, struct core_memory *ret_memory);

void core_send(struct core *core, const void *data, uint64_t bytes, uint32_t flags,
               struct transfer *ret_transfer);
/* The same where isend may refuse. */
tutti_status core_try_send(struct core *core, const void *data, uint64_t bytes, uint32_t flags,
                           struct transfer *ret_transfer);
/* Tries again while it says TUTTI_ERR_BUSY, CORE_WAIT_MS at most. */
tutti_status core_try_receive(struct core *core, void *data, uint64_t capacity,
                              struct transfer *ret_transfer);
void core_receive(struct core *core, void *data, uint64_t capacity, struct transfer *ret_transfer);
/* Moves everything once, as the core does: by `progress` where it is there. */
void core_turn(struct core *core, struct transfer *const *transfers, int count);
/* Whether it is complete, and reported where the transport reports. */
bool core_is_over(const struct core *core, const struct transfer *transfer);
/* A status with the transport's last message, for the report. Valid until the next call. */
const char *core_says(const struct core *core, tutti_status status);
/* Until it is complete; its status, NOT_READY when CORE_WAIT_MS have passed. */
tutti_status core_wait(struct core *core, struct transfer *transfer);
/* Takes it back; the request is its owner's again, and is overwritten. */
void core_cancel(struct core *core, struct transfer *transfer);
/* Ends the check when something was written beside the request or, after it was cancelled, into it. */
void core_expect_intact(const struct transfer *transfer);

/* ---- memory of messages ---------------------------------------------------------------------- */

/* Zeroed, with canaries on both sides; giving it back ends the check when they are not what they were. */
void *core_buffer(uint64_t bytes);
void core_buffer_free(void *buffer);

/* ---- check_local.c --------------------------------------------------------------------------- */

/* tutti_host.share_start, share_test and wake_mate. */
tutti_status core_share_start(void *self, tutti_host_mates *local, const int32_t *descriptors,
                              uint32_t count, tutti_exchange **ret_exchange);
tutti_status core_share_test(void *self, tutti_exchange *exchange, int32_t *ret_descriptors);
void core_wake_mate(void *self, tutti_host_mates *local, uint32_t index);

/* ---- check_gather.c -------------------------------------------------------------------------- */

/* tutti_host.gather_start and gather_test. */
tutti_status core_gather_start(void *self, const void *bytes, uint64_t count,
                               tutti_exchange **ret_exchange);
tutti_status core_gather_test(void *self, tutti_exchange *exchange, void *ret_all);

/* ---- contents -------------------------------------------------------------------------------- */

/* Bytes that depend on number and place. */
void core_fill(uint8_t *data, uint64_t bytes, uint64_t number);
/* The first place in [from, bytes) that differs, `bytes` when none does. */
uint64_t core_differs(const uint8_t *data, uint64_t from, uint64_t bytes, uint64_t number);
