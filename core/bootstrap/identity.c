/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of belief, for rank and size together: options, the URL's parameters, RANK and
 * WORLD_SIZE. A pair is never mixed from two places. For the store: options.store, the URL,
 * TUTTI_STORE (a launcher of ours serves it), MASTER_ADDR and MASTER_PORT.
 *
 * The server of a tcp store is chosen as torch does: with TORCHELASTIC_USE_AGENT_STORE=True and the
 * address of MASTER_ADDR and MASTER_PORT the launcher serves it, else rank 0. TUTTI_STORE_HOST=0
 * says that another process serves it in any case, 1 that rank 0 does.
 */
#include "bootstrap/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/error.h"
#include "base/text.h"

enum { RESTARTS_MAX = 1000000 };

struct reader {
    identity_variable_fn variable;
    void *user;
    const tutti_init_options *options;
    struct url url; /* nothing in it where the options have none */
    bool told;      /* rank and size were given by the program, not by a launcher */
};

static const char *get(const struct reader *reader, const char *name)
{
    const char *value = reader->variable(name, reader->user);

    return value && *value ? value : NULL;
}

/* `ret_number` is left alone when the variable is not set. */
static tutti_status get_number(const struct reader *reader, const char *name, int64_t min,
                               int64_t max, int *ret_number)
{
    const char *value = get(reader, name);
    int64_t number;

    if (!value)
        return TUTTI_OK;
    if (!text_number(value, min, max, &number))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s=%.64s is not a number from %lld to %lld",
                         name, value, (long long)min, (long long)max);
    *ret_number = (int)number;
    return TUTTI_OK;
}

/* ---- rank and size ---- */

/* The variables by which launchers tell their processes that there is more than one of them. */
static const struct {
    const char *name;
    int64_t alone; /* the largest value that a process on its own may see */
} evidence[] = {
    {"WORLD_SIZE", 1}, {"OMPI_COMM_WORLD_SIZE", 1}, {"PMI_SIZE", 1},      {"PMIX_SIZE", 1},
    {"PMIX_RANK", 0},  {"SLURM_NTASKS", 1},         {"FLUX_JOB_SIZE", 1},
};

const char *identity_own_variable(const char *name, void *user)
{
    (void)user;
    return getenv(name);
}

const char *identity_evidence(identity_variable_fn variable, void *user)
{
    for (size_t i = 0; i < sizeof evidence / sizeof evidence[0]; i++) {
        const char *value = variable(evidence[i].name, user);
        int64_t number;

        /* A value that is no number shows that a launcher was here, and clears nothing. */
        if (value && *value && !text_number(value, 0, evidence[i].alone, &number))
            return evidence[i].name;
    }
    return NULL;
}

static tutti_status nothing_known(const struct reader *reader)
{
    const char *name = identity_evidence(reader->variable, reader->user);

    if (name)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "%s=%.64s says that this is one of several processes, but RANK and WORLD_SIZE are not "
            "set; %sstart the program with `tutti run -n 4 PROGRAM`, let the launcher set RANK, "
            "WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or give rank and world_size in the options",
            name, get(reader, name),
            strncmp(name, "SLURM_", 6) ? ""
                                       : "use srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI), ");
    return error_set(
        TUTTI_ERR_INVALID_ARGUMENT,
        "cannot tell which rank this is: RANK and WORLD_SIZE are not set. Start it with: "
        "tutti run -n 4 PROGRAM");
}

static tutti_status one_of_two_missing(const struct reader *reader, const char *there,
                                       const char *missing)
{
    const bool empty = reader->variable(missing, reader->user) != NULL;

    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s is set and %s is %s; both are needed", there,
                     missing, empty ? "empty" : "not");
}

static tutti_status rank_from_environment(struct reader *reader, struct identity *identity)
{
    identity->rank = -1;
    tutti_status status = get_number(reader, "WORLD_SIZE", 1, URL_MEMBERS_MAX, &identity->size);
    if (!status)
        status = get_number(reader, "RANK", 0, URL_MEMBERS_MAX - 1, &identity->rank);
    if (status)
        return status;
    if (!identity->size && identity->rank < 0)
        return nothing_known(reader);
    if (!identity->size)
        return one_of_two_missing(reader, "RANK", "WORLD_SIZE");
    if (identity->rank < 0)
        return one_of_two_missing(reader, "WORLD_SIZE", "RANK");
    if (identity->rank >= identity->size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "RANK=%d and WORLD_SIZE=%d: ranks are 0 to WORLD_SIZE - 1", identity->rank,
                         identity->size);
    return TUTTI_OK;
}

