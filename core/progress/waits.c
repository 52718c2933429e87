/* SPDX-License-Identifier: Apache-2.0 */
/* A call and the member that it waits for: as text for errors and warnings, as fields for dumps. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "group/group.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/routes.h"

/* The kind of a wait for a message: if its sender was asked and has not said that it is in the
 * call, the wait is for an answer. */
static struct waiting for_member(const struct tutti_group *group, const struct call *call,
                                 struct waiting w)
{
    if ((w.kind == WAITING_RECEIVE || w.kind == WAITING_SEND) &&
        announced_is_missing(group, w.rank, call->announce.sequence))
        w.kind = WAITING_ANSWER;
    return w;
}

/* An inline call; of a schedule the step tells. */
static bool call_is_in_round(const struct call *call)
{
    const struct algorithm *algorithm = call->plan->plan.algorithm;

    return algorithm->kind == ALGORITHM_INLINE && algorithm->flags & ALGORITHM_SHARES_CPUS &&
           call_is_begun(call);
}

static struct waiting for_round(const struct mapped *mapped)
{
    const int missing = mapped_round_awaits(mapped);

    return (struct waiting){
        .kind = mapped_has_called(mapped, missing) ? WAITING_MAPPED : WAITING_CALL,
        .rank = mapped->ranks[missing],
    };
}

struct waiting group_waits_for(const struct tutti_group *group, const struct call *call)
{
    if (staged_waits(call))
        return (struct waiting){.kind = WAITING_NOTHING, .rank = -1};
    if (call->kind != CALL_COLLECTIVE)
        return (struct waiting){
            .kind = call->kind == CALL_SEND ? WAITING_SEND : WAITING_RECEIVE,
            .rank = call->peer,
        };
    if (call != group->calls.queue.first || group_holds(group, call))
        return (struct waiting){.kind = WAITING_NOTHING, .rank = -1};
    if (call_is_native(call))
        return for_member(group, call, native_call_waiting(group, call));
    if (call_is_in_round(call))
        return for_round(&group->ways.mapped);
    if (call->plan->plan.algorithm->kind == ALGORITHM_INLINE && group->ways.mapped.culprit >= 0)
        return (struct waiting){
            .kind = call_is_begun(call) ? WAITING_CALL : WAITING_ROOM,
            .rank = group->ways.mapped.ranks[group->ways.mapped.culprit],
        };
    return call_is_begun(call) && call->plan->plan.algorithm->kind != ALGORITHM_INLINE
               ? for_member(group, call, run_waiting(call->run))
               : (struct waiting){.kind = WAITING_NOTHING, .rank = -1};
}

/* Each of its messages shows that its sender has called: no member sends for another. */
static bool is_monitored(const struct call *call)
{
    return call->kind == CALL_COLLECTIVE &&
           call->announce.fields.operation == OPERATION_MONITORED_BARRIER;
}

int group_missing_local(const struct tutti_group *group, const struct call *call, int named,
                        int *ret_ranks, int capacity)
{
    int count = 0;

    if (call->kind != CALL_COLLECTIVE || call != group->calls.queue.first || !call_is_begun(call))
        return 0;
    if (call_is_native(call))
        return 0; /* it leaves no line in mapped memory */
    if (is_monitored(call))
        return run_awaited(call->run, named, ret_ranks, capacity);
    if (!group->ways.has_mapped)
        return 0;
    for (int i = 0; i < group->ways.mapped.local_size && count < capacity; i++)
        if (i != group->ways.mapped.self && group->ways.mapped.ranks[i] != named &&
            !mapped_has_called(&group->ways.mapped, i))
            ret_ranks[count++] = group->ways.mapped.ranks[i];
    return count;
}

void group_note_missing(struct tutti_group *group, const struct call *call, int rank)
{
    int others[ERROR_MISSING_MAX - 1], count = 0;

    if (rank < 0 || atomic_load(&group->calls.missing_count))
        return;
    group->calls.missing[count++] = rank;
    const int more = group_missing_local(group, call, rank, others, ERROR_MISSING_MAX - 1);
    for (int i = 0; i < more; i++)
        group->calls.missing[count++] = others[i];
    atomic_store_explicit(&group->calls.missing_count, count, memory_order_release);
}

/* The missing action of the member that `w` names. */
static const char *what_is_missing(const struct tutti_group *group, const struct call *call,
                                   struct waiting w)
{
    if (call->kind != CALL_COLLECTIVE && w.rank == group->rank)
        return "is this rank itself: start the other side first";
    if (call->kind == CALL_SEND)
        return p2p_is_unmatched(&call->message) ? "has no receive for it"
                                                : "has not received all of it";
    if (call->kind == CALL_RECV)
        return "has not sent it, or not all of it";
    if (w.kind == WAITING_CALL || w.kind == WAITING_ROOM || is_monitored(call))
        return "has not called it";
    return w.kind == WAITING_ANSWER ? "has not called it, or does not answer"
                                    : "is still in an earlier step of it";
}

