/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of waiting receives, and of messages that no receive has taken.
 *
 * A bin per (space, source, tag) holds the operations that wait and the envelopes that arrived; a
 * bin exists only while something is in it. Any source is a bin of its own per tag: receives from
 * any source are posted there, and each envelope of a user message is in it as well as in its
 * source's. So an arriving message looks at two heads and takes the one with the lower posting
 * order, a posted receive looks at one head, which is the earliest arrival. Everything is expected
 * O(1). An operation that is posted while there is no bin is in the table alone (`only`), until
 * something else comes: most receives are over before that.
 *
 * Below are the ids under which peers name rendezvous transfers: an index into a table and
 * the generation of its slot, so that a late grant or piece of a transfer that is over is known as
 * such.
 */
#include <stdlib.h>

#include "base/error.h"
#include "p2p/p2p_parts.h"

enum { SLOTS_MIN = 64, TRANSFER_BITS = 20, TRANSFERS_MAX = 1 << TRANSFER_BITS };

static size_t hash(uint8_t space, int32_t source, uint64_t tag)
{
    uint64_t h = (tag ^ ((uint64_t)(uint32_t)source << 34) ^ space) * UINT64_C(0x9e3779b97f4a7c15);

    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return (size_t)(h ^ (h >> 32));
}

static struct p2p_bin **slot_of(const struct p2p_table *table, uint8_t space, int32_t source,
                                uint64_t tag)
{
    return &table->slots[hash(space, source, tag) & table->mask];
}

static struct p2p_bin *find_bin(const struct p2p_table *table, uint8_t space, int32_t source,
                                uint64_t tag)
{
    if (!table->count)
        return NULL;

    struct p2p_bin *bin = *slot_of(table, space, source, tag);
    while (bin && (bin->tag != tag || bin->source != source || bin->space != space))
        bin = bin->next;
    return bin;
}

/* Doubles the slots. A table that cannot grow any more still works, only slower. */
static void grow(struct p2p_table *table)
{
    size_t old = table->slots ? table->mask + 1 : 0, wanted = old ? old * 2 : SLOTS_MIN;
    struct p2p_bin **slots = calloc(wanted, sizeof *slots);

    if (!slots)
        return;

    struct p2p_table grown = {.slots = slots, .mask = wanted - 1, .count = table->count};
    for (size_t i = 0; i < old; i++) {
        while (table->slots[i]) {
            struct p2p_bin *bin = table->slots[i];
            struct p2p_bin **slot = slot_of(&grown, bin->space, bin->source, bin->tag);

            table->slots[i] = bin->next;
            bin->next = *slot;
            *slot = bin;
        }
    }
    free(table->slots);
    *table = grown;
}

static struct p2p_bin *get_bin(struct p2p_group *group, uint8_t space, int32_t source, uint64_t tag)
{
    struct p2p_table *table = &group->table;
    struct p2p_bin *bin = find_bin(table, space, source, tag);

    if (bin)
        return bin;
    if (!table->slots || table->count > table->mask)
        grow(table);
    if (!table->slots || !(bin = p2p_pool_take(&group->engine->bins)))
        return NULL;

    struct p2p_bin **slot = slot_of(table, space, source, tag);
    *bin = (struct p2p_bin){.next = *slot, .tag = tag, .source = source, .space = space};
    p2p_link_init(&bin->posted);
    p2p_link_init(&bin->arrived);
    *slot = bin;
    table->count++;
    return bin;
}

static void tidy_bin(struct p2p_group *group, struct p2p_bin *bin)
{
    if (!p2p_link_alone(&bin->posted) || !p2p_link_alone(&bin->arrived))
        return;

    struct p2p_bin **at = slot_of(&group->table, bin->space, bin->source, bin->tag);
    while (*at != bin)
        at = &(*at)->next;
    *at = bin->next;
    group->table.count--;
    p2p_pool_give(&group->engine->bins, bin);
}

/* Puts an operation into its bin. False: no memory. */
static bool put(struct p2p_group *group, struct p2p_op *op, int source)
{
    struct p2p_bin *bin = get_bin(group, op->space, source, op->tag);

    if (!bin)
        return false;
    struct p2p_link *before = bin->posted.prev; /* the last, unless the operation is posted again */
    while (before != &bin->posted && P2P_OF(before, struct p2p_op, queue)->order > op->order)
        before = before->prev;
    op->held_by = bin;
    p2p_link_append(before->next, &op->queue);
    return true;
}

