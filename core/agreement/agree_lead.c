/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the leader, rank 0, does in an agreement: reads the offers, decides which host each member
 * is on and which transports are used, gathers the reports, sends the roster, and settles each
 * round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/version.h>

#include "agreement/agree_devices.h"
#include "agreement/agree_lead.h"
#include "agreement/settings.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "control/inside.h"
#include "plugin/known.h"

enum { REMIND_MS = 10000 };

void lead_end(struct agreement *a)
{
    struct leading *lead = a->lead;

    for (int r = 0; lead->members && r < a->group->size; r++)
        free(lead->members[r].opened.data);
    free(lead->members);
    free(lead);
    a->lead = NULL;
}

tutti_status lead_begin(struct agreement *a)
{
    size_t size = (size_t)a->group->size;
    struct leading *lead = a->lead = calloc(1, sizeof *lead);

    if (lead)
        lead->members = calloc(size, sizeof *lead->members);
    if (!lead || !lead->members)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to lead %zu members", size);
    return key_random(lead->salt, sizeof lead->salt);
}

/* "ranks 1, 2 and 5" of the ranks for which has[r] is false; "ranks 1 (world rank 4) and 2 (…)" where
 * those are not the world's. */
static int list_missing(const struct agreement *a, const bool *has, struct text *message)
{
    const int32_t *world_ranks = a->from ? a->group->origin.world_ranks : NULL;
    int missing = 0, said = 0;

    for (int r = 0; r < a->group->size; r++)
        missing += !has[r];
    for (int r = 0; r < a->group->size; r++) {
        char world[32] = "";

        if (has[r])
            continue;
        if (world_ranks)
            snprintf(world, sizeof world, " (world rank %d)", world_ranks[r]);
        const char *before = !said ? "" : said == missing - 1 ? " and " : ", ";
        const char *noun = said ? "" : missing > 1 ? "ranks " : "rank ";

        text_add(message, "%s%s%d%s", before, noun, r, world);
        said++;
    }
    return missing;
}

bool lead_awaits(const struct agreement *a, int rank)
{
    const enum report_phase phase = a->have_roster ? REPORT_CONNECTED : REPORT_OPENED;

    return !(a->lead->members[rank].reported & phase);
}

/* A member that waits for others has not reported either, so only members that do not answer are
 * named. */
int lead_missing(const struct agreement *a, char *ret_message, size_t capacity)
{
    const int size = a->group->size;
    AUTOFREE bool *has = calloc((size_t)size, sizeof *has);
    int silent = -1;

    *ret_message = 0;
    if (!has)
        return -1;
    pthread_mutex_lock(&a->group->control->lock);
    for (int r = size - 1; r >= 0; r--) {
        has[r] = !r || !lead_awaits(a, r) || liveness_has_answered(a->group->control, r);
        silent = has[r] ? silent : r;
    }
    pthread_mutex_unlock(&a->group->control->lock);
    for (int r = 1; r < size && silent < 0; r++)
        has[r] = !lead_awaits(a, r);
    struct text message = text_in(ret_message, capacity);
    text_add(&message, "%s", silent >= 0 ? "no answer from " : "missing ");
    if (!list_missing(a, has, &message))
        snprintf(ret_message, capacity, "all others have come");
    return silent;
}

/* ---- offers ---- */

tutti_status agree_missing_offers(struct agreement *a, char *ret_message, size_t capacity,
                                  int *ret_came, int *ret_first)
{
    int size = a->group->size;
    AUTOFREE bool *has = calloc((size_t)size, sizeof *has);
    tutti_status status = TUTTI_OK;

    *ret_came = 0;
    *ret_first = -1;
    *ret_message = 0;
    for (int r = 0; has && r < size && !status; r++) {
        char key[AGREE_KEY_MAX];
        const char *keys[1] = {key};

        agree_key(a, key, "offer/%d", r);
        status = agree_check(a, keys, 1, &has[r]);
        *ret_came += has[r];
        if (!status && !has[r] && *ret_first < 0)
            *ret_first = r;
    }
    struct text message = text_in(ret_message, capacity);
    if (has && !status)
        (void)list_missing(a, has, &message);
    return status;
}

