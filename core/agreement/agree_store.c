/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store as an agreement uses it.
 *
 * A store that does not answer is slow, or its process is stopped: only the deadline ends that. One
 * that is gone says so at once, and ends the agreement. No call waits for the deadline in one go, as
 * what else the members wait for may end meanwhile: each try gets twice the time of the failed one
 * before it, so that a slow store can answer, and in between the member looks at the parent of the
 * group. A try that is made again does no harm: what it writes is the same. So a connection that is
 * reset costs no more than a new one, if that leads to a store with this member's offer.
 *
 * After the deadline there is a moment more, in which missing members are found and the others are told.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "agreement/agree.h"
#include "agreement/agreement.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/store.h"

enum {
    RECONNECT_MS = 200,  /* for a store that is there to take a connection */
    WARN_FROM_MS = 8000, /* a try of that time comes after 7 s of silence */
    LAST_MS = 500,       /* after the deadline */
    AGAIN_MS = 250       /* after that, once */
};

/* What is left after the deadline counts from the first look at it: on a host that lacks CPUs a member may come
 * to it late. */
static int64_t left_ms(struct agreement *a)
{
    const int64_t now = clock_now_ns();

    if (now >= a->deadline_ns && !a->last_ns)
        a->last_ns = now + LAST_MS * CLOCK_NS_PER_MS;
    const int64_t left = a->last_ns ? (a->last_ns - now) / CLOCK_NS_PER_MS
                                    : (a->deadline_ns - now) / CLOCK_NS_PER_MS + LAST_MS;
    return left > 1 ? left : 1;
}

static int64_t try_ms(struct agreement *a)
{
    const int64_t left = left_ms(a);

    return a->store_try_ms && a->store_try_ms < left ? a->store_try_ms : left;
}

/* Doubles the time of a try that has got no answer, but not beyond what is left: a store of the program may
 * fail at once, and often. */
static void was_silent(struct agreement *a)
{
    if (a->store_try_ms >= left_ms(a))
        return;
    a->store_try_ms *= 2;
    if (a->store_try_ms >= WARN_FROM_MS && a->store_try_ms < 2 * WARN_FROM_MS)
        log_line(LOG_WARN, a->group->rank,
                 "group %s: the store does not answer; waiting until the deadline. Is its process "
                 "stopped?",
                 a->group->name);
}

/* `call` NULL: meets the other members at the store. */
static tutti_status call_once(struct agreement *a, struct store_call *call, tutti_store **ret_store)
{
    const int64_t ms = try_ms(a);
    tutti_status status;

    if (call) {
        status = store_time_start(ms, &call->time);
        return status ? status : store_call(a->store, call);
    }
    status = bootstrap_meet(&a->group->bootstrap, ms, ret_store);
    return status && status != TUTTI_ERR_TIMEOUT ? error_prefix("group %s", a->group->name)
                                                 : status;
}

static bool has_own_offer(const struct agreement *a, tutti_store *store)
{
    char key[AGREE_KEY_MAX];
    const char *keys[1] = {key};
    int32_t present = 0;

    agree_key(a, key, "offer/%d", a->group->rank);
    return !tutti_store_check(store, keys, 1, RECONNECT_MS, &present) && present;
}

bool agree_store_reconnected(struct agreement *a, tutti_status status)
{
    struct bootstrap *bootstrap = &a->group->bootstrap;
    struct kept_error kept = {0};
    tutti_store *fresh = NULL;

    if (status != TUTTI_ERR_STORE || a->store_reconnected || !a->group->offered)
        return false;
    a->store_reconnected = true;
    error_keep(&kept);
    const bool same = !store_clone(a->store, RECONNECT_MS, &fresh) && has_own_offer(a, fresh);
    if (same) {
        if (bootstrap->store == a->store) {
            tutti_store_unref(bootstrap->store);
            bootstrap->store = tutti_store_ref(fresh);
        }
        tutti_store_unref(a->store);
        a->store = fresh;
    } else {
        tutti_store_unref(fresh);
        error_give(status, &kept);
    }
    error_forget(&kept);
    return same;
}

static tutti_status call_until_answered(struct agreement *a, struct store_call *call,
                                        tutti_store **ret_store)
{
    for (;;) {
        tutti_status status = call_once(a, call, ret_store);

        if (call && agree_store_reconnected(a, status))
            continue;
        if (status != TUTTI_ERR_TIMEOUT)
            return status;
        was_silent(a);
        if (!agree_left_ms(a))
            return agree_store_silent(a);
        status = agree_parent(a);
        if (status)
            return status;
    }
}

tutti_status agree_store_silent(const struct agreement *a)
{
    return error_set(TUTTI_ERR_TIMEOUT,
                     "group %s: rank %d had no answer from the store until the deadline; is the "
                     "process that serves it stopped?",
                     a->group->name, a->group->rank);
}

/* After a long pause of the host the last try has had its time, and the store has not. */
static bool may_ask_again(struct agreement *a)
{
    const int64_t now = clock_now_ns();

    if (a->store_asked_again || now < a->deadline_ns)
        return false;
    a->store_asked_again = true;
    a->last_ns = now + AGAIN_MS * CLOCK_NS_PER_MS;
    return true;
}

