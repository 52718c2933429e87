/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members that are known to have called. A message of a collective tells that its sender has
 * called it; where none has come, the sender may itself be waiting. So a member that has waited for
 * a little announces its call to the peer that it waits for. The peer compares it and answers with
 * its own announcement as soon as it has called. A peer that was asked and has announced nothing
 * has not called, or does not run. Each is answered once, with the call that it asked about, even
 * by a peer that is ahead: an asker may need to know that both called the same before it begins.
 *
 * An engine compares nothing, and small calls that differ may pass in it without a wait: MPI pairs
 * an all_reduce with a barrier. To announce each call would cost several times what it takes. So
 * members announce samples to their neighbours, calls with certain numbers, the same on all: the
 * powers of two, then every 1025th. As signatures are chained, each sample stands for all calls
 * before it. What comes after the last sample is compared as members leave.
 */
#include <stdlib.h>

#include "group/group.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/routes.h"

/*
 * A sample costs some 5 us, which of every 257 calls of 1 us could just be measured. A call that waits for a
 * millisecond is announced anyhow, so a difference between short ones is met some thousand calls later, or as a
 * member leaves. An odd number, since what others announce ahead is kept by its remainder (GROUP_FUTURES_KEPT);
 * with powers of two a late member would keep only the last.
 */
enum { SAMPLE_EVERY = 1025 };

bool announced_init(struct announced *announced, int size)
{
    announced->peers = calloc((size_t)size, sizeof *announced->peers);
    return announced->peers;
}

void announced_free(struct announced *announced)
{
    free(announced->peers);
    *announced = (struct announced){0};
}

static void raise_to(uint64_t *last, uint64_t sequence)
{
    if (*last < sequence)
        *last = sequence;
}

void announced_received(struct tutti_group *group, int source, uint64_t sequence)
{
    raise_to(&group->comparing.announced.peers[source].received, sequence);
}

void announced_agreed(struct tutti_group *group, int source, uint64_t sequence)
{
    raise_to(&group->comparing.announced.peers[source].agreed, sequence);
}

static void note_query(struct announced *announced, uint64_t sequence)
{
    if (!announced->pending || sequence < announced->pending)
        announced->pending = sequence;
}

void announced_queried(struct tutti_group *group, int source, uint64_t sequence)
{
    struct announced *announced = &group->comparing.announced;

    announced_received(group, source, sequence);
    if (announced->peers[source].sent == sequence && group->calls.sequence == sequence)
        return; /* both have asked; of a later call it may have heard since, and forgotten this one */
    announced->peers[source].queried = sequence;
    note_query(announced, sequence);
}

void announced_send(struct tutti_group *group, int to, const struct announce *call)
{
    struct peer_calls *peer = &group->comparing.announced.peers[to];

    if (to == group->rank || peer->sent >= call->sequence ||
        p2p_announce(route_space(group, 0), to, call, false))
        return;
    peer->sent = call->sequence;
    if (peer->queried == call->sequence)
        peer->queried = 0;
}

void announced_send_to_neighbours(struct tutti_group *group, const struct announce *call)
{
    for (int i = 0; i < 2; i++)
        announced_send(group, native_neighbour(group, i), call);
}

bool announced_all_agree(struct tutti_group *group, const struct announce *call)
{
    bool agree = true;

    for (int r = 0; r < group->size; r++) {
        announced_send(group, r, call);
        agree &= r == group->rank || announced_agrees(group, r, call->sequence);
    }
    return agree;
}

/* If a peer asks about a call that is no longer in the ring, answers with the latest. */
static bool answer(struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct announce *own = group_own_call(group, sequence);

    own = own ? own : group_own_call(group, group->calls.sequence);
    if (own && p2p_announce(route_space(group, 0), rank, own, true))
        return false;
    group->comparing.announced.peers[rank].queried = 0;
    return own != NULL;
}

bool announced_answer(struct tutti_group *group)
{
    struct announced *announced = &group->comparing.announced;
    bool answered = false;

    if (!announced->pending || announced->pending > group->calls.sequence)
        return false;
    announced->pending = 0;
    for (int r = 0; r < group->size; r++) {
        const uint64_t asked = announced->peers[r].queried;

        if (asked && asked <= group->calls.sequence)
            answered |= answer(group, r, asked);
        if (announced->peers[r].queried)
            note_query(announced, announced->peers[r].queried);
    }
    return answered;
}

bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence)
{
    return group->comparing.announced.peers[rank].received >= sequence;
}

bool announced_agrees(const struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct peer_calls *peer = &group->comparing.announced.peers[rank];
    struct control_leave_state state;

    if (peer->agreed >= sequence ||
        peer->received >= sequence + GROUP_CALLS_KEPT) /* it has forgotten */
        return true;
    return control_has_left(group->control, rank, &state) &&
           (state.last.sequence > sequence || (state.last.sequence == sequence && state.compared));
}

bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence)
{
    return group->comparing.announced.peers[rank].sent == sequence &&
           !announced_has_called(group, rank, sequence);
}

static uint64_t sample_after(uint64_t sequence)
{
    uint64_t next = 1;

    if (sequence >= SAMPLE_EVERY / 2)
        return (sequence / SAMPLE_EVERY + 1) * SAMPLE_EVERY;
    while (next <= sequence)
        next *= 2;
    return next;
}

bool announced_sample(struct tutti_group *group, const struct call *call)
{
    struct announced *announced = &group->comparing.announced;

    announced->kept[announced->samples++ % SAMPLES_KEPT] = call->announce;
    announced->next_sample = sample_after(call->announce.sequence);
    announced_send_to_neighbours(group, &call->announce);
    group_hear(group);
    return !call_is_failing(call) && !control_verdict_status(group->control);
}

const struct announce *announced_find_sample(const struct announced *announced, uint64_t sequence)
{
    for (unsigned i = 0; i < SAMPLES_KEPT; i++)
        if (announced->kept[i].sequence == sequence)
            return &announced->kept[i];
    return NULL;
}
