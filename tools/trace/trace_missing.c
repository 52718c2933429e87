/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that gave no dump. A file that is not here says little: its process may be stopped, may hang, or
 * may run well while its file lies on another machine. What the others saw of the process rules some out.
 */
#include <string.h>

#include "trace/trace_judge.h"

/* Whether a local peer saw the process, and neither stopped nor ended; `ret_by`: which one, NULL: not asked. */
static const char *seen_alive(const struct trace_verdict *v, int rank, int *ret_by)
{
    for (guint by = 0; by < v->groups->len; by++) {
        const struct trace_group *group = v->groups->pdata[by];
        const char *process = group->rank == rank ? NULL : group->members[rank].process;

        if (!process || (strcmp(process, "running") != 0 && strcmp(process, "sleeping") != 0 &&
                         strcmp(process, "disk") != 0))
            continue;
        if (ret_by)
            *ret_by = group->rank;
        return process;
    }
    return NULL;
}

/* Whether a dump says itself that the rank has not called what it waits in. */
static bool has_not_called(const struct trace_verdict *v, int rank)
{
    for (guint i = 0; i < v->waiting->len; i++) {
        const struct trace_call *call =
            judge_in_collective(v->by_rank[g_array_index(v->waiting, int, i)]);

        if (call && call->waits_rank == rank && strcmp(call->waits_what, "call") == 0)
            return true;
        for (guint k = 0; call && k < call->not_called->len; k++)
            if (g_array_index(call->not_called, int, k) == rank)
                return true;
    }
    return false;
}

void judge_missing(struct trace_verdict *v, int rank)
{
    g_autofree char *who = judge_who(v, rank), *call = trace_call_words(v, v->sequence);
    int by = -1;
    const char *process = seen_alive(v, rank, &by);
    g_autofree char *owes = v->sequence && has_not_called(v, rank)
                                ? g_strdup_printf("has not called %s", call)
                                : g_strdup("is waited for");
    g_autofree char *why =
        process ? g_strdup_printf(", though its process is not stopped (%s, as rank %d saw): it "
                                  "hangs with SIGUSR2 blocked",
                                  process, by)
                : g_strdup(": it is stopped, hangs with SIGUSR2 blocked, its host cannot be "
                           "reached");

    judge_add(v, TRACE_MISSING, judge_ranks(rank), v->sequence,
              g_strdup_printf(
                  "%s %s, and there is no dump of it%s%s, or its file was not collected "
                  "or never written",
                  who, owes, why, v->status ? ", or its process was ended after the failure" : ""));
}

/* The rank that the others wait for, which may itself be waiting. */
static char *first_waits(const struct trace_verdict *v)
{
    for (guint i = 0; i < v->waiting->len; i++) {
        int rank = g_array_index(v->waiting, int, i);
        const struct trace_call *call = judge_in_collective(v->by_rank[rank]);

        if (call && call->waits_rank >= 0 && !v->by_rank[call->waits_rank])
            return g_strdup_printf("; rank %d waits for rank %d, which may be waiting itself", rank,
                                   call->waits_rank);
    }
    return g_strdup("");
}

void judge_several_missing(struct trace_verdict *v)
{
    g_autoptr(GArray) alive = judge_ranks(-1);
    g_autofree char *who = trace_ranks_words(v->missing), *call = trace_call_words(v, v->sequence);
    g_autofree char *waits = first_waits(v);

    for (guint i = 0; i < v->missing->len; i++) {
        int rank = g_array_index(v->missing, int, i);

        if (seen_alive(v, rank, NULL))
            g_array_append_val(alive, rank);
    }
    g_autofree char *living = trace_ranks_words(alive);
    g_autofree char *ran = alive->len ? g_strdup_printf("; the process%s of %s %s not stopped",
                                                        alive->len == 1 ? "" : "es", living,
                                                        alive->len == 1 ? "was" : "were")
                                      : g_strdup("");

    judge_add(
        v, TRACE_MISSING, g_array_copy(v->missing), v->sequence,
        g_strdup_printf(
            "cannot tell which rank holds up %s, since there is no dump of %s: one of them %shangs "
            "with SIGUSR2 blocked%s, or files were not collected or never written%s%s",
            call, who, alive->len < v->missing->len ? "is stopped, " : "",
            alive->len < v->missing->len ? ", its host cannot be reached" : "", ran, waits));
}

bool judge_is_awaited(const struct trace_verdict *v, int rank)
{
    return has_not_called(v, rank) || (v->status && judge_any(v)->culprit == rank);
}
