/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that begin before the first of the queue is complete, and the runs of all of them.
 *
 * A short collective over messages mostly waits for the network. So those that queue behind one
 * begin, too, and what they send leaves together: a batch of a hundred costs little more than one
 * call. Each message still belongs to its call, so members need not begin the same number of calls.
 *
 * Invariants: the calls that run are the first of the queue; they complete in its order, and only
 * the first one has a deadline. A call begins ahead only if it touches no memory that one before it
 * writes, and writes none that one before it reads: the result is that of one call after the other.
 */
#include <stdlib.h>

#include "progress/progress.h"

/* Of vectors or blocks and of scratch memory, of all calls that run at the same time. Half of a
 * path's window of credit, so that short messages do not wait for it. */
static const uint64_t AHEAD_BYTES = 128 << 10;

static uint64_t bytes_of(const struct tutti_group *group, const struct call *call)
{
    const bool blocks = call->in.stride || call->out.stride;

    return (blocks ? call->bytes * (uint64_t)group->size : call->bytes) +
           call->plan->schedule.scratch_bytes;
}

/* Whether the call may run beside others: it is short, goes by messages alone, and its memory is
 * known. */
static bool is_beside(const struct tutti_group *group, const struct call *call)
{
    return !group->ways.has_mapped && !group->ways.wrappers &&
           call->plan->plan.algorithm->kind == ALGORITHM_MESSAGES && !call->in.each &&
           !call->out.each && !call->packed && bytes_of(group, call) <= AHEAD_BYTES;
}

/* ---- runs ---- */

/* Long calls share one: a run keeps the memory of the largest call that it was used for. */
struct run *group_take_run(struct tutti_group *group, const struct call *call)
{
    if (!is_beside(group, call))
        return &group->calls.run;
    return group->calls.idle_runs ? group->calls.runs[--group->calls.idle_runs]
                                  : calloc(1, sizeof(struct run));
}

void group_give_run(struct tutti_group *group, struct call *call)
{
    if (call->run != &group->calls.run)
        group->calls.runs[group->calls.idle_runs++] = call->run;
    call->run = NULL;
}

void group_abandon_runs(struct tutti_group *group)
{
    for (struct call *call = group->calls.queue.first; call && call->run; call = call->next)
        run_abandon(call->run);
}

void group_runs_free(struct tutti_group *group)
{
    run_free(&group->calls.run);
    while (group->calls.idle_runs) {
        struct run *run = group->calls.runs[--group->calls.idle_runs];

        run_free(run);
        free(run);
    }
}

/* ---- memory ---- */

struct span {
    uintptr_t begin, end; /* equal: nothing */
};

static struct span span_of(const struct tutti_group *group, const struct blocks *blocks,
                           uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)blocks->base;

    if (!begin)
        return (struct span){0, 0};
    return (struct span){begin,
                         begin + (blocks->stride ? blocks->stride * (uint64_t)group->size : bytes)};
}

static bool overlap(struct span a, struct span b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* What the calls that run take up. */
struct running {
    const struct call *first;
    unsigned count;
    uint64_t bytes;
    struct span all; /* from the lowest byte to the highest */
};

static void add_span(struct running *running, struct span span)
{
    if (span.begin == span.end)
        return;
    if (running->all.begin == running->all.end)
        running->all = span;
    if (span.begin < running->all.begin)
        running->all.begin = span.begin;
    if (span.end > running->all.end)
        running->all.end = span.end;
}

static void add_call(struct running *running, const struct tutti_group *group,
                     const struct call *call)
{
    running->count++;
    running->bytes += bytes_of(group, call);
    add_span(running, span_of(group, &call->in, call->bytes));
    add_span(running, span_of(group, &call->out, call->bytes));
}

/* Whether the call needs the result of one that runs, or writes what that one uses. */
static bool depends(const struct tutti_group *group, const struct running *running,
                    const struct call *call)
{
    const struct span in = span_of(group, &call->in, call->bytes);
    const struct span out = span_of(group, &call->out, call->bytes);
    const struct call *other = running->first;

    if (!overlap(in, running->all) && !overlap(out, running->all))
        return false;
    for (unsigned i = 0; i < running->count; i++, other = other->next) {
        const struct span their_out = span_of(group, &other->out, other->bytes);

        if (overlap(in, their_out) || overlap(out, their_out) ||
            overlap(out, span_of(group, &other->in, other->bytes)))
            return true;
    }
    return false;
}

/* ---- calls ---- */

static bool may_begin(const struct tutti_group *group, const struct running *running,
                      const struct call *call)
{
    return call->stage == CALL_QUEUED && is_beside(group, call) && running->count < GROUP_RUNS &&
           running->bytes + bytes_of(group, call) <= AHEAD_BYTES && !depends(group, running, call);
}

bool group_gathers(const struct tutti_group *group, const struct call *call)
{
    enum { TOGETHER = 16 }; /* works that begin in one go while nobody waits */

    return call->kind == CALL_COLLECTIVE && call != group->calls.queue.first &&
           call->announce.sequence % TOGETHER && is_beside(group, call);
}

bool group_may_run_ahead(const struct tutti_group *group)
{
    const struct call *first = group->calls.queue.first;

    return first && first->next && is_beside(group, first);
}

bool group_run_ahead(struct tutti_group *group)
{
    struct call *call = group->calls.queue.first;
    struct running running = {.first = call};
    bool exhausted = false;

    if (!group_may_run_ahead(group) || !call->run || call_is_failing(call))
        return false;
    add_call(&running, group, call);
    while ((call = call->next) && !call_is_failing(call)) {
        if (!call->run && !may_begin(group, &running, call))
            break;
        if (!call->run)
            record_state(group, call->record, RECORD_RUNNING);
        tutti_status status = group_advance(group, call);

        if (status && status != TUTTI_ERR_NOT_READY) {
            group_call_failed(group, call, status);
            break;
        }
        exhausted |= call->run->exhausted;
        add_call(&running, group, call);
    }
    return exhausted;
}
