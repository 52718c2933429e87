/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose tutti_init() had not returned: they have no group to be judged in. Their future
 * ranks are known, so the verdict can name the ranks that have not come, or those that have stayed
 * behind when others have their group already.
 */
#include <string.h>

#include "trace/trace_judge.h"

static const double LONG_S = 1;

bool trace_same_job(const struct trace_dump *a, const struct trace_dump *b)
{
    return g_strcmp0(a->run, b->run) == 0 && a->attempt == b->attempt;
}

static bool same_joining(const struct trace_dump *a, const struct trace_dump *b)
{
    return trace_same_job(a, b) && a->joining_size == b->joining_size &&
           g_strcmp0(a->joining, b->joining) == 0;
}

/* Whether the rank has dumped at all; `ret_joins`: out of this tutti_init(). */
static bool has_dumped(const struct trace_dump *first, const GPtrArray *dumps, int rank,
                       bool *ret_joins)
{
    bool found = false;

    *ret_joins = false;
    for (guint i = 0; i < dumps->len; i++) {
        const struct trace_dump *dump = dumps->pdata[i];

        if (dump->rank != rank || !trace_same_job(first, dump))
            continue;
        found = true;
        *ret_joins = *ret_joins || (dump->joining && same_joining(first, dump));
    }
    return found;
}

static void judge(struct trace_verdict *v, bool others_are_through)
{
    g_autofree char *waiting = trace_ranks_words(v->waiting);
    g_autofree char *missing = trace_ranks_words(v->missing);

    if (v->seconds < LONG_S)
        return;
    if (v->missing->len)
        judge_add(v, TRACE_LATE, g_array_ref(v->missing), 0,
                  g_strdup_printf("%s has not called tutti_init(), or does not answer: it made no "
                                  "dump, or none was collected",
                                  missing));
    else if (others_are_through)
        judge_add(v, TRACE_LATE, g_array_ref(v->waiting), 0,
                  g_strdup_printf("%s is still in tutti_init(), and the others are in their group",
                                  waiting));
    else
        judge_add(v, TRACE_STUCK, judge_ranks(-1), 0,
                  g_strdup("all have called tutti_init(), and it does not end"));
}

struct trace_verdict *trace_judge_joining(const struct trace_dump *first, const GPtrArray *dumps)
{
    struct trace_verdict *v = judge_new(first->joining, first->joining_size);
    bool others_are_through = false;

    v->in_init = true;
    for (int r = 0; r < v->size; r++) {
        bool joins;

        if (!has_dumped(first, dumps, r, &joins))
            g_array_append_val(v->missing, r);
        else if (joins)
            g_array_append_val(v->waiting, r);
        else
            others_are_through = true;
    }
    for (guint i = 0; i < dumps->len; i++) {
        const struct trace_dump *dump = dumps->pdata[i];

        if (dump->joining && same_joining(first, dump))
            v->seconds = MAX(v->seconds, dump->joining_s);
    }
    judge(v, others_are_through);
    return v;
}

bool trace_is_first_to_join(const GPtrArray *dumps, guint index)
{
    const struct trace_dump *dump = dumps->pdata[index];

    for (guint i = 0; i < index; i++) {
        const struct trace_dump *other = dumps->pdata[i];

        if (other->joining && dump->joining && same_joining(other, dump))
            return false;
    }
    return dump->joining != NULL;
}
