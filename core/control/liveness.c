/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The liveness queries before a time-out becomes the verdict.
 *
 * A member that waits in an engine's operation does not know which rank it waits for, and a member
 * that has called may have been stopped since, or may wait for another one itself until a later
 * deadline. So the member that fixes the verdict asks those that have not timed out themselves how
 * far they have called, and whom they wait for. A member that waits in a call answers at once; one
 * that does not is stopped, hangs, or is busy outside of tutti. This costs nothing before a deadline
 * has ended, and members that time out themselves are not asked.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/text.h"
#include "control/inside.h"

enum {
    NAMED_MAX = 8,
    WAY_MAX = 4 /* members between the culprit that was proposed and the last one */
};

static bool is_asked(const struct control *control, int rank)
{
    return !member_is_gone(&control->members[rank]) && !control->timeouts[rank].verdict.status;
}

void liveness_asked(struct control *control, int by, uint64_t sequence)
{
    atomic_store_explicit(&control->asked_call, sequence, memory_order_relaxed);
    atomic_store_explicit(&control->asked_by, by, memory_order_release);
}

void liveness_query(struct control *control, int rank)
{
    if (!control->answers)
        control->answers = calloc((size_t)control->size, sizeof *control->answers);
    if (control->answers && rank == control->rank) {
        liveness_asked(control, rank, 0);
        return;
    }
    struct control_conn *conn = control->answers ? control_dial(control, rank) : NULL;
    if (conn)
        (void)control_conn_send(control, conn, FRAME_QUERY, NULL, 0);
}

bool liveness_has_answered(const struct control *control, int rank)
{
    return control->answers && control->answers[rank].has_come;
}

void liveness_query_all(struct control *control)
{
    for (int r = 0; control->timeouts && r < control->size; r++) {
        if (!is_asked(control, r))
            continue;
        liveness_query(control, r);
        if (control->answers) /* it may have answered before, when the group was made */
            control->answers[r].has_come = false;
    }
}

/* Takes a query. A query with a number comes if members differ: a verdict is on its way, and this
 * member stays for it. */
void liveness_on_query(struct control *control, struct control_conn *from, struct reader *r)
{
    const uint64_t sequence = r->size ? read_u64(r) : 0;

    if (r->bad)
        return;
    control->expects_verdict |= sequence != 0;
    liveness_asked(control, from->rank, sequence);
}

/* Takes the answer of `rank`, which may be this member itself. */
static void take_answer(struct control *control, int rank, const struct control_answer *answer,
                        const struct announce *call)
{
    if (control->answers) {
        control->answers[rank] = *answer;
        control->answers[rank].has_come = true;
    }
    sides_answered(control, rank, answer->called, call);
}

void control_answer(struct control *control, const struct control_answer *answer,
                    const struct announce *call)
{
    static const struct announce none;
    uint8_t body[8 + 8 + 4 + SIDES_CALL_BYTES];
    struct writer w = {.data = body, .capacity = sizeof body};

    LOCK_SCOPE(&control->lock);
    int rank = atomic_exchange(&control->asked_by, -1);
    struct control_conn *conn = rank >= 0 ? control_conn_to(control, rank) : NULL;
    write_u64(&w, answer->called);
    write_u64(&w, answer->waits_in);
    write_u32(&w, (uint32_t)answer->waits_for);
    sides_write_call(&w, call ? call : &none);
    if (rank == control->rank)
        take_answer(control, rank, answer, call ? call : &none);
    else if (conn)
        (void)control_conn_send(control, conn, FRAME_HERE, body, w.size);
}

void liveness_on_answer(struct control *control, struct control_conn *from, struct reader *r)
{
    struct control_answer answer;
    struct announce call;

    answer.called = read_u64(r);
    answer.waits_in = read_u64(r);
    answer.waits_for = (int32_t)read_u32(r);
    sides_read_call(r, &call);
    if (!r->bad && answer.waits_for < control->size)
        take_answer(control, from->rank, &answer, &call);
}

/* ---- what it says --------------------------------------------------------------------------- */

/* Whether somebody has heard of the member in that call. */
static bool has_entered(const struct control *control, int rank, uint64_t sequence)
{
    for (int r = 0; r < control->size; r++) {
        const struct control_timeout *t = &control->timeouts[r];

        if (t->verdict.status && t->sequence == sequence &&
            (t->heard[0] == rank || t->heard[1] == rank))
            return true;
    }
    return false;
}