/* Waits for all offers, with a line each 10 s that names the missing ranks. */
static tutti_status await_offers(struct agreement *a, const char *const *keys, int *ret_culprit)
{
    int size = a->group->size, came;
    char missing[512], where[CONTROL_HOST_MAX + 64];
    int64_t started = clock_now_ns(), remind_ns = started;
    const bool looks = a->from || a->group->bootstrap.shared;

    for (;;) {
        int64_t left = agree_left_ms(a), look = looks || a->launched ? AGREE_LATE_MS : REMIND_MS;
        int64_t slice = left < look ? left : look;
        tutti_status status =
            looks ? agree_await_keys(a, keys, (size_t)size, slice)
                  : tutti_store_wait(a->store, keys, (size_t)size, slice > 0 ? slice : 1);

        if (agree_store_reconnected(a, status))
            continue;
        if (status != TUTTI_ERR_TIMEOUT)
            return status;
        status = agree_left(a, ret_culprit);
        if (!status)
            status = agree_ended(a, ret_culprit);
        if (status)
            return status;
        agree_stalled(a, true);
        a->lead->overruled = agree_is_overruled(a);
        if (a->lead->overruled)
            return TUTTI_OK;
        if (slice < left && clock_now_ns() < remind_ns + REMIND_MS * CLOCK_NS_PER_MS)
            continue;
        remind_ns = clock_now_ns();
        status = agree_missing_offers(a, missing, sizeof missing, &came, ret_culprit);
        if (status == TUTTI_ERR_TIMEOUT && slice < left)
            continue; /* the silence of the store has a warning of its own */
        if (status)
            return status == TUTTI_ERR_TIMEOUT ? agree_store_silent(a) : status;
        agree_where_is(a, *ret_culprit, where, sizeof where);
        double seconds = (double)(clock_now_ns() - started) / CLOCK_NS_PER_S;
        if (slice == left)
            return error_set(TUTTI_ERR_TIMEOUT,
                             "group %s: %d of %d members came within %.1f s; missing: %s%s",
                             a->group->name, came, size, seconds, missing, where);
        log_line(LOG_WARN, 0, "group %s: %d of %d members came in %.0f s; waiting for %s%s",
                 a->group->name, came, size, seconds, missing, where);
    }
}

/* Members of different protocols cannot work together; those of different versions can. Before the
 * seals are compared, since other protocols may have none: who forges a version only ends the group. */
static tutti_status compare_versions(const struct agreement *a, const tutti_store_value *offers,
                                     int *ret_culprit)
{
    for (int r = 0; r < a->group->size; r++) {
        struct offer_version other;

        if (!offer_decode_version(offers[r].data, offers[r].size, &other) ||
            other.protocol == AGREE_PROTOCOL)
            continue;
        *ret_culprit = r;
        return error_set(
            TUTTI_ERR_MISMATCH,
            "group %s: members use versions of tutti that cannot work together: rank 0: "
            "%s (protocol %d); rank %d: %s (protocol %u); run the same version on all",
            a->group->name, tutti_version(), AGREE_PROTOCOL, r,
            *other.text ? other.text : "an older one", other.protocol);
    }
    return TUTTI_OK;
}

static tutti_status decode_offers(struct agreement *a, const tutti_store_value *offers,
                                  int *ret_culprit)
{
    for (int r = 0; r < a->group->size; r++)
        if (!offer_decode(offers[r].data, offers[r].size, &a->lead->members[r].offer)) {
            *ret_culprit = r;
            return error_set(TUTTI_ERR_STORE,
                             "group %s: what rank %d wrote into the store is damaged: another "
                             "job uses the same store, or rank %d has another build of tutti",
                             a->group->name, r, r);
        }
    return TUTTI_OK;
}

static tutti_status read_offers(struct agreement *a, int *ret_culprit)
{
    const size_t size = (size_t)a->group->size;
    AUTOFREE char *names = calloc(size, AGREE_KEY_MAX);
    AUTOFREE const char **keys = calloc(size, sizeof *keys);
    AUTOFREE tutti_store_value *values = calloc(size, sizeof *values);

    if (!names || !keys || !values)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu offers", size);
    for (size_t r = 0; r < size; r++) {
        keys[r] = names + r * AGREE_KEY_MAX;
        agree_key(a, names + r * AGREE_KEY_MAX, "offer/%zu", r);
    }
    tutti_status status = await_offers(a, keys, ret_culprit);
    if (status || a->lead->overruled)
        return status;
    status = agree_multi_get(a, keys, size, values);
    if (!status)
        status = compare_versions(a, values, ret_culprit);
    if (!status)
        status = lead_compare_secrets(a, keys, values, ret_culprit);
    if (!status)
        status = decode_offers(a, values, ret_culprit);
    for (size_t r = 0; r < size; r++)
        tutti_store_value_free(&values[r]);
    return status;
}

