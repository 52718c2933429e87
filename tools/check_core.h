/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small core for one transport: host services, one endpoint, one peer, requests that are waited for
 * as the core of tutti does. Everything that goes wrong in the transport's own words ends the check.
 */
#ifndef TUTTI_TOOLS_CHECK_CORE_H
#define TUTTI_TOOLS_CHECK_CORE_H

#include "check.h"

enum { CORE_WAIT_MS = 2000, CORE_LABEL = 1000 };

struct core {
    const tutti_transport_ops *ops;
    tutti_host host;
    tutti_endpoint *endpoint;
    tutti_peer *peer;
    int index;       /* of this process: 0 or 1 */
    uint8_t token;   /* repeated 16 times */
    int times_lost;  /* that it said so of the peer */
    char words[512]; /* of its last error */
};

/* A request, and how often `progress` has reported it. */
struct transfer {
    tutti_request request;
    int reported;
    bool at_once; /* complete when the call returned */
};

/* Opens an endpoint of a transport of which nothing else is asked. */
void core_open_alone(struct core *core, const tutti_transport_ops *ops);
/* Opens an endpoint and gives its address to the other member. */
void core_open(struct core *core, const struct check_member *member);
/* Connects to the other member; returns what the transport says. */
tutti_status core_connect(struct core *core, const void *address, uint64_t bytes);
/* Opens, meets, connects to the other member. */
void core_start(struct core *core, const struct check_member *member);
void core_close(struct core *core);

void core_send(struct core *core, const void *data, uint64_t bytes, uint32_t flags,
               struct transfer *ret_transfer);
void core_receive(struct core *core, void *data, uint64_t capacity, struct transfer *ret_transfer);
/* Moves everything once, as the core does: by `progress` where it is there. */
void core_turn(struct core *core, struct transfer *const *transfers, int count);
/* Until it is complete; its status, NOT_READY when CORE_WAIT_MS have passed. */
tutti_status core_wait(struct core *core, struct transfer *transfer);

/* Bytes that depend on number and place. */
void core_fill(uint8_t *data, uint64_t bytes, uint64_t number);
/* The first place in [from, bytes) that differs, `bytes` when none does. */
uint64_t core_differs(const uint8_t *data, uint64_t from, uint64_t bytes, uint64_t number);

#endif
