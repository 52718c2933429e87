/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that make registered memory: of the host (memory.c), of devices (memory_device.c). */
#pragma once

#include "group/group.h"

/* Members give memory of one kind: local peers map that of the host, and an engine wants all registered, or none. */
enum memory_kind {
    MEMORY_OF_HOST,
    MEMORY_OF_DEVICE, /* before the engine is asked; then one of these: */
    MEMORY_UNKNOWN_TO_ENGINE,
    MEMORY_KNOWN_TO_ENGINE
};

/* What a member tells of its memory. */
struct piece {
    uint64_t status; /* what its own part came to */
    uint64_t kind;   /* enum memory_kind */
    uint64_t number; /* of its memories in this group */
    uint64_t offset; /* in its file */
    uint64_t bytes;
};

/* All members tell theirs, of which `own` is this one's. OK: all have some, of one kind and with one number, and
 * `pieces` has that of each member. `own->status` is the thread's error, if it is one. pieces: [size]; NULL: there was
 * no memory for it. */
tutti_status memory_compare(const char *function, struct tutti_group *group,
                            const struct piece *own, struct piece *pieces);

/* Whether the range is to be registered as memory of a device. */
bool memory_is_on_device(const struct tutti_group *group, const void *address, uint64_t bytes);
/* Makes `memory`, of which the group is set. address NULL: of `where`; otherwise `where` is NULL. On failure it is no
 * longer the caller's. */
tutti_status memory_make_on_device(const char *function, struct tutti_group *group,
                                   const tutti_device *where, void *address, uint64_t bytes,
                                   struct tutti_memory *memory);
/* As tutti_memory_free(). */
tutti_status memory_free_on_device(struct tutti_memory *memory);
