/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of an engine for devices that are *issued*: their work is on a stream, and the next call of the queue may begin.
 * One that its thread waits for is complete then. Another one, a work, is complete when the stream has passed the mark
 * behind it, as is the record of both.
 *
 * Marks are asked in the order of the calls, in which the engine's work is done, and only the first one that is
 * not passed. The engine is asked what has failed since. A call that stays for a second is compared with the neighbours',
 * since engines wait for ever where members differ. One that stays for its time-out ends the group: then the team is
 * aborted, so that every stream goes on.
 *
 * Invariant: each entry counts as an unattended work of the progress engine, until it is freed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "progress/progress.h"
#include "provider/native.h"

enum { COMPARE_AFTER_MS = 1000, TROUBLE_WAITS_MS = 6000 };

struct issued {
    struct issued *next; /* first */
    struct device_mark *mark;
    void *stream;      /* that the mark is on */
    struct call *call; /* a work that is not complete; NULL: it is */
    struct announce announce;
    uint64_t record;
    int64_t since_ns, timeout_ms;
};

/* Behind the call's work: the mark of the call before, where both were launched as one and lie on one stream. */
static tutti_status mark_behind(const struct tutti_group *group, const struct call *call,
                                bool with_last, struct device_mark **ret_mark)
{
    const struct issued *last =
        group->calls.issued ? (struct issued *)(void *)group->calls.last_issued : NULL;

    if (!with_last || !last || last->stream != call->stream)
        return device_mark(native_of(group, call)->device, call->stream, ret_mark);
    *ret_mark = device_mark_share(last->mark);
    return TUTTI_OK;
}

/* The work of a batch notes the mark that its last operations are behind, and how many of them. */
static void note_mark(struct tutti_work *work, struct device_mark *mark)
{
    struct tutti_work *whole = work->part_of;

    work->mark = mark;
    if (!whole)
        return;
    whole->marked = whole->mark == mark ? whole->marked + 1 : 1;
    whole->mark = mark;
}

static void forget_mark(struct tutti_work *work, const struct device_mark *mark)
{
    struct tutti_work *whole = work->part_of;

    work->mark = NULL;
    if (whole && whole->mark == mark && !--whole->marked)
        whole->mark = NULL;
}

tutti_status issued_add(struct tutti_group *group, struct call *call, bool with_last)
{
    struct issued *entry = calloc(1, sizeof *entry);
    tutti_status status = entry
                              ? mark_behind(group, call, with_last, &entry->mark)
                              : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a call on a stream");

    if (status) {
        free(entry);
        return status;
    }
    entry->stream = call->stream;
    entry->announce = call->announce;
    entry->record = call->record;
    entry->since_ns = clock_now_ns();
    entry->timeout_ms = call->timeout_ms;
    if (!call->waited) {
        entry->call = call;
        note_mark(call->state.work, entry->mark);
    } else if (call->state.work) {
        call->state.work->is_on_stream = true;
        call->state.work->stream = call->stream;
    }
    if (call->state.work)
        work_count_to_issue(call->state.work, -1);
    call->issued = true;
    *group->calls.last_issued = entry;
    group->calls.last_issued = &entry->next;
    engine_count_unattended(&group->context->engine, 1);
    engine_visit(&group->context->engine);
    return TUTTI_OK;
}

/* The first one is over; with an error, the thread has its message. */
static void end_first(struct tutti_group *group, tutti_status status)
{
    struct progress_engine *engine = &group->context->engine;
    struct issued *entry = group->calls.issued;
    struct call *call = entry->call;

    group->calls.issued = entry->next;
    if (!group->calls.issued)
        group->calls.last_issued = &group->calls.issued;
    record_state(group, entry->record, status ? RECORD_FAILED : RECORD_DONE);
    engine_count_unattended(engine, -1);
    if (call) {
        forget_mark(call->state.work, entry->mark);
        if (status)
            error_keep(&call->state.work->error);
        engine_complete(engine, &call->state, status);
    }
    device_mark_free(entry->mark);
    free(entry);
}

void issued_drop(struct tutti_group *group)
{
    while (group->calls.issued)
        end_first(group, group_verdict(group));
}

