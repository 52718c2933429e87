/* SPDX-License-Identifier: Apache-2.0 */
#include "group/announced.h"

#include <stdlib.h>

#include "group/group.h"

bool announced_init(struct announced *announced, int size)
{
    announced->told = calloc((size_t)size, sizeof *announced->told);
    announced->asked = calloc((size_t)size, sizeof *announced->asked);
    announced->heard = calloc((size_t)size, sizeof *announced->heard);
    announced->same = calloc((size_t)size, sizeof *announced->same);
    return announced->told && announced->asked && announced->heard && announced->same;
}

void announced_free(struct announced *announced)
{
    free(announced->told);
    free(announced->asked);
    free(announced->heard);
    free(announced->same);
    *announced = (struct announced){0};
}

void announced_hear(struct tutti_group *group, int source, uint64_t sequence)
{
    uint64_t *heard = &group->announced.heard[source];

    if (*heard < sequence)
        *heard = sequence;
}

void announced_same(struct tutti_group *group, int source, uint64_t sequence)
{
    uint64_t *same = &group->announced.same[source];

    if (*same < sequence)
        *same = sequence;
}

static void owe(struct announced *announced, uint64_t sequence)
{
    if (!announced->owed || sequence < announced->owed)
        announced->owed = sequence;
}

void announced_ask(struct tutti_group *group, int source, uint64_t sequence)
{
    struct announced *announced = &group->announced;

    announced_hear(group, source, sequence);
    if (announced->told[source] == sequence && group->sequence == sequence)
        return; /* both have asked; of a later call it may have heard since, and forgotten this one */
    announced->asked[source] = sequence;
    owe(announced, sequence);
}

void announced_tell(struct tutti_group *group, int to, const struct announce *call)
{
    struct announced *announced = &group->announced;

    if (to == group->rank || announced->told[to] >= call->sequence ||
        p2p_announce(group->p2p, to, call, false))
        return;
    announced->told[to] = call->sequence;
    if (announced->asked[to] == call->sequence)
        announced->asked[to] = 0;
}

/* Who asks about a call that this member has forgotten is told its latest one. */
static bool answer(struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct announce *own = group_own_call(group, sequence);

    own = own ? own : group_own_call(group, group->sequence);
    if (own && p2p_announce(group->p2p, rank, own, true))
        return false;
    group->announced.asked[rank] = 0;
    return own != NULL;
}

bool announced_answer(struct tutti_group *group)
{
    struct announced *announced = &group->announced;
    bool answered = false;

    if (!announced->owed || announced->owed > group->sequence)
        return false;
    announced->owed = 0;
    for (int r = 0; r < group->size; r++) {
        const uint64_t asked = announced->asked[r];

        if (asked && asked <= group->sequence)
            answered |= answer(group, r, asked);
        if (announced->asked[r])
            owe(announced, announced->asked[r]);
    }
    return answered;
}

bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence)
{
    return group->announced.heard[rank] >= sequence;
}

bool announced_agrees(const struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct announced *announced = &group->announced;
    struct control_farewell bye;

    if (announced->same[rank] >= sequence ||
        announced->heard[rank] >= sequence + GROUP_CALLS_KEPT) /* it has forgotten */
        return true;
    return control_has_left(group->control, rank, &bye) &&
           (bye.last.sequence > sequence || (bye.last.sequence == sequence && bye.compared));
}

bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct announced *announced = &group->announced;

    return announced->told[rank] == sequence && !announced_has_called(group, rank, sequence);
}