/* Why the member may be the one that all wait for; false: nothing speaks for it. */
static bool describe(const struct control *control, int rank, uint64_t sequence, char *ret_message,
                     size_t capacity)
{
    const struct control_answer *answer = &control->answers[rank];

    if (!is_asked(control, rank) || (answer->has_come && answer->called >= sequence) ||
        (!answer->has_come && rank == control->rank))
        return false;
    if (answer->has_come && answer->called)
        snprintf(ret_message, capacity, "has not called it: its last call is #%llu",
                 (unsigned long long)answer->called);
    else if (answer->has_come)
        snprintf(ret_message, capacity, "has not called anything yet");
    else
        snprintf(ret_message, capacity, "%s",
                 has_entered(control, rank, sequence) ? "has called it, but does not answer"
                                                      : "does not answer");
    return true;
}

/* A member that does not answer comes before one that has only not called. */
static int suspect(const struct control *control, uint64_t sequence)
{
    char message[128];
    int late = -1;

    for (int r = 0; r < control->size; r++) {
        if (!describe(control, r, sequence, message, sizeof message))
            continue;
        if (!control->answers[r].has_come)
            return r;
        if (late < 0)
            late = r;
    }
    return late;
}

/* Names all members that do not answer, or have not called, where the cause names none. */
static void name_suspects(const struct control *control, uint64_t sequence,
                          struct control_verdict *verdict)
{
    struct text text = text_after(verdict->message, sizeof verdict->message);
    char why[128], who[CONTROL_HOST_MAX + 64];
    int named = 0;

    verdict->culprit = suspect(control, sequence);
    if (verdict->culprit < 0)
        text_add(&text, "; all members answer, and have called it");
    for (int r = 0; r < control->size && named < NAMED_MAX; r++) {
        if (!describe(control, r, sequence, why, sizeof why))
            continue;
        control_describe(control, r, who, sizeof who);
        text_add(&text, "; %s %s", who, why);
        named++;
    }
}

/* The rank that a member waits for in that collective, or in one before it; -1: for none, or not known. */
static int awaited_by(const struct control *control, int rank, uint64_t sequence)
{
    const struct control_timeout *timeout = &control->timeouts[rank];
    const struct control_answer *answer = &control->answers[rank];

    if (timeout->verdict.status)
        return timeout->sequence ? timeout->verdict.culprit : -1;
    if (!answer->has_come || !answer->waits_in || answer->waits_in > sequence)
        return -1;
    return answer->waits_for;
}

/* The last of those that wait for one another, from the culprit on; a circle has none. */
static int last_awaited(const struct control *control, int culprit, uint64_t sequence)
{
    int rank = culprit;

    for (int hops = 0; hops < control->size; hops++) {
        const int next = awaited_by(control, rank, sequence);

        if (next < 0)
            return rank;
        rank = next;
    }
    return culprit;
}

/* "; it is waiting for rank 4, which is waiting for rank 2 (host h, pid 17)" */
static void add_way(const struct control *control, uint64_t sequence, int last,
                    struct control_verdict *verdict)
{
    struct text text = text_after(verdict->message, sizeof verdict->message);
    char who[CONTROL_HOST_MAX + 64];
    int named = 0, rank = verdict->culprit;

    while ((rank = awaited_by(control, rank, sequence)) != last) {
        if (named++ < WAY_MAX)
            text_add(&text, "%s waiting for rank %d", named == 1 ? "; it is" : ", which is", rank);
    }
    control_describe(control, last, who, sizeof who);
    text_add(&text, "%s waiting for %s",
             named > WAY_MAX ? ", and so on up to one that is"
             : named         ? ", which is"
                             : "; it is",
             who);
    verdict->culprit = last;
}

void liveness_judge(const struct control *control, uint64_t sequence,
                    struct control_verdict *verdict)
{
    const int culprit = verdict->culprit;
    char why[128];

    if (!control->answers || !sequence)
        return;
    if (culprit < 0) {
        name_suspects(control, sequence, verdict);
        return;
    }
    const int last = last_awaited(control, culprit, sequence);
    if (last != culprit)
        add_way(control, sequence, last, verdict);
    if (describe(control, last, sequence, why, sizeof why)) {
        struct text text = text_after(verdict->message, sizeof verdict->message);

        text_add(&text, last == culprit ? "; queried after the timeout, it %s" : ", which %s", why);
    }
}
