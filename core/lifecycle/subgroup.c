/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups made from groups, and what members are called in each.
 *
 * A new group agrees as a world does, in the same store, with a control tree, local peers and endpoints of
 * its own: so it lives on when its parent fails or is destroyed. What its members have to find
 * without having talked is the keys under which they meet. Those are made of the parent's own key,
 * the name, the list, and how often this list was made from this parent before. The last is counted
 * by each member for itself, and the count of another list does not touch it: so members that are in
 * different groups, and threads that make different groups at once, agree without a common order.
 *
 * A member is known by its rank in the world. Translation goes by that.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "group/group.h"
#include "lifecycle/lifecycle.h"
#include "provider/wrap.h"

/* ---- where a group comes from ---- */

tutti_status origin_begin(struct tutti_group *world)
{
    static _Atomic uint64_t worlds;
    struct origin *origin = &world->origin;
    int size = world->bootstrap.size;

    origin->is_world = true;
    origin->local_rank = -1;
    origin->world = atomic_fetch_add(&worlds, 1);
    memcpy(origin->world_name, world->name, sizeof origin->world_name);
    origin->world_ranks = calloc((size_t)size, sizeof *origin->world_ranks);
    if (!origin->world_ranks)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", size);
    for (int r = 0; r < size; r++)
        origin->world_ranks[r] = r;
    return TUTTI_OK;
}

static tutti_status origin_inherit(const struct origin *parent, const int32_t *ranks, int32_t n,
                                   struct origin *origin)
{
    origin->world = parent->world;
    origin->local_rank = parent->local_rank;
    origin->world_key_size = parent->world_key_size;
    memcpy(origin->world_name, parent->world_name, sizeof origin->world_name);
    origin->world_ranks = calloc((size_t)n, sizeof *origin->world_ranks);
    if (!origin->world_ranks)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", n);
    for (int32_t i = 0; i < n; i++)
        origin->world_ranks[i] = parent->world_ranks[ranks[i]];
    return TUTTI_OK;
}

void origin_free(struct origin *origin)
{
    tally_free(&origin->made);
    free(origin->world_ranks);
}

/* ---- the key and the name ---- */

static XXH128_hash_t hash_of(const char *parent_key, const char *name, const int32_t *ranks,
                             int32_t n)
{
    XXH3_state_t state;

    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, parent_key, strlen(parent_key) + 1);
    XXH3_128bits_update(&state, name, strlen(name) + 1);
    XXH3_128bits_update(&state, ranks, (size_t)n * sizeof *ranks);
    return XXH3_128bits_digest(&state);
}

static void write_key(const struct tutti_group *parent, XXH128_hash_t what, uint64_t times,
                      char ret_key[GROUP_KEY_MAX])
{
    snprintf(ret_key, GROUP_KEY_MAX, "%.*s/%016llx%016llx/%llu", (int)parent->origin.world_key_size,
             parent->key, (unsigned long long)what.high64, (unsigned long long)what.low64,
             (unsigned long long)times);
}

/* "world{0,2-5}", and "#2" behind it when it was made before; a long list ends in "…}". */
static void write_name(const struct tutti_group *parent, const int32_t *ranks, int32_t n,
                       uint64_t times, char ret_name[CONTROL_NAME_MAX])
{
    /* Bytes: the room for a name, which stands in each message about the group; of these for its end, and
     * for the world's name. */
    enum { MADE_NAME_MAX = 64, TAIL = 24, WORLD_MAX = 30 };
    const int32_t *world = parent->origin.world_ranks;
    const size_t room = MADE_NAME_MAX - TAIL;
    char again[12] = "";
    struct text name = text_in(ret_name, MADE_NAME_MAX);

    if (times)
        snprintf(again, sizeof again, "#%u", (unsigned)(times + 1));
    text_add(&name, "%.*s{", TEXT_CUT(parent->origin.world_name, WORLD_MAX));
    for (int32_t i = 0, last; i < n; i = last + 1) {
        char item[32];

        for (last = i; last + 1 < n && world[ranks[last + 1]] == world[ranks[last]] + 1;)
            last++;
        if (last > i + 1)
            snprintf(item, sizeof item, "%s%d-%d", i ? "," : "", world[ranks[i]],
                     world[ranks[last]]);
        else
            snprintf(item, sizeof item, "%s%d", i ? "," : "", world[ranks[last = i]]);
        if (name.used + strlen(item) > room) {
            text_add(&name, ",…");
            break;
        }
        text_add(&name, "%s", item);
    }
    text_add(&name, "}%s", again);
}

/* ---- making ---- */

/* This member's place in the list; -1: it is not in it. */
static tutti_status find_self(const struct tutti_group *parent, const int32_t *ranks, int32_t n,
                              int *ret_self)
{
    bool *seen = calloc((size_t)parent->size, sizeof *seen);
    tutti_status status =
        seen ? TUTTI_OK : error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", parent->size);

    *ret_self = -1;
    for (int32_t i = 0; i < n && !status; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                               "ranks[%d] is %d; group %s has the ranks 0 to %d", i, ranks[i],
                               parent->name, parent->size - 1);
        else if (seen[ranks[i]])
            status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                               "ranks[%d] is %d, which is in the list already", i, ranks[i]);
        else
            seen[ranks[i]] = true;
        if (!status && ranks[i] == parent->rank)
            *ret_self = i;
    }
    free(seen);
    return status;
}

