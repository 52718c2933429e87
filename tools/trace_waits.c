/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits, for whom, and what the other is doing: collectives first, then messages. */
#include <string.h>

#include "trace_judge.h"

static const double LONG_S = 1; /* shorter waits may have been about to end */

static bool timed_out(const struct trace_group *group)
{
    return group->verdict && strcmp(group->verdict, "TUTTI_ERR_TIMEOUT") == 0;
}

static bool waits_long(const struct trace_group *group, const struct trace_call *call)
{
    return call->seconds >= LONG_S || (timed_out(group) && call->seconds >= 0);
}

/* The collective in flight that this member waits in. */
static const struct trace_call *in_collective(const struct trace_group *group)
{
    const struct trace_call *first =
        group && group->unfinished->len ? group->unfinished->pdata[0] : NULL;

    return first && !first->message && waits_long(group, first) ? first : NULL;
}

/* Its number. A dump that was made after the failure has only the record of what failed. */
static guint64 waits_in(const struct trace_group *group)
{
    const struct trace_call *call = in_collective(group);

    if (call)
        return call->sequence;
    for (guint i = 0; group && timed_out(group) && i < group->records->len; i++) {
        const struct trace_record *record = group->records->pdata[i];

        if (!record->message && !record->refused && strcmp(record->state, "failed") == 0)
            return record->sequence;
    }
    return 0;
}

static void find_waiting(struct trace_verdict *v)
{
    for (int r = 0; r < v->size; r++) {
        guint64 sequence = waits_in(v->by_rank[r]);

        if (sequence && (!v->sequence || sequence < v->sequence))
            v->sequence = sequence;
    }
    for (int r = 0; v->sequence && r < v->size; r++) {
        const struct trace_call *call = in_collective(v->by_rank[r]);

        if (waits_in(v->by_rank[r]) != v->sequence)
            continue;
        g_array_append_val(v->waiting, r);
        if (call && call->seconds > v->seconds)
            v->seconds = call->seconds;
    }
}

/* Whether a dump says that it waits for `rank`, in whatever. */
static bool is_awaited(const struct trace_verdict *v, int rank)
{
    for (guint i = 0; i < v->waiting->len; i++) {
        const struct trace_call *call =
            in_collective(v->by_rank[g_array_index(v->waiting, int, i)]);

        if (call && call->waits_rank == rank)
            return true;
        for (guint k = 0; call && k < call->not_called->len; k++)
            if (g_array_index(call->not_called, int, k) == rank)
                return true;
    }
    return v->status && judge_any(v)->culprit == rank;
}

static void add_late(struct trace_verdict *v, int rank)
{
    g_autofree char *who = judge_who(v, rank), *call = trace_call_words(v, v->sequence);
    g_autofree char *activity = judge_activity(v, rank);

    judge_add(v, TRACE_LATE, judge_ranks(rank), v->sequence,
              g_strdup_printf("%s has not called %s: %s", who, call, activity));
}

/* Takes `ranks` over. Of several it is not known which one is waited for. */
static void add_silent(struct trace_verdict *v, GArray *ranks)
{
    const bool one = ranks->len == 1;
    g_autofree char *who =
        one ? judge_who(v, g_array_index(ranks, int, 0)) : trace_ranks_words(ranks);

    judge_add(v, TRACE_STOPPED, ranks, v->sequence,
              g_strdup_printf("%s %s waited for and there is no dump of %s stopped, hangs with "
                              "SIGUSR2 blocked, or its host cannot be reached",
                              who, one ? "is" : "are", one ? "it: it is" : "them: one of them is"));
}

static bool crosses_hosts(const struct trace_group *group, int rank)
{
    return rank >= 0 && group->members[rank].layout != group->members[group->rank].layout;
}

/* Whether waiting leads from `rank` to what another host should send or take. */
static bool leads_to_another_host(const struct trace_verdict *v, int rank)
{
    for (int steps = 0; steps < v->size; steps++) {
        const struct trace_call *call = in_collective(v->by_rank[rank]);

        if (!call || call->waits_rank < 0)
            return false;
        if (crosses_hosts(v->by_rank[rank], call->waits_rank))
            return true;
        rank = call->waits_rank;
    }
    return false; /* in a circle */
}

/* All have called it. Where all waits end between hosts, that is the trouble. */
static void add_stuck(struct trace_verdict *v)
{
    g_autofree char *call = trace_call_words(v, v->sequence);
    GString *waits = g_string_new(NULL);
    bool between_hosts = v->waiting->len > 0;

    for (guint i = 0; i < v->waiting->len; i++) {
        int rank = g_array_index(v->waiting, int, i);
        const struct trace_call *waiting = in_collective(v->by_rank[rank]);

        between_hosts &= leads_to_another_host(v, rank);
        if (waiting && waiting->waits_rank >= 0)
            g_string_append_printf(waits, "; rank %d waits for rank %d", rank, waiting->waits_rank);
    }
    judge_add(v, between_hosts ? TRACE_CUT : TRACE_STUCK, g_array_copy(v->waiting), v->sequence,
              g_strdup_printf("all have called %s%s%s", call,
                              between_hosts ? ", and nothing comes through between hosts" : "",
                              waits->str));
    g_string_free(waits, TRUE);
}

/* What explains everything else is known. */
static bool is_explained(const struct trace_verdict *v)
{
    for (guint i = 0; i < v->findings->len; i++)
        if (((const struct trace_finding *)v->findings->pdata[i])->class < TRACE_STOPPED)
            return true;
    return false;
}

