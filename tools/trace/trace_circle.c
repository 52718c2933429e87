/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that wait for each other: each in a message that the next one does not take or send, or in a
 * collective that the next one has not called. Such waiting has no first cause, so nobody in it is late.
 * A rank counts only if a thread of its program waits: a rank that computes with a receive in
 * flight is slow.
 */
#include <string.h>

#include "trace/trace_judge.h"

/* The first of its messages that waits for long. */
const struct trace_call *judge_in_message(const struct trace_group *group)
{
    for (guint i = 0; group && i < group->unfinished->len; i++) {
        const struct trace_call *call = group->unfinished->pdata[i];

        if (call->message && judge_waits_long(group, call))
            return call;
    }
    return NULL;
}

/* The other side of a message, in flight as well. */
bool judge_is_met(const struct trace_group *peer, int rank, const struct trace_call *call)
{
    const char *other = strcmp(call->operation, "send") == 0 ? "recv" : "send";

    for (guint i = 0; i < peer->unfinished->len; i++) {
        const struct trace_call *theirs = peer->unfinished->pdata[i];

        if (theirs->message && strcmp(theirs->operation, other) == 0 && theirs->tag == call->tag &&
            (theirs->peer == rank || theirs->peer < 0))
            return true;
    }
    return false;
}

/* ---- messages of another tag ---- */

/* How often the receiver has asked the sender, or anybody, for each tag: tag -> count. */
static GHashTable *asked_for(const struct trace_group *receiver, int sender)
{
    GHashTable *counts = g_hash_table_new(g_int64_hash, g_int64_equal);

    for (guint i = 0; i < receiver->records->len; i++) {
        struct trace_record *record = receiver->records->pdata[i];

        if (!record->message || record->is_send || (record->peer >= 0 && record->peer != sender))
            continue;
        int count = GPOINTER_TO_INT(g_hash_table_lookup(counts, &record->tag)) + 1;
        g_hash_table_insert(counts, &record->tag, GINT_TO_POINTER(count));
    }
    return counts;
}

char *judge_other_tag(const struct trace_verdict *v, int rank, const struct trace_call *call)
{
    const struct trace_group *here = v->by_rank[rank];
    const struct trace_group *sender = call->peer >= 0 ? v->by_rank[call->peer] : NULL;

    if (strcmp(call->operation, "recv") != 0 || !sender || !sender->has_all_records ||
        !here->has_all_records)
        return g_strdup("");

    g_autoptr(GHashTable) asked = asked_for(here, call->peer);

    for (guint i = 0; i < sender->records->len; i++) {
        struct trace_record *sent = sender->records->pdata[i];

        if (!sent->is_send || sent->peer != rank || strcmp(sent->state, "failed") == 0)
            continue;
        int count = GPOINTER_TO_INT(g_hash_table_lookup(asked, &sent->tag));
        if (!count)
            return g_strdup_printf("; rank %d has sent rank %d tag %" G_GUINT64_FORMAT
                                   ", for which there is no receive yet",
                                   call->peer, rank, sent->tag);
        g_hash_table_insert(asked, &sent->tag, GINT_TO_POINTER(count - 1));
    }
    return g_strdup("");
}

/* ---- circles ---- */

/* The call in which its program has waited for long, NULL: none is known. Of collectives the
 * oldest: a thread that waits for a later one waits for it, too. */
static const struct trace_call *waits_in(const struct trace_group *group)
{
    const struct trace_call *collective = judge_in_collective(group);

    for (guint i = 0; group && i < group->unfinished->len; i++) {
        const struct trace_call *call = group->unfinished->pdata[i];

        if (call->waited && !call->message && collective)
            return collective;
        if (call->waited && call->message && judge_waits_long(group, call))
            return call;
    }
    return NULL;
}

/* Whether this collective of another rank cannot end before `group` moves on. */
static bool holds_up(const struct trace_group *group, const struct trace_call *collective)
{
    const struct trace_call *call = waits_in(group);

    return group->started < collective->sequence ||
           (call && !call->message && call->sequence == collective->sequence);
}

/* The rank that it waits for; -1: none in particular. In a collective that ends for all or nobody
 * it is `late`, if that has not called it; in a broadcast and its like only the one from whom or to
 * whom data should come next. */
static int awaited_by(const struct trace_verdict *v, int rank, int late)
{
    const struct trace_call *call = waits_in(v->by_rank[rank]);

    if (!call)
        return -1;
    if (call->message)
        return call->peer < 0 || !v->by_rank[call->peer] ||
                       judge_is_met(v->by_rank[call->peer], rank, call)
                   ? -1
                   : call->peer;

    const struct trace_record *record = trace_record_of(v->by_rank[rank], call->sequence);

    if (record && record->all_for_all)
        return v->by_rank[late]->started < call->sequence ? late : -1;
    if (call->waits_rank < 0 || !v->by_rank[call->waits_rank])
        return -1;
    return holds_up(v->by_rank[call->waits_rank], call) ? call->waits_rank : -1;
}

/* The ranks of the circle that waiting leads into from `rank`; NULL: it leads to one that does not
 * wait. */
static GArray *circle_from(const struct trace_verdict *v, int rank)
{
    g_autofree bool *seen = g_new0(bool, v->size);
    const int first = rank;
    GArray *circle;

    for (; rank >= 0 && !seen[rank]; rank = awaited_by(v, rank, first))
        seen[rank] = true;
    if (rank < 0)
        return NULL;
    circle = judge_ranks(rank);
    for (int r = awaited_by(v, rank, first); r != rank; r = awaited_by(v, r, first))
        g_array_append_val(circle, r);
    return circle;
}

static void add_circle(struct trace_verdict *v, GArray *circle)
{
    GString *words = g_string_new("they wait for each other"), *tags = g_string_new(NULL);

    for (guint i = 0; i < circle->len; i++) {
        int rank = g_array_index(circle, int, i);
        const struct trace_group *group = v->by_rank[rank];
        const struct trace_call *call = waits_in(group);
        g_autofree char *what = judge_call(group, call);
        g_autofree char *tag = call->message ? judge_other_tag(v, rank, call) : g_strdup("");

        g_string_append_printf(words, "; rank %d in %s", rank, what);
        g_string_append(tags, tag);
        int next = g_array_index(circle, int, (i + 1) % circle->len);
        if (!call->message && v->by_rank[next]->started < call->sequence)
            g_string_append_printf(words, ", which rank %d has not called", next);
    }
    g_string_append(words, tags->str);
    g_string_free(tags, TRUE);
    judge_add(v, TRACE_STUCK, circle, 0, g_string_free(words, FALSE));
}

bool judge_circle(struct trace_verdict *v, int rank)
{
    const struct trace_call *call = waits_in(v->by_rank[rank]);
    GArray *circle = call && call->message ? circle_from(v, rank) : NULL;
    bool is_new = circle && circle->len > 1;

    for (guint i = 0; is_new && i < circle->len; i++)
        is_new = !judge_has(v, g_array_index(circle, int, i));
    if (is_new)
        add_circle(v, circle);
    else if (circle)
        g_array_unref(circle);
    return is_new;
}
