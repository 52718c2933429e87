/* SPDX-License-Identifier: Apache-2.0 */
/* What a call is, and whom it waits for: in words for errors and warnings, in fields for dumps. */
#include <stdio.h>
#include <string.h>

#include "group/group.h"
#include "group/native.h"
#include "group/recorder.h"

static bool is_native(const struct call *call)
{
    return call->kind == CALL_COLLECTIVE && call->plan->plan.algorithm->kind == ALGORITHM_NATIVE;
}

/* Of a message only its absence is seen; whether its sender is in the call, it says itself. */
static struct waiting for_member(const struct tutti_group *group, const struct call *call,
                                 struct waiting w)
{
    if ((w.kind == WAITING_RECEIVE || w.kind == WAITING_SEND) &&
        announced_is_missing(group, w.rank, call->announce.sequence))
        w.kind = WAITING_ANSWER;
    return w;
}

struct waiting group_waits_for(const struct tutti_group *group, const struct call *call)
{
    if (call->kind != CALL_COLLECTIVE)
        return (struct waiting){
            .kind = call->kind == CALL_SEND ? WAITING_SEND : WAITING_RECEIVE,
            .rank = call->peer,
        };
    if (call != group->queue.first || group_holds(group, call))
        return (struct waiting){.kind = WAITING_NOTHING, .rank = -1};
    if (is_native(call))
        return for_member(group, call, native_waiting(group, call));
    if (call->plan->plan.algorithm->kind == ALGORITHM_INLINE && group->mapped.culprit >= 0)
        return (struct waiting){
            .kind = call->begun ? WAITING_CALL : WAITING_ROOM,
            .rank = group->mapped.ranks[group->mapped.culprit],
        };
    return call->begun && call->plan->plan.algorithm->kind != ALGORITHM_INLINE
               ? for_member(group, call, run_waiting(&group->run))
               : (struct waiting){.kind = WAITING_NOTHING, .rank = -1};
}

/* Its messages say who has called: nobody sends one for another. */
static bool is_monitored(const struct call *call)
{
    return call->kind == CALL_COLLECTIVE &&
           call->announce.words.operation == OPERATION_MONITORED_BARRIER;
}

int group_missing_mates(const struct tutti_group *group, const struct call *call, int named,
                        int *ret_ranks, int capacity)
{
    int count = 0;

    if (call->kind != CALL_COLLECTIVE || call != group->queue.first || !call->begun)
        return 0;
    if (is_native(call))
        return 0; /* it leaves no line in mapped memory */
    if (is_monitored(call))
        return run_awaited(&group->run, named, ret_ranks, capacity);
    if (!group->has_mapped)
        return 0;
    for (int i = 0; i < group->mapped.mates && count < capacity; i++)
        if (i != group->mapped.self && group->mapped.ranks[i] != named &&
            !mapped_has_called(&group->mapped, i))
            ret_ranks[count++] = group->mapped.ranks[i];
    return count;
}

void group_note_missing(struct tutti_group *group, const struct call *call, int rank)
{
    int others[ERROR_MISSING_MAX - 1], count = 0;

    if (rank < 0 || atomic_load(&group->missing_count))
        return;
    group->missing[count++] = rank;
    const int more = group_missing_mates(group, call, rank, others, ERROR_MISSING_MAX - 1);
    for (int i = 0; i < more; i++)
        group->missing[count++] = others[i];
    atomic_store_explicit(&group->missing_count, count, memory_order_release);
}

/* Of the member that `w` names. */
static const char *what_is_missing(const struct tutti_group *group, const struct call *call,
                                   struct waiting w)
{
    if (call->kind != CALL_COLLECTIVE && w.rank == group->rank)
        return "is this rank itself: start the other side first";
    if (call->kind == CALL_SEND)
        return p2p_is_unmatched(&call->message) ? "has no receive for it"
                                                : "has not taken all of it in";
    if (call->kind == CALL_RECV)
        return "has not sent it, or not all of it";
    if (w.kind == WAITING_CALL || w.kind == WAITING_ROOM || is_monitored(call))
        return "has not called it";
    return w.kind == WAITING_ANSWER ? "has not called it, or does not answer"
                                    : "has not come so far in it";
}

