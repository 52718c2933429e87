/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: one reason, in the same words on all survivors.
 *
 * Whoever sees a cause proposes it to the lowest living member. That one fixes it: lost, mismatch
 * and aborted at once, a time-out after 200 ms, since a better cause may be on its way: whoever is
 * waited for may be waiting itself, and the one that has nothing to say is the one to name. Who
 * hears nothing 500 ms after proposing passes over that member to the next. A fixed verdict is
 * flooded, and written into the page of the host's mates, so that they need no socket to learn it;
 * whoever has none yet adopts the first that it meets, and nobody ever changes one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/error.h"
#include "control/control.h"
#include "control/mates.h"

enum { TIMEOUT_WAITS_MS = 200, FIXER_ANSWERS_MS = 500, BODY_MAX = CONTROL_WORDS_MAX + 32 };

/* Lower is the better cause. */
static int order_of(tutti_status status)
{
    switch (status) {
    case TUTTI_ERR_PEER_LOST:
        return 0;
    case TUTTI_ERR_MISMATCH:
        return 1;
    case TUTTI_ERR_TIMEOUT:
        return 3;
    default:
        return 2;
    }
}

static size_t encode(const struct control_verdict *verdict, uint8_t body[BODY_MAX])
{
    struct writer w = {.data = body, .capacity = BODY_MAX};

    write_u32(&w, (uint32_t)verdict->status);
    write_u32(&w, (uint32_t)verdict->culprit);
    write_string(&w, verdict->words);
    return w.size;
}

static bool decode(const struct control *control, const uint8_t *body, size_t size,
                   struct control_verdict *ret_verdict)
{
    struct reader r = {.data = body, .size = size};

    ret_verdict->status = (tutti_status)read_u32(&r);
    ret_verdict->culprit = (int)read_u32(&r);
    read_string(&r, ret_verdict->words, sizeof ret_verdict->words);
    return !r.bad && ret_verdict->status < 0 && ret_verdict->culprit >= -1 &&
           ret_verdict->culprit < control->size;
}

void verdict_adopt(struct control *control, const struct control_verdict *verdict,
                   const struct control_conn *except)
{
    uint8_t body[BODY_MAX];
    struct control_verdict agreed = *verdict;

    if (control->verdict.status)
        return;
    if (control->mates) /* what a mate has written before binds the whole host */
        mates_publish_verdict(control->mates, &agreed);
    control->verdict = agreed;
    control->fix_at_ns = control->pass_over_at_ns = 0;
    atomic_store_explicit(&control->verdict_status, agreed.status, memory_order_release);
    control_flood(control, except, FRAME_VERDICT, body, encode(&agreed, body));
}

/* Keeps what a member has waited for in vain. Without memory the first that was heard is named. */
static void note_timeout(struct control *control, int rank, const struct control_verdict *verdict)
{
    if (verdict->status != TUTTI_ERR_TIMEOUT)
        return;
    if (!control->timeouts)
        control->timeouts = calloc((size_t)control->size, sizeof *control->timeouts);
    if (control->timeouts)
        control->timeouts[rank] = *verdict;
}

/* From who waited to whom it waited for, as long as that one waits itself; from who cannot tell to who
 * can. */
static void follow_timeouts(const struct control *control, struct control_verdict *verdict)
{
    for (int r = 0; control->timeouts && verdict->culprit < 0 && r < control->size; r++)
        if (control->timeouts[r].status && control->timeouts[r].culprit >= 0)
            *verdict = control->timeouts[r];
    for (int hops = 0; control->timeouts && hops < control->size; hops++) {
        if (verdict->culprit < 0 || !control->timeouts[verdict->culprit].status)
            return;
        *verdict = control->timeouts[verdict->culprit];
    }
}

/* This member is the lowest living one. Its tree may be broken, so it tells everybody itself. */
static void fix(struct control *control)
{
    struct control_verdict verdict = control->proposal;

    if (verdict.status == TUTTI_ERR_TIMEOUT)
        follow_timeouts(control, &verdict);
    if (control->rank)
        for (int r = 0; r < control->size; r++)
            if (r != control->rank && !control->members[r].dead && !control->members[r].left)
                (void)control_dial(control, r);
    verdict_adopt(control, &verdict, NULL);
}

static void ask_or_fix(struct control *control)
{
    int fixer = control_lowest_living(control);
    uint8_t body[BODY_MAX];

    if (fixer == control->rank) {
        control->pass_over_at_ns = 0;
        if (control->proposal.status != TUTTI_ERR_TIMEOUT)
            fix(control);
        else if (!control->fix_at_ns)
            control->fix_at_ns = clock_now_ns() + TIMEOUT_WAITS_MS * CLOCK_NS_PER_MS;
        return;
    }
    struct control_conn *conn = control_dial(control, fixer);
    if (conn)
        (void)control_conn_send(control, conn, FRAME_PROPOSE, body,
                                encode(&control->proposal, body));
    if (control->fixer != fixer || !control->pass_over_at_ns)
        control->pass_over_at_ns = clock_now_ns() + FIXER_ANSWERS_MS * CLOCK_NS_PER_MS;
    control->fixer = fixer;
}

void verdict_propose(struct control *control, tutti_status status, int culprit, const char *words)
{
    if (control->verdict.status)
        return;
    struct control_verdict mine = {.status = status, .culprit = culprit};
    snprintf(mine.words, sizeof mine.words, "group %s: %s", control->name, words);
    note_timeout(control, control->rank, &mine);
    bool better =
        !control->proposal.status || order_of(status) < order_of(control->proposal.status);
    if (better)
        control->proposal = mine;
    /* A death may also have taken the member that was asked. */
    if (better || control->fixer != control_lowest_living(control))
        ask_or_fix(control);
}

void verdict_on_propose(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size)
{
    struct control_verdict verdict;

    if (!decode(control, body, size, &verdict) || control->verdict.status)
        return;
    note_timeout(control, from->rank, &verdict);
    if (!control->proposal.status || order_of(verdict.status) < order_of(control->proposal.status))
        control->proposal = verdict;
    /* Who asks me has found everybody below me wanting. */
    if (control->proposal.status != TUTTI_ERR_TIMEOUT)
        fix(control);
    else if (!control->fix_at_ns)
        control->fix_at_ns = clock_now_ns() + TIMEOUT_WAITS_MS * CLOCK_NS_PER_MS;
}

void verdict_on_verdict(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size)
{
    struct control_verdict verdict;

    if (decode(control, body, size, &verdict))
        verdict_adopt(control, &verdict, from);
}

void verdict_timers(struct control *control)
{
    if (control->verdict.status || (!control->fix_at_ns && !control->pass_over_at_ns))
        return;
    int64_t now = clock_now_ns();
    if (control->fix_at_ns && now >= control->fix_at_ns) {
        fix(control);
    } else if (control->pass_over_at_ns && now >= control->pass_over_at_ns) {
        control->members[control->fixer].passed_over = true;
        control->pass_over_at_ns = 0;
        ask_or_fix(control);
    }
}

void verdict_greet(struct control *control, struct control_conn *conn)
{
    uint8_t body[BODY_MAX];

    if (control->verdict.status)
        (void)control_conn_send(control, conn, FRAME_VERDICT, body,
                                encode(&control->verdict, body));
}

tutti_status control_verdict_error(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    struct control_verdict verdict = control->verdict;
    pthread_mutex_unlock(&control->lock);
    error_restore(verdict.status, verdict.culprit, verdict.words);
    error_where(control->rank, -1, 0, NULL);
    return verdict.status;
}