static tutti_status form_subgroup(struct tutti_group *parent, const int32_t *ranks, int32_t n,
                                  int self, const tutti_group_options *options,
                                  struct tutti_group *group)
{
    const struct forming forming = {parent, options->name ? options->name : ""};
    XXH128_hash_t what = hash_of(parent->key, forming.name, ranks, n);
    uint64_t times = 0;
    tutti_status status = origin_inherit(&parent->origin, ranks, n, &group->origin);

    if (!status)
        status = tally_count(&parent->origin.made, &what, sizeof what, &times);
    if (status)
        return status;
    write_key(parent, what, times, group->key);
    if (!options->name)
        write_name(parent, ranks, n, times, group->name);
    bootstrap_inherit(&parent->bootstrap, self, n, clock_deadline_ms(group->timeout_ms),
                      &group->bootstrap);
    group->forming = &forming;
    status = group_form(group);
    group->forming = NULL;
    return status;
}

/* A process has one device for all groups that are made from its world. */
static struct device_choice device_of(const struct tutti_group *parent,
                                      const struct backend_choice *backend)
{
    const struct device *used = atomic_load(&parent->device);
    struct device_choice choice = parent->device_choice;

    if (used)
        choice = (struct device_choice){device_type(used), device_number(used)};
    else if (!choice.type)
        choice.type = backend->device_type;
    return choice;
}

/* Makes the group. Errors of this member alone are returned before the attempt counts: the count of
 * attempts must be the same on all members. */
static tutti_status make(struct tutti_group *parent, const int32_t *ranks, int32_t n, int self,
                         const tutti_group_options *options, tutti_group **ret_group)
{
    struct backend_choice choice = parent->choice;
    struct tutti_group *group;

    tutti_status status = options->backend ? backend_resolve(options->backend, &choice) : TUTTI_OK;
    if (!status)
        status =
            group_create(parent->context, options->name ? options->name : "group",
                         options->timeout_ms ? options->timeout_ms : parent->timeout_ms, &group);
    if (status)
        return status;
    group->choice = choice;
    group->device_choice = device_of(parent, &choice);
    group->reproducible = parent->reproducible;
    group->has_checksums = parent->has_checksums;
    group->tls = parent->tls;
    group->thresholds = parent->thresholds;
    wrappers_share(parent, group);
    status = form_subgroup(parent, ranks, n, self, options, group);
    if (status) {
        group_free(group);
        return status;
    }
    *ret_group = group;
    return TUTTI_OK;
}

/* All members of the parent, in its order. */
static tutti_status make_whole(struct tutti_group *parent, const tutti_group_options *options,
                               tutti_group **ret_group)
{
    int32_t *ranks = calloc((size_t)parent->size, sizeof *ranks);

    if (!ranks)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", parent->size);
    for (int r = 0; r < parent->size; r++)
        ranks[r] = r;
    tutti_status status = make(parent, ranks, parent->size, parent->rank, options, ret_group);
    free(ranks);
    return status;
}

tutti_status tutti_group_new(tutti_group *parent, const int32_t *ranks, int32_t n,
                             const tutti_group_options *caller_options, tutti_group **ret_group)
{
    tutti_group_options options;
    int self;

    tutti_status status = group_check(parent);
    if (!status)
        status = options_copy(&options, sizeof options, caller_options, "tutti_group_options");
    if (status)
        return status;
    if (!ret_group)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_group is NULL");
    if (n < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "n is %d; it must be the number of ranks, or 0 with NULL for all ranks",
                         n);
    if ((!ranks && n) || (ranks && !n))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "n is %d, but ranks is %s; use 0 and NULL for all ranks", n,
                         ranks ? "not NULL" : "NULL");
    if (group_ended(parent))
        return group_verdict(parent);
    if (!ranks)
        return error_named(make_whole(parent, &options, ret_group));
    status = find_self(parent, ranks, n, &self);
    if (status)
        return error_named(status);
    if (self < 0) {
        *ret_group = NULL;
        return TUTTI_OK;
    }
    return error_named(make(parent, ranks, n, self, &options, ret_group));
}

/* ---- translation ---- */

tutti_status tutti_group_translate(const tutti_group *from, const int32_t *ranks, int32_t n,
                                   const tutti_group *to, int32_t *ret_ranks)
{
    tutti_status status = group_check(from);

    if (!status)
        status = group_check(to);
    if (status)
        return status;
    if (n < 0 || (n && (!ranks || !ret_ranks)))
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "n is %d; it must not be negative, and ranks and ret_ranks must not be NULL", n);
    if (from->origin.world != to->origin.world)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "group %s and group %s come from different worlds", from->name, to->name);
    for (int32_t i = 0; i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= from->size)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "ranks[%d] is %d; group %s has the ranks 0 to %d", i, ranks[i],
                             from->name, from->size - 1);
    for (int32_t i = 0; i < n; i++) {
        int32_t world = from->origin.world_ranks[ranks[i]], rank = to->size - 1;

        while (rank >= 0 && to->origin.world_ranks[rank] != world)
            rank--;
        ret_ranks[i] = rank;
    }
    return TUTTI_OK;
}