/* A member that has called it, but whose wrapper keeps that from the others. */
static void find_held(struct trace_verdict *v)
{
    for (guint i = 0; i < v->waiting->len; i++) {
        int rank = g_array_index(v->waiting, int, i);
        const struct trace_call *call = in_collective(v->by_rank[rank]);
        g_autofree char *who = judge_who(v, rank), *words = trace_call_words(v, v->sequence);

        if (call && strcmp(call->waits_what, "wrapper") == 0)
            judge_add(v, TRACE_STUCK, judge_ranks(rank), v->sequence,
                      g_strdup_printf("a wrapper (TUTTI_WRAP) of %s holds %s back", who, words));
    }
}

/* Whether it is known why the rank does not call. A cut link is no reason for those on its sides. */
static bool is_accounted_for(const struct trace_verdict *v, int rank)
{
    for (guint i = 0; i < v->findings->len; i++) {
        const struct trace_finding *finding = v->findings->pdata[i];

        for (guint k = 0; finding->class != TRACE_CUT && k < finding->ranks->len; k++)
            if (g_array_index(finding->ranks, int, k) == rank)
                return true;
    }
    return false;
}

void judge_waits(struct trace_verdict *v)
{
    find_waiting(v);
    const bool explained = is_explained(v);

    if (!v->sequence)
        return;
    if (!explained)
        find_held(v);
    for (int r = 0; r < v->size; r++) {
        if (v->by_rank[r] && v->by_rank[r]->started < v->sequence && !is_accounted_for(v, r))
            add_late(v, r);
        else if (!v->by_rank[r] && !explained && !judge_has(v, r) && is_awaited(v, r))
            add_silent(v, judge_ranks(r));
    }
    if (explained || v->findings->len)
        return;
    if (v->missing->len)
        add_silent(v, g_array_copy(v->missing));
    else
        add_stuck(v);
}

/* ---- messages ---- */

/* The first of its messages that waits for long. */
static const struct trace_call *in_message(const struct trace_group *group)
{
    for (guint i = 0; group && i < group->unfinished->len; i++) {
        const struct trace_call *call = group->unfinished->pdata[i];

        if (call->message && waits_long(group, call))
            return call;
    }
    return NULL;
}

/* The other side of a message, in flight as well. */
static bool is_met(const struct trace_group *peer, int rank, const struct trace_call *call)
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

/* Whom it waits for: in a collective, or with its first message. -1: nobody. */
static int awaited_by(const struct trace_verdict *v, int rank)
{
    const struct trace_group *group = v->by_rank[rank];
    const struct trace_call *call = in_collective(group);

    if (!call)
        call = in_message(group);
    return call ? call->message ? call->peer : call->waits_rank : -1;
}

/* The ranks of the circle that waiting leads into from `rank`; NULL: it leads to one that does not
 * wait. */
static GArray *circle_from(const struct trace_verdict *v, int rank)
{
    g_autofree bool *seen = g_new0(bool, v->size);
    GArray *circle;

    for (; rank >= 0 && !seen[rank]; rank = awaited_by(v, rank))
        seen[rank] = true;
    if (rank < 0)
        return NULL;
    circle = judge_ranks(rank);
    for (int r = awaited_by(v, rank); r != rank; r = awaited_by(v, r))
        g_array_append_val(circle, r);
    return circle;
}

static void add_circle(struct trace_verdict *v, GArray *circle)
{
    GString *words = g_string_new("they wait for each other");

    for (guint i = 0; i < circle->len; i++) {
        int rank = g_array_index(circle, int, i);
        const struct trace_group *group = v->by_rank[rank];
        const struct trace_call *call = in_collective(group);
        g_autofree char *what = judge_call(group, call ? call : in_message(group));

        g_string_append_printf(words, "; rank %d in %s", rank, what);
    }
    judge_add(v, TRACE_STUCK, circle, 0, g_string_free(words, FALSE));
}

static void judge_message(struct trace_verdict *v, int rank, const struct trace_call *call)
{
    const struct trace_group *group = v->by_rank[rank], *peer = v->by_rank[call->peer];
    g_autofree char *who = judge_who(v, call->peer), *what = judge_call(group, call);

    if (!peer) {
        add_silent(v, judge_ranks(call->peer));
    } else if (is_met(peer, rank, call)) {
        bool between_hosts = crosses_hosts(group, call->peer);

        judge_add(v, between_hosts ? TRACE_CUT : TRACE_STUCK, judge_ranks(call->peer), 0,
                  g_strdup_printf("rank %d waits in %s, which has its side in flight too: %s", rank,
                                  what,
                                  between_hosts ? "nothing comes through between the hosts"
                                                : "it does not move"));
    } else {
        g_autofree char *activity = judge_activity(v, call->peer);

        judge_add(v, TRACE_LATE, judge_ranks(call->peer), 0,
                  g_strdup_printf("%s has not answered the %s of rank %d for %.1f s: %s", who, what,
                                  rank, call->seconds, activity));
    }
}

/* Waiting that leads in a circle has no first cause. False: it does not. */
static bool find_circle(struct trace_verdict *v, int rank, const struct trace_call *call)
{
    const struct trace_group *peer = v->by_rank[call->peer];
    GArray *circle = peer ? circle_from(v, rank) : NULL;

    if (!circle)
        return false;
    if (circle->len > 1 && !is_met(peer, rank, call)) {
        add_circle(v, circle);
        return true;
    }
    g_array_unref(circle);
    return false;
}

void judge_messages(struct trace_verdict *v)
{
    if (is_explained(v))
        return;
    for (int r = 0; r < v->size; r++) {
        const struct trace_call *call = in_message(v->by_rank[r]);

        if (call && call->peer >= 0 && !judge_has(v, call->peer) && !judge_has(v, r) &&
            !find_circle(v, r, call))
            judge_message(v, r, call);
    }
}