/* Whether a plugin is missing on that member, so that its settings are not complete. */
static bool lacks_plugin(const struct offer *offer)
{
    for (int level = 0; level < PROVIDERS; level++)
        if (*offer->reasons[level])
            return true;
    return false;
}

static tutti_status compare_offers(struct agreement *a, int *ret_culprit)
{
    const struct led_member *members = a->lead->members;
    const struct offer *first = &members[0].offer;

    for (int r = 0; r < a->group->size; r++) {
        const struct offer *o = &members[r].offer;

        *ret_culprit = r;
        if (o->refused)
            return error_set(o->refused, "group %s: rank %d cannot take part: %s", a->group->name,
                             r, o->refusal);
    }
    for (int r = 1; r < a->group->size; r++) {
        const struct offer *o = &members[r].offer;

        *ret_culprit = r;
        if (strcmp(o->backend, first->backend))
            return error_set(
                TUTTI_ERR_MISMATCH,
                "group %s: members ask for different backends: rank 0: «%s»; rank %d: «%s»; set "
                "TUTTI_BACKEND, or backend of the options, alike on all ranks",
                a->group->name, first->backend, r, o->backend);
        if (o->size != first->size)
            return error_set(TUTTI_ERR_MISMATCH,
                             "group %s: members disagree about the size of the world: rank 0: %u; "
                             "rank %d: %u; set WORLD_SIZE alike on all ranks",
                             a->group->name, first->size, r, o->size);
        tutti_status status = settings_compare(a->group->name, first->settings, r, o->settings,
                                               lacks_plugin(first) || lacks_plugin(o));
        if (status)
            return status;
    }
    *ret_culprit = -1;
    return TUTTI_OK;
}

/* ---- the decision ---- */

/* Numbers the hosts by their lowest rank; members that are alone get one of their own. */
static void lay_out(struct agreement *a)
{
    struct led_member *m = a->lead->members;

    a->lead->hosts = 0;
    for (int r = 0; r < a->group->size; r++) {
        int host = -1;

        for (int s = 0; s < r && host < 0 && !m[r].alone; s++)
            if (!m[s].alone && !strcmp(m[s].offer.host_key, m[r].offer.host_key))
                host = m[s].host;
        m[r].host = host >= 0 ? host : a->lead->hosts++;
    }
}

/* In a group that is made from another, members that are stuck may have decided already: what is
 * there stays, and is read back with everybody. In a world it is of an earlier attempt. */
static tutti_status put_decision(struct agreement *a, const struct writer *w)
{
    char key[AGREE_KEY_MAX];

    agree_key(a, key, "decision/%u", a->round);
    return a->from ? agree_put(a, key, w->data, w->size, NULL)
                   : agree_set(a, key, w->data, w->size);
}

/* What members of an earlier attempt have left says nothing about this one. */
static void forget_undecided(struct agreement *a)
{
    char key[AGREE_KEY_MAX];

    agree_key(a, key, "outcome/" AGREE_UNDECIDED "/%u", a->round);
    if (!a->from && agree_has(a, key))
        agree_delete(a, key);
}

static tutti_status publish(struct agreement *a, const struct decision *d)
{
    size_t capacity = decision_bytes(a->group->size, a->lead->hosts);
    AUTOFREE uint8_t *data = malloc(capacity);
    struct writer w = {.data = data, .capacity = capacity};

    if (!data)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the decision");
    decision_encode(&w, d);
    if (w.bad)
        return error_set(TUTTI_ERR_INTERNAL, "the decision is too large");
    forget_undecided(a);
    return put_decision(a, &w);
}

/* Nobody has the group's key yet, so the store is the only way to tell the others. */
static tutti_status publish_abort(struct agreement *a, tutti_status status, int culprit)
{
    uint8_t bytes[DECISION_ABORT_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};
    tutti_status settled = agree_give_up(a, status, culprit);

    if (settled)
        return settled;
    decision_encode_abort(&w, &a->outcome);
    if (!put_decision(a, &w))
        a->outcome.kind = OUTCOME_NONE; /* read back with everybody */
    return TUTTI_OK;
}

