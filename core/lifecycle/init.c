/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups from tutti_init() on; destroy.c ends them.
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

#include "agreement/agree_wire.h"
#include "agreement/agreement.h"
#include "agreement/settings.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "bootstrap/launcher.h"
#include "diagnosis/dump.h"
#include "dispatch/tuning.h"
#include "group/exit_record.h"
#include "lifecycle/lifecycle.h"
#include "plugin/plugin.h"
#include "progress/progress.h"
#include "provider/device_memory.h"
#include "provider/endpoints.h"
#include "provider/native.h"
#include "provider/routes.h"
#include "provider/wrap.h"
#include "secret/key.h"

enum {
    DEFAULT_TIMEOUT_MS = 30 * 60 * 1000,
    REACH_MS = 1000 /* to reach a store only to say why this member does not come */
};

static void forget_batches(struct tutti_group *group)
{
    while (group->works.batches) {
        struct open_batch *batch = group->works.batches;

        group->works.batches = batch->next;
        batch->free(batch);
        log_line(LOG_WARN, group->rank,
                 "group %s: a thread began a batch and never ended it, so its calls were not made: "
                 "call tutti_batch_end() on that thread",
                 group->name);
    }
}

void group_free(struct tutti_group *group)
{
    struct tutti_context *context = group->context;

    atomic_fetch_sub(&context->engine.oversubscribed, group->needs.oversubscribed);
    if (group->needs.no_engine_thread)
        engine_allow_thread(&context->engine);
    device_memories_free(group);
    routes_stop(group);
    memories_free(group);
    if (group->ways.has_mapped)
        mapped_free(&group->ways.mapped);
    endpoints_close(group);
    wrappers_leave(group);
    if (group->local && group->local->bell >= 0) /* the others hold it: closing leaves it watched */
        engine_unwatch(&context->engine, group->local->bell);
    local_free(group->local);
    if (group->control) {
        engine_unwatch(&context->engine, group->control->epoll_fd);
        control_close(group->control);
    }
    bootstrap_release(&group->bootstrap);
    origin_free(&group->origin);
    layout_free(&group->layout);
    group_plans_free(group);
    group_runs_free(group);
    forget_batches(group);
    work_memory_trim(&context->engine);
    for (int r = 0; group->ways.members && r < group->size; r++)
        free(group->ways.members[r].suspicion);
    free(group->ways.members);
    routes_free(group);
    free(group->comparing.futures);
    announced_free(&group->comparing.announced);
    free(group->recorder.records);
    free(group);
    atomic_fetch_sub(&context->groups, 1);
}

static tutti_status allocate(struct tutti_group *group)
{
    size_t size = (size_t)group->size;

    group->ways.members = calloc(size, sizeof *group->ways.members);
    group->comparing.futures = calloc(size * GROUP_FUTURES_KEPT, sizeof *group->comparing.futures);
    group->recorder.records = calloc(GROUP_RECORDS, sizeof *group->recorder.records);
    if (announced_init(&group->comparing.announced, group->size) && group->ways.members &&
        group->comparing.futures && group->recorder.records)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group of %d members", group->size);
}

/* Looks up the backends of a group of one. In a larger group the agreement does it, so that all
 * members get the same error. */
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
    struct text words = text_in(ret_words, capacity);

    if (choice->is_auto)
        text_add(&words, "auto");
    else if (!strcmp(choice->local, choice->remote))
        text_add(&words, "%s", choice->local);
    else
        text_add(&words, "local=%s,remote=%s", choice->local, choice->remote);
    for (uint32_t i = 0; i < choice->rule_count; i++)
        text_add(&words, ";%s", choice->rules[i].words);
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

static tutti_status be_alone(struct tutti_group *group)
{
    int alone = 0;
    tutti_status status = check_names(&group->choice);

    if (!status && group->origin.is_world)
        status = group_name_key(group);
    group->needs.neighbours = group->needs.cpus = 1;
    snprintf(group->backend, sizeof group->backend, "self");
    if (!status)
        status = layout_init(&group->layout, 1, 0, &alone);
    return status ? status : endpoints_start_messages(group, NULL); /* to itself */
}

