/* SPDX-License-Identifier: Apache-2.0 */
#include "group/announced.h"

#include <stdlib.h>

#include "group/group.h"

bool announced_init(struct announced *announced, int size)
{
    announced->told = calloc((size_t)size, sizeof *announced->told);
    announced->asked = calloc((size_t)size, sizeof *announced->asked);
    announced->heard = calloc((size_t)size, sizeof *announced->heard);
    return announced->told && announced->asked && announced->heard;
}

void announced_free(struct announced *announced)
{
    free(announced->told);
    free(announced->asked);
    free(announced->heard);
    *announced = (struct announced){0};
}

void announced_hear(struct tutti_group *group, int source, uint64_t sequence)
{
    uint64_t *heard = &group->announced.heard[source];

    if (*heard < sequence)
        *heard = sequence;
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
    if (announced->asked[source] < sequence)
        announced->asked[source] = sequence;
    if (sequence > announced->told[source])
        owe(announced, sequence);
}

void announced_tell(struct tutti_group *group, int to, const struct announce *call)
{
    uint64_t *told = &group->announced.told[to];

    if (to == group->rank || *told >= call->sequence)
        return;
    if (!p2p_announce(group->p2p, to, call))
        *told = call->sequence;
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

        if (asked <= announced->told[r])
            continue;
        if (asked > group->sequence) {
            owe(announced, asked);
            continue;
        }
        const struct announce *own = group_own_call(group, asked);
        if (own) {
            announced_tell(group, r, own);
            answered = true;
        }
    }
    return answered;
}

bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence)
{
    return group->announced.heard[rank] >= sequence;
}

bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence)
{
    const struct announced *announced = &group->announced;

    return announced->told[rank] == sequence && !announced_has_called(group, rank, sequence);
}
