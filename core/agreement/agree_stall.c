/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can keep the members of a group that is made from another one from coming.
 *
 * The parent ends: then the group is not made, with the parent's reason. Death before a member's
 * offer is found in that way.
 *
 * Members call tutti_group_new() with different lists, or in orders that cannot all be followed:
 * the keys of the lists differ, so no member would come, and none would know why. A member that has
 * waited for a while therefore notes in the store where it waits. Members then follow those notes:
 * from a list to its first missing member, to the list in which that one waits, and so on. If that
 * leads in a circle, no member of it can ever go on, as each waits with one thread. So all lists of
 * the circle end, with the same message. Threads that make groups with members in common at the
 * same time give them names: notes of different names are not looked at together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agreement/agree.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

enum { LOOK_MS = 500, PARENT_TELLS_MS = 500, LISTS_MAX = 16 };

/* A group that is being made, as one of its members tells. */
struct waiting_list {
    char key[GROUP_KEY_MAX], name[CONTROL_NAME_MAX];
    int32_t waiter; /* the rank that told; world ranks, as below */
    int32_t missing;
    uint32_t size;
    int32_t *ranks;
};

/* ---- the parent ---- */

tutti_status agree_parent(struct agreement *a)
{
    if (!a->from)
        return TUTTI_OK;
    /* A member may come only after a message of the parent that has not left yet, or that is lost. */
    engine_help(&a->from->parent->context->engine);
    control_poll(a->from->parent->control);
    return group_ended(a->from->parent) ? group_verdict(a->from->parent) : TUTTI_OK;
}

tutti_status agree_parent_knows(struct agreement *a, tutti_status status)
{
    struct kept_error kept = {0};

    if (status != TUTTI_ERR_STORE || !a->from)
        return status;
    error_keep(&kept);
    control_await_verdict(a->from->parent->control, PARENT_TELLS_MS);
    tutti_status better = agree_parent(a);
    if (!better)
        better = error_give(status, &kept);
    error_forget(&kept);
    return better;
}

int agree_parent_rank(const struct agreement *a, int rank)
{
    const struct tutti_group *parent = a->from->parent;

    for (int r = 0; r < parent->size; r++)
        if (parent->origin.world_ranks[r] == a->group->origin.world_ranks[rank])
            return r;
    return -1;
}

tutti_status agree_left(struct agreement *a, int *ret_culprit)
{
    const int end = !a->from ? 0 : a->lead ? a->group->size : 1;
    struct control_leave_state state;
    tutti_status status = agree_parent(a);

    for (int r = 0; r < end && !status; r++) {
        if (!control_has_left(a->from->parent->control, agree_parent_rank(a, r), &state) ||
            !agree_misses(a, r))
            continue;
        *ret_culprit = r;
        status =
            error_set(TUTTI_ERR_PEER_LOST,
                      "group %s: rank %d (world rank %d) left group %s before this one was made",
                      a->group->name, r, a->group->origin.world_ranks[r], a->from->parent->name);
    }
    return status;
}

/* ---- notes ---- */

static void note_key(const struct agreement *a, int32_t world_rank, char ret_key[AGREE_KEY_MAX])
{
    snprintf(ret_key, AGREE_KEY_MAX, "%.*s/making/%d/%s", (int)a->group->origin.world_key_size,
             a->group->key, world_rank, a->from->name);
}

static int32_t own_world_rank(const struct agreement *a)
{
    return a->group->origin.world_ranks[a->group->rank];
}

static void write_note(struct agreement *a)
{
    const struct tutti_group *group = a->group;
    size_t capacity = 64 + sizeof group->key + sizeof group->name + (size_t)group->size * 4;
    AUTOFREE uint8_t *data = malloc(capacity);
    struct writer w = {.data = data, .capacity = capacity};
    char key[AGREE_KEY_MAX];

    if (!data)
        return; /* the deadline will tell */
    write_u32(&w, AGREE_PROTOCOL);
    write_string(&w, group->key);
    write_string(&w, group->name);
    write_u32(&w, (uint32_t)group->size);
    for (int r = 0; r < group->size; r++)
        write_u32(&w, (uint32_t)group->origin.world_ranks[r]);
    note_key(a, own_world_rank(a), key);
    a->noted = !agree_set(a, key, data, w.size);
}

static bool decode_note(const tutti_store_value *value, struct waiting_list *list)
{
    struct reader r = {.data = value->data, .size = value->size};

    if (read_u32(&r) != AGREE_PROTOCOL)
        return false;
    read_string(&r, list->key, sizeof list->key);
    read_string(&r, list->name, sizeof list->name);
    list->size = read_u32(&r);
    if (r.bad || !list->size || list->size > (r.size - r.at) / 4)
        return false;
    list->ranks = calloc(list->size, sizeof *list->ranks);
    for (uint32_t i = 0; list->ranks && i < list->size; i++)
        list->ranks[i] = (int32_t)read_u32(&r);
    return list->ranks && !r.bad;
}

