/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a launcher by a plugin.
 *
 * TUTTI_BOOTSTRAP names the plugin, else the backend does, else the launchers' variables do.
 * tutti's own plugins and plugins that are already open declare such variables, so no other file is
 * opened. The environment is believed before the plugin: a process that the plugin finds alone
 * while a variable says otherwise is refused. Rank 0 serves a store and broadcasts its address
 * through the plugin, or the reason why there is none, so no rank waits for a store that never
 * comes. From then on everything is as with a store that the caller gives. A secret of the job, made for
 * it, goes the same way, also where the environment says where the store is.
 */
#include "bootstrap/launcher.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/plugin_engine.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/identity.h"
#include "plugin/about.h"
#include "plugin/backend.h"
#include "plugin/host.h"
#include "plugin/plugin.h"
#include "secret/secret.h"
#include "store/store.h"

enum {
    MESSAGE_MAX = 512, /* from rank 0: where its store is, or why there is none */
    HOST_MAX = 256,
    REFUSED_MS = 1000 /* a server that was there before its address came refuses no longer */
};

struct asking {
    const tutti_plugin *plugin;
    const tutti_bootstrap_ops *ops;
    tutti_bootstrap *bootstrap;
    tutti_identity identity;
    int64_t deadline_ns;
};

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value;
}

static bool are_told(const tutti_init_options *options)
{
    const bool url = options->init_url && strcmp(options->init_url, "env://") != 0;

    return options->rank || options->world_size || options->store || url || is_set("RANK") ||
           is_set("WORLD_SIZE");
}

/* ---- which plugin ---- */

/* Takes the plugin if it knows the launcher of this process. */
static bool take(struct asking *a, const tutti_plugin *plugin)
{
    const tutti_bootstrap_ops *ops = plugin_ops(plugin, TUTTI_PROVIDER_BOOTSTRAP);

    if (!ops || ops->detect(&host_bare, host_self_of(plugin->name)) != 1)
        return false;
    a->ops = ops;
    a->plugin = plugin;
    return true;
}

static tutti_status choose_named(struct asking *a, const char *name)
{
    const tutti_plugin *plugin;

    if (plugin_find(name, &plugin))
        return error_prefix("TUTTI_BOOTSTRAP=%.*s", TEXT_CUT(name, 32));
    if (take(a, plugin))
        return TUTTI_OK;
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_BOOTSTRAP=%.*s: %s", TEXT_CUT(name, 32),
                     plugin_ops(plugin, TUTTI_PROVIDER_BOOTSTRAP)
                         ? "this process was not started by a launcher that the plugin knows"
                         : "this plugin knows no launchers; name another plugin, or unset it");
}

static tutti_status choose_by_variable(struct asking *a)
{
    struct plugin_launcher known;

    for (size_t i = 0; plugin_launcher(i, &known); i++) {
        const tutti_plugin *plugin;

        if (!is_set(known.variable))
            continue;
        if (plugin_find(known.plugin, &plugin)) {
            error_prefix("%s=%.*s says that %s started this process, and the plugin %s, which "
                         "would ask it, cannot be used (set RANK and WORLD_SIZE to run without it)",
                         known.variable, TEXT_CUT(getenv(known.variable), 32), known.launcher,
                         known.plugin);
            return TUTTI_ERR_PLUGIN;
        }
        if (take(a, plugin))
            return TUTTI_OK;
    }
    return TUTTI_OK;
}

static tutti_status choose(struct asking *a, const tutti_init_options *options)
{
    const char *named = getenv("TUTTI_BOOTSTRAP");
    struct backend_choice choice;
    const tutti_plugin *plugin;

    if (named && *named)
        return choose_named(a, named);
    tutti_status status = backend_resolve(options->backend, &choice);
    if (status)
        return status;
    for (int level = BACKEND_LOCAL; level <= BACKEND_REMOTE && !choice.is_auto; level++)
        if (!plugin_find(backend_name(&choice, level), &plugin) && take(a, plugin))
            return TUTTI_OK;
    return choose_by_variable(a);
}

/* ---- what it says ---- */

static tutti_status check_identity(const struct asking *a)
{
    const tutti_identity *id = &a->identity;
    const char *evidence = identity_evidence(identity_own_variable, NULL);

    if (id->size < 1 || id->rank < 0 || id->rank >= id->size || !memchr(id->job, 0, sizeof id->job))
        return error_set(TUTTI_ERR_PLUGIN,
                         "%s says that this process is rank %d of %d; a rank must be at least 0 "
                         "and below the size",
                         a->plugin->name, id->rank, id->size);
    if (id->size == 1 && evidence)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s says that this process is alone, but %s=%.*s that it is one of "
                         "several: the launcher and the library that %s uses do not match",
                         a->plugin->name, evidence, TEXT_CUT(getenv(evidence), 64),
                         a->plugin->name);
    return TUTTI_OK;
}

/* The address at which others reach this process: the user's, loopback for a single host, else that
 * of the default route. */
static void own_address(const tutti_identity *id, char ret_address[HOST_MAX])
{
    const char *given = getenv("MASTER_ADDR");

    if (given && *given)
        snprintf(ret_address, HOST_MAX, "%s", given);
    else if (id->local_size == id->size)
        snprintf(ret_address, HOST_MAX, "127.0.0.1");
    else
        bootstrap_own_address(ret_address);
}

/* Rank 0: "SECRET HOST PORT", or "!" and why there is none. `where`: the environment says where the store
 * is, and host and port are "-" and 0. */