/* The group ends. */
static void fail(struct tutti_group *group, tutti_status status, const char *words)
{
    char message[CONTROL_MESSAGE_MAX];

    snprintf(message, sizeof message, "rank %d: %.*s", group->rank, TEXT_CUT(words, 900));
    group->calls.issued_fails = true;
    control_propose(group->control, status, group->rank, message);
}

unsigned issued_move(struct tutti_group *group)
{
    unsigned moved = 0;

    while (group->calls.issued && !group->calls.issued_fails) {
        const tutti_status status = device_mark_passed(group->calls.issued->mark);

        if (status == TUTTI_ERR_NOT_READY)
            break;
        if (status) {
            fail(group, status, error_message());
            break;
        }
        end_first(group, TUTTI_OK);
        moved++;
    }
    return moved;
}

/* A neighbour in the ring of ranks that has not announced the call; -1: both have. */
static int missing_neighbour(const struct tutti_group *group, uint64_t sequence)
{
    for (int i = 0; i < 2; i++)
        if (!announced_has_called(group, native_neighbour(group, i), sequence))
            return native_neighbour(group, i);
    return -1;
}

static void time_out(struct tutti_group *group, const struct issued *entry)
{
    const struct announce *call = &entry->announce;
    struct control_timeout timeout = {.sequence = call->sequence, .heard = {-1, -1}};
    const int missing = missing_neighbour(group, call->sequence);
    char what[192], who[256];

    call_fields_text(&call->fields, what, sizeof what);
    if (missing >= 0)
        control_describe(group->control, missing, who, sizeof who);
    snprintf(timeout.verdict.message, sizeof timeout.verdict.message,
             "#%llu %s timed out after %lld ms on rank %d: it is on its stream, waiting for %s%s",
             (unsigned long long)call->sequence, what, (long long)entry->timeout_ms, group->rank,
             missing < 0 ? "earlier work there, or for a member whose stream has not come to it"
                         : who,
             missing < 0 ? "" : ", which has not called it, or does not answer");
    for (int i = 0; i < 2; i++)
        if (announced_has_called(group, native_neighbour(group, i), call->sequence))
            timeout.heard[i] = native_neighbour(group, i);
    timeout.verdict.culprit = missing;
    group->calls.issued_fails = true;
    control_time_out(group->control, &timeout);
}

/* The last call that is on its stream. As signatures are chained, it stands for all before it. NULL: it is not known
 * any more. */
static const struct announce *last_call(const struct tutti_group *group)
{
    const struct announce *last = group_own_call(group, atomic_load(&group->calls.completed));

    return last || !group->calls.issued ? last : &group->calls.issued->announce;
}

/* Asks the engine. What it says of a failure may have a better cause: the control plane knows a lost member, and one
 * that called something else is found by comparing. Returns whether there is trouble. */
static bool engine_fails(struct tutti_group *group, int64_t now_ns)
{
    const struct announce *last = last_call(group);
    struct native *n = group->ways.device_native;

    if (n->lent)
        return false;
    const tutti_status status = native_failed(n, n->ops->test(n->team, NULL), "go on");
    if (!status || status == TUTTI_ERR_NOT_READY)
        return false;
    group->calls.trouble_ns = group->calls.trouble_ns ? group->calls.trouble_ns : now_ns;
    const bool waits = status == TUTTI_ERR_PEER_LOST || (last && !announced_all_agree(group, last));
    if (!waits || now_ns - group->calls.trouble_ns >= TROUBLE_WAITS_MS * CLOCK_NS_PER_MS)
        fail(group, status, error_message());
    return true;
}

void issued_look(struct tutti_group *group, int64_t now_ns)
{
    const struct issued *first = group->calls.issued;

    if ((!first && !group->calls.has_captured) || group->calls.issued_fails ||
        engine_fails(group, now_ns) || !first)
        return;
    const int64_t stays_ms = (now_ns - first->since_ns) / CLOCK_NS_PER_MS;

    if (stays_ms >= COMPARE_AFTER_MS || stays_ms >= first->timeout_ms / 2)
        announced_send_to_neighbours(group, last_call(group));
    if (stays_ms >= first->timeout_ms)
        time_out(group, first);
}