/* Counts the members on the same CPUs as `rank`, itself included. Hosts of the layout may be one
 * machine: containers, or hosts by TUTTI_HOST. */
static int count_cpu_sharers(const struct agreement *a, int rank)
{
    const struct led_member *members = a->lead->members;
    const uint64_t cpus = members[rank].offer.cpus.set;
    int count = 1;

    for (int r = 0; r < a->group->size && cpus; r++)
        count += r != rank && members[r].offer.cpus.set == cpus;
    return count;
}

/* Members choose algorithms by it, so one counts for all. */
static tutti_status find_crowded(const struct agreement *a, struct decision *d)
{
    AUTOFREE struct cpu_share *shares = calloc((size_t)d->size, sizeof *shares);

    if (!shares)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a decision about %d members", d->size);
    for (int host = 0; host < d->hosts; host++) {
        int members = 0;

        for (int r = 0; r < d->size; r++)
            if (d->host_of[r] == host)
                shares[members++] = a->lead->members[r].offer.cpus;
        d->crowded[host] = cpu_is_crowded(shares, members);
    }
    return TUTTI_OK;
}

static tutti_status fill_decision(struct agreement *a, struct decision *d, int *ret_culprit)
{
    struct leading *lead = a->lead;

    lay_out(a);
    devices_find(lead->members, a->group->size);
    tutti_status status = decision_allocate(d, a->group->size, lead->hosts);
    if (status)
        return status;
    memcpy(d->salt, lead->salt, sizeof d->salt);
    d->open = a->group->bootstrap.secret->source == SECRET_NONE;
    for (int r = a->group->size - 1; r >= 0; r--) { /* so that the first of a host remains */
        const struct led_member *m = &lead->members[r];

        d->nonces[r] = m->offer.nonce;
        d->host_of[r] = m->host;
        d->cpu_sharers[r] = count_cpu_sharers(a, r);
        memcpy(d->sockets[m->host], m->offer.socket_name, LOCAL_NAME_MAX);
    }
    for (int i = 0; i < d->interior; i++)
        d->addresses[i] = lead->members[i].offer.address;
    status = find_crowded(a, d);
    return status ? status : lead_choose(a, d, ret_culprit);
}

/* Of all members, so that late ones can be dialed. */
static void know_addresses(struct agreement *a)
{
    struct control *control = a->group->control;

    pthread_mutex_lock(&control->lock);
    for (int r = 0; r < a->group->size; r++) {
        const struct sockaddr_storage *address = &a->lead->members[r].offer.address;

        control->members[r].address = *address;
        control->members[r].address_size = address_bytes(address);
    }
    pthread_mutex_unlock(&control->lock);
    a->probe_ns = clock_deadline_ms(AGREE_LATE_MS);
}

tutti_status lead_decide(struct agreement *a)
{
    struct decision d = {0};
    int culprit = -1;
    tutti_status status = a->round == 1 ? read_offers(a, &culprit) : TUTTI_OK;

    if (!status && a->lead->overruled)
        return TUTTI_OK;
    if (!status && a->round == 1)
        status = compare_offers(a, &culprit);
    if (!status)
        status = fill_decision(a, &d, &culprit);
    for (int r = 0; r < a->group->size; r++)
        a->lead->members[r].reported = 0;
    if (!status) {
        devices_tell(a);
        know_addresses(a);
    }
    if (!status)
        status = publish(a, &d);
    if (status)
        status = publish_abort(a, status, culprit);
    decision_free(&d);
    return status;
}

/* ---- reports ---- */

static tutti_status send_roster(struct agreement *a)
{
    struct control *control = a->group->control;
    const struct led_member *members = a->lead->members;
    size_t capacity = 4;

    for (int r = 0; r < a->group->size; r++)
        capacity += 4 + members[r].opened.size;
    AUTOFREE uint8_t *data = malloc(capacity);
    struct writer w = {.data = data, .capacity = capacity};

    if (!data)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the roster");
    write_u32(&w, a->round);
    for (int r = 0; r < a->group->size; r++)
        write_blob(&w, members[r].opened.data, members[r].opened.size);
    /* Through the same door as everybody's, so that the leader takes its own roster too. */
    LOCK_SCOPE(&control->lock);
    control->handlers->frame(control->handler_user, FRAME_ROSTER, w.data, w.size);
    return TUTTI_OK;
}

