/* SPDX-License-Identifier: Apache-2.0 */
#include "group/memories.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "group/group.h"

static struct mapped_memory *slot_of(struct tutti_group *group, uint32_t number)
{
    return &group->ways.mapped.memories[number % MAPPED_MEMORIES];
}

tutti_status memories_room(struct tutti_group *group)
{
    struct group_memories *memories = &group->memories;
    struct mapped *mapped = &group->ways.mapped;

    if (!group->ways.has_mapped)
        return TUTTI_OK;
    if (!mapped->memories)
        mapped->memories = calloc(MAPPED_MEMORIES, sizeof *mapped->memories);
    if (!memories->placed_by_address)
        memories->placed_by_address =
            calloc(MAPPED_MEMORIES, sizeof(struct tutti_memory *)); /* NOLINT: of pointers */
    if (!mapped->memories || !memories->placed_by_address)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to register memory");
    if (slot_of(group, memories->made + 1)->number)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "group %s has %d pieces of registered memory, or has not freed that many "
                         "on all members; it cannot have more at a time",
                         group->name, MAPPED_MEMORIES);
    return TUTTI_OK;
}

/* How many of them lie before `address`, or begin there. */
static uint32_t place_of(const struct group_memories *memories, const void *address)
{
    uint32_t low = 0, high = memories->placed;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (memories->placed_by_address[middle]->base <= (const unsigned char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How far the pieces reach that begin no later: a piece may be a part of another one. */
static void note_reach(struct group_memories *memories)
{
    const unsigned char *reach = NULL;

    for (uint32_t i = 0; i < memories->placed; i++) {
        struct tutti_memory *memory = memories->placed_by_address[i];

        if (memory->base + memory->bytes > reach)
            reach = memory->base + memory->bytes;
        memory->reach = reach;
    }
}

void memories_place(struct tutti_group *group, struct tutti_memory *memory)
{
    struct group_memories *memories = &group->memories;
    struct tutti_memory **at;

    memory->next = memories->all;
    memories->all = memory;
    if (!memory->region)
        return;
    at = &memories->placed_by_address[place_of(memories, memory->base)];
    memmove(at + 1, at,
            (size_t)(&memories->placed_by_address[memories->placed++] - at) * sizeof(*at));
    *at = memory;
    note_reach(memories);
    *slot_of(group, memory->number) =
        (struct mapped_memory){memory->number, memory->peer_bases, memory->peer_bytes};
}

struct tutti_memory *memories_find(struct tutti_group *group, const void *address, uint64_t bytes)
{
    struct group_memories *memories = &group->memories;
    struct tutti_memory *memory = memories->last;

    if (memory && memory_holds(memory, address, bytes))
        return memory;
    for (uint32_t i = place_of(memories, address); i--;) {
        memory = memories->placed_by_address[i];
        if (memory_holds(memory, address, bytes))
            return memories->last = memory;
        if (memory->reach <= (const unsigned char *)address)
            break;
    }
    return NULL;
}

struct tutti_memory *memories_claim(struct tutti_group *group, const void *address, uint64_t bytes,
                                    uint32_t *ret_claim)
{
    struct group_memories *memories = &group->memories;
    struct tutti_memory *memory =
        memories->placed && ~memories->claimed ? memories_find(group, address, bytes) : NULL;

    if (!memory)
        return NULL;
    const uint32_t claim = (uint32_t)__builtin_ctzll(~memories->claimed);
    memories->claimed |= UINT64_C(1) << claim;
    memories->claims[claim] = memory;
    memory->users++;
    *ret_claim = claim;
    return memory;
}

void memories_release_claim(struct tutti_group *group, uint32_t claim)
{
    group->memories.claimed &= ~(UINT64_C(1) << claim);
    group->memories.claims[claim]->users--;
}

/* ---- the end ---- */

static bool all_have_freed(const struct tutti_group *group, const struct tutti_memory *memory)
{
    const struct mapped *mapped = &group->ways.mapped;

    for (int i = 0; memory->region && i < mapped->local_size; i++)
        if (atomic_load_explicit(&mapped->areas[i]->freed[memory->number % MAPPED_MEMORIES],
                                 memory_order_acquire) != memory->number)
            return false;
    return !memory->pages;
}

/* A call or message may still work in a peer's part that the peer has freed: it knows of a verdict that this
 * member has not heard yet. */
static bool is_working(const struct tutti_group *group)
{
    const struct call *call = group->calls.queue.first;

    return (call && call->registered && call_is_begun(call)) ||
           p2p_is_placed(group->ways.p2p_engine);
}

struct tutti_memory *memories_sweep(struct tutti_group *group)
{
    struct tutti_memory **link = &group->memories.all, *swept = NULL;

    if (is_working(group))
        return NULL;

    while (*link) {
        struct tutti_memory *memory = *link;

        if (!all_have_freed(group, memory)) {
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        memory->next = swept;
        swept = memory;
        if (memory->region)
            slot_of(group, memory->number)->number = 0;
    }
    return swept;
}

struct pages *memories_withdraw(struct tutti_group *group, struct tutti_memory *memory)
{
    struct group_memories *memories = &group->memories;
    const struct mapped *mapped = &group->ways.mapped;

    if (memory->region) {
        uint32_t at = 0;

        while (memories->placed_by_address[at] != memory)
            at++;
        memories->placed--;
        memmove(&memories->placed_by_address[at], &memories->placed_by_address[at + 1],
                (memories->placed - at) * sizeof(struct tutti_memory *)); /* NOLINT: of pointers */
        note_reach(memories);
        memory->peer_bytes[mapped->self] = 0; /* nothing in it is resolved any more */
        if (memories->last == memory)
            memories->last = NULL;
        atomic_store_explicit(&mapped->areas[mapped->self]->freed[memory->number % MAPPED_MEMORIES],
                              memory->number, memory_order_release);
    }
    return TAKE(memory->pages);
}

void memories_end(struct tutti_memory *list)
{
    while (list) {
        struct tutti_memory *memory = list;

        list = memory->next;
        if (memory->region)
            munmap(memory->region, memory->region_bytes);
        if (memory->pages)
            pages_drop(memory->pages);
        free(memory->peer_bases);
        free(memory);
    }
}

void memories_free(struct tutti_group *group)
{
    memories_end(TAKE(group->memories.all));
    free(group->memories.placed_by_address);
}