/* What the kernel says of a mate that does not run: "stopped", "traced"; NULL: nothing. */
static const char *halted(struct tutti_group *group, int rank)
{
    pthread_mutex_lock(&group->control->lock);
    const char *state = mates_process_state(group->mates, rank);
    pthread_mutex_unlock(&group->control->lock);
    return state && (!strcmp(state, "stopped") || !strcmp(state, "traced")) ? state : NULL;
}

static int halted_mate(struct tutti_group *group)
{
    for (int i = 0; group->mates && i < group->mates->count; i++)
        if (halted(group, group->mates->peers[i].rank))
            return group->mates->peers[i].rank;
    return -1;
}

void group_heard_in(const struct tutti_group *group, const struct call *call, int32_t ret_ranks[2])
{
    int neighbours[2];

    ret_ranks[0] = ret_ranks[1] = -1;
    if (!is_native(call) || group->size < 2)
        return;
    native_neighbours(group, neighbours);
    for (int i = 0; i < 2; i++)
        if (announced_has_called(group, neighbours[i], call->announce.sequence))
            ret_ranks[i] = neighbours[i];
}

/* A member that the call waits for, or seems to. */
static void describe_member(struct tutti_group *group, int rank, const char *missing,
                            char *ret_text, size_t capacity)
{
    const char *state = halted(group, rank);

    control_describe(group->control, rank, ret_text, capacity);
    size_t used = strlen(ret_text);
    if (missing)
        used += (size_t)snprintf(ret_text + used, capacity - used, ", which %s", missing);
    if (state && used < capacity)
        snprintf(ret_text + used, capacity - used, "%s process is %s",
                 missing ? "; its" : ", whose", state);
}

int group_describe_wait(struct tutti_group *group, const struct call *call, char *ret_text,
                        size_t capacity)
{
    enum { NAMED = 64 };
    struct waiting w = group_waits_for(group, call);
    int missing[NAMED];
    size_t used;

    if (call->kind == CALL_COLLECTIVE && group_holds(group, call)) {
        snprintf(ret_text, capacity, "a wrapper of this rank, which holds it back");
        return group->rank;
    }
    /* An engine knows nobody, or its own partner, which may wait for who is stopped. */
    const bool is_guess = is_native(call) && (w.rank < 0 || !halted(group, w.rank));
    const int stopped = is_guess ? halted_mate(group) : -1;
    if (stopped >= 0) {
        describe_member(group, stopped, NULL, ret_text, capacity);
        return stopped;
    }
    if (w.rank < 0) {
        if (is_native(call))
            snprintf(ret_text, capacity, "%s, which does not say for whom it waits",
                     group->facts.native->name);
        else
            snprintf(ret_text, capacity, "any member%s",
                     group_is_last(group)
                         ? "; every other member left, and this rank has sent nothing to itself"
                         : "");
        return -1;
    }
    describe_member(group, w.rank, what_is_missing(group, call, w), ret_text, capacity);
    int count = group_missing_mates(group, call, w.rank, missing, NAMED);
    for (int i = 0; i < count; i++) {
        used = strlen(ret_text);
        snprintf(ret_text + used, capacity - used, "; rank %d has not called it either",
                 missing[i]);
    }
    return w.rank;
}

void group_describe_call(const struct call *call, char *ret_text, size_t capacity)
{
    char words[128];

    if (call->kind == CALL_COLLECTIVE) {
        call_words_text(&call->announce.words, words, sizeof words);
        snprintf(ret_text, capacity, "#%llu %s", (unsigned long long)call->announce.sequence,
                 words);
    } else {
        snprintf(ret_text, capacity, "%s of %llu bytes, tag %llu",
                 call->kind == CALL_SEND ? "send" : "recv", (unsigned long long)call->bytes,
                 (unsigned long long)call->tag);
    }
}
