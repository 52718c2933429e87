/* SPDX-License-Identifier: Apache-2.0 */
/* What a member's line says of where its tensors are, and what a local peer makes of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The shape of what a reference is to. */
enum mapped_shape {
    SHAPE_VECTOR, /* the same for all members */
    SHAPE_ROW,    /* a block for each member, `stride` from one to the next */
    SHAPE_TABLE   /* a block for each member, as the area's table says */
};

enum {
    MAPPED_NO_MEMORY = 0,
    MAPPED_OWN_MEMORY =
        UINT32_MAX /* the process's own: the offset is an address, see peer_reads.h */
};

/* A place in registered memory. */
struct mapped_reference {
    uint32_t memory; /* its number, or one of the above */
    uint32_t shape;
    uint64_t offset, stride;
};

/* The block of a member in a table. */
struct mapped_block {
    uint64_t offset, bytes;
};

/* Where a member's input and output are, as its line shows it. */
struct mapped_references {
    struct mapped_reference in, out;
};

/* The bytes of a local peer's input and output that a schedule uses. */
struct mapped_reach {
    uint64_t in, out;
    bool in_place; /* not only copied from */
};

/* A local peer's input and output in the call that runs; where they have a block for each member, mine. In
 * registered memory as it is mapped here, or in the peer's own memory, by its addresses. */
struct mapped_places {
    unsigned char *in, *out;
    bool own_in, own_out;
};

/* A piece of registered memory, as this member has mapped it. */
struct mapped_memory {
    uint32_t number;       /* 0: none */
    unsigned char **bases; /* of each local peer */
    uint64_t *bytes;       /* the same */
};