/* Facts that plans are made from; the same on all members. */
static void gather_facts(struct tutti_group *group)
{
    struct endpoint *local = &group->ways.endpoints[LOCAL],
                    *remote = &group->ways.endpoints[REMOTE];
    const bool mapped = endpoint_maps(group, LOCAL);
    const bool inside = local->ops && (group->layout.hosts == 1 || !remote->ops);

    thresholds_fit(&group->thresholds, group->layout.hosts == 1 && group->needs.crowded);
    group->layout.thresholds = &group->thresholds;
    group->ways.routes.each[0].facts = (struct group_facts){
        .layout = &group->layout,
        .mapped = mapped,
        .messages = group->size > 1,
        .local_name = mapped ? local->user.name : NULL,
        .remote_name = inside        ? local->user.name
                       : remote->ops ? remote->user.name
                                     : NULL,
        .remote_cost = inside ? local->cost : remote->cost,
        .native = native_facts(group),
    };
    routes_gather_facts(group);
    /* The world has all neighbours that a group made from it can have. */
    group->needs.oversubscribed =
        group->origin.is_world && group->needs.neighbours > group->needs.cpus;
    atomic_fetch_add(&group->context->engine.oversubscribed, group->needs.oversubscribed);
    if (group->ways.has_mapped)
        mapped_fit_cpus(&group->ways.mapped,
                        group->needs.crowded || group->context->engine.oversubscribed);
    group->needs.no_spin = native_needs_cores(group);
    group->needs.no_engine_thread = group->needs.callers_only; /* counted from here on */
    atomic_fetch_add(&group->context->engine.callers_only, group->needs.no_engine_thread);
}

/* ", proven by TUTTI_SECRET, id 3f2a9c01" */
static void describe_proof(const struct secret *secret, char *ret_words, size_t capacity)
{
    char id[SECRET_ID_SHORT];

    *ret_words = 0;
    if (!secret)
        return;
    secret_id_text(secret->id, id);
    if (secret->source == SECRET_NONE)
        snprintf(ret_words, capacity, ", open: without a secret");
    else
        snprintf(ret_words, capacity, ", proven by %s, id %s", secret_source_words(secret->source),
                 id);
}

static void say_choice(const struct tutti_group *group)
{
    static const char *const encryption[] = {[TUTTI_ENCRYPTION_NONE] = "",
                                             [TUTTI_ENCRYPTION_PARTLY] = ", encrypted in part",
                                             [TUTTI_ENCRYPTION_FULL] = ", connections encrypted"};
    char proof[80];

    describe_proof(group->bootstrap.secret, proof, sizeof proof);
    if (group->rank == 0)
        log_line(LOG_INFO, 0, "group %s: %d ranks, %d host%s -> %s (%s%s%s)", group->name,
                 group->size, group->layout.hosts, group->layout.hosts == 1 ? "" : "s",
                 group->backend, group->bootstrap.source, proof, encryption[group->encryption]);
    if (group->rank == 0 && group->has_checksums && group->size > 1)
        log_line(LOG_INFO, 0,
                 "group %s: every message has a checksum, and collectives go by messages",
                 group->name);
    if (group->rank == 0 && group->needs.oversubscribed)
        log_line(LOG_INFO, 0,
                 "group %s: %d ranks share the %d CPU%s that rank 0 may use: waits do not spin",
                 group->name, group->needs.neighbours, group->needs.cpus,
                 group->needs.cpus == 1 ? "" : "s");
}

static void report_failure(struct tutti_group *group)
{
    exit_record_failed(group);
    dump_failure(group);
}

static const struct upcalls upcalls = {
    .messages = &group_events,
    .suspect = group_suspect,
    .keep_waiting = agree_keep_waiting,
    .report_failure = report_failure,
};

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
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "the group's name «%s» has control characters or invalid UTF-8, shown here as '?'",
            name);
    struct tutti_group *group = calloc(1, sizeof *group);
    if (!group)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a group");
    atomic_fetch_add(&context->groups, 1);
    group->context = context;
    group->upcalls = &upcalls;
    group->fork_generation = fork_current();
    group->timeout_ms = timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS;
    group->stall_warning_ns = settings_stall_warning_ns();
    group->thresholds = thresholds_standard;
    for (int level = 0; level < TRANSPORTS; level++)
        group->ways.endpoints[level] = (struct endpoint){.wait_fd = -1};
    snprintf(group->name, sizeof group->name, "%s", name);
    tally_init(&group->origin.made);
    *ret_group = group;
    return TUTTI_OK;
}

