/* SPDX-License-Identifier: Apache-2.0 */
/* How members, calls and what somebody does are called in a verdict. */
#include <string.h>

#include "trace/trace_judge.h"

char *trace_ranks_words(const GArray *ranks)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
    GString *words = g_string_new(ranks->len == 1 ? "rank " : "ranks ");

    for (guint i = 0; i < ranks->len;) {
        int first = g_array_index(ranks, int, i), last = first;

        while (++i < ranks->len && g_array_index(ranks, int, i) == last + 1)
            last++;
        if (last > first + 1)
            g_ptr_array_add(parts, g_strdup_printf("%d-%d", first, last));
        else
            for (int r = first; r <= last; r++)
                g_ptr_array_add(parts, g_strdup_printf("%d", r));
    }
    for (guint i = 0; i < parts->len; i++)
        g_string_append_printf(words, "%s%s",
                               i == 0               ? ""
                               : i + 1 < parts->len ? ", "
                                                    : " and ",
                               (const char *)parts->pdata[i]);
    return g_string_free(words, FALSE);
}

char *judge_who(const struct trace_verdict *v, int rank)
{
    const struct trace_member *member = &judge_any(v)->members[rank];

    if (!member->pid)
        return g_strdup_printf("rank %d", rank);
    return g_strdup_printf("rank %d (host %s, pid %d)", rank, member->host, member->pid);
}

char *trace_call_words(const struct trace_verdict *v, guint64 sequence)
{
    for (guint i = 0; i < v->groups->len; i++) {
        const struct trace_record *record = trace_record_of(v->groups->pdata[i], sequence);

        if (record)
            return g_strdup_printf("#%" G_GUINT64_FORMAT " %s", sequence, record->call);
    }
    return g_strdup_printf("#%" G_GUINT64_FORMAT, sequence);
}

/* The call that it made after the group had failed; NULL: none. */
static const struct trace_record *refused(const struct trace_group *group)
{
    for (guint i = group->records->len; i > 0; i--) {
        const struct trace_record *record = group->records->pdata[i - 1];

        if (record->refused)
            return record;
    }
    return NULL;
}

/* The weight of a call: the heaviest says most about a process. */
static int weight(const struct trace_call *call)
{
    return call->waited ? 2 : !call->unwaited;
}

/* The call that a process has in flight, in any of its groups: first one that a thread of its
 * program waits for. NULL: none. */
static const struct trace_call *in_flight(const struct trace_dump *dump,
                                          const struct trace_group **ret_group)
{
    const struct trace_call *found = NULL;

    for (guint g = 0; g < dump->groups->len; g++) {
        const struct trace_group *group = dump->groups->pdata[g];

        for (guint i = 0; i < group->unfinished->len; i++) {
            const struct trace_call *call = group->unfinished->pdata[i];

            if (found && weight(found) >= weight(call))
                continue;
            found = call;
            *ret_group = group;
        }
    }
    return found;
}

static char *in_flight_words(const struct trace_group *group, const struct trace_group *other,
                             const struct trace_call *call)
{
    g_autofree char *words = judge_call(other, call);
    g_autofree char *where =
        other == group ? g_strdup("") : g_strdup_printf(" of group %s", other->name);
    g_autofree char *whom = call->message || call->waits_rank < 0
                                ? g_strdup("")
                                : g_strdup_printf(" for rank %d", call->waits_rank);

    if (call->unwaited)
        return g_strdup_printf("it waits in no call, with %s%s in flight", words, where);
    return g_strdup_printf("it waits in %s%s%s", words, where, whom);
}

char *judge_activity(const struct trace_verdict *v, int rank)
{
    const struct trace_group *group = v->by_rank[rank], *other = NULL;
    const struct trace_call *unfinished = in_flight(group->dump, &other);

    if (unfinished)
        return in_flight_words(group, other, unfinished);
    const struct trace_record *call = refused(group);

    if (call)
        return g_strdup_printf("it called #%" G_GUINT64_FORMAT
                               " %s when the group had failed already",
                               call->sequence, call->call);
    if (!group->started)
        return g_strdup_printf("it %s and is outside of tutti", group->records->len
                                                                    ? "waits for nothing"
                                                                    : "has called nothing yet");
    return g_strdup_printf("it finished #%" G_GUINT64_FORMAT " and is outside of tutti",
                           group->completed);
}

char *judge_call(const struct trace_group *group, const struct trace_call *call)
{
    if (!call->message) {
        const struct trace_record *record = trace_record_of(group, call->sequence);

        return g_strdup_printf("#%" G_GUINT64_FORMAT "%s%s", call->sequence, record ? " " : "",
                               record ? record->call : "");
    }
    g_autofree char *peer =
        call->peer < 0 ? g_strdup("any rank") : g_strdup_printf("rank %d", call->peer);

    return g_strdup_printf("%s of %" G_GUINT64_FORMAT " bytes, tag %" G_GUINT64_FORMAT ", %s %s",
                           call->operation, call->bytes, call->tag,
                           strcmp(call->operation, "send") == 0 ? "to" : "from", peer);
}
