/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that `tutti run` has seen end (base/ended.h), for the members of a world that wait for them.
 *
 * Before its offer a member is known to nobody, so nothing but its launcher can tell of its end. The
 * leader looks for each whose offer is missing, the others for the leader as long as there is no decision.
 * What the ended one has written is read after the entry, so it was written before the end or never comes.
 * Without such a launcher, and in a group that is made from another, nothing is looked at.
 */
#include "agreement/agree.h"
#include "base/clock.h"
#include "base/ended.h"
#include "base/error.h"
#include "group/exit_record.h"

enum { LOOK_MS = 20 };

void agree_ended_begin(struct agreement *a)
{
    uint32_t place;

    a->launched =
        !a->from && exit_record_place(&place) && place == (uint32_t)a->group->bootstrap.rank;
}

tutti_status agree_ended(struct agreement *a, int *ret_culprit)
{
    char where[ENDED_WORDS_MAX], how[ENDED_WORDS_MAX];
    struct ended ended;
    tutti_store_value list;
    size_t at = 0;
    bool found = false;

    if (!a->launched || !agree_has(a, ENDED_KEY) || agree_get(a, ENDED_KEY, &list))
        return TUTTI_OK; /* a wait in the store finds out that it is gone */
    while (!found && ended_next(list.data, list.size, &at, &ended))
        found = ended.size == (uint32_t)a->group->size &&
                (a->lead ? ended.place != 0 : ended.place == 0) &&
                agree_misses(a, (int)ended.place);
    tutti_store_value_free(&list);
    if (!found)
        return TUTTI_OK;
    *ret_culprit = (int)ended.place;
    ended_where(&ended, where, sizeof where);
    ended_how(&ended, how, sizeof how);
    return error_set(TUTTI_ERR_PEER_LOST,
                     "group %s: rank %u (%s) was lost: it %s before the group was made",
                     a->group->name, ended.place, where, how);
}

tutti_status agree_ended_soon(struct agreement *a, int ms, int *ret_culprit)
{
    const int64_t until = clock_deadline_ms(ms);
    struct epoll_event event;
    tutti_status status;

    while (!(status = agree_ended(a, ret_culprit)) && a->launched && clock_left_ms(until, LOOK_MS))
        (void)epoll_wait(a->group->control->epoll_fd, &event, 1, LOOK_MS);
    return status;
}
