/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision of a round, as each member takes it: how it is waited for, and whether it is this
 * member's. Also the leader looks for keys by agree_await_keys().
 *
 * A decision comes late when an offer does, or never when the leader is gone; so a waiting member
 * looks at the leader and at the parent meanwhile, and names at its deadline the members whose
 * offer is missing.
 */
#include <stdio.h>
#include <string.h>

#include "agreement/agree.h"
#include "base/clock.h"
#include "base/error.h"

enum {
    STORE_POLL_MS = 50,
    LAUNCHER_POLL_MS = 500,
    LAST_PROTOCOL = 1 << 16 /* that a later version may have */
};

tutti_status agree_await_keys(struct agreement *a, const char *const *keys, size_t count,
                              int64_t ms)
{
    const int64_t until = clock_deadline_ms(ms);
    struct epoll_event event;

    for (;;) {
        bool present = false;
        tutti_status status = agree_check(a, keys, count, &present);

        if (present || (status && status != TUTTI_ERR_TIMEOUT))
            return status;
        int left = clock_left_ms(until, STORE_POLL_MS);
        if (!left)
            return TUTTI_ERR_TIMEOUT;
        a->pause_ms = a->pause_ms ? a->pause_ms * 2 : 1;
        if (a->pause_ms > STORE_POLL_MS)
            a->pause_ms = STORE_POLL_MS;
        (void)epoll_wait(a->group->control->epoll_fd, &event, 1,
                         left < a->pause_ms ? left : a->pause_ms);
        control_poll(a->group->control);
    }
}

bool agree_misses(struct agreement *a, int rank)
{
    char key[AGREE_KEY_MAX];
    const char *keys[1] = {key};
    bool present = false;

    if (a->lead)
        agree_key(a, key, "offer/%d", rank);
    else
        agree_key(a, key, "decision/%u", a->round);
    return !agree_check(a, keys, 1, &present) && !present;
}

/*
 * Those that have to look at something else meanwhile, at the leader or at a parent, and those whose store
 * others use, look for the decision again and again; the others are waited for by the store. OK without a value: a->outcome
 * tells.
 */
static tutti_status await_decision(struct agreement *a, tutti_store_value *ret_value)
{
    char key[AGREE_KEY_MAX];
    const char *keys[1] = {key};
    bool near_leader = control_parent(a->group->rank) == 0;
    int culprit = -1;

    agree_key(a, key, "decision/%u", a->round);
    while (near_leader || a->from || a->group->bootstrap.shared) {
        int64_t left = agree_left_ms(a);
        tutti_status status =
            agree_await_keys(a, keys, 1, left < STORE_POLL_MS ? left : STORE_POLL_MS);

        if (!status)
            return agree_get(a, key, ret_value);
        if (status != TUTTI_ERR_TIMEOUT || !left)
            return status;
        status = agree_take_notes(a);
        if (agree_goes_on(a, status))
            status = agree_probe_leader(a, near_leader);
        if (!agree_goes_on(a, status))
            return status;
        agree_stalled(a, a->leader_fd >= 0);
        status = agree_left(a, &culprit);
        if (status)
            return agree_give_up(a, status, culprit);
    }
    if (a->lead) /* it has published it */
        return agree_get(a, key, ret_value);
    for (;;) {
        const int64_t left = agree_left_ms(a);
        const int64_t ms = a->launched && left > LAUNCHER_POLL_MS ? LAUNCHER_POLL_MS : left;
        tutti_status status = tutti_store_get(a->store, key, ms ? ms : 1, ret_value);

        if (agree_store_reconnected(a, status))
            continue;
        if (status != TUTTI_ERR_TIMEOUT || ms == left)
            return status;
        status = agree_probe_leader(a, false);
        if (!agree_goes_on(a, status))
            return status;
    }
}

/* Its deadline ended: the leader's silence may be another member's fault. */
static tutti_status no_decision(struct agreement *a)
{
    char missing[512], where[CONTROL_HOST_MAX + 64];
    int came, first;

    const tutti_status status = agree_missing_offers(a, missing, sizeof missing, &came, &first);
    if (status == TUTTI_ERR_TIMEOUT)
        snprintf(missing, sizeof missing,
                 "; the store does not answer either: is it in that process?");
    else if (status)
        snprintf(missing, sizeof missing, "; asking the store failed, too: %.*s",
                 TEXT_CUT(error_message(), 400));
    *where = 0;
    if (status)
        first = -1;
    else
        agree_where_is(a, first, where, sizeof where);
    error_set(TUTTI_ERR_TIMEOUT, "group %s: rank %d timed out waiting for rank 0 to decide%s%s%s",
              a->group->name, a->group->rank, first < 0 ? "" : "; missing: ", missing, where);
    return agree_give_up(a, TUTTI_ERR_TIMEOUT, first < 0 ? 0 : first);
}

