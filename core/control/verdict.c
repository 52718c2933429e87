/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: one reason, with the same message on all survivors.
 *
 * A member that sees a cause proposes it to the lowest living member, which fixes it. A loss or an
 * abort it fixes at once, a mismatch when all members have told their call, within 200 ms
 * (sides.c). A timeout it fixes after 200 ms, since a more precise cause may follow: the awaited
 * peer may itself be waiting. Members that have reported nothing are asked meanwhile (liveness.c),
 * and one that does not answer is the one to name. A member that hears nothing 500 ms after its
 * proposal passes over to the next lowest; with an abort after 60 ms, as it is promised within 100
 * ms. A fixed verdict is flooded, and written into the page of the local peers, so that they need
 * no socket to learn it. A member without a verdict adopts the first that it meets, and no member
 * ever changes one. Where all members read one page, the first that is written there is the
 * verdict: so a member that aborts writes it at once, and asks nobody.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/error.h"
#include "base/text.h"
#include "control/inside.h"

enum {
    TIMEOUT_WAITS_MS = 200,
    SIDES_WAIT_MS = 200,
    QUERY_AFTER_MS = 50, /* of these: members that called together time out together */
    FIXER_ANSWERS_MS = 500,
    FIXER_ANSWERS_ABORT_MS = 60,
    BODY_MAX = CONTROL_MESSAGE_MAX + 160
};

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
    write_string(&w, verdict->message);
    return w.size;
}

static bool decode(const struct control *control, struct reader *r,
                   struct control_verdict *ret_verdict)
{
    ret_verdict->status = (tutti_status)read_u32(r);
    ret_verdict->culprit = (int)read_u32(r);
    read_string(r, ret_verdict->message, sizeof ret_verdict->message);
    text_make_printable(ret_verdict->message);
    return !r->bad && ret_verdict->status < 0 && ret_verdict->culprit >= -1 &&
           ret_verdict->culprit < control->size;
}

static void write_difference(struct writer *w, const struct control_difference *difference)
{
    write_u64(w, difference->sequence);
    for (int i = 0; i < 2; i++) {
        write_u32(w, (uint32_t)difference->rank[i]);
        sides_write_call(w, &difference->call[i]);
    }
}

static bool read_difference(const struct control *control, struct reader *r,
                            struct control_difference *ret_difference)
{
    bool valid = true;

    ret_difference->sequence = read_u64(r);
    for (int i = 0; i < 2; i++) {
        ret_difference->rank[i] = (int)read_u32(r);
        sides_read_call(r, &ret_difference->call[i]);
        valid &= ret_difference->rank[i] >= 0 && ret_difference->rank[i] < control->size;
    }
    return valid && !r->bad;
}

/* A proposal: the verdict that it would be and, of a time-out, what its member knows besides. */
static size_t encode_proposal(const struct control *control, uint8_t body[BODY_MAX])
{
    static const struct control_timeout nothing;
    const struct control_timeout *own =
        control->timeouts ? &control->timeouts[control->rank] : &nothing;
    struct writer w = {.data = body, .capacity = BODY_MAX};

    w.size = encode(&control->proposal, body);
    write_u64(&w, own->sequence);
    write_u32(&w, (uint32_t)own->heard[0]);
    write_u32(&w, (uint32_t)own->heard[1]);
    write_difference(&w, &control->difference);
    return w.size;
}

static bool decode_proposal(const struct control *control, struct reader *r,
                            struct control_timeout *ret_proposal,
                            struct control_difference *ret_difference)
{
    if (!decode(control, r, &ret_proposal->verdict))
        return false;
    ret_proposal->sequence = read_u64(r);
    ret_proposal->heard[0] = (int32_t)read_u32(r);
    ret_proposal->heard[1] = (int32_t)read_u32(r);
    return read_difference(control, r, ret_difference);
}

void verdict_adopt(struct control *control, const struct control_verdict *verdict,
                   const struct control_conn *except)
{
    uint8_t body[BODY_MAX];
    struct control_verdict agreed = *verdict;

    if (control->verdict.status)
        return;
    if (control->local) /* what a local peer has written before binds the whole host */
        control->local_ops->publish_verdict(control->local, &agreed);
    control->verdict = agreed;
    control->fix_at_ns = control->query_at_ns = control->pass_over_at_ns = 0;
    atomic_store_explicit(&control->verdict_status, agreed.status, memory_order_release);
    control_flood(control, except, FRAME_VERDICT, body, encode(&agreed, body));
}

