/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks wait, for which others, and what those are doing: collectives first, then
 * messages. */
#include <string.h>

#include "trace/trace_judge.h"

static const double LONG_S = 1; /* shorter waits may have been about to end */

static bool timed_out(const struct trace_group *group)
{
    return group->verdict && strcmp(group->verdict, "TUTTI_ERR_TIMEOUT") == 0;
}

bool judge_waits_long(const struct trace_group *group, const struct trace_call *call)
{
    return call->seconds >= LONG_S || (timed_out(group) && call->seconds >= 0);
}

const struct trace_call *judge_in_collective(const struct trace_group *group)
{
    const struct trace_call *first =
        group && group->unfinished->len ? group->unfinished->pdata[0] : NULL;

    return first && !first->message && judge_waits_long(group, first) ? first : NULL;
}

/* Its number. A dump that was made after the failure has only the record of what failed. */
static guint64 waits_in(const struct trace_group *group)
{
    const struct trace_call *call = judge_in_collective(group);

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
        const struct trace_call *call = judge_in_collective(v->by_rank[r]);

        if (waits_in(v->by_rank[r]) != v->sequence)
            continue;
        g_array_append_val(v->waiting, r);
        if (call && call->seconds > v->seconds)
            v->seconds = call->seconds;
    }
}

static void add_late(struct trace_verdict *v, int rank)
{
    g_autofree char *who = judge_who(v, rank), *call = trace_call_words(v, v->sequence);
    g_autofree char *activity = judge_activity(v, rank);

    judge_add(v, TRACE_LATE, judge_ranks(rank), v->sequence,
              g_strdup_printf("%s has not called %s: %s", who, call, activity));
}

static bool crosses_hosts(const struct trace_group *group, int rank)
{
    return rank >= 0 && group->members[rank].layout != group->members[group->rank].layout;
}

/* Whether waiting leads from `rank` to what another host should send or take. */
static bool leads_to_another_host(const struct trace_verdict *v, int rank)
{
    for (int steps = 0; steps < v->size; steps++) {
        const struct trace_call *call = judge_in_collective(v->by_rank[rank]);

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
        const struct trace_call *waiting = judge_in_collective(v->by_rank[rank]);

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

/* Whether a cause that explains everything else is known. */
static bool is_explained(const struct trace_verdict *v)
{
    for (guint i = 0; i < v->findings->len; i++)
        if (((const struct trace_finding *)v->findings->pdata[i])->class < TRACE_STOPPED)
            return true;
    return false;
}

/* A member that has called it, but whose wrapper, or stream, keeps that from the others. */
static void find_held(struct trace_verdict *v)
{
    for (guint i = 0; i < v->waiting->len; i++) {
        int rank = g_array_index(v->waiting, int, i);
        const struct trace_call *call = judge_in_collective(v->by_rank[rank]);
        g_autofree char *who = judge_who(v, rank), *words = trace_call_words(v, v->sequence);

        if (call && strcmp(call->waits_what, "wrapper") == 0)
            judge_add(v, TRACE_STUCK, judge_ranks(rank), v->sequence,
                      g_strdup_printf("a wrapper (TUTTI_WRAP) of %s holds %s back", who, words));
        else if (call && strcmp(call->waits_what, "stream") == 0)
            judge_add(v, TRACE_STUCK, judge_ranks(rank), v->sequence,
                      g_strdup_printf("earlier work on the stream of a tensor of %s is not done, "
                                      "and holds %s back",
                                      who, words));
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

/* Why the rank has not called: a circle of waiting, where it is in one, else it is only late. One that waits for
 * a circle tells of that, and is late all the same. */
static void find_cause(struct trace_verdict *v, int rank, bool explained)
{
    if (!explained)
        judge_circle(v, rank);
    if (!is_accounted_for(v, rank))
        add_late(v, rank);
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
        if (v->by_rank[r] && v->by_rank[r]->started < v->sequence && !is_accounted_for(v, r)) {
            find_cause(v, r, explained);
        } else if (!v->by_rank[r] && !explained && !judge_has(v, r) && judge_is_awaited(v, r)) {
            judge_missing(v, r);
        }
    }
    if (explained || v->findings->len)
        return;
    if (v->missing->len == 1)
        judge_missing(v, g_array_index(v->missing, int, 0));
    else if (v->missing->len)
        judge_several_missing(v);
    else
        add_stuck(v);
}

/* ---- messages ---- */

static void judge_message(struct trace_verdict *v, int rank, const struct trace_call *call)
{
    const struct trace_group *group = v->by_rank[rank], *peer = v->by_rank[call->peer];
    g_autofree char *who = judge_who(v, call->peer), *what = judge_call(group, call);

    if (!peer) {
        judge_missing(v, call->peer);
    } else if (judge_is_met(peer, rank, call)) {
        bool between_hosts = crosses_hosts(group, call->peer);

        judge_add(v, between_hosts ? TRACE_CUT : TRACE_STUCK, judge_ranks(call->peer), 0,
                  g_strdup_printf("rank %d waits in %s, which has its side in flight too: %s", rank,
                                  what,
                                  between_hosts ? "nothing comes through between the hosts"
                                                : "it does not move"));
    } else {
        g_autofree char *activity = judge_activity(v, call->peer);
        g_autofree char *tag = judge_other_tag(v, rank, call);

        judge_add(v, TRACE_LATE, judge_ranks(call->peer), 0,
                  g_strdup_printf("%s has not answered the %s of rank %d for %.1f s: %s%s", who,
                                  what, rank, call->seconds, activity, tag));
    }
}

void judge_messages(struct trace_verdict *v)
{
    if (is_explained(v))
        return;
    for (int r = 0; r < v->size; r++) {
        const struct trace_call *call = judge_in_message(v->by_rank[r]);

        if (call && call->peer >= 0 && !judge_has(v, call->peer) && !judge_has(v, r) &&
            !judge_circle(v, r))
            judge_message(v, r, call);
    }
}