/* The kernel's state of a local peer that does not run: "stopped", "traced"; NULL: it runs, or is
 * not known. */
static const char *halted(struct tutti_group *group, int rank)
{
    pthread_mutex_lock(&group->control->lock);
    const char *state = local_process_state(group->local, rank);
    pthread_mutex_unlock(&group->control->lock);
    return state && (!strcmp(state, "stopped") || !strcmp(state, "traced")) ? state : NULL;
}

static int halted_local_peer(struct tutti_group *group)
{
    for (int i = 0; group->local && i < group->local->count; i++)
        if (halted(group, group->local->peers[i].rank))
            return group->local->peers[i].rank;
    return -1;
}

void group_heard_in(const struct tutti_group *group, const struct call *call, int32_t ret_ranks[2])
{
    for (int i = 0; i < 2; i++) {
        const int neighbour = native_neighbour(group, i);
        const bool heard =
            call_is_native(call) && announced_has_called(group, neighbour, call->announce.sequence);

        ret_ranks[i] = heard ? neighbour : -1;
    }
}

/* A member that the call waits for, or seems to. */
static void describe_member(struct tutti_group *group, int rank, const char *missing,
                            char *ret_text, size_t capacity)
{
    const char *state = halted(group, rank);

    control_describe(group->control, rank, ret_text, capacity);
    struct text text = text_after(ret_text, capacity);
    if (missing)
        text_add(&text, ", which %s", missing);
    if (state)
        text_add(&text, "%s process is %s", missing ? "; its" : ", whose", state);
}

void group_describe_unclaimed(struct tutti_group *group, const struct call *call, int rank,
                              char ret_text[GROUP_UNCLAIMED_MAX])
{
    uint64_t tag;

    *ret_text = 0;
    if (call->kind == CALL_RECV && p2p_has_unclaimed(route_space(group, 0), rank, &tag))
        snprintf(ret_text, GROUP_UNCLAIMED_MAX,
                 "; it has sent tag %llu, for which there is no receive", (unsigned long long)tag);
}

int group_describe_wait(struct tutti_group *group, const struct call *call, char *ret_text,
                        size_t capacity)
{
    enum { NAMED = 64 };
    struct waiting w = group_waits_for(group, call);
    char unclaimed[GROUP_UNCLAIMED_MAX];
    int missing[NAMED];

    if (call->kind == CALL_COLLECTIVE && group_holds(group, call)) {
        snprintf(ret_text, capacity, "a wrapper of this rank, which delays it");
        return group->rank;
    }
    if (staged_waits(call)) {
        snprintf(ret_text, capacity,
                 "the stream of this rank's tensor, on which earlier work is not done");
        return group->rank;
    }
    /* An engine knows no peer, or only its own partner, which may itself wait for a stopped
     * rank. */
    const bool is_guess = call_is_native(call) && (w.rank < 0 || !halted(group, w.rank));
    const int stopped = is_guess ? halted_local_peer(group) : -1;
    if (stopped >= 0) {
        describe_member(group, stopped, NULL, ret_text, capacity);
        return stopped;
    }
    if (w.rank < 0) {
        if (call_is_native(call))
            snprintf(ret_text, capacity, "%s, which does not report the rank that it waits for",
                     native_of(group, call)->user.name);
        else
            snprintf(ret_text, capacity, "any member%s",
                     group_is_last(group)
                         ? "; every other member left, and this rank has sent nothing to itself"
                         : "");
        return -1;
    }
    describe_member(group, w.rank, what_is_missing(group, call, w), ret_text, capacity);
    int count = group_missing_local(group, call, w.rank, missing, NAMED);
    struct text text = text_after(ret_text, capacity);
    for (int i = 0; i < count; i++)
        text_add(&text, "; rank %d has not called it either", missing[i]);
    group_describe_unclaimed(group, call, w.rank, unclaimed);
    text_add(&text, "%s", unclaimed);
    return w.rank;
}

void group_describe_call(const struct call *call, char *ret_text, size_t capacity)
{
    char text[128];

    if (call->kind == CALL_COLLECTIVE) {
        call_fields_text(&call->announce.fields, text, sizeof text);
        snprintf(ret_text, capacity, "#%llu %s", (unsigned long long)call->announce.sequence, text);
    } else {
        snprintf(ret_text, capacity, "%s of %llu bytes, tag %llu",
                 call->kind == CALL_SEND ? "send" : "recv", (unsigned long long)call->bytes,
                 (unsigned long long)call->tag);
    }
}
