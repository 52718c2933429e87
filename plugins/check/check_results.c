/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the first member of a group has heard of results. A call waits in its slot until all members
 * have reported its result, or until so many later calls have come that the missing members will
 * not report. Then the reports are compared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { SLOTS = 512, SHOWN_RANKS = 8, SHOWN_KINDS = 3 };

struct slot {
    uint64_t sequence;
    int32_t told; /* by so many members; 0: compared, or never used */
    int32_t root;
    char operation[20];
};

struct check_group {
    struct check_group *next;
    const void *core;
    int32_t size;
    uint64_t newest;
    struct slot slots[SLOTS];
    uint64_t *last;   /* [size] the latest call that the member told of */
    uint64_t *hashes; /* [SLOTS * size] */
    bool *has;        /* [SLOTS * size] */
};

static struct check_group *find(const tutti_wrapper *w, const tutti_wrapped_group *group)
{
    struct check_group *g = w->groups;

    while (g && g->core != group->core)
        g = g->next;
    return g;
}

static struct check_group *find_or_make(tutti_wrapper *w, const tutti_wrapped_group *group)
{
    struct check_group *g = find(w, group);
    uint64_t size = (uint64_t)group->size;

    if (g)
        return g;
    /* One piece: the struct, then what needs the strictest alignment first. */
    g = w->host->allocate(w->host_self, sizeof *g + size * sizeof *g->last +
                                            SLOTS * size * (sizeof *g->hashes + sizeof *g->has));
    if (!g)
        return NULL;
    g->next = w->groups;
    g->core = group->core;
    g->size = group->size;
    g->last = (uint64_t *)(void *)(g + 1);
    g->hashes = g->last + size;
    g->has = (bool *)(void *)(g->hashes + SLOTS * size);
    w->groups = g;
    return g;
}

void check_forget(tutti_wrapper *w, const tutti_wrapped_group *group)
{
    for (struct check_group **at = &w->groups; *at; at = &(*at)->next)
        if ((*at)->core == group->core) {
            struct check_group *g = *at;

            *at = g->next;
            w->host->release(w->host_self, g);
            return;
        }
}

/* ---- comparing ---- */

struct told {
    const bool *has;
    const uint64_t *hashes;
    int32_t size;
};

static int32_t count_of(const struct told *t, uint64_t hash)
{
    int32_t count = 0;

    for (int32_t r = 0; r < t->size; r++)
        count += t->has[r] && t->hashes[r] == hash;
    return count;
}

/* The member whose result counts as right: the root, else one of a majority of the reports; -1:
 * none. */
static int32_t right_one(const struct told *t, const struct slot *slot)
{
    if (slot->root >= 0 && slot->root < t->size && t->has[slot->root])
        return slot->root;
    for (int32_t r = 0; r < t->size; r++)
        if (t->has[r] && 2 * count_of(t, t->hashes[r]) > slot->told)
            return r;
    return -1;
}

static void add(char *text, size_t capacity, const char *words)
{
    size_t used = strlen(text);

    snprintf(text + used, capacity - used, "%s", words);
}

/* "ranks 0, 2": those that told this hash, or (`others`) another one. */
static void list(const struct told *t, uint64_t hash, bool others, char *text, size_t capacity)
{
    int32_t all = 0, shown = 0, count = count_of(t, hash);

    for (int32_t r = 0; r < t->size; r++)
        all += t->has[r];
    count = others ? all - count : count;
    add(text, capacity, count == 1 ? "rank " : "ranks ");
    for (int32_t r = 0; r < t->size; r++) {
        char one[24];

        if (!t->has[r] || (t->hashes[r] == hash) == others)
            continue;
        if (shown == SHOWN_RANKS) {
            add(text, capacity, ", …");
            return;
        }
        snprintf(one, sizeof one, "%s%d", shown++ ? ", " : "", r);
        add(text, capacity, one);
    }
}

static bool is_first_of_its_kind(const struct told *t, int32_t rank)
{
    for (int32_t r = 0; r < rank; r++)
        if (t->has[r] && t->hashes[r] == t->hashes[rank])
            return false;
    return t->has[rank];
}

/* Compares what was told of the slot's call. False: it differs, and there is a message. */
static bool compare(const struct check_group *g, struct slot *slot, char ret_words[CHECK_WORDS_MAX])
{
    const uint64_t at = (uint64_t)(slot - g->slots) * (uint64_t)g->size;
    const struct told t = {g->has + at, g->hashes + at, g->size};
    int32_t right = right_one(&t, slot), kinds = 0;

    if (right >= 0 && count_of(&t, t.hashes[right]) == slot->told)
        return true;
    snprintf(ret_words, CHECK_WORDS_MAX, "the results of #%" PRIu64 " %s differ: ", slot->sequence,
             slot->operation);
    for (int32_t r = 0; r < t.size && kinds < SHOWN_KINDS; r++) {
        char hash[40];

        if (!is_first_of_its_kind(&t, r))
            continue;
        snprintf(hash, sizeof hash, "%s%016" PRIx64 " on ", kinds++ ? " and " : "", t.hashes[r]);
        add(ret_words, CHECK_WORDS_MAX, hash);
        list(&t, t.hashes[r], false, ret_words, CHECK_WORDS_MAX);
    }
    add(ret_words, CHECK_WORDS_MAX, "; ");
    if (right < 0) {
        add(ret_words, CHECK_WORDS_MAX, "no majority: it is not known which rank is wrong");
        return false;
    }
    list(&t, t.hashes[right], true, ret_words, CHECK_WORDS_MAX);
    add(ret_words, CHECK_WORDS_MAX,
        right == slot->root ? " did not get the root's" : " differs from most");
    return false;
}

bool check_note(tutti_wrapper *w, const tutti_wrapped_group *group, int32_t rank,
                const struct check_result *result, char ret_words[CHECK_WORDS_MAX])
{
    struct check_group *g = find_or_make(w, group);
    bool same = true;

    if (!g || rank < 0 || rank >= g->size || !result->sequence)
        return true;
    struct slot *slot = &g->slots[result->sequence % SLOTS];
    const uint64_t at = (uint64_t)(slot - g->slots) * (uint64_t)g->size;

    g->last[rank] = result->sequence > g->last[rank] ? result->sequence : g->last[rank];
    g->newest = result->sequence > g->newest ? result->sequence : g->newest;
    if (slot->sequence > result->sequence)
        return true;
    if (slot->sequence < result->sequence) {
        if (slot->told > 1)
            same = compare(g, slot, ret_words);
        memset(g->has + at, 0, (size_t)g->size * sizeof *g->has);
        *slot = (struct slot){.sequence = result->sequence, .root = result->root};
        memcpy(slot->operation, result->operation, sizeof slot->operation);
        slot->operation[sizeof slot->operation - 1] = 0;
    }
    if (g->has[at + (uint64_t)rank])
        return same;
    g->has[at + (uint64_t)rank] = true;
    g->hashes[at + (uint64_t)rank] = result->hash;
    if (++slot->told == g->size && same) {
        same = compare(g, slot, ret_words);
        slot->told = 0;
    }
    return same;
}

bool check_expects(const tutti_wrapper *w, const tutti_wrapped_group *group)
{
    const struct check_group *g = find(w, group);

    for (int32_t r = 0; g && r < g->size; r++)
        if (g->last[r] < g->newest)
            return true;
    return false;
}
