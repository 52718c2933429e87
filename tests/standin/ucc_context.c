/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and teams.
 *
 * ucc_context_create() gathers the lengths of addresses, then the addresses, and does not return before all
 * members have come or an all-gather fails; ucc_context_destroy() gathers once more, as a barrier. A team
 * gathers who its members are in the context, and with it what names the team: its first member and that
 * one's count of teams.
 */
#include "ucc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEAMS_MAX = 32 * 64 }; /* at a time, of a context */

struct introduction {
    uint32_t member, count;
};

/* ---- the lock ------------------------------------------------------------------------------- */

void context_enter(struct ucci_context *context)
{
    if (context->many_threads)
        pthread_mutex_lock(&context->lock);
    else if (pthread_mutex_trylock(&context->lock) != 0)
        misused("two threads at once in a context for one thread");
}

void context_leave(struct ucci_context *context)
{
    pthread_mutex_unlock(&context->lock);
}

/* ---- all-gathers ---------------------------------------------------------------------------- */

/* Spins until it is complete, as UCC does. */
static ucci_status gather(const ucci_oob *oob, void *own, void *ret_all, size_t bytes)
{
    void *request;
    ucci_status status = oob->allgather(own, ret_all, bytes, oob->info, &request);

    if (status != UCCI_OK) {
        ucc_say("ERROR", "failed to start oob allgather");
        return status < 0 ? status : UCCI_ERR_NO_MESSAGE;
    }
    do
        status = oob->req_test(request);
    while (status == UCCI_INPROGRESS);
    oob->req_free(request);
    return status;
}

/* ---- contexts ------------------------------------------------------------------------------- */

ucci_status ucc_context_config_read(ucci_lib_h lib, const char *file,
                                    ucci_context_config_h *ret_config)
{
    (void)lib;
    if (file)
        return UCCI_ERR_NOT_IMPLEMENTED;
    *ret_config = calloc(1, sizeof **ret_config);
    return *ret_config ? UCCI_OK : UCCI_ERR_NO_MEMORY;
}

void ucc_context_config_release(ucci_context_config_h config)
{
    free(config);
}

/* UCC's names are upper case; nothing here depends on a value. */
ucci_status ucc_context_config_modify(ucci_context_config_h config, const char *component,
                                      const char *name, const char *value)
{
    if (!config || (component && strncmp(component, "tl/", 3) && strncmp(component, "cl/", 3)))
        return UCCI_ERR_INVALID_PARAM;
    return *value && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name)
               ? UCCI_OK
               : UCCI_ERR_NOT_FOUND;
}

static void free_context(struct ucci_context *context)
{
    const size_t members = context->oob.members;
    struct operation *op;
    struct early *next;

    while ((op = context->first)) { /* those that did not end */
        context->first = op->next;
        operation_free(op);
    }
    sockets_close(context);
    if (context->fd >= 0)
        close(context->fd);
    for (size_t m = 0; context->rings && m < members; m++)
        if (context->rings[m])
            rings_unmap(context->rings[m], members);
    for (struct early *early = context->early; early; early = next) {
        next = early->next;
        free(early);
    }
    pthread_mutex_destroy(&context->lock);
    free(context->rings);
    free(context->addresses);
    free(context);
}

static ucci_status connect_members(struct ucci_context *context)
{
    const ucci_oob *oob = &context->oob;
    struct address own = context->addresses[oob->place];
    size_t length = sizeof own, lengths[MEMBERS_MAX];
    ucci_status status = UCCI_OK;

    if (oob->members == 1)
        return UCCI_OK;
    status = gather(oob, &length, lengths, sizeof length);
    if (status == UCCI_OK)
        status = gather(oob, &own, context->addresses, sizeof own);
    if (status == UCCI_OK)
        sockets_connect(context);
    if (status == UCCI_OK && context->faults->third_round)
        status = gather(oob, &length, lengths, sizeof length);
    for (size_t m = 0; status == UCCI_OK && m < oob->members; m++)
        if (!context->rings[m] && !rings_map(&context->addresses[m], &context->rings[m])) {
            ucc_say("ERROR", "no way to member %zu: %s", m, strerror(errno));
            status = UCCI_ERR_NO_RESOURCE;
        }
    return status;
}

