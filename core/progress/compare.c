/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether members call the same things. Whatever a member announces is compared with this member's
 * own call of that number: when it arrives, when this member calls later, and when a line in mapped
 * memory is read. The signatures are chained, so a difference that nobody met in its own call shows
 * in the next call in which two members meet.
 */
#include <stdio.h>
#include <string.h>

#include "group/group.h"
#include "progress/progress.h"

/* The call under way could end well with the other's message. */
static void fail_first(struct tutti_group *group)
{
    if (group->calls.queue.first)
        call_fails(group->calls.queue.first);
}

/* `mine` and `theirs` as far as they are known, else NULL. */
static void propose_mismatch(struct tutti_group *group, int source, uint64_t sequence,
                             const struct announce *mine, const struct announce *theirs)
{
    static const struct announce forgotten;
    char own[128], other[128], message[CONTROL_MESSAGE_MAX];
    int low = source < group->rank ? source : group->rank;

    mine = mine ? mine : &forgotten;
    call_fields_text(&mine->fields, own, sizeof own);
    if (theirs)
        call_fields_text(&theirs->fields, other, sizeof other);
    else
        snprintf(other, sizeof other, "another call");
    bool same = theirs && !memcmp(&mine->fields, &theirs->fields, sizeof mine->fields);
    snprintf(message, sizeof message,
             "members called different things as #%llu: rank %d: %s; rank %d: %s%s",
             (unsigned long long)sequence, low, low == source ? other : own,
             low == source ? group->rank : source, low == source ? own : other,
             same ? " (the same now, but not all calls before it were)" : "");
    const struct control_difference difference = {.sequence = sequence,
                                                  .rank = {group->rank, source},
                                                  .call = {*mine, theirs ? *theirs : forgotten}};

    fail_first(group);
    control_differ(group->control, source, &difference, message);
}

const struct announce *group_own_call(const struct tutti_group *group, uint64_t sequence)
{
    const struct announce *kept = &group->comparing.calls[sequence % GROUP_CALLS_KEPT];

    if (kept->sequence == sequence)
        return kept;
    for (const struct call *c = group->calls.queue.first; c; c = c->next)
        if (c->announce.sequence == sequence)
            return &c->announce;
    return announced_find_sample(&group->comparing.announced, sequence);
}

/* The place for a member's announcement of a call that this member has not made yet. */
static struct announce *future_of(struct tutti_group *group, int rank, uint64_t sequence)
{
    return &group->comparing
                .futures[(size_t)rank * GROUP_FUTURES_KEPT + sequence % GROUP_FUTURES_KEPT];
}

void group_compare(struct tutti_group *group, int source, const struct announce *theirs)
{
    const struct announce *mine = group_own_call(group, theirs->sequence);

    if (mine) {
        if (mine->signature != theirs->signature)
            propose_mismatch(group, source, theirs->sequence, mine, theirs);
        else
            announced_agreed(group, source, theirs->sequence);
    } else if (theirs->sequence > group->calls.sequence) {
        *future_of(group, source, theirs->sequence) = *theirs;
        if (theirs->sequence > group->comparing.last_future)
            group->comparing.last_future = theirs->sequence;
    }
}

bool group_compare_futures(struct tutti_group *group, const struct announce *call)
{
    bool same = true;

    for (int r = 0; r < group->size; r++) {
        const struct announce *theirs = future_of(group, r, call->sequence);

        if (theirs->sequence != call->sequence)
            continue;
        if (theirs->signature == call->signature) {
            announced_agreed(group, r, call->sequence);
        } else {
            propose_mismatch(group, r, call->sequence, call, theirs);
            same = false;
        }
    }
    return same;
}

/* ---- as members leave ---- */

static void text_of_last(const struct announce *last, char *ret_text, size_t capacity)
{
    char what[128];

    if (!last || !last->sequence) {
        snprintf(ret_text, capacity, "before any");
        return;
    }
    call_fields_text(&last->fields, what, sizeof what);
    snprintf(ret_text, capacity, "after #%llu %s", (unsigned long long)last->sequence, what);
}

/* Both leave, and one has made calls that the other never will: an engine may let such ones return. */
static void propose_number(struct tutti_group *group, int source, const struct announce *theirs)
{
    char own[192], other[192], message[CONTROL_MESSAGE_MAX];
    int low = source < group->rank ? source : group->rank;

    text_of_last(group_own_call(group, group->calls.sequence), own, sizeof own);
    text_of_last(theirs, other, sizeof other);
    snprintf(message, sizeof message,
             "members left after different numbers of calls: rank %d %s; rank %d %s", low,
             low == source ? other : own, low == source ? group->rank : source,
             low == source ? own : other);
    fail_first(group);
    control_propose(group->control, TUTTI_ERR_MISMATCH, source, message);
}

void group_compare_last(struct tutti_group *group, bool leaves)
{
    for (int r = 0; r < group->size && !control_verdict_status(group->control); r++) {
        struct control_leave_state state;

        if (!control_has_left(group->control, r, &state) || (state.compared && !leaves))
            continue;
        const struct announce *theirs = &state.last;
        const struct announce *mine = group_own_call(group, theirs->sequence);
        if (theirs->sequence && state.known && mine && mine->signature != theirs->signature)
            propose_mismatch(group, r, theirs->sequence, mine, theirs);
        else if (ways_have_engine(&group->ways) && state.known && leaves &&
                 theirs->sequence != group->calls.sequence)
            propose_number(group, r, theirs);
        else if (!state.compared &&
                 theirs->sequence <= group->calls.sequence) /* else once it is there */
            control_compared(group->control, r);
    }
}

void group_compare_local(struct tutti_group *group)
{
    const struct mapped *m = &group->ways.mapped;
    const struct announce *mine = group_own_call(group, group->calls.sequence);
    struct announce theirs;

    if (!group->ways.has_mapped || !mine || m->sequence != mine->sequence)
        return;
    for (int i = 0; i < m->local_size; i++) {
        if (i == m->self || !mapped_has_called(m, i) ||
            !mapped_record(m, i, mine->sequence, &theirs))
            continue;
        if (theirs.signature == mine->signature)
            control_agrees(group->control, m->ranks[i]);
        else if (!control_verdict_status(group->control))
            propose_mismatch(group, m->ranks[i], mine->sequence, mine, &theirs);
    }
}

/*
 * The call in which the local peer's and this member's began to differ, as far as its lines tell: the
 * signatures differ from there on, also in calls that are the same.
 */
static uint64_t where_it_began(const struct tutti_group *group, uint64_t sequence,
                               struct announce *theirs)
{
    const struct mapped *m = &group->ways.mapped;
    struct announce earlier;

    while (sequence > 1 && mapped_record(m, m->culprit, sequence - 1, &earlier)) {
        const struct announce *mine = group_own_call(group, sequence - 1);

        if (!mine || mine->signature == earlier.signature)
            break;
        *theirs = earlier;
        sequence--;
    }
    return sequence;
}

void group_mapped_mismatch(struct tutti_group *group)
{
    const struct mapped *m = &group->ways.mapped;
    uint64_t sequence = m->culprit_sequence;
    struct announce theirs;
    bool known = mapped_record(m, m->culprit, sequence, &theirs);

    sequence = where_it_began(group, sequence, &theirs);
    const struct announce *mine = group_own_call(group, sequence);
    known |= sequence != m->culprit_sequence;
    /* Never silent: the call is failing, and only a verdict ends it. */
    propose_mismatch(group, m->ranks[m->culprit], sequence, mine, known ? &theirs : NULL);
}
