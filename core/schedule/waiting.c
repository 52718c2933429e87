/* SPDX-License-Identifier: Apache-2.0 */
/* For whom a run waits, and for what, by the step at which it stands. For words: nothing depends on it. */
#include "schedule/runner.h"

static struct waiting for_message(const struct run *run, uint32_t ticket)
{
    const struct run_ticket *state = &run->tickets[ticket];

    return (struct waiting){state->sending ? WAITING_SEND : WAITING_RECEIVE, state->peer, false};
}

static struct waiting for_local_peer(const struct run *run, enum waiting_kind kind, int local_peer)
{
    const struct mapped *mapped = run->call.mapped;

    if (kind == WAITING_MAPPED && !mapped_has_called(mapped, local_peer))
        kind = WAITING_CALL;
    return (struct waiting){kind, mapped->ranks[local_peer], run->outstanding == 0};
}

struct waiting run_waiting(const struct run *run)
{
    const struct step *step = &run->call.schedule->steps[run->next];

    if (!run->announced)
        return for_local_peer(run, WAITING_ROOM, run->call.mapped->culprit);
    if (run->undecided && run->call.mapped->culprit < 0)
        return (struct waiting){WAITING_NOTHING, -1, false}; /* it has failed */
    if (run->undecided)
        return for_local_peer(run, WAITING_CALL, run->call.mapped->culprit);
    if (run->exhausted || run->next == run->call.schedule->count)
        return (struct waiting){WAITING_NOTHING, -1, false};
    switch ((enum step_kind)step->kind) {
    case STEP_SEND:
        return (struct waiting){WAITING_SEND, step->peer, false};
    case STEP_RECV:
        return (struct waiting){WAITING_RECEIVE, step->peer, false};
    case STEP_FENCE:
        return for_message(run, run->cursor);
    case STEP_FENCE_TICKET:
        return for_message(run, step->ticket);
    case STEP_AWAIT:
        return for_local_peer(run, WAITING_MAPPED, step->local_peer);
    case STEP_AWAIT_ALL:
        return for_local_peer(run, WAITING_MAPPED, (int)run->cursor);
    case STEP_ROUND:
        return for_local_peer(run, WAITING_MAPPED, mapped_round_awaits(run->call.mapped));
    case STEP_MEET:
        return for_local_peer(run, WAITING_CALL, step->local_peer);
    case STEP_MEET_ALL:
        return for_local_peer(run, WAITING_CALL, run->call.mapped->culprit);
    default:
        return (struct waiting){WAITING_NOTHING, -1, false};
    }
}
