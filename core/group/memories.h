/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's registered memory: what tutti_memory_allocate() and tutti_memory_register() made, and where the
 * local peers' parts of it are mapped.
 *
 * Each piece has a number, which is the same on all members because making one is a collective. A member
 * frees its own part when it likes, and says so in its area. It keeps the parts of the others until they
 * have freed theirs, too: until then a root may show references to them.
 *
 * Under the progress lock, where nothing else is said.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/memory.h>

#include "memory/pages.h"
#include "schedule/mapped_memory.h"

struct tutti_group;

struct tutti_memory {
    struct tutti_memory *next; /* all of the group, until all members have freed theirs */
    struct tutti_group *group;
    uint32_t fork_generation;
    uint32_t number;
    int users;                  /* calls and messages in flight that show references to it */
    struct pages *pages;        /* NULL: freed here */
    unsigned char *base;        /* of its whole pages */
    uint64_t bytes;             /* of its whole pages */
    const unsigned char *reach; /* the end of those that begin no later in the group's table */
    void *address;              /* what the caller asked for */
    uint64_t asked;
    void *region; /* where the local peers' parts are mapped; NULL: nowhere */
    uint64_t region_bytes;
    unsigned char **peer_bases; /* [local_size] */
    uint64_t *peer_bytes;       /* [local_size]; behind peer_bases, in one piece */

    /* of memory on a device, which has none of the above from `pages` on but `address` and `asked` */
    struct device *device; /* NULL: host memory */
    struct tutti_team_memory
        *of_engine;    /* as the group's engine for devices knows it; NULL: it does not */
    bool is_allocated; /* by the engine, or else by the device's driver; not the program's */
};

struct group_memories {
    uint32_t made;   /* how many this group has made, or tried to; the same on all members */
    uint32_t placed; /* those that this member has not freed */
    struct tutti_memory *all;
    struct tutti_memory *on_device;          /* those are not in `all`: provider/device_memory.c */
    struct tutti_memory **placed_by_address; /* [MAPPED_MEMORIES] those that local peers see */
    struct tutti_memory *last;               /* found */
    uint64_t claimed;                        /* bit i: claim i is used */
    struct tutti_memory *claims[MAPPED_CLAIMS]; /* in which the message of a used claim is */
};

/* The place for a further one: NO_MEMORY, in words, when the group has as many as it may. */
tutti_status memories_room(struct tutti_group *group);
/* From now on it is found, and its references are resolved. */
void memories_place(struct tutti_group *group, struct tutti_memory *memory);
/* The memory in which all of [address, address + bytes) lies; NULL: none. */
struct tutti_memory *memories_find(struct tutti_group *group, const void *address, uint64_t bytes);
static inline bool memory_holds(const struct tutti_memory *memory, const void *at, uint64_t bytes)
{
    const unsigned char *first = at;

    return first >= memory->base && bytes <= memory->bytes &&
           (uint64_t)(first - memory->base) <= memory->bytes - bytes;
}

/* The same, for a message; used until memories_release_claim(). NULL: there is none, or no claim. */
struct tutti_memory *memories_claim(struct tutti_group *group, const void *address, uint64_t bytes,
                                    uint32_t *ret_claim);
void memories_release_claim(struct tutti_group *group, uint32_t claim);

/* Its references are shown no more, and the local peers know. The pages are the caller's to drop. */
struct pages *memories_withdraw(struct tutti_group *group, struct tutti_memory *memory);
/* Takes out those that no member has any more, for memories_end(). */
struct tutti_memory *memories_sweep(struct tutti_group *group);
/* Unmaps and frees them. It takes system calls, so without the lock. */
void memories_end(struct tutti_memory *list);
/* All that the group has left, when it ends. */
void memories_free(struct tutti_group *group);
