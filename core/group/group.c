/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups from tutti_init() on; leave.c destroys them.
 *
 * A group is created empty, told its members (by bootstrap here, by its parent in subgroup.c),
 * formed by their agreement, and freed; group_free() takes what was made so far, wherever forming
 * ended. A member that cannot form it says so in the store, so that the others fail with its reason instead
 * of waiting for it.
 */
#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "group/agree_wire.h"
#include "group/dump.h"
#include "group/exit_record.h"
#include "group/launcher.h"
#include "group/native.h"
#include "group/recorder.h"
#include "group/settings.h"
#include "group/wrap.h"
#include "plugin/plugin.h"

enum {
    DEFAULT_TIMEOUT_MS = 30 * 60 * 1000,
    VERDICT_WAITS_MS = 2000,
    REFUSE_MS = 1000 /* to reach a store only to say why this member does not come */
};

tutti_status(group_check)(const struct tutti_group *group)
{
    if (!group)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the group is NULL");
    if (group->fork_generation != fork_current())
        return error_set(TUTTI_ERR_FORKED,
                         "the group belongs to the parent of this process; a child of fork() must "
                         "call tutti_init() itself, as a member of its own");
    return TUTTI_OK;
}

/* Whether the verdict is about one of those for whom this member's own call waited. */
static bool is_missing(const struct tutti_group *group, int count)
{
    for (int i = 0; i < count; i++)
        if (group->missing[i] == group->control->verdict.culprit)
            return true;
    return false;
}

tutti_status group_verdict(struct tutti_group *group)
{
    if (!control_verdict_status(group->control))
        control_poll(group->control); /* a mate's page has told */
    tutti_status status = control_verdict_error(group->control);
    const int count = atomic_load_explicit(&group->missing_count, memory_order_acquire);
    if (status == TUTTI_ERR_TIMEOUT && is_missing(group, count))
        error_missing(group->missing, count);
    else if (status == TUTTI_ERR_TIMEOUT && group->control->verdict.culprit >= 0)
        error_missing(&(int32_t){group->control->verdict.culprit}, 1);
    return status;
}

/* Those whose handles the program still has are left to the handles. */
static void forget_calls(struct tutti_group *group)
{
    struct engine *engine = &group->context->engine;

    pthread_mutex_lock(&engine->lock);
    for (struct async_call *call = group->async_calls; call; call = call->next)
        call->orphan = true;
    pthread_mutex_unlock(&engine->lock);
    while (group->batches) {
        struct open_batch *batch = group->batches;

        group->batches = batch->next;
        batch->free(batch);
    }
    while (group->free_calls) {
        struct async_call *call = group->free_calls;

        group->free_calls = call->next;
        free(call);
    }
}

void group_free(struct tutti_group *group)
{
    struct tutti_context *context = group->context;

    atomic_fetch_sub(&context->engine.crowded, group->crowds);
    if (group->barring)
        engine_allow_thread(&context->engine);
    endpoints_stop_messages(group);
    if (group->has_mapped)
        mapped_free(&group->mapped);
    endpoints_close(group);
    wrappers_leave(group);
    if (group->mates && group->mates->bell >= 0) /* the others hold it: closing leaves it watched */
        engine_unwatch(&context->engine, group->mates->bell);
    mates_free(group->mates);
    if (group->control) {
        engine_unwatch(&context->engine, group->control->epoll_fd);
        control_close(group->control);
    }
    bootstrap_release(&group->bootstrap);
    lineage_free(&group->lineage);
    layout_free(&group->layout);
    group_plans_free(group);
    run_free(&group->run);
    forget_calls(group);
    for (int r = 0; group->members && r < group->size; r++)
        free(group->members[r].suspicion);
    free(group->members);
    routes_free(group);
    free(group->futures);
    announced_free(&group->announced);
    free(group->recorder.records);
    free(group);
    atomic_fetch_sub(&context->groups, 1);
}

static tutti_status allocate(struct tutti_group *group)
{
    size_t size = (size_t)group->size;

    group->members = calloc(size, sizeof *group->members);
    group->futures = calloc(size * GROUP_FUTURES_KEPT, sizeof *group->futures);
    group->recorder.records = calloc(GROUP_RECORDS, sizeof *group->recorder.records);
    if (announced_init(&group->announced, group->size) && group->members && group->futures &&
        group->recorder.records)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group of %d members", group->size);
}

/* With other members the agreement finds out, so that all hear the same. */
static tutti_status check_names(const struct backend_choice *choice)
{
    const tutti_plugin *plugin;

    if (choice->is_auto)
        return TUTTI_OK;
    for (int i = 0; i < BACKEND_NAMES_MAX; i++) {
        tutti_status status =
            *backend_name(choice, i) ? plugin_find(backend_name(choice, i), &plugin) : TUTTI_OK;
        if (status)
            return status;
    }
    return TUTTI_OK;
}

