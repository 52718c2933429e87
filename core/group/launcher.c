/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a launcher by a plugin.
 *
 * Which plugin is a matter of TUTTI_BOOTSTRAP, else of the backend, else of a short table of
 * launchers' variables, so that no other file is opened. What it says is not believed against the
 * environment: a process that it finds alone while a variable says otherwise is refused. Rank 0
 * serves a store and says by the plugin where, or why not, so that nobody waits for a store in vain;
 * everything after that is as with any store that the caller gives.
 */
#include "group/launcher.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/plugin_engine.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/address.h"
#include "bootstrap/identity.h"
#include "group/group.h"
#include "plugin/backend.h"
#include "plugin/host.h"
#include "plugin/plugin.h"

enum {
    MESSAGE_MAX = 512, /* from rank 0: where its store is, or why there is none */
    HOST_MAX = 256
};

/* Whose variables they are, and the plugin that can ask it. */
static const struct known_launcher {
    const char *variable, *launcher, *plugin;
} known_launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's launcher", "mpi"},
    {"PMIX_RANK", "a launcher with PMIx", "mpi"},
    {"PMI_RANK", "a launcher with PMI", "mpi"},
};

struct asking {
    const tutti_plugin *plugin;
    const char *name; /* the plugin's */
    const tutti_bootstrap_ops *ops;
    tutti_bootstrap *bootstrap;
    tutti_identity identity;
    int64_t deadline_ns;
};

static const char *variable_of_process(const char *name, void *user)
{
    (void)user;
    return getenv(name);
}

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

static const tutti_bootstrap_ops *ops_of(const tutti_plugin *plugin)
{
    const tutti_provider *provider = plugin_provider(plugin, TUTTI_PROVIDER_BOOTSTRAP);

    return provider ? provider->ops : NULL;
}

static tutti_status choose_named(struct asking *a, const char *name)
{
    const tutti_plugin *plugin;
    tutti_status status = plugin_find(name, &plugin);

    if (status)
        return error_prefix("TUTTI_BOOTSTRAP=%.*s", TEXT_CUT(name, 32));
    a->ops = ops_of(plugin);
    a->plugin = plugin;
    a->name = plugin->name;
    if (!a->ops)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_BOOTSTRAP=%.*s: this plugin knows no launcher", TEXT_CUT(name, 32));
    if (a->ops->detect(&host_bare, host_self_of(a->name)) != 1)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_BOOTSTRAP=%.*s: no launcher that it knows started this process",
                         TEXT_CUT(name, 32));
    return TUTTI_OK;
}

/* Takes it if it knows who started this process. */
static bool take(struct asking *a, const char *name)
{
    const tutti_plugin *plugin;
    const tutti_bootstrap_ops *ops = plugin_find(name, &plugin) ? NULL : ops_of(plugin);

    if (!ops || ops->detect(&host_bare, host_self_of(plugin->name)) != 1)
        return false;
    a->ops = ops;
    a->plugin = plugin;
    a->name = plugin->name;
    return true;
}

static tutti_status choose_by_variable(struct asking *a)
{
    for (size_t i = 0; i < sizeof known_launchers / sizeof known_launchers[0]; i++) {
        const struct known_launcher *known = &known_launchers[i];
        const tutti_plugin *plugin;

        if (!is_set(known->variable))
            continue;
        if (plugin_find(known->plugin, &plugin)) {
            error_prefix(
                "%s=%.*s says that %s started this process, and the plugin %s, which would "
                "ask it, cannot be used (set RANK and WORLD_SIZE to go without)",
                known->variable, TEXT_CUT(getenv(known->variable), 32), known->launcher,
                known->plugin);
            return TUTTI_ERR_PLUGIN;
        }
        if (take(a, known->plugin))
            return TUTTI_OK;
    }
    return TUTTI_OK;
}

static tutti_status choose(struct asking *a, const tutti_init_options *options)
{
    const char *named = getenv("TUTTI_BOOTSTRAP");
    struct backend_choice choice;

    if (named && *named)
        return choose_named(a, named);
    tutti_status status = backend_resolve(options->backend, &choice);
    if (status)
        return status;
    if (!choice.is_auto && (take(a, choice.local) || take(a, choice.remote)))
        return TUTTI_OK;
    return choose_by_variable(a);
}

/* ---- what it says ---- */