/* UCX's worker in a context is one process's: a child that uses its copy ends its parent, which asserts. */
static void check_process(void)
{
    static _Atomic pid_t owner; /* of the contexts */
    pid_t none = 0;

    if (!atomic_compare_exchange_strong(&owner, &none, getpid()) && none != getpid())
        misused("process %d uses contexts that process %d has made", (int)getpid(), (int)none);
}

ucci_status ucc_context_create(ucci_lib_h lib, const ucci_context_params *params,
                               ucci_context_config_h config, ucci_context_h *ret_context)
{
    const bool exclusive =
        params->mask & UCCI_CONTEXT_FIELD_TYPE && params->type == UCCI_CONTEXT_EXCLUSIVE;
    struct ucci_context *context = calloc(1, sizeof *context);

    check_process();
    if (!context || !config)
        return context ? UCCI_ERR_INVALID_PARAM : UCCI_ERR_NO_MEMORY;
    pthread_mutex_init(&context->lock, NULL);
    context->many_threads = lib->threads == UCCI_THREAD_MULTIPLE && !exclusive;
    context->oob = (ucci_oob){.members = 1};
    if (params->mask & UCCI_CONTEXT_FIELD_OOB)
        context->oob = params->oob;
    context->faults = faults_of((int)context->oob.place);
    context->early_end = &context->early;
    context->fd = -1;
    sockets_open(context);
    for (unsigned i = 0; i < context->faults->says; i++)
        ucc_say("WARN", "line %u that nobody asked for", i + 1);

    const size_t members = context->oob.members, place = context->oob.place;
    ucci_status status = UCCI_ERR_NO_MEMORY;

    if (members > MEMBERS_MAX)
        misused("%zu members of a context, and at most %d are possible", members, MEMBERS_MAX);
    context->rings = calloc(members, sizeof *context->rings);
    if (context->rings && (context->addresses = calloc(members, sizeof *context->addresses))) {
        if (rings_make(members, &context->rings[place], &context->addresses[place])) {
            context->fd = context->addresses[place].fd;
            status = connect_members(context);
        }
    }
    if (status == UCCI_OK && !strcmp(context->faults->fails, "context"))
        status = UCCI_ERR_NO_RESOURCE;
    if (status != UCCI_OK) { /* UCC forgets what it has opened then */
        context->fd = -1;
        context->socket_count = 0;
        if (context->rings)
            context->rings[place] = NULL;
        ucc_say("ERROR", "failed to create context: %s", ucc_status_string(status));
        free_context(context);
        return status;
    }
    *ret_context = context;
    return UCCI_OK;
}

ucci_status ucc_context_progress(ucci_context_h context)
{
    context_enter(context);
    operations_advance(context);
    context_leave(context);
    return UCCI_OK;
}

ucci_status ucc_context_destroy(ucci_context_h context)
{
    uint8_t own = 0, all[MEMBERS_MAX];

    if (context->oob.members > 1 && gather(&context->oob, &own, all, sizeof own) != UCCI_OK)
        ucc_say("ERROR", "failed to test oob req");
    free_context(context);
    return UCCI_OK;
}

/* ---- teams ---------------------------------------------------------------------------------- */

/* The size and place that the parameters give, or false, as UCC checks them. */
static bool team_shape(const ucci_team_params *params, uint64_t *ret_size, uint64_t *ret_place)
{
    const uint64_t with_ep = UCCI_TEAM_FIELD_EP | UCCI_TEAM_FIELD_EP_RANGE;
    const bool has_oob = params->mask & UCCI_TEAM_FIELD_OOB;
    const bool has_map = params->mask & UCCI_TEAM_FIELD_EP_MAP;
    const bool has_ep =
        (params->mask & with_ep) == with_ep && params->ep_range == UCCI_EP_RANGE_CONTIG;
    uint64_t size = params->mask & UCCI_TEAM_FIELD_SIZE ? params->size : 0;

    if (has_oob && size > 0 && params->oob.members != size)
        return false;
    size = has_oob ? params->oob.members : size;
    if (has_map && size > 0 && params->ep_map.count != size)
        return false;
    *ret_size = has_map ? params->ep_map.count : size;
    *ret_place = has_ep ? params->ep : params->oob.place;
    return *ret_size > 0 && *ret_size <= MEMBERS_MAX && (has_ep || has_oob) &&
           !(has_ep && has_oob && params->ep != params->oob.place);
}