/* The backend as it was asked for, in the form in which members compare it. */
static void choice_words(const struct backend_choice *choice, char *ret_words, size_t capacity)
{
    if (choice->is_auto)
        snprintf(ret_words, capacity, "auto");
    else if (!strcmp(choice->local, choice->remote))
        snprintf(ret_words, capacity, "%s", choice->local);
    else
        snprintf(ret_words, capacity, "local=%s,remote=%s", choice->local, choice->remote);
    for (uint32_t i = 0; i < choice->rule_count; i++) {
        const size_t used = strlen(ret_words);

        snprintf(ret_words + used, capacity - used, ";%s", choice->rules[i].words);
    }
}

static tutti_status meet(struct tutti_group *group)
{
    char words[AGREE_BACKEND_MAX];
    tutti_store *store;
    tutti_status status = agree_meet(group, &store);

    if (status)
        return status;
    choice_words(&group->choice, words, sizeof words);
    status = agree(group, store, words);
    tutti_store_unref(store);
    return status;
}

tutti_status group_name_key(struct tutti_group *world)
{
    struct bootstrap *bootstrap = &world->bootstrap;
    char part[GROUP_KEY_PART_MAX];

    lineage_key_part(world->name, part);
    tutti_status status = bootstrap->size > 1 ? bootstrap_count(bootstrap, part) : TUTTI_OK;
    if (status)
        return status;
    snprintf(world->key, sizeof world->key, "tutti/%s/%d/%lld/%s", bootstrap->run_id,
             bootstrap->restart, (long long)bootstrap->earlier, part);
    world->lineage.world_key_size = strlen(world->key);
    return TUTTI_OK;
}

static tutti_status be_alone(struct tutti_group *group)
{
    int alone = 0;
    tutti_status status = check_names(&group->choice);

    if (!status && group->lineage.is_world)
        status = group_name_key(group);
    group->neighbours = 1;
    snprintf(group->backend, sizeof group->backend, "self");
    if (!status)
        status = layout_init(&group->layout, 1, 0, &alone);
    return status ? status : endpoints_start_messages(group, NULL); /* to itself */
}

/* Facts that plans are made from; the same on all members. */
static void gather_facts(struct tutti_group *group)
{
    struct endpoint *local = &group->endpoints[LOCAL], *remote = &group->endpoints[REMOTE];
    const bool mapped = endpoint_maps(group, LOCAL);
    const bool inside = local->ops && (group->layout.hosts == 1 || !remote->ops);

    group->facts = (struct group_facts){
        .layout = &group->layout,
        .mapped = mapped,
        .messages = group->size > 1,
        .local_name = mapped ? local->name : NULL,
        .remote_name = inside        ? local->name
                       : remote->ops ? remote->name
                                     : NULL,
        .native = native_facts(group),
    };
    routes_gather_facts(group);
    /* The world has all neighbours that a group made from it can have. */
    group->crowds = group->lineage.is_world && group->neighbours > cpu_usable();
    atomic_fetch_add(&group->context->engine.crowded, group->crowds);
    group->rests = native_needs_cores(group);
    group->barring = group->callers_only; /* counted from here on */
    atomic_fetch_add(&group->context->engine.callers_only, group->barring);
}

static void say_choice(const struct tutti_group *group)
{
    if (group->rank == 0)
        log_line(LOG_INFO, 0, "group %s: %d ranks, %d host%s -> %s (%s)", group->name, group->size,
                 group->layout.hosts, group->layout.hosts == 1 ? "" : "s", group->backend,
                 group->bootstrap.source);
    if (group->rank == 0 && group->crowds)
        log_line(LOG_INFO, 0,
                 "group %s: %d ranks share the %d CPU%s that rank 0 may use: waits do not spin",
                 group->name, group->neighbours, cpu_usable(), cpu_usable() == 1 ? "" : "s");
}

tutti_status group_create(struct tutti_context *context, const char *name, int64_t timeout_ms,
                          struct tutti_group **ret_group)
{
    if (timeout_ms < 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "timeout_ms is %lld; it must not be negative",
                         (long long)timeout_ms);
    if (!*name || strlen(name) >= CONTROL_NAME_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the group's name «%.*s» must have 1 to %d bytes", TEXT_CUT(name, 80),
                         CONTROL_NAME_MAX - 1);
    if (!text_is_printable(name))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the group's name «%s» holds control characters, or bytes that are no "
                         "UTF-8, here shown as '?'",
                         name);
    struct tutti_group *group = calloc(1, sizeof *group);
    if (!group)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    atomic_fetch_add(&context->groups, 1);
    group->context = context;
    group->fork_generation = fork_current();
    group->timeout_ms = timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS;
    for (int level = 0; level < TRANSPORTS; level++)
        group->endpoints[level] = (struct endpoint){.group = group, .wait_fd = -1};
    snprintf(group->name, sizeof group->name, "%s", name);
    tally_init(&group->lineage.made);
    *ret_group = group;
    return TUTTI_OK;
}

