/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective call is, in the form in which members compare it: the words of the call and
 * the chained signature. Used by the announce line in mapped memory, by the header of messages
 * and by the recorder.
 */
#ifndef TUTTI_BASE_CALL_H
#define TUTTI_BASE_CALL_H

#include <stdint.h>

enum operation {
    OPERATION_NONE,
    OPERATION_ALL_REDUCE,
    OPERATION_BROADCAST,
    OPERATION_BARRIER,
    OPERATION_COUNT
};

/* Everything that members must agree on, and nothing else. 24 bytes, no padding. */
struct call_words {
    uint64_t count; /* elements */
    uint32_t dtype;
    int32_t op;   /* -1: none */
    int32_t root; /* -1: none */
    uint8_t operation;
    uint8_t flags;
    uint16_t reserved;
};

struct announce {
    uint64_t sequence;
    uint64_t signature; /* of this call and, chained, of all before it */
    struct call_words words;
};

#endif