/* In which group the member waits, if it has told. */
static bool read_note(struct agreement *a, int32_t world_rank, struct waiting_list *ret_list)
{
    char key[AGREE_KEY_MAX];
    tutti_store_value value;

    note_key(a, world_rank, key);
    if (!agree_has(a, key) || agree_get(a, key, &value))
        return false;
    ret_list->waiter = world_rank;
    const bool good = !agree_unseal(a, key, &value) && decode_note(&value, ret_list);
    tutti_store_value_free(&value);
    return good;
}

/* ---- the circle of waits ---- */

/* Finds the first member without an offer. False: all came, or it is decided already. */
static bool find_missing(struct agreement *a, struct waiting_list *list)
{
    char key[AGREE_KEY_MAX];

    snprintf(key, sizeof key, "%s/decision/1", list->key);
    if (agree_has(a, key))
        return false;
    for (uint32_t i = 0; i < list->size; i++) {
        snprintf(key, sizeof key, "%s/offer/%u", list->key, i);
        if (!agree_has(a, key)) {
            list->missing = list->ranks[i];
            return true;
        }
    }
    return false;
}

/* Follows the notes from lists[0], this member's. The first list of a circle, or -1; `ret_count`:
 * of lists that were filled in. */
static int follow(struct agreement *a, struct waiting_list lists[LISTS_MAX], int *ret_count)
{
    for (*ret_count = 1; find_missing(a, &lists[*ret_count - 1]) && *ret_count < LISTS_MAX;) {
        struct waiting_list *next = &lists[*ret_count];

        if (!read_note(a, lists[*ret_count - 1].missing, next))
            return -1;
        (*ret_count)++;
        for (int i = 0; i < *ret_count - 1; i++)
            if (!strcmp(lists[i].key, next->key))
                return i;
    }
    return -1;
}

/*
 * Whether the circle from lists[0] to lists[count - 1] is there at one moment: each list is undecided, and misses
 * the same member, after all notes were read. Else a member may have gone on between two notes: it ends one
 * list, and is found waiting in the next.
 */
static bool holds(struct agreement *a, struct waiting_list *lists, int count)
{
    for (int i = 0; i < count; i++) {
        const int32_t missing = lists[i].missing;

        if (!find_missing(a, &lists[i]) || lists[i].missing != missing)
            return false;
    }
    return true;
}

static void describe(const struct waiting_list *lists, int count, const char *name,
                     char ret_message[AGREE_MESSAGE_MAX])
{
    struct text message = text_in(ret_message, AGREE_MESSAGE_MAX);

    text_add(&message, "group %s: members make different groups and wait for each other", name);
    for (int i = 0; i < count && message.used < AGREE_MESSAGE_MAX - 256; i++)
        text_add(&message, "%s world rank %d makes %s and waits for %d", i ? ";" : ":",
                 lists[i].waiter, lists[i].name, lists[i].missing);
    text_add(&message, ". Call tutti_group_new() on all members of a list, with the same list and "
                       "in the same order; with several threads, give each group a name");
}

static void look_for_circle(struct agreement *a)
{
    AUTOFREE struct waiting_list *lists = calloc(LISTS_MAX, sizeof *lists);
    struct outcome reason = {.status = TUTTI_ERR_MISMATCH, .culprit = -1};
    char key[AGREE_KEY_MAX];
    int count;

    if (!lists)
        return;
    memcpy(lists->key, a->group->key, sizeof lists->key);
    memcpy(lists->name, a->group->name, sizeof lists->name);
    lists->waiter = own_world_rank(a);
    lists->size = (uint32_t)a->group->size;
    lists->ranks = a->group->origin.world_ranks;
    int first = follow(a, lists, &count);
    /* The last one is the first one again, as another member tells. */
    if (first >= 0 && !holds(a, lists + first, count - 1 - first))
        first = -1; /* if it comes again, the next look finds it */
    for (int i = first; first >= 0 && i < count - 1; i++) {
        describe(lists + first, count - 1 - first, lists[i].name, reason.message);
        snprintf(key, sizeof key, "%s/decision/1", lists[i].key);
        (void)agree_put_abort(a, key, &reason);
    }
    for (int i = 1; i < count; i++)
        free(lists[i].ranks);
}

void agree_stalled(struct agreement *a, bool leader_came)
{
    int64_t now = clock_now_ns();

    if (!a->from || now < a->stall_ns)
        return;
    a->stall_ns = now + LOOK_MS * CLOCK_NS_PER_MS;
    if (!a->noted)
        write_note(a);
    if (a->lead || !leader_came)
        look_for_circle(a);
}

bool agree_is_overruled(struct agreement *a)
{
    char key[AGREE_KEY_MAX];

    agree_key(a, key, "decision/%u", a->round);
    return a->from && agree_has(a, key);
}

void agree_stall_end(struct agreement *a)
{
    char key[AGREE_KEY_MAX];

    if (!a->noted)
        return;
    note_key(a, own_world_rank(a), key);
    agree_delete(a, key);
}

void agree_where_is(struct agreement *a, int rank, char *ret_message, size_t capacity)
{
    struct waiting_list list = {.size = 0};

    *ret_message = 0;
    if (!a->from || rank < 0)
        return;
    if (read_note(a, a->group->origin.world_ranks[rank], &list))
        snprintf(ret_message, capacity, "; world rank %d waits in group %s", list.waiter,
                 list.name);
    free(list.ranks);
}