/* Keeps what a member has waited for until its deadline. Without memory the first that was heard is
 * named. */
static void note_timeout(struct control *control, int rank, const struct control_timeout *timeout)
{
    if (timeout->verdict.status != TUTTI_ERR_TIMEOUT)
        return;
    if (!control->timeouts)
        control->timeouts = calloc((size_t)control->size, sizeof *control->timeouts);
    if (control->timeouts)
        control->timeouts[rank] = *timeout;
}

/* Follows the timeouts from a member to the rank that it waited for, as long as that one waits
 * itself; a member that cannot name a rank is passed over for one that can. NULL: nothing was
 * kept. */
static const struct control_timeout *first_cause(const struct control *control)
{
    const struct control_timeout *all = control->timeouts, *cause = NULL;

    for (int r = 0; all && r < control->size; r++)
        if (all[r].verdict.status &&
            (!cause || (cause->verdict.culprit < 0 && all[r].verdict.culprit >= 0)))
            cause = &all[r];
    for (int hops = 0; cause && hops < control->size; hops++) {
        const int next = cause->verdict.culprit;

        if (next < 0 || !all[next].verdict.status)
            break;
        cause = &all[next];
    }
    return cause;
}

static void judge_timeouts(const struct control *control, struct control_verdict *verdict)
{
    const struct control_timeout *cause = first_cause(control);

    if (!cause)
        return;
    *verdict = cause->verdict;
    liveness_judge(control, cause->sequence, verdict);
}

/* This member is the lowest living one. Its tree may be broken, so it tells everybody itself. */
static void fix(struct control *control)
{
    struct control_verdict verdict = control->proposal;

    if (verdict.status == TUTTI_ERR_TIMEOUT)
        judge_timeouts(control, &verdict);
    else if (verdict.status == TUTTI_ERR_MISMATCH)
        sides_tell(control, &verdict);
    control->has_fixed = control->rank > 0;
    if (control->has_fixed)
        for (int r = 0; r < control->size; r++)
            if (r != control->rank && !member_is_gone(&control->members[r]))
                (void)control_dial(control, r);
    verdict_adopt(control, &verdict, NULL);
}

static bool is_gathering(const struct control *control)
{
    return control->sides && control->proposal.status == TUTTI_ERR_MISMATCH;
}

/* When all have told what they called, or this is over: verdict_timers(). */
static void fix_when_gathered(struct control *control)
{
    sides_gather(control);
    control->query_at_ns = 0; /* it would ask the same members for less */
    if (control->sides)
        control->fix_at_ns = clock_now_ns() + SIDES_WAIT_MS * CLOCK_NS_PER_MS;
    else
        fix(control);
}

static void fix_later(struct control *control)
{
    const int64_t now = clock_now_ns();

    if (control->fix_at_ns)
        return;
    control->fix_at_ns = now + TIMEOUT_WAITS_MS * CLOCK_NS_PER_MS;
    control->query_at_ns = now + QUERY_AFTER_MS * CLOCK_NS_PER_MS;
}

/* This member fixes the verdict. */
static void fix_in_time(struct control *control)
{
    const tutti_status status = control->proposal.status;

    if (status == TUTTI_ERR_TIMEOUT)
        fix_later(control);
    else if (status == TUTTI_ERR_MISMATCH && control->difference.sequence && control->call_text)
        fix_when_gathered(control);
    else
        fix(control);
}

/* The lowest living member, or one below it that leaves and is still connected: it stays for the verdict.
 * Where all leave, they would else fix one each. */
static int fixer_of(struct control *control)
{
    const int living = control_lowest_living(control);

    for (int r = 0; r < living; r++) {
        const struct control_member *m = &control->members[r];

        if (m->left && !m->dead && !m->passed_over && control_conn_to(control, r))
            return r;
    }
    return living;
}

static void ask_or_fix(struct control *control)
{
    int fixer = fixer_of(control);
    const bool abort = control->proposal.status == TUTTI_ERR_ABORTED;
    const int64_t answers_ms = abort ? FIXER_ANSWERS_ABORT_MS : FIXER_ANSWERS_MS;
    uint8_t body[BODY_MAX];

    if (abort && control->local && control->local_ops->are_all(control->local)) {
        verdict_adopt(control, &control->proposal, NULL);
        return;
    }
    if (fixer == control->rank) {
        control->pass_over_at_ns = 0;
        fix_in_time(control);
        return;
    }
    struct control_conn *conn = control_dial(control, fixer);
    if (conn)
        (void)control_conn_send(control, conn, FRAME_PROPOSE, body, encode_proposal(control, body));
    if (control->fixer != fixer || !control->pass_over_at_ns)
        control->pass_over_at_ns = clock_now_ns() + answers_ms * CLOCK_NS_PER_MS;
    control->fixer = fixer;
}

