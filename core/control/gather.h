/* SPDX-License-Identifier: Apache-2.0 */
/* All-gathers of bytes among all members, over the control connections: tutti_host.gather_start. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

enum {
    GATHER_BYTES_MAX = 65536, /* of each member */
    GATHER_PLACES = 6,        /* CONTROL_PROVIDERS: each has gathers of its own */
    GATHER_MESSAGE_MAX = 512
};

struct control;
struct gather;

struct gather_failure {
    tutti_status status; /* OK: none */
    char message[GATHER_MESSAGE_MAX];
};

/* The gathers of a group; under its lock, but for polled_ns. */
struct gathers {
    struct gather *first;
    uint32_t round;                               /* of the agreement */
    uint64_t begun[GATHER_PLACES];                /* numbers of the last ones in this round */
    uint64_t taken[GATHER_PLACES];                /* of the last ones that have ended here */
    struct gather_failure failure[GATHER_PLACES]; /* the last ones */
    _Atomic int64_t polled_ns;                    /* control_poll() was called last */
};

/* A round of the agreement begins: forgets the gathers of those before. No provider has one. */
void gathers_begin(struct control *control, uint32_t round);
void gathers_free(struct control *control);

/*
 * Begins an all-gather of `count` bytes for the provider in that place of the group, called `name`. Any
 * thread may call; a provider has one at a time. `bytes` may be changed afterwards.
 */
tutti_status gather_start(struct control *control, uint32_t place, const char *name,
                          const void *bytes, uint64_t count, int64_t deadline_ns,
                          struct gather **ret_gather);
/* NOT_READY, or its end, which frees it: OK with count bytes of each member, in the order of ranks; MISMATCH:
 * members gather different numbers of bytes; TIMEOUT; PEER_LOST: a member has left; or the group's verdict. */
tutti_status gather_test(struct control *control, struct gather *gather, void *ret_all);
/* Whether the provider's last gather failed with that status; then its message is the thread's error. */
bool gather_tell_failure(struct control *control, uint32_t place, tutti_status status);
