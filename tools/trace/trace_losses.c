/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are gone, and processes that do not run, as their local peers saw it.
 *
 * A member that was lost and has dumped the loss of another one lives: the network between the two is cut.
 * A member that was lost and is silent is dead, unless its host is known not to answer. A member that left
 * in order is neither, and so is one that ended after its group had failed: it ended because of that. Its
 * own dump of the failure shows this, or the dump of a member that knew of the failure before the loss.
 */
#include <string.h>

#include "trace/trace_judge.h"

/* ---- lost ranks ---- */

/* The entry for the rank in a dump; NULL: it is the rank's own dump. */
static const struct trace_member *as_seen_by(const struct trace_group *group, int rank)
{
    return group->rank != rank ? &group->members[rank] : NULL;
}

/* How a process is that does not run, as its local peers saw it; NULL: none of them says so. What has dumped the
 * failure itself was not held by a debugger then: a leak checker, for one, holds a process as it exits. */
static const char *halted(const struct trace_verdict *v, int rank)
{
    const struct trace_group *own = v->by_rank[rank];

    for (guint by = 0; by < v->groups->len; by++) {
        const struct trace_member *seen = as_seen_by(v->groups->pdata[by], rank);

        if (!seen || !seen->process)
            continue;
        if (strcmp(seen->process, "stopped") == 0)
            return "is stopped by a signal (SIGCONT lets it go on)";
        if (strcmp(seen->process, "traced") == 0 && !(own && own->verdict))
            return "is held by a debugger";
    }
    return NULL;
}

static bool lost_somebody(const struct trace_group *group)
{
    return group && group->verdict && group->culprit >= 0 &&
           strcmp(group->verdict, "TUTTI_ERR_PEER_LOST") == 0;
}

/* A rank that has left in order is not lost, whatever ranks say that had not heard of it. One that has
 * dumped a loss of its own left because of that. */
static bool has_left(const struct trace_verdict *v, int rank)
{
    if (lost_somebody(v->by_rank[rank]))
        return false;
    for (guint by = 0; by < v->groups->len; by++) {
        const struct trace_member *seen = as_seen_by(v->groups->pdata[by], rank);

        if (seen && seen->left_after >= 0)
            return true;
    }
    return false;
}

/* Whether the rank lived when the group failed, so its end is no reason for that. The kernel tells of an end
 * at once: a group that failed for another reason had not lost it. */
static bool outlived_failure(const struct trace_verdict *v, int rank, const struct trace_group *by)
{
    const struct trace_group *own = v->by_rank[rank];

    if (own && own->verdict)
        return !lost_somebody(own) ||
               (own->culprit != rank && g_strcmp0(own->verdict_words, by->verdict_words) == 0);
    return by->verdict && (by->members[rank].lost_after_failure || !lost_somebody(by));
}

/* How others lost the rank, by their own dumps or by the report of one without a dump. A rank that
 * knows that the host does not answer knows more than one whose connection has ended; the kernel
 * knows most. */
static enum trace_lost lost(const struct trace_verdict *v, int rank)
{
    bool dead = false, ended = false, vanished = false;

    if (has_left(v, rank))
        return TRACE_NOT_LOST;
    for (guint by = 0; by < v->groups->len; by++) {
        const struct trace_group *group = v->groups->pdata[by];
        const struct trace_member *seen = as_seen_by(group, rank);

        if (!seen)
            continue;
        vanished |= seen->lost == TRACE_VANISHED;
        if (outlived_failure(v, rank, group))
            continue;
        dead |= g_strcmp0(seen->process, "dead") == 0;
        ended |= seen->lost == TRACE_ENDED || (lost_somebody(group) && group->culprit == rank);
    }
    if (vanished && !dead)
        return TRACE_VANISHED;
    return dead || ended ? TRACE_ENDED : TRACE_NOT_LOST;
}

