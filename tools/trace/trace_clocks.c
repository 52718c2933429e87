/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the clocks of several hosts are apart, from the calls alone.
 *
 * A rank that waits in a collective for another member cannot end before that member has begun.
 * With times of two clocks, each such pair is a bound of their difference, from one side or the
 * other; over a run the bounds close in on it from both. So what is told is never wrong by more
 * than what is told with it, unless the clocks run at different speeds, which shows as bounds that
 * contradict each other.
 *
 * Ranks of one host read one clock and need no estimate. Where no collective bounds a clock, the wall
 * clocks are believed, and that is said.
 */
#include <math.h>
#include <string.h>

#include "trace/trace_merge.h"

/* Of one collective and one clock: the first end of a waiting rank, the last beginning of an
 * awaited one. */
struct side {
    double first_end, last_begin;
};

struct met {
    struct side *sides; /* [clocks] */
};

struct meeting {
    GHashTable *calls; /* by group, number and operation: struct met */
    GPtrArray *clocks;
};

static void met_free(gpointer user)
{
    struct met *met = user;

    g_free(met->sides);
    g_free(met);
}

/* Which ranks wait for which in an operation: all for all, all for the root, or the root for
 * all. */
static bool roles(const char *operation, bool is_root, bool *ret_waits, bool *ret_awaited)
{
    static const char *const all[] = {"all_reduce",     "all_gather", "all_to_all",
                                      "reduce_scatter", "barrier",    NULL};
    const bool from_root = !strcmp(operation, "broadcast") || !strcmp(operation, "scatter");
    const bool to_root = !strcmp(operation, "reduce") || !strcmp(operation, "gather");

    *ret_waits = *ret_awaited = true;
    if (g_strv_contains(all, operation))
        return true;
    *ret_waits = from_root || is_root;
    *ret_awaited = to_root || is_root;
    return from_root || to_root;
}

static struct side *side_of(struct meeting *m, const char *key, guint clock)
{
    struct met *met = g_hash_table_lookup(m->calls, key);

    if (!met) {
        met = g_new0(struct met, 1);
        met->sides = g_new(struct side, m->clocks->len);
        for (guint c = 0; c < m->clocks->len; c++)
            met->sides[c] = (struct side){INFINITY, -INFINITY};
        g_hash_table_insert(m->calls, g_strdup(key), met);
    }
    return &met->sides[clock];
}

/* A call that ended well and moved something says when others must have begun. */
static void add_call(struct meeting *m, const struct timeline *t, guint clock, JsonObject *event)
{
    JsonObject *args = event_arguments(event);
    const char *operation = event_text(event, "name");
    double begin = event_number(event, "ts", NAN), duration = event_number(event, "dur", NAN);
    bool waits, awaited;

    if (strcmp(event_text(event, "ph"), "X") || !args || isnan(begin) || isnan(duration) ||
        strcmp(event_text(args, "status"), "TUTTI_OK") ||
        !roles(operation, event_number(args, "root", -1) == event_number(args, "rank", -2), &waits,
               &awaited) ||
        (strcmp(operation, "barrier") && event_number(args, "bytes", 0) <= 0))
        return;
    g_autofree char *key = g_strdup_printf("%d/%s/%.0f/%s", t->init, event_text(args, "group"),
                                           event_number(args, "sequence", 0), operation);
    struct side *side = side_of(m, key, clock);

    if (waits)
        side->first_end = MIN(side->first_end, begin + duration);
    if (awaited)
        side->last_begin = MAX(side->last_begin, begin);
}

static void bound(struct meeting *m, guint index)
{
    struct clock *clock = m->clocks->pdata[index];
    const struct clock *first = m->clocks->pdata[0];
    double low = -INFINITY, high = INFINITY, wall = clock->wall_us - first->wall_us;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, m->calls);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct side *sides = ((struct met *)value)->sides;
        double at_least = sides[0].last_begin - sides[index].first_end;
        double at_most = sides[0].first_end - sides[index].last_begin;

        clock->calls += isfinite(at_least) || isfinite(at_most);
        low = MAX(low, isfinite(at_least) ? at_least : -INFINITY);
        high = MIN(high, isfinite(at_most) ? at_most : INFINITY);
    }
    if (isfinite(low) && isfinite(high)) {
        clock->offset_us = (low + high) / 2;
        clock->within_us = fabs(high - low) / 2;
        clock->drifts = low > high;
    } else {
        clock->offset_us = isfinite(low) ? MAX(wall, low) : isfinite(high) ? MIN(wall, high) : wall;
        clock->within_us = -1;
    }
}

static guint clock_index(GPtrArray *clocks, struct timeline *t)
{
    for (guint c = 0; c < clocks->len; c++)
        if (!strcmp(((struct clock *)clocks->pdata[c])->name, t->clock_name))
            return c;
    struct clock *clock = g_new0(struct clock, 1);

    clock->name = t->clock_name;
    clock->wall_us = event_number(t->about, "wall_minus_monotonic_ns", 0) / 1e3;
    g_ptr_array_add(clocks, clock);
    return clocks->len - 1;
}

GPtrArray *clocks_estimate(GPtrArray *timelines)
{
    GPtrArray *clocks = g_ptr_array_new_with_free_func(g_free);
    struct meeting m = {g_hash_table_new_full(g_str_hash, g_str_equal, g_free, met_free), clocks};

    for (guint i = 0; i < timelines->len; i++)
        (void)clock_index(clocks, timelines->pdata[i]);
    for (guint i = 0; i < timelines->len; i++) {
        struct timeline *t = timelines->pdata[i];
        guint clock = clock_index(clocks, t);
        guint count = json_array_get_length(json_node_get_array(t->root));

        t->clock = clocks->pdata[clock];
        for (guint k = 0; k < count && clocks->len > 1; k++) {
            JsonObject *event = event_at(t->root, k);

            if (event)
                add_call(&m, t, clock, event);
        }
    }
    for (guint c = 1; c < clocks->len; c++)
        bound(&m, c);
    g_hash_table_unref(m.calls);
    return clocks;
}
