/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roll call before a time-out becomes the verdict.
 *
 * Who waits in an engine's operation does not know for whom, and who has called may have been stopped
 * since. So the member that fixes the verdict asks those that have not timed out themselves how far they
 * have called. Whoever waits in a call answers at once; who does not is stopped, hangs, or is busy outside
 * of tutti. Nothing of this costs anything before a deadline has ended, and members that time out like
 * everybody are not asked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "control/control.h"

enum { NAMED_MAX = 8 };

static bool is_asked(const struct control *control, int rank)
{
    const struct control_member *m = &control->members[rank];

    return rank != control->rank && !m->dead && !m->left && !control->timeouts[rank].verdict.status;
}

void roll_ask(struct control *control, int rank)
{
    if (!control->answers)
        control->answers = calloc((size_t)control->size, sizeof *control->answers);
    struct control_conn *conn = control->answers ? control_dial(control, rank) : NULL;

    if (conn)
        (void)control_conn_send(control, conn, FRAME_ROLL, NULL, 0);
}

bool roll_has_answered(const struct control *control, int rank)
{
    return control->answers && control->answers[rank].has_come;
}

void roll_call(struct control *control)
{
    for (int r = 0; control->timeouts && r < control->size; r++)
        if (is_asked(control, r))
            roll_ask(control, r);
}

/* With a number where members differ: then a verdict is on its way, and this member stays for it. */
void roll_on_call(struct control *control, const struct control_conn *from, const uint8_t *body,
                  size_t size)
{
    struct reader r = {.data = body, .size = size};
    const uint64_t sequence = size ? read_u64(&r) : 0;

    if (r.bad)
        return;
    control->expects_verdict |= sequence != 0;
    atomic_store_explicit(&control->asked_call, sequence, memory_order_relaxed);
    atomic_store_explicit(&control->asked_by, from->rank, memory_order_release);
}

void control_answer(struct control *control, uint64_t called, const struct announce *call)
{
    static const struct announce none;
    uint8_t body[8 + SIDES_CALL_BYTES];
    struct writer w = {.data = body, .capacity = sizeof body};
    struct control_conn *conn;

    pthread_mutex_lock(&control->lock);
    int rank = atomic_exchange(&control->asked_by, -1);
    conn = rank >= 0 ? control_conn_to(control, rank) : NULL;
    write_u64(&w, called);
    sides_write_call(&w, call ? call : &none);
    if (rank == control->rank)
        sides_answered(control, rank, called, call ? call : &none);
    else if (conn)
        (void)control_conn_send(control, conn, FRAME_HERE, body, w.size);
    pthread_mutex_unlock(&control->lock);
}

void roll_on_answer(struct control *control, const struct control_conn *from, const uint8_t *body,
                    size_t size)
{
    struct reader r = {.data = body, .size = size};
    uint64_t called = read_u64(&r);
    struct announce call;

    sides_read_call(&r, &call);
    if (r.bad)
        return;
    if (control->answers)
        control->answers[from->rank] = (struct control_answer){.has_come = true, .called = called};
    sides_answered(control, from->rank, called, &call);
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
static bool describe(const struct control *control, int rank, uint64_t sequence, char *ret_words,
                     size_t capacity)
{
    const struct control_answer *answer = &control->answers[rank];

    if (!is_asked(control, rank) || (answer->has_come && answer->called >= sequence))
        return false;
    if (answer->has_come && answer->called)
        snprintf(ret_words, capacity, "has not called it: its last call is #%llu",
                 (unsigned long long)answer->called);
    else if (answer->has_come)
        snprintf(ret_words, capacity, "has not called it, nor anything before");
    else
        snprintf(ret_words, capacity, "%s",
                 has_entered(control, rank, sequence) ? "does not answer, though it has called it"
                                                      : "does not answer");
    return true;
}

static void append(struct control_verdict *verdict, const char *words)
{
    const size_t used = strlen(verdict->words);

    snprintf(verdict->words + used, sizeof verdict->words - used, "%s", words);
}

/* Whoever does not answer comes before who has only not called. */
static int suspect(const struct control *control, uint64_t sequence)
{
    char words[128];
    int late = -1;

    for (int r = 0; r < control->size; r++) {
        if (!describe(control, r, sequence, words, sizeof words))
            continue;
        if (!control->answers[r].has_come)
            return r;
        if (late < 0)
            late = r;
    }
    return late;
}

static void name_members(const struct control *control, uint64_t sequence, int first,
                         struct control_verdict *verdict)
{
    char why[128], who[CONTROL_HOST_MAX + 64], words[sizeof why + sizeof who + 16];
    int named = 0;

    for (int r = first; r < control->size && named < NAMED_MAX; r++) {
        if (!describe(control, r, sequence, why, sizeof why))
            continue;
        control_describe(control, r, who, sizeof who);
        snprintf(words, sizeof words, "; %s %s", who, why);
        append(verdict, words);
        named++;
    }
}

void roll_judge(const struct control *control, uint64_t sequence, struct control_verdict *verdict)
{
    char why[128], words[sizeof why + 32];

    if (!control->answers || !sequence)
        return;
    if (verdict->culprit < 0) {
        verdict->culprit = suspect(control, sequence);
        if (verdict->culprit < 0)
            append(verdict, "; all members answer, and have called it");
        else
            name_members(control, sequence, 0, verdict);
    } else if (describe(control, verdict->culprit, sequence, why, sizeof why)) {
        snprintf(words, sizeof words, "; asked again, it %s", why);
        append(verdict, words);
    }
}
