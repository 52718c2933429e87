/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that `tutti run` has seen end (base/ended.h), for the members of a world that wait for them.
 *
 * Before its offer a member is known to nobody, so nothing but its launcher can tell of its end. The
 * leader looks for each whose offer is missing, the others for the leader as long as there is no decision.
 * What the ended one has written is read after the entry, so it was written before the end or never comes.
 * Without such a launcher, and in a group that is made from another, nothing is looked at. An entry with the
 * seal of another secret is passed over: the program gave this rank a secret that the launcher does not know.
 *
 * At the end is the wait for the name of one that an engine has lost.
 */
#include "agreement/agree.h"
#include "base/clock.h"
#include "base/ended.h"
#include "base/error.h"
#include "group/exit_record.h"
#include "secret/seal.h"

enum { LOOK_MS = 20, LOST_MS = 300 };

void agree_ended_begin(struct agreement *a)
{
    uint32_t place;

    a->launched =
        !a->from && exit_record_place(&place) && place == (uint32_t)a->group->bootstrap.rank;
}

/* Whether this member has to fail for it. */
static bool concerns(struct agreement *a, const struct ended *ended)
{
    return ended->size == (uint32_t)a->group->size &&
           (a->lead ? ended->place != 0 : ended->place == 0) && agree_misses(a, (int)ended->place);
}

/* Judges the next entry of the list, and reads it if it is the launcher's. */
static tutti_status next_entry(struct agreement *a, const struct key *record, struct reader *list,
                               struct ended *ret_ended, bool *ret_good)
{
    size_t size, at = 0;
    const size_t begin = list->at + 4;
    const uint8_t *entry = read_blob(list, &size);
    struct seal seal;
    enum seal_state state = SEAL_MISSING;
    tutti_status status = TUTTI_OK;

    (void)read_bytes(list, SEAL_BYTES);
    if (!list->bad)
        status = seal_check(a->group->bootstrap.secret, record, ENDED_KEY, entry, list->at - begin,
                            &seal, &state);
    *ret_good = !status && state == SEAL_GOOD && ended_next(entry, size, &at, ret_ended);
    if (status || *ret_good || state == SEAL_FOREIGN)
        return status;
    return error_set(
        TUTTI_ERR_STORE,
        "group %s: the key \"/%s\" in the store has an entry that the launcher did not "
        "write: somebody who is no member writes to the job's store",
        a->group->name, ENDED_KEY);
}

static tutti_status find_ended(struct agreement *a, struct reader *list, struct ended *ret_ended,
                               bool *ret_found)
{
    struct key record;
    bool good;
    tutti_status status = secret_record_key(a->group->bootstrap.secret, ENDED_RUN, &record);

    *ret_found = false;
    while (!status && !*ret_found && list->at < list->size) {
        status = next_entry(a, &record, list, ret_ended, &good);
        *ret_found = !status && good && concerns(a, ret_ended);
    }
    key_wipe(&record, sizeof record);
    return status;
}

tutti_status agree_ended(struct agreement *a, int *ret_culprit)
{
    char where[ENDED_WORDS_MAX], how[ENDED_WORDS_MAX];
    struct ended ended;
    tutti_store_value value;
    bool found;

    if (!a->launched || !agree_has(a, ENDED_KEY) || agree_get(a, ENDED_KEY, &value))
        return TUTTI_OK; /* a wait in the store finds out that it is gone */
    struct reader list = {.data = value.data, .size = value.size};
    const tutti_status status = find_ended(a, &list, &ended, &found);
    tutti_store_value_free(&value);
    if (status || !found)
        return status;
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

tutti_status agree_await_name_of_lost(struct agreement *a, tutti_status status)
{
    const int64_t until = clock_deadline_ms(LOST_MS);
    struct kept_error kept = {0};
    struct epoll_event event;
    tutti_status heard;

    error_keep(&kept);
    while (heard = agree_look(a), agree_goes_on(a, heard) && clock_left_ms(until, LOOK_MS))
        (void)epoll_wait(a->group->control->epoll_fd, &event, 1, LOOK_MS);
    if (agree_goes_on(a, heard))
        error_give(status, &kept);
    else
        status = heard;
    error_forget(&kept);
    return status;
}