static void serve(const struct asking *a, bool where, struct launcher *launcher,
                  char ret_message[MESSAGE_MAX])
{
    char address[HOST_MAX] = "-", text[SECRET_TEXT];
    struct key secret;

    if (!where)
        own_address(&a->identity, address);
    if (key_random(&secret, sizeof secret) ||
        (!where && store_server_start(address, 0, &secret, &launcher->server))) {
        snprintf(ret_message, MESSAGE_MAX, "!rank 0 cannot serve the store: %.*s",
                 TEXT_CUT(error_message(), 400));
        return;
    }
    secret_to_text(&secret, text);
    snprintf(ret_message, MESSAGE_MAX, "%s %s %u", text, address,
             where ? 0 : tutti_store_server_port(launcher->server));
    key_wipe(&secret, sizeof secret);
    key_wipe(text, sizeof text);
}

/* Takes what rank 0 says in serve(). */
static tutti_status take_message(const struct asking *a, bool where, const char *message,
                                 struct launcher *launcher)
{
    char text[SECRET_TEXT];
    unsigned port;

    if (*message == '!')
        return error_set(TUTTI_ERR_STORE, "%s", message + 1);
    _Static_assert(sizeof launcher->host == 256 && sizeof text == 65, "the widths below");
    const bool good = sscanf(message, "%64s %255s %u", text, launcher->host, &port) == 3 &&
                      port <= UINT16_MAX && secret_parse(text, strlen(text), &launcher->secret);
    key_wipe(text, sizeof text);
    if (!good)
        return error_set(
            TUTTI_ERR_PLUGIN,
            "plugin %s: rank 0 sent something else than a secret and the address of a store",
            a->plugin->name);
    if (!where && !port)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "TUTTI_STORE, or MASTER_ADDR and MASTER_PORT, are set on rank 0 and not on rank "
            "%d; set them alike on all ranks",
            a->identity.rank);
    launcher->has_secret = true;
    launcher->port = (uint16_t)port;
    return TUTTI_OK;
}

/* Its server was there before its address came: where nobody serves, rank 0 has ended. */
static tutti_status open_store(const struct asking *a, struct launcher *launcher)
{
    char keeper[BOOTSTRAP_KEEPER_MAX];

    bootstrap_name_keeper(launcher->host, launcher->port, keeper);
    for (;;) {
        const int left = clock_left_ms(a->deadline_ns, INT32_MAX);
        const int ms = left > REFUSED_MS ? REFUSED_MS : left;
        const tutti_status status =
            store_open_member(launcher->host, launcher->port, keeper, &launcher->secret,
                              a->identity.rank, ms ? ms : 1, &launcher->store);

        if (status != TUTTI_ERR_TIMEOUT || ms == left)
            return status;
    }
}

static tutti_status meet(struct asking *a, bool where, struct launcher *launcher)
{
    char message[MESSAGE_MAX] = "";

    if (a->identity.rank == 0)
        serve(a, where, launcher, message);
    tutti_status status = a->ops->broadcast(a->bootstrap, message, sizeof message, a->deadline_ns);
    message[sizeof message - 1] = 0;
    if (!status)
        status = take_message(a, where, message, launcher);
    key_wipe(message, sizeof message);
    if (!status && !where)
        status = open_store(a, launcher);
    if (!status && !where)
        snprintf(launcher->source, sizeof launcher->source,
                 "rank and size from %s, store tcp://%.80s:%u%s", a->plugin->name, launcher->host,
                 launcher->port, launcher->server ? " (served here)" : "");
    return status;
}

static tutti_status ask(struct asking *a, tutti_init_options *options, struct launcher *launcher)
{
    const bool where = is_set("TUTTI_STORE") || (is_set("MASTER_ADDR") && is_set("MASTER_PORT"));

    a->identity = (tutti_identity){
        .struct_size = sizeof a->identity, .rank = -1, .local_rank = -1, .local_size = -1};
    error_set(TUTTI_ERR_PLUGIN, "plugin %s returned no rank and size for this process",
              a->plugin->name);
    tutti_status status = a->ops->open(&host_bare, host_self_of(a->plugin->name), a->deadline_ns,
                                       &a->identity, &a->bootstrap);
    if (status)
        return status;
    plugin_started(a->plugin, TUTTI_PROVIDER_BOOTSTRAP);
    status = check_identity(a);
    if (!status && (!where || a->identity.size > 1))
        status = meet(a, where, launcher);
    a->ops->close(a->bootstrap);
    if (status)
        return status;
    options->rank = a->identity.rank;
    options->world_size = a->identity.size;
    options->store = launcher->store;
    if (launcher->store) /* with it an address of the environment is no place to meet */
        options->init_url = NULL;
    memcpy(launcher->job, a->identity.job, sizeof launcher->job);
    if (!options->run_id && !is_set("TUTTI_RUN_ID") && *launcher->job)
        options->run_id = launcher->job;
    return TUTTI_OK;
}

tutti_status launcher_ask(tutti_init_options *options, int64_t deadline_ns,
                          struct launcher *ret_launcher)
{
    struct asking asking = {.deadline_ns = deadline_ns};

    *ret_launcher = (struct launcher){.store = NULL};
    if (are_told(options))
        return TUTTI_OK;
    tutti_status status = choose(&asking, options);
    if (status || !asking.ops)
        return status;
    status = ask(&asking, options, ret_launcher);
    if (!status)
        return TUTTI_OK;
    launcher_release(ret_launcher);
    if (status == TUTTI_ERR_PEER_LOST) { /* the same on all members that miss it */
        error_where(asking.identity.rank, 0, 0, NULL);
        return status;
    }
    return error_prefix("asking the launcher with the plugin %s", asking.plugin->name);
}

void launcher_release(struct launcher *launcher)
{
    tutti_store_unref(launcher->store);
    tutti_store_server_stop(launcher->server);
    launcher->store = NULL;
    launcher->server = NULL;
    key_wipe(&launcher->secret, sizeof launcher->secret);
}
