/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backends a group uses, by what was asked for and what the members have. `auto` is shm inside
 * hosts, and tcp between them, or ucx where all members have devices for it; without engines; a name is that backend, and a name whose engine reaches
 * all members does whole operations, too.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tensor.h>

#include "agreement/agree_devices.h"
#include "agreement/agree_engines.h"
#include "agreement/agree_lead.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/known.h"
#include "plugin/plugin.h"

/* The first member that lacks the level's plugin, or -1. */
static int lacking(const struct agreement *a, int level)
{
    for (int r = 0; r < a->group->size; r++)
        if (*a->lead->members[r].offer.reasons[level])
            return r;
    return -1;
}

static tutti_status need(struct agreement *a, int level, const char *name, int *ret_culprit)
{
    int r = lacking(a, level);

    if (r < 0)
        return TUTTI_OK;
    *ret_culprit = r;
    return error_set(TUTTI_ERR_PLUGIN, "group %s: backend %s is not usable on rank %d: %s",
                     a->group->name, name, r, a->lead->members[r].offer.reasons[level]);
}

/* Whether `auto` uses the devices between hosts that are no plain sockets; says so, or why not if some member
 * has one. */
static bool takes_fabric(struct agreement *a)
{
    char why[ENGINES_WORDS_MAX];
    const enum engines_fabric found =
        engines_find_fabric(a->lead->members, a->group->size, BACKEND_MORE, why);

    if (a->lead->refused[BACKEND_MORE] || found == FABRIC_NOWHERE)
        return false;
    if (a->round <= 1)
        log_line(found == FABRIC_ON_ALL ? LOG_INFO : LOG_WARN, 0,
                 "group %s: between hosts by %s, since %s", a->group->name,
                 found == FABRIC_ON_ALL ? known_auto_fabric : known_auto_remote, why);
    return found == FABRIC_ON_ALL;
}

/* Of calls with tensors on devices. What is missing is told once, as it is the same for each group. */
static void take_engine_for_devices(struct agreement *a, struct decision *d)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char why[ENGINES_WORDS_MAX];
    const enum devices_engine found = devices_find_engine(a->lead->members, a->group->size, why);

    if (a->lead->refused[DEVICE_NATIVE] || found == DEVICES_NOWHERE)
        return;
    if (found == DEVICES_JOIN)
        memcpy(d->provider[DEVICE_NATIVE], a->choice->auto_engine, sizeof a->choice->auto_engine);
    else if (!atomic_flag_test_and_set(&told))
        devices_warn(a->group, known_auto_engine(TUTTI_DEVICE_CUDA), why);
}

static tutti_status choose_auto(struct agreement *a, struct decision *d, int *ret_culprit)
{
    struct leading *lead = a->lead;
    bool shared = lead->hosts < a->group->size; /* some host has several members */
    int without = lacking(a, LOCAL);

    if (shared && without >= 0 && !lead->refused[LOCAL]) {
        lead->refused[LOCAL] = true;
        log_line(LOG_WARN, 0, "group %s: going on without %s: rank %d: %s", a->group->name,
                 known_auto_local, without, lead->members[without].offer.reasons[LOCAL]);
    }
    take_engine_for_devices(a, d);
    bool local = shared && !lead->refused[LOCAL];
    bool remote = lead->hosts > 1 || !local;
    const bool fabric = lead->hosts > 1 && takes_fabric(a);
    if (local)
        snprintf(d->provider[LOCAL], sizeof d->provider[LOCAL], "%s", known_auto_local);
    if (remote)
        snprintf(d->provider[REMOTE], sizeof d->provider[REMOTE], "%s",
                 fabric ? known_auto_fabric : known_auto_remote);
    return remote && !fabric ? need(a, REMOTE, known_auto_remote, ret_culprit) : TUTTI_OK;
}

static void list_hosts(const struct agreement *a, char *ret_words, size_t capacity)
{
    struct text words = text_in(ret_words, capacity);

    for (int h = 0; h < a->lead->hosts; h++) {
        int first = 1;

        for (int r = 0; r < a->group->size; r++)
            if (a->lead->members[r].host == h) {
                text_add(&words, "%s%d", !first ? "," : h ? "; rank " : "rank ", r);
                first = 0;
            }
    }
}