static bool all_have(const struct agreement *a, enum report_phase phase)
{
    for (int r = 0; r < a->group->size; r++)
        if (!(a->lead->members[r].reported & phase))
            return false;
    return true;
}

/* Takes a report of failure: `auto` goes on without its local provider, ucx or an engine for devices, anything else
 * aborts. */
static tutti_status take_failure(struct agreement *a, const struct report *report)
{
    char message[AGREE_MESSAGE_MAX], rank[32] = ""; /* a loss names its rank itself */

    if (a->choice->is_auto && report->failed_level == REMOTE &&
        !strcmp(a->decision.provider[REMOTE], known_auto_fabric)) {
        a->lead->refused[BACKEND_MORE] = true;
        log_line(LOG_WARN, 0, "group %s: going on with %s instead of %s: rank %d: %s",
                 a->group->name, known_auto_remote, known_auto_fabric, report->rank,
                 report->message);
        return agree_settle(a, OUTCOME_RETRY, TUTTI_OK, -1, report->message);
    }
    if (a->choice->is_auto && report->failed_level == DEVICE_NATIVE) {
        a->lead->refused[DEVICE_NATIVE] = true;
        snprintf(message, sizeof message, "rank %d: %.*s", report->rank,
                 TEXT_CUT(report->message, 900));
        devices_warn(a->group, a->decision.provider[DEVICE_NATIVE], message);
        return agree_settle(a, OUTCOME_RETRY, TUTTI_OK, -1, report->message);
    }
    if (a->choice->is_auto && report->failed_level == LOCAL && !a->lead->refused[LOCAL]) {
        a->lead->refused[LOCAL] = true;
        log_line(LOG_WARN, 0, "group %s: going on without shm: rank %d: %s", a->group->name,
                 report->rank, report->message);
        return agree_settle(a, OUTCOME_RETRY, TUTTI_OK, -1, report->message);
    }
    if (report->status != TUTTI_ERR_PEER_LOST)
        snprintf(rank, sizeof rank, "rank %d: ", report->rank);
    snprintf(message, sizeof message, "group %s: %s%.*s", a->group->name, rank,
             TEXT_CUT(report->message, 900));
    return agree_settle(a, OUTCOME_ABORT, report->status, report->rank, message);
}

/* A member that could not be proven a local peer; when it is the first of its host, nobody can be there. */
static void leave_alone(struct agreement *a, int rank, const char *why)
{
    struct leading *lead = a->lead;
    bool first = true;

    if (!lead->why_alone[0])
        snprintf(lead->why_alone, sizeof lead->why_alone, "rank %d: %.*s", rank,
                 TEXT_CUT(why, 200));
    if (a->choice->is_auto)
        log_line(LOG_WARN, 0,
                 "group %s: going on without memory between rank %d and its host's others: %s",
                 a->group->name, rank, why);
    for (int r = 0; r < rank; r++)
        first &= lead->members[r].host != lead->members[rank].host;
    lead->members[rank].alone = true;
    for (int r = rank + 1; first && r < a->group->size; r++)
        lead->members[r].alone |= lead->members[r].host == lead->members[rank].host;
}

tutti_status lead_report(struct agreement *a, const struct report *report)
{
    struct led_member *m = &a->lead->members[report->rank];

    if (report->round != a->round || a->outcome.kind)
        return TUTTI_OK;
    if (report->status)
        return take_failure(a, report);
    if (report->phase == REPORT_CONNECTED) {
        m->reported |= REPORT_CONNECTED;
        return all_have(a, REPORT_CONNECTED) ? agree_settle(a, OUTCOME_COMMIT, TUTTI_OK, -1, "")
                                             : TUTTI_OK;
    }
    if (report->not_local) {
        leave_alone(a, report->rank, report->message);
        return agree_settle(a, OUTCOME_RETRY, TUTTI_OK, -1, report->message);
    }
    free(m->opened.data);
    m->opened = report_pack(report);
    if (!m->opened.data)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the roster");
    m->reported |= REPORT_OPENED;
    return all_have(a, REPORT_OPENED) ? send_roster(a) : TUTTI_OK;
}