static tutti_status form(struct tutti_group *group)
{
    const int32_t *world_ranks = group->origin.is_world ? NULL : group->origin.world_ranks;

    if (group->size > 1)
        plugins_group_begins();
    tutti_status status = allocate(group);
    if (!status)
        status = control_open(group->rank, group->size, group->name, world_ranks,
                              group->bootstrap.bind_address, &group->control);
    if (!status) {
        group->control->call_text = call_fields_text;
        group->control->encrypts = group->tls != ENVIRONMENT_PLAIN;
    }
    wrappers_know(group);
    if (!status)
        status = group->size > 1 ? meet(group) : be_alone(group);
    if (!status)
        status = engine_watch(&group->context->engine, group->control->epoll_fd);
    if (!status && group->local && group->local->bell >= 0)
        status = engine_watch_edge(&group->context->engine, group->local->bell);
    if (status)
        return status;
    if (group->origin.is_world)
        group->origin.local_rank = group->layout.local;
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

/* The identity that this process is going to have, for dumps while it waits for the store or for
 * others. */
static tutti_status begin_joining(const struct tutti_group *world,
                                  const tutti_init_options *options)
{
    struct progress_engine *engine = &world->context->engine;
    struct joining joining = {.since_ns = clock_now_ns()};
    struct identity who;
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

/* Resolves twice if memory or a descriptor is missing, which may be there at the second try:
 * without an identity this member could not tell the others why it does not come. */
static tutti_status resolve(const tutti_init_options *options, const struct key *handed,
                            int64_t deadline, struct bootstrap *ret_bootstrap)
{
    tutti_status status = bootstrap_resolve(options, handed, deadline, ret_bootstrap);

    if (status == TUTTI_ERR_NO_MEMORY || status == TUTTI_ERR_SYSTEM)
        status = bootstrap_resolve(options, handed, deadline, ret_bootstrap);
    return status;
}

/* This process is going to wait for the store, and for others, only to tell them. */
static void say_bad_secret(const struct joining *who, const struct key *handed)
{
    struct secret *secret;

    if (who->size < 2 || secret_new(&secret))
        return;
    if (secret_find(secret, handed, false))
        log_line(LOG_WARN, who->rank, "this rank cannot take part, and tells the others: %s",
                 error_message());
    secret_unref(secret);
}

/* Rank 0 may serve the store in which the others hear of its secret, so it meets them although that cannot
 * be used. */
static tutti_status find_secret(struct tutti_group *world, const struct key *handed)
{
    const tutti_status status = bootstrap_find_secret(&world->bootstrap, handed, false);

    if (status != TUTTI_ERR_INVALID_ARGUMENT || world->bootstrap.rank)
        return status;
    if (!world->refusal.info.status)
        error_keep(&world->refusal);
    return bootstrap_find_secret(&world->bootstrap, handed, true);
}

/* The identity of this process and the place where it meets the others, from options, environment
 * or a launcher. */
static tutti_status find_members(struct tutti_group *world, const tutti_init_options *options,
                                 int64_t deadline)
{
    tutti_init_options told = *options;
    struct launcher launcher;
    tutti_status status = launcher_ask(&told, deadline, &launcher);
    const struct key *handed = !status && launcher.has_secret ? &launcher.secret : NULL;

    key_hold(); /* the secret is looked at several times: OpenSSL is begun once */
    if (!status)
        status = begin_joining(world, &told);
    if (!status)
        say_bad_secret(&world->context->joining, handed);
    if (!status)
        status = resolve(&told, handed, deadline, &world->bootstrap);
    if (!status && launcher.store)
        status = bootstrap_adopt(&world->bootstrap, &launcher);
    if (!status && world->bootstrap.size > 1)
        status = find_secret(world, handed);
    key_release();
    launcher_release(&launcher);
    return status;
}

/* The device that was named, by itself or by its kind before a backend, must be there. Else none is looked for before
 * a tensor lies on one. */
static tutti_status take_device(struct tutti_group *world, const tutti_init_options *options)
{
    struct device_choice *choice = &world->device_choice;
    tutti_status status = device_resolve(options->device, choice);

    if (!status && !choice->type)
        choice->type = world->choice.device_type;
    return status || !choice->type ? status : device_look_for(choice->type, choice->number);
}

/* Keeps what is wrong on this process alone: the others would wait for it, so they are told,
 * too. */
static void take_settings(struct tutti_group *world, const tutti_init_options *options)
{
    tutti_status status = settings_check(options->wrap);

    world->reproducible = environment_is_reproducible();
    world->has_checksums = environment_has_checksums();
    world->tls = environment_encrypts();
    if (!status)
        status = tuning_read(&world->thresholds);
    if (!status)
        status = backend_resolve(options->backend, &world->choice);
    if (!status)
        status = take_device(world, options);
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
    const bool known =
        !bootstrap_resolve(options, NULL, clock_deadline_ms(REACH_MS), &world->bootstrap);
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
    tutti_status status = find_members(world, options, deadline);
    const tutti_status refused = world->refusal.info.status;

    if (refused && (status || world->bootstrap.size == 1)) { /* nobody can be told */
        error_give(refused, &world->refusal);
        return refused;
    }
    if (!world->bootstrap.store)
        return status;
    if (!status)
        status = origin_begin(world);
    if (!status && !refused)
        status = wrappers_open(world, options->wrap);
    status = status ? agree_refuse(world, status) : group_form(world);
    if (!status || !refused || world->bootstrap.secret->source != SECRET_UNUSABLE)
        return status;
    error_give(refused, &world->refusal); /* the others see no more than that it cannot be used */
    return error_prefix("group %s: rank %d cannot take part", world->name, world->bootstrap.rank);
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