static tutti_status check_identity(const struct asking *a)
{
    const tutti_identity *id = &a->identity;
    const char *evidence = identity_evidence(variable_of_process, NULL);

    if (id->size < 1 || id->rank < 0 || id->rank >= id->size || !memchr(id->job, 0, sizeof id->job))
        return error_set(TUTTI_ERR_PLUGIN, "%s says that this is rank %d of %d", a->name, id->rank,
                         id->size);
    if (id->size == 1 && evidence)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "%s says that this process is alone, but %s=%.*s that it is one of several: "
            "the launcher and the library that %s uses do not belong together",
            a->name, evidence, TEXT_CUT(getenv(evidence), 64), a->name);
    return TUTTI_OK;
}

/* Where others reach this process: the address that the user gives, loopback for a single host, else
 * that of the route which leads out. */
static void own_address(const tutti_identity *id, char ret_address[HOST_MAX])
{
    const char *given = getenv("MASTER_ADDR");

    if (given && *given)
        snprintf(ret_address, HOST_MAX, "%s", given);
    else if (id->local_size == id->size)
        snprintf(ret_address, HOST_MAX, "127.0.0.1");
    else
        address_of_host(ret_address);
}

/* Rank 0: "HOST PORT", or "!" and why there is none. */
static void serve(const struct asking *a, struct launcher *launcher, char ret_message[MESSAGE_MAX])
{
    char address[HOST_MAX];

    own_address(&a->identity, address);
    if (tutti_store_server_start(address, 0, &launcher->server))
        snprintf(ret_message, MESSAGE_MAX, "!rank 0 cannot serve the store: %.*s",
                 TEXT_CUT(error_message(), 400));
    else
        snprintf(ret_message, MESSAGE_MAX, "%s %u", address,
                 tutti_store_server_port(launcher->server));
}

static tutti_status meet(struct asking *a, struct launcher *launcher)
{
    char message[MESSAGE_MAX] = "", address[HOST_MAX];
    unsigned port;

    if (a->identity.rank == 0)
        serve(a, launcher, message);
    tutti_status status = a->ops->broadcast(a->bootstrap, message, sizeof message, a->deadline_ns);
    if (status)
        return status;
    message[sizeof message - 1] = 0;
    if (*message == '!')
        return error_set(TUTTI_ERR_STORE, "%s", message + 1);
    _Static_assert(HOST_MAX == 256, "the width below");
    if (sscanf(message, "%255s %u", address, &port) != 2 || !port || port > UINT16_MAX)
        return error_set(TUTTI_ERR_PLUGIN, "what came from rank 0 is no address of a store");
    const int64_t left = clock_left_ms(a->deadline_ns, INT32_MAX);
    status = tutti_store_open_tcp(address, (uint16_t)port, left ? left : 1, &launcher->store);
    if (!status)
        snprintf(launcher->source, sizeof launcher->source,
                 "rank and size from %s, store tcp://%.80s:%u%s", a->name, address, port,
                 launcher->server ? " (served here)" : "");
    return status;
}

static tutti_status ask(struct asking *a, tutti_init_options *options, struct launcher *launcher)
{
    const bool where = is_set("TUTTI_STORE") || (is_set("MASTER_ADDR") && is_set("MASTER_PORT"));

    a->identity = (tutti_identity){
        .struct_size = sizeof a->identity, .rank = -1, .local_rank = -1, .local_size = -1};
    error_set(TUTTI_ERR_PLUGIN, "%s does not say who this process is", a->name);
    tutti_status status = a->ops->open(&host_bare, host_self_of(a->name), a->deadline_ns,
                                       &a->identity, &a->bootstrap);
    if (status)
        return status;
    context_plugin_started(a->plugin, TUTTI_PROVIDER_BOOTSTRAP);
    status = check_identity(a);
    if (!status && !where)
        status = meet(a, launcher);
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
    snprintf(ret_launcher->name, sizeof ret_launcher->name, "%s", asking.name);
    status = ask(&asking, options, ret_launcher);
    if (!status)
        return TUTTI_OK;
    launcher_release(ret_launcher);
    return error_prefix("asking the launcher by the plugin %s", asking.name);
}

void launcher_release(struct launcher *launcher)
{
    tutti_store_unref(launcher->store);
    tutti_store_server_stop(launcher->server);
    launcher->store = NULL;
    launcher->server = NULL;
}