void group_propose_own(struct tutti_group *group, tutti_status status)
{
    char words[CONTROL_WORDS_MAX];

    snprintf(words, sizeof words, "rank %d: %.*s", group->rank, TEXT_CUT(error_message(), 900));
    control_propose(group->control, status, group->rank, words);
}

tutti_status group_end_by_own(struct tutti_group *group, tutti_status status)
{
    struct kept_error kept = {0};

    error_keep(&kept);
    group_propose_own(group, status);
    control_await_verdict(group->control, VERDICT_WAITS_MS);
    error_give(status, &kept);
    error_forget(&kept);
    return status;
}

static tutti_status form(struct tutti_group *group)
{
    const int32_t *world_ranks = group->lineage.is_world ? NULL : group->lineage.world_ranks;

    groups_begin(group);
    tutti_status status = allocate(group);
    if (!status)
        status = control_open(group->rank, group->size, group->name, world_ranks,
                              group->bootstrap.bind_address, &group->control);
    if (!status)
        group->control->call_text = call_words_text;
    wrappers_know(group);
    if (!status)
        status = group->size > 1 ? meet(group) : be_alone(group);
    if (!status)
        status = engine_watch(&group->context->engine, group->control->epoll_fd);
    if (!status && group->mates && group->mates->bell >= 0)
        status = engine_watch_edge(&group->context->engine, group->mates->bell);
    if (status)
        return status;
    gather_facts(group);
    group_source_init(group);
    engine_add(&group->context->engine, &group->source);
    say_choice(group);
    return TUTTI_OK;
}

/* Some of what forming tries may fail, and the group come to be all the same. */
static tutti_status form_and_keep_error(struct tutti_group *group)
{
    struct kept_error before = {0};

    error_keep(&before);
    tutti_status status = form(group);
    if (!status && before.message && strcmp(before.message, error_message()))
        error_give(before.info.status, &before);
    error_forget(&before);
    return status;
}

tutti_status group_form(struct tutti_group *group)
{
    group->rank = group->bootstrap.rank;
    group->size = group->bootstrap.size;
    tutti_status status = form_and_keep_error(group);
    if (!status)
        return TUTTI_OK;
    if (!group->offered)
        return agree_refuse(group, status);
    /* The others have what they waited for: they hear of it by the verdict. */
    return group->control->ready ? group_end_by_own(group, status) : status;
}

/* Who this process is going to be, for dumps while it waits for the store or for others. */
static tutti_status begin_joining(const struct tutti_group *world,
                                  const tutti_init_options *options)
{
    struct engine *engine = &world->context->engine;
    struct joining joining = {.since_ns = clock_now_ns()};
    struct bootstrap who;
    tutti_status status = bootstrap_identify(options, &who);

    if (status)
        return status;
    joining.rank = who.rank;
    joining.size = who.size;
    joining.restart = who.restart;
    memcpy(joining.run_id, who.run_id, sizeof joining.run_id);
    memcpy(joining.name, world->name, sizeof joining.name);
    engine_take(engine);
    world->context->joining = joining;
    engine_release(engine);
    return TUTTI_OK;
}

static void end_joining(struct tutti_context *context)
{
    engine_take(&context->engine);
    context->joining.size = 0;
    engine_release(&context->engine);
}

/* What this process lacks (memory, a descriptor) may be there at the second try; the others would else not
 * hear why this member has not come. */
static tutti_status resolve(const tutti_init_options *options, int64_t deadline,
                            struct bootstrap *ret_bootstrap)
{
    tutti_status status = bootstrap_resolve(options, deadline, ret_bootstrap);

    if (status == TUTTI_ERR_NO_MEMORY || status == TUTTI_ERR_SYSTEM)
        status = bootstrap_resolve(options, deadline, ret_bootstrap);
    return status;
}

/* Who this process is and where it meets the others, as options, environment or a launcher say. */
static tutti_status find_members(struct tutti_group *world, const tutti_init_options *options,
                                 int64_t deadline)
{
    tutti_init_options told = *options;
    struct launcher launcher;
    tutti_status status = launcher_ask(&told, deadline, &launcher);

    if (!status)
        status = begin_joining(world, &told);
    if (!status)
        status = resolve(&told, deadline, &world->bootstrap);
    if (!status && launcher.store) {
        status = bootstrap_adopt(&world->bootstrap, launcher.server, launcher.source);
        if (!status)
            launcher.server = NULL;
    }
    launcher_release(&launcher);
    return status;
}