/* The ranks that have dumped a loss: with the message that `rank` heard, or with another. */
static GArray *side_of(const struct trace_verdict *v, int rank, bool other)
{
    const char *words = v->by_rank[rank]->verdict_words;
    GArray *side = judge_ranks(-1);

    for (guint i = 0; i < v->groups->len; i++) {
        const struct trace_group *group = v->groups->pdata[i];

        if (lost_somebody(group) && (g_strcmp0(group->verdict_words, words) != 0) == other)
            g_array_append_val(side, group->rank);
    }
    return side;
}

/* Adds a cut for a rank that was lost and has dumped the loss of another rank: both sides live, and
 * do not reach each other. False: it has dumped no such loss, or no other rank has. */
static bool add_cut(struct trace_verdict *v, int rank)
{
    if (!lost_somebody(v->by_rank[rank]) || v->by_rank[rank]->culprit == rank)
        return false;

    g_autoptr(GArray) here = side_of(v, rank, false), there = side_of(v, rank, true);
    if (there->len && there->len < here->len) /* the smaller side is told first */
        return add_cut(v, g_array_index(there, int, 0));
    g_autofree char *these = trace_ranks_words(here), *those = trace_ranks_words(there);
    g_autofree char *one = judge_who(v, rank), *two = judge_who(v, v->by_rank[rank]->culprit);

    if (there->len)
        judge_add(v, TRACE_CUT, g_array_copy(here->len <= there->len ? here : there), 0,
                  g_strdup_printf("%s and %s lost each other, and lived when they dumped: the "
                                  "network between %s and %s is cut",
                                  these, those, one, two));
    return there->len > 0;
}

static void add_lost(struct trace_verdict *v, int rank, enum trace_lost how)
{
    g_autofree char *who = judge_who(v, rank);

    if (how == TRACE_VANISHED)
        judge_add(v, TRACE_CUT, judge_ranks(rank), 0,
                  g_strdup_printf("%s does not answer on the network, and there is no dump of it: "
                                  "its host is cut off, or down",
                                  who));
    else
        judge_add(v, TRACE_DEAD, judge_ranks(rank), 0,
                  g_strdup_printf("%s ended without leaving the group", who));
}

void judge_losses(struct trace_verdict *v)
{
    bool cut = false;

    for (int r = 0; r < v->size && !cut; r++) /* told once, for both sides */
        cut = lost(v, r) != TRACE_NOT_LOST && add_cut(v, r);
    for (int r = 0; r < v->size; r++) {
        enum trace_lost how = lost(v, r);
        bool lives = how == TRACE_VANISHED && (v->by_rank[r] || halted(v, r));

        if (how != TRACE_NOT_LOST && !(cut && (lives || lost_somebody(v->by_rank[r]))))
            add_lost(v, r, how);
    }
}

/* ---- ranks that left or ended the group ---- */

void judge_endings(struct trace_verdict *v)
{
    for (guint i = 0; i < v->groups->len; i++) {
        const struct trace_group *group = v->groups->pdata[i];
        int culprit = group->verdict ? group->culprit : -1;

        if (culprit < 0 || judge_has(v, culprit))
            continue;
        if (strcmp(group->verdict, "TUTTI_ERR_ABORTED") == 0)
            judge_add(v, TRACE_ABORTED, judge_ranks(culprit), 0, g_strdup(group->verdict_words));
        else if (strcmp(group->verdict, "TUTTI_ERR_PEER_LOST") == 0 &&
                 group->members[culprit].left_after >= 0)
            judge_add(v, TRACE_LEFT, judge_ranks(culprit),
                      (guint64)group->members[culprit].left_after + 1,
                      g_strdup(group->verdict_words));
    }
}

void judge_halted(struct trace_verdict *v)
{
    for (int r = 0; r < v->size; r++) {
        const char *how = halted(v, r);

        if (!how)
            continue;
        g_autofree char *who = judge_who(v, r);
        judge_add(v, TRACE_STOPPED, judge_ranks(r), 0, g_strdup_printf("%s %s", who, how));
    }
}