/* Whether a record that this member's secret has not sealed can be that of another version. */
static bool is_of_another_version(uint32_t protocol, enum seal_state state)
{
    return state != SEAL_WRONG && protocol != AGREE_PROTOCOL && protocol > 0 &&
           protocol <= LAST_PROTOCOL;
}

/*
 * Takes the seal off a decision. One to form the group has that of the members' common secret, or says that they
 * have none; `ret_foreign`: it has another secret's.
 */
static tutti_status unseal(struct agreement *a, tutti_store_value *value, bool *ret_foreign)
{
    char key[AGREE_KEY_MAX];
    struct seal seal;
    enum seal_state state = SEAL_MISSING;
    struct reader r = {.data = value->data, .size = value->size};
    const uint32_t protocol = read_u32(&r);

    agree_key(a, key, "decision/%u", a->round);
    tutti_status status = agree_look_at_seal(a, key, value, &seal, &state);
    *ret_foreign = state == SEAL_FOREIGN;
    if ((status || *ret_foreign) && is_of_another_version(protocol, state))
        return error_set(TUTTI_ERR_MISMATCH,
                         "group %s: members use versions of tutti that cannot work together: rank "
                         "0 has protocol %u, rank %d protocol %d; run the same version on all",
                         a->group->name, protocol, a->group->rank, AGREE_PROTOCOL);
    return status || !*ret_foreign || !a->group->bootstrap.secret->required
               ? status
               : agree_other_secret(a, key, &seal);
}

/* Whether the group is as open as this member allows. */
static tutti_status take_openness(struct agreement *a, bool foreign)
{
    struct bootstrap *bootstrap = &a->group->bootstrap;

    if (a->decision.open && bootstrap->secret->source != SECRET_NONE) {
        if (bootstrap->secret->required)
            return error_set(
                TUTTI_ERR_MISMATCH,
                "group %s: rank 0 decided for a group without a secret, and rank %d requires "
                "one (%s); set TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks",
                a->group->name, a->group->rank, secret_source_words(bootstrap->secret->source));
        return bootstrap_go_open(bootstrap);
    }
    if (foreign && !a->decision.open)
        return error_set(
            TUTTI_ERR_STORE,
            "group %s: the decision of rank 0 in the store has the seal of a secret that "
            "rank %d does not have; set TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks",
            a->group->name, a->group->rank);
    return TUTTI_OK;
}

tutti_status agree_read_decision(struct agreement *a)
{
    tutti_store_value value = {0};
    bool foreign;
    tutti_status status = await_decision(a, &value);

    agree_probe_end(a);
    if (a->outcome.kind)
        return TUTTI_OK;
    if (status)
        return status == TUTTI_ERR_TIMEOUT ? no_decision(a) : status;
    status = unseal(a, &value, &foreign);
    if (status) {
        tutti_store_value_free(&value);
        return status;
    }
    decision_free(&a->decision);
    bool good = decision_decode(value.data, value.size, a->group->size, &a->decision);
    tutti_store_value_free(&value);
    if (!good)
        return error_set(
            TUTTI_ERR_STORE,
            "the decision in the store is damaged, or comes from a job of another size or another "
            "version of tutti; give each job a store or a prefix of its own");
    if (a->decision.kind == DECISION_ABORT) {
        a->outcome = a->decision.abort;
        a->outcome.kind = OUTCOME_ABORT;
        a->outcome.round = a->round;
        return TUTTI_OK;
    }
    status = take_openness(a, foreign);
    if (status)
        return status;
    if (a->decision.nonces[a->group->rank] != a->own.nonce)
        return error_set(
            TUTTI_ERR_STALE,
            "rank %d is not part of the group that was agreed: another process is rank "
            "%d, too, or the store holds the keys of an earlier attempt under run id "
            "«%s»; give each process a rank of its own, and each attempt a new run "
            "id, or a fresh store",
            a->group->rank, a->group->rank, a->group->bootstrap.run_id);
    return TUTTI_OK;
}