static tutti_status take_pair(const char *source, int rank, int size, struct identity *identity)
{
    if (size < 1 || size > URL_MEMBERS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s: world_size is %d; 1 to %d are possible",
                         source, size, URL_MEMBERS_MAX);
    if (rank < 0 || rank >= size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s: rank is %d and world_size %d; ranks are 0 to world_size - 1", source,
                         rank, size);
    identity->rank = rank;
    identity->size = size;
    return TUTTI_OK;
}

static tutti_status rank_and_size(struct reader *reader, struct identity *identity)
{
    const tutti_init_options *options = reader->options;
    const struct url *url = &reader->url;
    const bool url_tells = url->rank >= 0 || url->world_size;

    if (options->world_size) {
        if ((url->rank >= 0 && url->rank != options->rank) ||
            (url->world_size && url->world_size != options->world_size))
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "the options say rank %d of %d, but init_url %.256s says otherwise; "
                             "give rank and world_size in one place",
                             options->rank, options->world_size, options->init_url);
        reader->told = true;
        return take_pair("options", options->rank, options->world_size, identity);
    }
    if (options->rank)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "options: rank is %d without a world_size; give both or none",
                         options->rank);
    if (url_tells && (url->rank < 0 || !url->world_size))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "init_url=%.256s: give both rank and world_size, or none",
                         options->init_url);
    if (url_tells) {
        reader->told = true;
        return take_pair("init_url", url->rank, url->world_size, identity);
    }
    if (options->store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "options: with a store, rank and world_size must be given too");
    return rank_from_environment(reader, identity);
}

/* A process that a launcher started beside others must not end up alone without noticing. */
static tutti_status check_not_alone(const struct reader *reader, const struct identity *identity)
{
    const char *name = identity->size == 1 && !reader->told
                           ? identity_evidence(reader->variable, reader->user)
                           : NULL;

    if (!name)
        return TUTTI_OK;
    return error_set(
        TUTTI_ERR_INVALID_ARGUMENT,
        "WORLD_SIZE=1, but %s=%.64s says that this is one of several processes; each would run "
        "alone. If you want that, unset %s or give world_size 1 in the options",
        name, get(reader, name), name);
}

/* ---- the store ---- */

static tutti_status store_from_master(const struct reader *reader, struct identity *identity)
{
    const char *address = get(reader, "MASTER_ADDR");
    int port = 0;

    tutti_status status = get_number(reader, "MASTER_PORT", 1, UINT16_MAX, &port);
    if (status)
        return status;
    if (!address && !port)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "no store: set MASTER_ADDR and MASTER_PORT, or TUTTI_STORE");
    if (!address)
        return one_of_two_missing(reader, "MASTER_PORT", "MASTER_ADDR");
    if (!port)
        return one_of_two_missing(reader, "MASTER_ADDR", "MASTER_PORT");
    identity->store.kind = URL_TCP;
    identity->store.port = (uint16_t)port;
    return url_take_host("MASTER_ADDR", address, identity->store.host);
}

tutti_status identity_store(const char *value, struct url *ret_store)
{
    tutti_status status = url_parse("TUTTI_STORE", value, ret_store);

    if (status)
        return status;
    if (ret_store->kind == URL_ENVIRONMENT || strchr(value, '?'))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_STORE=%.256s: write tcp://HOST:PORT or file:///PATH, without rank "
                         "and world_size",
                         value);
    if (ret_store->kind == URL_FILE && getauxval(AT_SECURE))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_STORE=%.256s: a set-id program takes no file from its caller's "
                         "environment; use tcp://HOST:PORT, or init_url in the program",
                         value);
    return TUTTI_OK;
}

/* Whether torch's launcher serves a store at this port, on whatever host. */
static bool launcher_uses_port(const struct reader *reader, const struct url *store)
{
    const char *agent = get(reader, "TORCHELASTIC_USE_AGENT_STORE");
    const char *port = get(reader, "MASTER_PORT");
    char text[8];

    snprintf(text, sizeof text, "%u", store->port);
    return agent && !strcmp(agent, "True") && get(reader, "MASTER_ADDR") && port &&
           !strcmp(port, text);
}

/* The same on the store's host. */
static bool launcher_serves(const struct reader *reader, const struct url *store)
{
    return launcher_uses_port(reader, store) && !strcmp(get(reader, "MASTER_ADDR"), store->host);
}

static tutti_status who_serves(const struct reader *reader, bool from_variable,
                               struct identity *identity)
{
    int host = -1;
    tutti_status status = get_number(reader, "TUTTI_STORE_HOST", 0, 1, &host);

