/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's memory as engines want it: blocks one behind the other, no overlap that they need not
 * know. What lies otherwise (lists, offsets) gets a stand-in in the call's own memory.
 */
#pragma once

#include "group/group.h"

struct native_memory {
    tutti_collective what;
    const struct call *call;
    char *out_stand_in;       /* NULL: the engine writes where the call wants it */
    const uint64_t *out_size; /* uneven: bytes of each block; else NULL */
    uint32_t out_blocks;
    uint64_t block_bytes;
};

/* Filled where it lies, which small calls feel; after a failure it holds nothing of use. */
tutti_status native_memory_lay_out(struct tutti_group *group, struct call *call,
                                   struct native_memory *ret_memory);
/* The operation is complete: copies what the engine wrote elsewhere. */
void native_memory_give_back(const struct native_memory *memory);