/* Before there is a bin: puts `only` into its own. False: no memory. */
static bool settle(struct p2p_group *group)
{
    struct p2p_table *table = &group->table;

    if (table->only && !put(group, table->only, table->only_source))
        return false;
    table->only = NULL;
    return true;
}

static bool is_only(const struct p2p_table *table, uint8_t space, int32_t source, uint64_t tag)
{
    const struct p2p_op *op = table->only;

    return op && op->tag == tag && op->space == space &&
           (table->only_source == source ||
            (table->only_source == P2P_ANY_SOURCE && space == SPACE_USER));
}

void p2p_match_withdraw(struct p2p_op *op)
{
    struct p2p_bin *bin = op->held_by;

    op->held_by = NULL;
    if (op->group->table.only == op) {
        op->group->table.only = NULL;
        return;
    }
    p2p_link_remove(&op->queue);
    tidy_bin(op->group, bin);
}

bool p2p_match_is_known(const struct p2p_group *group, int source, uint64_t tag)
{
    const struct p2p_table *table = &group->table;

    if (!table->count)
        return is_only(table, SPACE_USER, source, tag);
    return find_bin(table, SPACE_USER, source, tag) ||
           find_bin(table, SPACE_USER, P2P_ANY_SOURCE, tag);
}

struct p2p_op *p2p_match_arrived(struct p2p_group *group, uint8_t space, int source, uint64_t tag)
{
    struct p2p_table *table = &group->table;
    const struct p2p_bin *bin = find_bin(table, space, source, tag);
    struct p2p_op *op = bin ? P2P_FIRST(&bin->posted, struct p2p_op, queue) : NULL;

    if (is_only(table, space, source, tag)) {
        op = table->only;
    } else if (space == SPACE_USER) {
        const struct p2p_bin *any = find_bin(table, space, P2P_ANY_SOURCE, tag);
        struct p2p_op *first = any ? P2P_FIRST(&any->posted, struct p2p_op, queue) : NULL;

        if (first && (!op || first->order < op->order))
            op = first;
    }
    if (op)
        p2p_match_withdraw(op);
    return op;
}

void p2p_match_take(struct p2p_group *group, struct p2p_envelope *envelope)
{
    p2p_link_remove(&envelope->by_source);
    p2p_link_remove(&envelope->by_tag);
    tidy_bin(group, envelope->source_bin);
    if (envelope->tag_bin)
        tidy_bin(group, envelope->tag_bin);
    envelope->source_bin = envelope->tag_bin = NULL;
}

struct p2p_envelope *p2p_match_posted(struct p2p_group *group, uint8_t space, int source,
                                      uint64_t tag)
{
    struct p2p_bin *bin = find_bin(&group->table, space, source, tag);

    if (!bin)
        return NULL;

    struct p2p_envelope *envelope = source == P2P_ANY_SOURCE
                                        ? P2P_FIRST(&bin->arrived, struct p2p_envelope, by_tag)
                                        : P2P_FIRST(&bin->arrived, struct p2p_envelope, by_source);
    if (envelope)
        p2p_match_take(group, envelope);
    return envelope;
}

tutti_status p2p_match_post(struct p2p_group *group, struct p2p_op *op, int source)
{
    struct p2p_table *table = &group->table;

    if (!table->count && !table->only) {
        table->only = op;
        table->only_source = source;
        op->held_by = table;
        return TUTTI_OK;
    }
    if (!settle(group) || !put(group, op, source))
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to post an operation");
    return TUTTI_OK;
}

struct p2p_envelope *p2p_match_request(struct p2p_group *group, const struct p2p_path *path,
                                       int source, uint64_t tag, uint32_t id)
{
    struct p2p_bin *bin = find_bin(&group->table, SPACE_USER, source, tag);

    if (!bin)
        return NULL;
    P2P_EACH(envelope, &bin->arrived, struct p2p_envelope, by_source) {
        if (envelope->path == path && envelope->header.kind == P2P_REQUEST &&
            envelope->header.id == id) {
            p2p_match_take(group, envelope);
            return envelope;
        }
    }
    return NULL;
}