    if (status || identity->store.kind != URL_TCP)
        return status;
    const bool serves =
        host >= 0 ? host : !from_variable && !launcher_serves(reader, &identity->store);
    const bool may_be_client = serves && host < 0 && launcher_uses_port(reader, &identity->store);
    identity->served_by_0 = serves && !may_be_client;
    identity->hosts = serves && !identity->rank;
    identity->may_be_client = may_be_client && !identity->rank;
    return TUTTI_OK;
}

static tutti_status where_to_meet(const struct reader *reader, struct identity *identity)
{
    const char *variable = get(reader, "TUTTI_STORE");
    const bool by_url = reader->url.kind != URL_ENVIRONMENT;
    tutti_status status = TUTTI_OK;

    identity->given = reader->options->store;
    if (identity->given)
        return TUTTI_OK;
    if (by_url)
        identity->store = reader->url;
    else if (variable)
        status = identity_store(variable, &identity->store);
    else if (identity->size == 1 && !get(reader, "MASTER_ADDR") && !get(reader, "MASTER_PORT"))
        identity->alone = true;
    else
        status = store_from_master(reader, identity);
    return status || identity->alone ? status : who_serves(reader, !by_url && variable, identity);
}

/* ---- run and attempt ---- */

/* A run's name becomes one part of keys, so a '/' in it is written %2F, and a '%' %25. */
static tutti_status take_run_id(const char *source, const char *text, struct identity *identity)
{
    size_t n = 0;

    for (const char *at = text; *at; at++) {
        const char *escape = *at == '/' ? "%2F" : *at == '%' ? "%25" : NULL;

        if (*at < ' ' || *at > '~')
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s: the name of a run has printable ASCII characters only", source);
        if (n + 3 > IDENTITY_RUN_ID_MAX)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s=%.128s: longer than %d characters",
                             source, text, IDENTITY_RUN_ID_MAX - 3);
        if (escape)
            memcpy(identity->run_id + n, escape, 3);
        else
            identity->run_id[n] = *at;
        n += escape ? 3 : 1;
    }
    identity->run_id[n] = 0;
    return TUTTI_OK;
}

static tutti_status run_and_attempt(const struct reader *reader, struct identity *identity)
{
    const char *ours = get(reader, "TUTTI_RUN_ID"), *torch = get(reader, "TORCHELASTIC_RUN_ID");
    tutti_status status;

    if (reader->options->run_id && *reader->options->run_id)
        status = take_run_id("run_id", reader->options->run_id, identity);
    else if (ours)
        status = take_run_id("TUTTI_RUN_ID", ours, identity);
    else
        status = take_run_id("TORCHELASTIC_RUN_ID", torch ? torch : "none", identity);
    if (status)
        return status;
    return get_number(reader, "TORCHELASTIC_RESTART_COUNT", 0, RESTARTS_MAX, &identity->restart);
}

/* ---- all together ---- */

static void say_source(const struct reader *reader, struct identity *identity)
{
    const struct url *store = &identity->store;
    const char *rank = reader->options->world_size ? "the options"
                       : reader->told              ? "init_url"
                                                   : "RANK and WORLD_SIZE";
    char where[160];

    if (identity->given)
        snprintf(where, sizeof where, "of the options");
    else if (identity->alone)
        snprintf(where, sizeof where, "in this process");
    else if (store->kind == URL_FILE)
        snprintf(where, sizeof where, "file://%.140s", store->path);
    else
        snprintf(where, sizeof where, "tcp://%.120s:%u%s", store->host, store->port,
                 identity->hosts ? " (served here)" : "");
    snprintf(identity->source, sizeof identity->source, "rank and size from %s, store %s", rank,
             where);
}

tutti_status identity_resolve(const tutti_init_options *options, identity_variable_fn variable,
                              void *user, struct identity *ret_identity)
{
    struct reader reader = {
        .variable = variable, .user = user, .options = options, .url = {.rank = -1}};
    struct identity identity = {.rank = -1};
    tutti_status status = TUTTI_OK;

    if (options->reserved)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "options: reserved is %u; begin with TUTTI_INIT_OPTIONS_INIT",
                         options->reserved);
    if (options->store && options->init_url)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "options: give store or init_url, not both (init_url=%.256s)",
                         options->init_url);
    if (options->init_url)
        status = url_parse("init_url", options->init_url, &reader.url);
    if (!status)
        status = rank_and_size(&reader, &identity);
    if (!status)
        status = check_not_alone(&reader, &identity);
    if (!status)
        status = where_to_meet(&reader, &identity);
    if (!status)
        status = run_and_attempt(&reader, &identity);
    if (status)
        return status;
    say_source(&reader, &identity);
    *ret_identity = identity;
    return TUTTI_OK;
}