ucci_status ucc_team_create_post(ucci_context_h *contexts, uint32_t count,
                                 const ucci_team_params *params, ucci_team_h *ret_team)
{
    uint64_t size, place;

    check_process();
    *ret_team = NULL;
    if (count != 1)
        return count > 1 ? UCCI_ERR_NOT_SUPPORTED : UCCI_ERR_INVALID_PARAM;
    if (!team_shape(params, &size, &place)) {
        ucc_say("ERROR", "inconsistent parameters of a team");
        return UCCI_ERR_INVALID_PARAM;
    }
    if (params->mask & UCCI_TEAM_FIELD_EP_MAP)
        misused("a team by a map of its members, which this library does not have");
    struct ucci_team *team = calloc(1, sizeof *team);

    if (team)
        team->members = calloc(size, sizeof *team->members);
    if (team)
        team->introductions = calloc(size, sizeof *team->introductions);
    if (!team || !team->members || !team->introductions) {
        if (team) {
            free(team->members);
            free(team);
        }
        return UCCI_ERR_NO_MEMORY;
    }
    team->context = contexts[0];
    team->size = (uint32_t)size;
    team->place = (uint32_t)place;
    team->oob = params->oob;
    *ret_team = team;
    return UCCI_OK;
}

/* Begins the all-gather, or looks at it. Without the lock: the callbacks are the caller's code. */
static ucci_status introduce(struct ucci_team *team)
{
    struct ucci_context *context = team->context;
    struct introduction own = {context->oob.place, context->teams_made};
    ucci_status status = UCCI_OK;

    if (team->size == 1) {
        context->teams_made++;
        team->introductions[0] = own;
    } else if (!team->request) {
        context->teams_made++;
        status = team->oob.allgather(&own, team->introductions, sizeof own, team->oob.info,
                                     &team->request);
        return status == UCCI_OK ? UCCI_INPROGRESS : status;
    } else {
        status = team->oob.req_test(team->request);
        if (status != UCCI_INPROGRESS) {
            team->oob.req_free(team->request);
            team->request = NULL;
        }
    }
    return status;
}

/* The score map, which UCC shows at this level of words; so does the first member only. */
static void say_scores(const struct ucci_team *team)
{
    static const char *const served[] = {
        "Allgather", "Allgatherv", "Allreduce",      "Alltoall",        "Alltoallv",
        "Barrier",   "Bcast",      "Fanin",          "Fanout",          "Gather",
        "Gatherv",   "Reduce",     "Reduce_scatter", "Reduce_scatterv", "Scatterv"};

    if (team->place != 0)
        return;
    ucc_say("INFO", "===== COLL_SCORE_MAP (team_id %u, size %u) =====", (unsigned)team->id & 0x7fff,
            team->size);
    for (size_t i = 0; i < sizeof served / sizeof *served; i++)
        ucc_say("INFO", "%s:\n\tHost: {0..inf}:TL_STANDIN:10 ", served[i]);
    ucc_say("INFO", "================================================");
}

ucci_status ucc_team_create_test(ucci_team_h team)
{
    struct ucci_context *context = team->context;

    if (team->active)
        return UCCI_OK;
    ucci_status status = introduce(team);

    if (status == UCCI_OK && !strcmp(context->faults->fails, "team"))
        status = UCCI_ERR_NO_MESSAGE;
    if (status == UCCI_OK && context->teams_alive == TEAMS_MAX) {
        ucc_say("WARN", "could not allocate team id, whole id space is occupied");
        status = UCCI_ERR_NO_RESOURCE;
    }
    if (status != UCCI_OK)
        return status;
    for (uint32_t i = 0; i < team->size; i++) {
        team->members[i] = team->introductions[i].member;
        if (team->members[i] >= context->oob.members)
            misused("the members of a team gave one another other bytes than they got");
    }
    team->id = (uint64_t)team->introductions[0].member << 32 | team->introductions[0].count;
    team->active = true;
    context->teams_alive++;
    say_scores(team);
    return UCCI_OK;
}

ucci_status ucc_team_destroy(ucci_team_h team)
{
    if (!team->active) {
        ucc_say("ERROR", "team %p is used before team_create is completed", (void *)team);
        return UCCI_ERR_INVALID_PARAM;
    }
    context_enter(team->context);
    if (team->pending > 0)
        misused("a team is destroyed under %u operations", team->pending);
    team->context->teams_alive--;
    context_leave(team->context);
    free(team->introductions);
    free(team->members);
    free(team);
    return UCCI_OK;
}