tutti_status p2p_match_keep(struct p2p_group *group, uint8_t space, struct p2p_envelope *envelope)
{
    int source = (int)envelope->header.source;
    uint64_t tag = envelope->header.tag;
    struct p2p_bin *bin = settle(group) ? get_bin(group, space, source, tag) : NULL, *any = NULL;

    if (!bin)
        return TUTTI_ERR_NO_MEMORY;
    if (space == SPACE_USER && !(any = get_bin(group, space, P2P_ANY_SOURCE, tag))) {
        tidy_bin(group, bin);
        return TUTTI_ERR_NO_MEMORY;
    }
    envelope->source_bin = bin;
    envelope->tag_bin = any;
    p2p_link_append(&bin->arrived, &envelope->by_source);
    if (any)
        p2p_link_append(&any->arrived, &envelope->by_tag);
    return TUTTI_OK;
}

struct p2p_envelope *p2p_match_any(struct p2p_group *group, size_t *cursor)
{
    struct p2p_table *table = &group->table;

    for (; table->count && *cursor <= table->mask; ++*cursor) {
        for (struct p2p_bin *bin = table->slots[*cursor]; bin; bin = bin->next) {
            if (bin->source == P2P_ANY_SOURCE || p2p_link_alone(&bin->arrived))
                continue;

            struct p2p_envelope *envelope =
                P2P_FIRST(&bin->arrived, struct p2p_envelope, by_source);
            p2p_match_take(group, envelope);
            return envelope;
        }
    }
    return NULL;
}

bool p2p_has_unclaimed(const struct p2p_group *group, int source, uint64_t *ret_tag)
{
    const struct p2p_table *table = &group->table;

    for (size_t i = 0; table->count && i <= table->mask; i++) {
        for (const struct p2p_bin *bin = table->slots[i]; bin; bin = bin->next) {
            if (bin->space != SPACE_USER || bin->source != source || p2p_link_alone(&bin->arrived))
                continue;
            *ret_tag = bin->tag;
            return true;
        }
    }
    return false;
}

/* ---- transfers ---- */

static bool grow_transfers(struct p2p_engine *engine)
{
    uint32_t old = engine->transfer_count, wanted = old ? old * 2 : 64;
    struct p2p_transfer *grown;

    if (wanted > TRANSFERS_MAX || !(grown = realloc(engine->transfers, wanted * sizeof *grown)))
        return false;
    for (uint32_t i = old; i < wanted; i++)
        grown[i] = (struct p2p_transfer){.next_free = i + 1 < wanted ? i + 1 : UINT32_MAX};
    engine->transfers = grown;
    engine->transfer_count = wanted;
    engine->free_first = old;
    engine->free_last = wanted - 1;
    return true;
}

tutti_status p2p_transfer_new(struct p2p_engine *engine, struct p2p_op *op)
{
    if (engine->free_first == UINT32_MAX && !grow_transfers(engine))
        return error_set(TUTTI_ERR_NO_MEMORY, "no room for another large message in flight");

    uint32_t index = engine->free_first;
    struct p2p_transfer *transfer = &engine->transfers[index];

    engine->free_first = transfer->next_free;
    transfer->op = op;
    op->id = transfer->generation << TRANSFER_BITS | index;
    op->has_id = 1;
    return TUTTI_OK;
}

/* Slots are used again in the order in which they became free, so that an id comes back late. */
void p2p_transfer_free(struct p2p_engine *engine, struct p2p_op *op)
{
    uint32_t index = op->id & (TRANSFERS_MAX - 1);
    struct p2p_transfer *transfer = &engine->transfers[index];

    op->has_id = 0;
    transfer->op = NULL;
    transfer->generation = (transfer->generation + 1) & (UINT32_MAX >> TRANSFER_BITS);
    transfer->next_free = UINT32_MAX;
    if (engine->free_first == UINT32_MAX)
        engine->free_first = index;
    else
        engine->transfers[engine->free_last].next_free = index;
    engine->free_last = index;
}

struct p2p_op *p2p_transfer_find(struct p2p_engine *engine, uint32_t id, bool *ret_known)
{
    uint32_t index = id & (TRANSFERS_MAX - 1);

    *ret_known = index < engine->transfer_count;
    if (!*ret_known || engine->transfers[index].generation != id >> TRANSFER_BITS)
        return NULL;
    return engine->transfers[index].op;
}