/* Whether a proposal explains more than the best that is known. A member that gathers the calls of
 * a mismatch keeps to it: later causes may be its effects. */
static bool is_better(const struct control *control, const struct control_verdict *verdict,
                      const struct control_difference *difference)
{
    if (!control->proposal.status)
        return true;
    if (is_gathering(control))
        return verdict->status == TUTTI_ERR_MISMATCH && difference->sequence &&
               difference->sequence < control->difference.sequence;
    return order_of(verdict->status) < order_of(control->proposal.status);
}

static bool take_over(struct control *control, const struct control_timeout *cause,
                      const struct control_difference *difference)
{
    const bool better = is_better(control, &cause->verdict, difference);

    if (better) {
        control->proposal = cause->verdict;
        control->difference = *difference;
    } else {
        sides_note_pair(control, difference);
    }
    return better;
}

static void propose(struct control *control, struct control_timeout *mine,
                    const struct control_difference *difference)
{
    if (control->verdict.status)
        return;
    text_make_printable(mine->verdict.message); /* as a program's reason to abort may be anything */
    note_timeout(control, control->rank, mine);
    const bool better = take_over(control, mine, difference);
    /* A death may also have taken the member that was asked. */
    if (better || (control->fixer != fixer_of(control) && !is_gathering(control)))
        ask_or_fix(control);
}

static const struct control_difference no_difference;

static void propose_message(struct control *control, tutti_status status, int culprit,
                            const struct control_difference *difference, const char *message)
{
    struct control_timeout mine = {.verdict = {.status = status, .culprit = culprit},
                                   .heard = {-1, -1}};

    snprintf(mine.verdict.message, sizeof mine.verdict.message, "group %s: %s", control->name,
             message);
    propose(control, &mine, difference);
}

void verdict_propose(struct control *control, tutti_status status, int culprit, const char *message)
{
    propose_message(control, status, culprit, &no_difference, message);
}

void control_propose(struct control *control, tutti_status status, int culprit, const char *message)
{
    control_poll(control);
    LOCK_SCOPE(&control->lock);
    verdict_propose(control, status, culprit, message);
}

void control_differ(struct control *control, int culprit,
                    const struct control_difference *difference, const char *message)
{
    control_poll(control);
    LOCK_SCOPE(&control->lock);
    propose_message(control, TUTTI_ERR_MISMATCH, culprit, difference, message);
}

void control_time_out(struct control *control, const struct control_timeout *timeout)
{
    struct control_timeout mine = *timeout;

    control_poll(control);
    LOCK_SCOPE(&control->lock);
    mine.verdict.status = TUTTI_ERR_TIMEOUT;
    snprintf(mine.verdict.message, sizeof mine.verdict.message, "group %s: %.*s", control->name,
             TEXT_CUT(timeout->verdict.message, 900));
    propose(control, &mine, &no_difference);
}

void verdict_on_propose(struct control *control, struct control_conn *from, struct reader *r)
{
    struct control_timeout theirs;
    struct control_difference difference;

    if (!decode_proposal(control, r, &theirs, &difference) || control->verdict.status)
        return;
    note_timeout(control, from->rank, &theirs);
    /* The proposing member has passed over all members below this one. */
    if (take_over(control, &theirs, &difference) || !control->fix_at_ns)
        fix_in_time(control);
}

void verdict_on_verdict(struct control *control, struct control_conn *from, struct reader *r)
{
    struct control_verdict verdict;

    if (decode(control, r, &verdict))
        verdict_adopt(control, &verdict, from);
}

void verdict_timers(struct control *control)
{
    if (control->verdict.status || (!control->fix_at_ns && !control->pass_over_at_ns))
        return;
    int64_t now = clock_now_ns();
    if (control->query_at_ns && now >= control->query_at_ns) {
        control->query_at_ns = 0;
        liveness_query_all(control);
    }
    if (control->fix_at_ns &&
        (now >= control->fix_at_ns || (is_gathering(control) && sides_complete(control)))) {
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
    const struct control_verdict *verdict = &control->verdict;

    LOCK_SCOPE(&control->lock);
    error_restore(verdict->status, verdict->culprit, verdict->message);
    error_where(control->rank, -1, 0, NULL);
    return verdict->status;
}