/* What only this process has wrong is kept: the others, who would wait for it, shall hear it too. */
static void take_settings(struct tutti_group *world, const tutti_init_options *options)
{
    tutti_status status = settings_check(options->wrap);

    world->reproducible = environment_is_reproducible();
    if (!status)
        status = backend_resolve(options->backend, &world->choice);
    if (!status)
        return;
    error_keep(&world->refusal);
    world->choice = (struct backend_choice){.is_auto = true};
}

/* There is not even a group that could be formed; the others shall hear why. */
static tutti_status refuse_world(const tutti_init_options *options, const char *name,
                                 tutti_status status)
{
    struct tutti_group *world = calloc(1, sizeof *world);
    struct kept_error kept = {0};

    if (!world || (status != TUTTI_ERR_NO_MEMORY && status != TUTTI_ERR_SYSTEM)) {
        free(world);
        return status;
    }
    error_keep(&kept);
    snprintf(world->name, sizeof world->name, "%.*s", TEXT_CUT(name, CONTROL_NAME_MAX - 1));
    const bool known = !bootstrap_resolve(options, clock_deadline_ms(REFUSE_MS), &world->bootstrap);
    error_give(status, &kept);
    error_forget(&kept);
    if (known) {
        (void)agree_refuse(world, status);
        bootstrap_release(&world->bootstrap);
    }
    free(world);
    return status;
}

static tutti_status form_world(struct tutti_group *world, const tutti_init_options *options)
{
    int64_t deadline = clock_deadline_ms(world->timeout_ms);

    take_settings(world, options);
    const tutti_status refused = world->refusal.info.status;
    tutti_status status = find_members(world, options, deadline);
    if (refused && (status || world->bootstrap.size == 1)) { /* nobody can be told */
        error_give(refused, &world->refusal);
        return refused;
    }
    if (!world->bootstrap.store)
        return status;
    if (!status)
        status = lineage_begin(world);
    if (!status && !refused)
        status = wrappers_open(world, options->wrap);
    return status ? agree_refuse(world, status) : group_form(world);
}

tutti_status tutti_init(const tutti_init_options *caller_options, tutti_group **ret_world)
{
    tutti_init_options options;
    tutti_status status =
        options_copy(&options, sizeof options, caller_options, "tutti_init_options");

    if (status)
        return status;
    if (!ret_world)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_world is NULL");
    const char *name = options.group_name ? options.group_name : "world";
    tutti_context *context;
    status = context_find(options.context, &context);
    if (status)
        return error_named(refuse_world(&options, name, status));
    dump_watch_start();
    struct tutti_group *world;
    status = group_create(context, name, options.timeout_ms, &world);
    if (status)
        return error_named(refuse_world(&options, name, status));
    status = form_world(world, &options);
    end_joining(context);
    exit_record_formed(world, status);
    if (status) {
        group_free(world);
        return error_named(status);
    }
    context_offer_default(world);
    *ret_world = world;
    return TUTTI_OK;
}

tutti_status tutti_group_status(const tutti_group *group, tutti_group_info *ret_info)
{
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (!ret_info || ret_info->struct_size < sizeof(uint32_t))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_info and its struct_size must be set");
    control_poll(group->control);
    tutti_status verdict = control_verdict_status(group->control);
    tutti_group_info info = {
        .state = verdict ? TUTTI_GROUP_FAILED : TUTTI_GROUP_READY,
        .verdict = verdict,
        .culprit = verdict ? group->control->verdict.culprit : -1,
        .completed = atomic_load(&((tutti_group *)group)->completed),
        .hosts = group->layout.hosts,
        .local_size = layout_mates(&group->layout, group->layout.host),
        .local_rank = group->layout.local,
        .words = verdict ? group->control->verdict.words : "",
    };
    options_give(&info, sizeof info, ret_info);
    return TUTTI_OK;
}

tutti_status tutti_group_abort(tutti_group *group, const char *reason)
{
    tutti_status status = group_check(group);
    char words[CONTROL_WORDS_MAX];

    if (status)
        return status;
    snprintf(words, sizeof words, "aborted by rank %d: %s", group->rank,
             reason && *reason ? reason : "no reason given");
    control_propose(group->control, TUTTI_ERR_ABORTED, group->rank, words);
    /* The lowest living member fixes it; calls that begin after this one find the group ended. */
    control_await_verdict(group->control, VERDICT_WAITS_MS);
    engine_ring(&group->context->engine);
    return TUTTI_OK;
}
