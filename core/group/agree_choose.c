/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backends a group uses, by what was asked for and what the members have. `auto` is shm inside
 * hosts and tcp between them, without engines; a name is that backend, and a name whose engine reaches
 * all members does whole operations, too.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "group/agree_lead.h"
#include "plugin/plugin.h"

/* The first member that lacks the level's plugin, or -1. */
static int lacking(const struct agreement *a, int level)
{
    for (int r = 0; r < a->group->size; r++)
        if (*a->lead->offers[r].reasons[level])
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
                     a->group->name, name, r, a->lead->offers[r].reasons[level]);
}

static tutti_status choose_auto(struct agreement *a, struct decision *d, int *ret_culprit)
{
    struct leading *lead = a->lead;
    bool shared = lead->hosts < a->group->size; /* some host has several members */
    int without = lacking(a, LOCAL);

    if (shared && without >= 0 && !lead->refused[LOCAL]) {
        lead->refused[LOCAL] = true;
        log_line(LOG_WARN, 0, "group %s: going on without shm: rank %d: %s", a->group->name,
                 without, lead->offers[without].reasons[LOCAL]);
    }
    bool local = shared && !lead->refused[LOCAL];
    bool remote = lead->hosts > 1 || !local;
    if (local)
        snprintf(d->provider[LOCAL], sizeof d->provider[LOCAL], "shm");
    if (remote)
        snprintf(d->provider[REMOTE], sizeof d->provider[REMOTE], "tcp");
    return remote ? need(a, REMOTE, "tcp", ret_culprit) : TUTTI_OK;
}

static void list_hosts(const struct agreement *a, char *ret_words, size_t capacity)
{
    size_t used = 0;

    *ret_words = 0;
    for (int h = 0; h < a->lead->hosts; h++) {
        int first = 1;

        for (int r = 0; r < a->group->size && used < capacity; r++)
            if (a->lead->host_of[r] == h) {
                int n = snprintf(ret_words + used, capacity - used, "%s%d",
                                 !first ? ","
                                 : h    ? "; rank "
                                        : "rank ",
                                 r);
                used += n > 0 ? (size_t)n : 0;
                first = 0;
            }
    }
}

static tutti_status choose_named(struct agreement *a, struct decision *d, int *ret_culprit)
{
    const struct backend_choice *choice = a->choice;
    bool shared = a->lead->hosts < a->group->size, single = !strcmp(choice->local, choice->remote);
    const tutti_plugin *plugin;

    for (int level = 0; level < TRANSPORTS; level++) {
        tutti_status status = need(a, level, level ? choice->remote : choice->local, ret_culprit);
        if (status)
            return status;
    }
    tutti_status status = plugin_find(choice->remote, &plugin);
    if (status)
        return status;
    const tutti_transport_ops *ops = plugin_transport(plugin);
    bool host_only = ops && ops->capabilities & TUTTI_CAP_HOST_ONLY;
    if (host_only && a->lead->hosts > 1) {
        char hosts[256];

        list_hosts(a, hosts, sizeof hosts);
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "group %s: backend %s reaches members of one host only, and the members "
                         "are on %d: %s; try auto",
                         a->group->name, choice->remote, a->lead->hosts, hosts);
    }
    status = backend_check_hosts(choice, a->lead->hosts);
    if (status)
        return error_prefix("group %s", a->group->name);
    bool local = single ? host_only : shared;
    bool wide = backend_has_way(choice, BACKEND_REMOTE);
    if (local)
        memcpy(d->provider[LOCAL], choice->local, sizeof d->provider[LOCAL]);
    if (!local || (a->lead->hosts > 1 && !single) || wide)
        memcpy(d->provider[REMOTE], choice->remote, sizeof d->provider[REMOTE]);
    if (choice->rule_count)
        return TUTTI_OK; /* rules choose who carries messages and memory */
    const int carrier = *d->provider[LOCAL] ? LOCAL : REMOTE;
    if (carrier == LOCAL && *d->provider[REMOTE])
        return TUTTI_OK; /* no engine reaches all members */
    status = plugin_find(d->provider[carrier], &plugin);
    if (!status && plugin_collectives(plugin))
        memcpy(d->provider[NATIVE], d->provider[carrier], sizeof d->provider[NATIVE]);
    return status;
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

/* Engines of another name or major do not understand each other. */
static tutti_status compare_engines(const struct agreement *a, int level, int *ret_culprit)
{
    const struct engine_offer *first = &a->lead->offers[0].engines[level];

    for (int r = 1; r < a->group->size; r++) {
        const struct engine_offer *other = &a->lead->offers[r].engines[level];

        if (!strcmp(first->name, other->name) && first->major == other->major)
            continue;
        *ret_culprit = r;
        return error_set(TUTTI_ERR_MISMATCH,
                         "group %s: members drive different engines: rank 0: %s %u.%u.%u; rank %d: "
                         "%s %u.%u.%u; the same name and major are needed",
                         a->group->name, first->name, first->major, first->minor, first->patch, r,
                         other->name, other->major, other->minor, other->patch);
    }
    return TUTTI_OK;
}

tutti_status lead_choose(struct agreement *a, struct decision *d, int *ret_culprit)
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
    return status;
}