/* Which of the choice's backends reach members of one host only, by number. */
static tutti_status find_host_only(const struct backend_choice *choice, uint32_t *ret_host_only)
{
    *ret_host_only = 0;
    for (int level = 0; level < TRANSPORTS; level++) {
        const tutti_plugin *plugin;

        if (!*backend_name(choice, level))
            continue;
        tutti_status status = plugin_find(backend_name(choice, level), &plugin);
        if (status)
            return status;
        const tutti_transport_ops *ops = plugin_transport(plugin);
        if (ops && ops->capabilities & TUTTI_CAP_HOST_ONLY)
            *ret_host_only |= UINT32_C(1) << level;
    }
    return TUTTI_OK;
}

/* Rules choose the backend of each call; the first backend that reaches all members does it by its
 * engine. */
static void take_for_rules(const struct agreement *a, struct decision *d)
{
    const struct backend_choice *choice = a->choice;
    const int hosts = a->lead->hosts, size = a->group->size;
    const int engine = backend_engine(choice, hosts, size);

    for (int level = 0; level < TRANSPORTS; level++)
        if (backend_is_used(choice, level, hosts, size))
            memcpy(d->provider[level], backend_name(choice, level), sizeof d->provider[level]);
    if (engine >= 0)
        memcpy(d->provider[NATIVE], d->provider[engine], sizeof d->provider[NATIVE]);
}

static tutti_status take_named(const struct agreement *a, struct decision *d, bool host_only)
{
    const struct backend_choice *choice = a->choice;
    const bool shared = a->lead->hosts < a->group->size;
    const bool single = !strcmp(choice->local, choice->remote);
    const bool local = single ? host_only : shared;
    const tutti_plugin *plugin;

    if (local)
        memcpy(d->provider[LOCAL], choice->local, sizeof d->provider[LOCAL]);
    if (!local || (a->lead->hosts > 1 && !single))
        memcpy(d->provider[REMOTE], choice->remote, sizeof d->provider[REMOTE]);
    const int carrier = *d->provider[LOCAL] ? LOCAL : REMOTE;
    if (carrier == LOCAL && *d->provider[REMOTE])
        return TUTTI_OK; /* no engine reaches all members */
    tutti_status status = plugin_find(d->provider[carrier], &plugin);
    if (!status && plugin_collectives(plugin))
        memcpy(d->provider[NATIVE], d->provider[carrier], sizeof d->provider[NATIVE]);
    return status;
}

static tutti_status choose_named(struct agreement *a, struct decision *d, int *ret_culprit)
{
    const struct backend_choice *choice = a->choice;
    const int hosts = a->lead->hosts;
    tutti_status status = TUTTI_OK;
    uint32_t host_only = 0;

    for (int level = 0; level < TRANSPORTS && !status; level++)
        if (*backend_name(choice, level))
            status = need(a, level, backend_name(choice, level), ret_culprit);
    if (!status && *choice->device_engine) {
        status = need(a, DEVICE_NATIVE, choice->device_engine, ret_culprit);
        memcpy(d->provider[DEVICE_NATIVE], choice->device_engine, sizeof choice->device_engine);
    }
    if (!status)
        status = find_host_only(choice, &host_only);
    if (status)
        return status;
    if (host_only >> REMOTE & 1 && hosts > 1) {
        const char *alone = a->lead->why_alone;
        char words[256];

        list_hosts(a, words, sizeof words);
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "group %s: backend %s reaches members of one host only, and the members "
                         "are on %d hosts: %s%s%s%s; use auto",
                         a->group->name, choice->remote, hosts, words, *alone ? " (" : "", alone,
                         *alone ? ")" : "");
    }
    if (backend_check_hosts(choice, hosts, a->group->size, host_only))
        return error_prefix("group %s", a->group->name);
    if (!choice->rule_count)
        return take_named(a, d, host_only >> REMOTE & 1);
    take_for_rules(a, d);
    return TUTTI_OK;
}

/* What an engine does by itself has no checksums, so its messages carry the operations. */
static tutti_status leave_engine(const struct agreement *a, struct decision *d)
{
    const char *engine = d->provider[NATIVE], *for_devices = d->provider[DEVICE_NATIVE];
    bool carries = !*engine;

    if (*for_devices)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "group %s: what the engine %s moves between devices has no checksums; "
                         "unset TUTTI_CHECKSUM, or use another backend for devices",
                         a->group->name, for_devices);

    for (int level = 0; level < TRANSPORTS; level++)
        carries |= !strcmp(d->provider[level], engine);
    if (!carries)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "group %s: backend %s has no messages, so what it moves has no checksums; "
                         "unset TUTTI_CHECKSUM, or use another backend",
                         a->group->name, engine);
    *d->provider[NATIVE] = 0;
    return TUTTI_OK;
}