tutti_status agree_check(struct agreement *a, const char *const *keys, size_t count,
                         bool *ret_present)
{
    int32_t present = 0;
    tutti_status status = tutti_store_check(a->store, keys, count, try_ms(a), &present);

    if (agree_store_reconnected(a, status) || (status == TUTTI_ERR_TIMEOUT && may_ask_again(a)))
        status = tutti_store_check(a->store, keys, count, try_ms(a), &present);
    if (status == TUTTI_ERR_TIMEOUT)
        was_silent(a);
    if (!status)
        *ret_present = present;
    return status;
}

bool agree_has(struct agreement *a, const char *key)
{
    bool present = false;

    return !agree_check(a, &key, 1, &present) && present;
}

tutti_status agree_get(struct agreement *a, const char *key, tutti_store_value *ret_value)
{
    struct store_call call = {
        .opcode = STORE_GET, .keys = &key, .count = 1, .ret_values = ret_value};

    return call_until_answered(a, &call, NULL);
}

tutti_status agree_multi_get(struct agreement *a, const char *const *keys, size_t count,
                             tutti_store_value *ret_values)
{
    struct store_call call = {
        .opcode = STORE_MULTI_GET, .keys = keys, .count = count, .ret_values = ret_values};

    return call_until_answered(a, &call, NULL);
}

/* A call that writes this record, sealed, under its key. */
static tutti_status write_record(struct agreement *a, struct store_call *call, const void *data,
                                 size_t size)
{
    struct writer sealed;
    tutti_status status = agree_seal(a, call->keys[0], data, size, &sealed);

    if (status)
        return status;
    call->value = (struct slice){sealed.data, sealed.size};
    status = call_until_answered(a, call, NULL);
    free(sealed.data);
    return status;
}

tutti_status agree_set(struct agreement *a, const char *key, const void *data, size_t size)
{
    struct store_call call = {.opcode = STORE_SET, .keys = &key, .count = 1};

    return write_record(a, &call, data, size);
}

tutti_status agree_put(struct agreement *a, const char *key, const void *data, size_t size,
                       tutti_store_value *ret_value)
{
    tutti_store_value value = {0};
    struct store_call call = {
        .opcode = STORE_COMPARE_SET, .keys = &key, .count = 1, .ret_values = &value};
    const tutti_status status = write_record(a, &call, data, size);

    if (!status && ret_value)
        *ret_value = value;
    else
        tutti_store_value_free(&value);
    return status;
}

tutti_status agree_put_abort(struct agreement *a, const char *key, const struct outcome *reason)
{
    uint8_t bytes[DECISION_ABORT_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};

    decision_encode_abort(&w, reason);
    return agree_put(a, key, bytes, w.size, NULL);
}

/*
 * After tutti_group_destroy() the first to come back may meet the server of the world before, which then
 * ends. It begins again with the next one; what it has written is gone with the old one.
 */
bool agree_store_reopened(struct agreement *a, tutti_status status)
{
    struct bootstrap *bootstrap = &a->group->bootstrap;
    struct kept_error kept = {0};

    if (status != TUTTI_ERR_STORE || a->from || a->decision.kind)
        return false;
    error_keep(&kept);
    const bool reopened = bootstrap_is_outlived(bootstrap) && !bootstrap_reopen(bootstrap);
    if (reopened) {
        tutti_store_unref(a->store);
        a->store = tutti_store_ref(bootstrap->store);
        agree_probe_end(a);
        a->leader_seen = false;
        a->outcome.kind = OUTCOME_NONE;
        a->store_try_ms = AGREE_FIRST_TRY_MS;
    } else {
        error_give(status, &kept);
    }
    error_forget(&kept);
    return reopened;
}

tutti_status agree_server_lost(struct agreement *a, tutti_status status)
{
    const struct bootstrap *bootstrap = &a->group->bootstrap;
    struct kept_error kept = {0};

    if (a->from ||
        (status != TUTTI_ERR_STORE && status != TUTTI_ERR_PEER_LOST && status != TUTTI_ERR_TIMEOUT))
        return status;
    error_keep(&kept);
    if (bootstrap_lost_rank_0(bootstrap)) {
        status = TUTTI_ERR_PEER_LOST;
        error_where(a->group->rank, 0, 0, "init");
    } else {
        error_give(status, &kept);
    }
    error_forget(&kept);
    return status;
}

void agree_delete(struct agreement *a, const char *key)
{
    int32_t existed;

    (void)tutti_store_delete(a->store, key, try_ms(a), &existed);
}

tutti_status agree_meet(struct tutti_group *group, tutti_store **ret_store)
{
    struct agreement a = {.group = group,
                          .from = group->forming,
                          .deadline_ns = group->bootstrap.deadline_ns,
                          .store_try_ms = AGREE_FIRST_TRY_MS};

    return call_until_answered(&a, NULL, ret_store);
}