/* An engine that carries no messages: what it leaves to the core goes as `auto` would have it. */
static tutti_status choose_engine(struct agreement *a, struct decision *d, const char *name,
                                  int *ret_culprit)
{
    tutti_status status = need(a, NATIVE, name, ret_culprit);

    if (!status)
        status = choose_auto(a, d, ret_culprit);
    if (!status)
        snprintf(d->provider[NATIVE], sizeof d->provider[NATIVE], "%s", name);
    return status;
}

static tutti_status compare_engines(const struct agreement *a, int level, int *ret_culprit)
{
    const struct led_member *members = a->lead->members;
    const int r = engines_find_other(members, a->group->size, level);
    char words[ENGINES_WORDS_MAX];

    if (r < 0)
        return TUTTI_OK;
    *ret_culprit = r;
    engines_tell(members, r, level, words);
    return error_set(TUTTI_ERR_MISMATCH, "group %s: members use different engines: %s",
                     a->group->name, words);
}

static bool encrypts(const char *name)
{
    const tutti_plugin *plugin;
    const tutti_transport_ops *ops = plugin_find(name, &plugin) ? NULL : plugin_transport(plugin);

    return ops && ops->capabilities & TUTTI_CAP_ENCRYPTS;
}

/* The level of the first backend that carries calls between hosts and does not encrypt them; -1: there is none. */
static int plain_level(const struct agreement *a, const struct decision *d)
{
    for (int level = 0; level < PROVIDERS; level++) {
        const char *name = d->provider[level];
        const bool between = level >= NATIVE
                                 ? d->hosts > 1
                                 : backend_is_between(a->choice, level, d->hosts, a->group->size);

        if (*name && between && (level >= NATIVE || !encrypts(name)))
            return level;
    }
    return -1;
}

int32_t agree_encryption(const struct agreement *a, const struct decision *d)
{
    if (a->group->tls == ENVIRONMENT_PLAIN)
        return TUTTI_ENCRYPTION_NONE;
    return d->open || plain_level(a, d) >= 0 ? TUTTI_ENCRYPTION_PARTLY : TUTTI_ENCRYPTION_FULL;
}

/* Refuses what TUTTI_TLS=1 does not allow. An open group is refused where its secrets are compared. */
static tutti_status check_encryption(const struct agreement *a, const struct decision *d)
{
    const int level = plain_level(a, d);
    const char *plain = level < 0 ? NULL : d->provider[level];
    char advice[96];

    if (a->group->tls == ENVIRONMENT_PLAIN)
        return TUTTI_OK;
    if (d->open && a->round <= 1)
        log_line(LOG_WARN, 0,
                 "group %s: TUTTI_TLS=where-possible, and everybody can compute the key of an open "
                 "group: this keeps out only those who listen",
                 a->group->name);
    if (!plain)
        return TUTTI_OK;
    if (level >= NATIVE)
        snprintf(advice, sizeof advice, "leave it out, as tcp encrypts");
    else
        snprintf(advice, sizeof advice, "use tcp there (auto, local=%s,remote=tcp)", plain);
    if (a->group->tls == ENVIRONMENT_TLS)
        return error_set(
            TUTTI_ERR_UNSUPPORTED,
            "group %s: TUTTI_TLS=1, and backend %s does not encrypt what it sends between hosts; "
            "%s, or set TUTTI_TLS=where-possible on all ranks",
            a->group->name, plain, advice);
    if (a->round <= 1)
        log_line(LOG_WARN, 0,
                 "group %s: backend %s does not encrypt what it sends between hosts; "
                 "TUTTI_TLS=where-possible encrypts the rest",
                 a->group->name, plain);
    return TUTTI_OK;
}

static tutti_status choose(struct agreement *a, struct decision *d, int *ret_culprit)
{
    const char *names[PROVIDERS];
    tutti_status status = TUTTI_OK;

    backend_candidates(a->choice, names);
    if (a->choice->is_auto)
        return choose_auto(a, d, ret_culprit);
    status = *names[NATIVE] ? choose_engine(a, d, names[NATIVE], ret_culprit)
                            : choose_named(a, d, ret_culprit);
    for (int level = 0; level < PROVIDERS && !status; level++)
        if (*d->provider[level])
            status = compare_engines(a, level, ret_culprit);
    return !status && a->group->has_checksums ? leave_engine(a, d) : status;
}

tutti_status lead_choose(struct agreement *a, struct decision *d, int *ret_culprit)
{
    const tutti_status status = choose(a, d, ret_culprit);

    return status ? status : check_encryption(a, d);
}
