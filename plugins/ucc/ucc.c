/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucc: collectives through UCC. It has no messages of its own; shm and tcp carry the rest.
 *
 * The members of a world make one context of UCC, and later groups of theirs make teams in it. Which context that
 * is, members tell each other in their addresses: where one of them has another, or none, the group makes one
 * of its own. So it does where that context's members are all on one host, and the group's are not any more, as
 * TUTTI_HOST may say for a later world: such a context has no way between hosts. The other way round, members of one
 * host in a world of several get a local context, which is faster, as far as all have room for one.
 *
 * UCC never notices that a member is missing, and takes no operation back. The core finds dead members, ends waits
 * by its deadlines and keeps the memory until the team is closed. What UCC may come back to then stays allocated;
 * nobody moves it any more.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/version.h>

#include "../about.h"
#include "../common/listeners.h"
#include "../common/log.h"
#include "about.h"
#include "form.h"
#include "operations.h"
#include "scores.h"

enum {
    TOKEN_AT = 4 + 4,
    KEY_AT = TOKEN_AT + ENGINE_TOKEN_BYTES,
    LOCAL_AT = KEY_AT + SETTINGS_KEY_BYTES,
    ROOM_AT = LOCAL_AT + ENGINE_TOKEN_BYTES,
    ADDRESS_BYTES = ROOM_AT + 1,
    POLLS_AT_START = 32,    /* short operations are complete then; costs 3 µs if not */
    POLLS = 8,              /* between two looks of the core */
    STOPPED_NS = 100000000, /* between two looks: this process was stopped, or had no CPU */
    REST_NS = 20000000
};

struct tutti_team {
    struct caller caller;
    const struct ucc_library *ucc;
    struct engine_context *context; /* NULL: a team of one, or not formed */
    struct engine_context *local;   /* until the team is formed: to take instead; NULL: none */
    struct form *form;
    char run_id[128], bind_address[64];
    uint8_t token[ENGINE_TOKEN_BYTES];
    int rank, size;
    const int32_t *world_ranks; /* [size] */
    bool is_world;
    bool on_one_host; /* all members, by the core's layout */
    int64_t deadline_ns;
    ucci_team_h team;      /* NULL: not made */
    ucci_request *request; /* under way; NULL: none */
    int64_t moved_ns;      /* UCC was moved for the operation */
    int64_t rests_ns;      /* it is not until then */
    bool aborted;
    uint64_t *counts, *places; /* [size] of the operation under way, if it is uneven */
};

/* ---- the library ---- */

static int32_t ucc_serves(const tutti_host *host, void *host_self, const tutti_collective *what)
{
    (void)host;
    (void)host_self;
    return operations_serve(what);
}

static tutti_status ucc_engine(const tutti_host *host, void *host_self,
                               tutti_engine_version *ret_version)
{
    const struct caller caller = {host, host_self};
    const struct ucc_library *ucc;
    tutti_status status = library_open(&caller, &ucc);

    if (status)
        return status;
    ret_version->major = ucc->major;
    ret_version->minor = ucc->minor;
    ret_version->patch = ucc->release;
    snprintf(ret_version->name, sizeof ret_version->name, "UCC");
    return TUTTI_OK;
}

/* ---- making a team ---- */

static void team_free(tutti_team *team)
{
    const struct caller c = team->caller;

    c.host->release(c.self, team->counts);
    c.host->release(c.self, team->places);
    c.host->release(c.self, team);
}

static bool are_on_one_host(const tutti_team_options *options)
{
    for (int r = 1; r < options->size; r++)
        if (options->host_of[r] != options->host_of[0])
            return false;
    return true;
}

static tutti_status team_open(const tutti_host *host, void *host_self,
                              const tutti_team_options *options, tutti_team **ret_team)
{
    const struct caller caller = {host, host_self};
    const struct ucc_library *ucc;
    tutti_status status = library_open(&caller, &ucc);

    if (!status && options->size > 1)
        status = engine_check_process(&caller);
    if (status)
        return status;
    if (!TUTTI_HAS(host, gather_start))
        return fail(&caller, TUTTI_ERR_UNSUPPORTED, 0,
                    "the backend ucc needs a libtutti of plugin ABI 0.8 or later, and this is "
                    "0.%u",
                    host->abi_minor);
    const uint64_t each = (uint64_t)options->size * sizeof(uint64_t);
    tutti_team *team = host->allocate(host_self, sizeof *team);
    if (!team)
        return fail(&caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for a team");
    *team = (tutti_team){.caller = caller,
                         .ucc = ucc,
                         .rank = options->rank,
                         .size = options->size,
                         .world_ranks = options->world_ranks,
                         .is_world = options->is_world,
                         .on_one_host = are_on_one_host(options),
                         .deadline_ns = options->deadline_ns,
                         .counts = host->allocate(host_self, each),
                         .places = host->allocate(host_self, each)};
    status = team->counts && team->places ? listeners_join(&caller)
                                          : fail(&caller, TUTTI_ERR_NO_MEMORY, 0,
                                                 "no memory for a team of %d", options->size);
    if (status) {
        team_free(team);
        return status;
    }
    memcpy(team->token, options->token, sizeof team->token);
    snprintf(team->run_id, sizeof team->run_id, "%s", options->run_id ? options->run_id : "");
    snprintf(team->bind_address, sizeof team->bind_address, "%s",
             options->bind_address ? options->bind_address : "");
    if (options->size > 1) {
        engine_lock();
        team->context = engine_find(team->run_id, team->is_world, team->rank, team->size);
        if (!team->is_world && team->on_one_host)
            team->local = engine_find_local(team->run_id, team->world_ranks, team->size);
        engine_unlock();
    }
    *ret_team = team;
    return TUTTI_OK;
}

static void put_number(uint8_t *to, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (8 * i));
}

static uint32_t get_number(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void put_token(uint8_t *to, const struct engine_context *context)
{
    if (context)
        memcpy(to, context->token, ENGINE_TOKEN_BYTES);
}

/* UCC's version, the context that the member would use, zeros if it has none, with whom it shares memory, the same of
 * local contexts, and whether it has room for one. */
static tutti_status team_address(tutti_team *team, void *ret_address, uint64_t capacity,
                                 uint64_t *ret_bytes)
{
    uint8_t *to = ret_address;

    if (capacity < ADDRESS_BYTES)
        return TUTTI_ERR_INTERNAL;
    memset(to, 0, ADDRESS_BYTES);
    put_number(to, team->ucc->major);
    put_number(to + 4, team->ucc->minor);
    put_token(to + TOKEN_AT, team->context);
    settings_key(to + KEY_AT);
    put_token(to + LOCAL_AT, team->local);
    engine_lock();
    to[ROOM_AT] = engine_may_add_local();
    engine_unlock();
    *ret_bytes = ADDRESS_BYTES;
    return TUTTI_OK;
}

static tutti_status check_addresses(const tutti_team *team, const void *const *addresses,
                                    const uint64_t *bytes)
{
    const uint8_t *first = addresses[0];

    for (int r = 0; r < team->size; r++) {
        const uint8_t *theirs = addresses[r];

        if (bytes[r] != ADDRESS_BYTES)
            return fail(&team->caller, TUTTI_ERR_PLUGIN, 0,
                        "rank %d has an address of %llu bytes, which is not one of this plugin", r,
                        (unsigned long long)bytes[r]);
        if (memcmp(first, theirs, 8) != 0)
            return fail(&team->caller, TUTTI_ERR_MISMATCH, 0,
                        "rank 0 has UCC %u.%u and rank %d has UCC %u.%u; install the same on all "
                        "hosts, or set TUTTI_UCC",
                        get_number(first), get_number(first + 4), r, get_number(theirs),
                        get_number(theirs + 4));
    }
    return TUTTI_OK;
}

static bool share_memory(const tutti_team *team, const void *const *addresses)
{
    const uint8_t *first = addresses[0];

    for (int r = 0; r < team->size; r++)
        if (!settings_keys_fit(first + KEY_AT, (const uint8_t *)addresses[r] + KEY_AT))
            return false;
    return team->on_one_host;
}

/* Whether all members say the same. */
static bool agree(const tutti_team *team, const void *const *addresses, size_t at, size_t bytes)
{
    for (int r = 1; r < team->size; r++)
        if (memcmp((const uint8_t *)addresses[0] + at, (const uint8_t *)addresses[r] + at, bytes) !=
            0)
            return false;
    return true;
}

/* Where the group's operations go. The same on all members, from what all have told. */
enum place { A_CONTEXT_OF_ITS_OWN, THE_CONTEXT, THE_LOCAL_ONE, A_LOCAL_ONE };

static enum place choose(const tutti_team *team, const void *const *addresses, bool on_one_host)
{
    const struct engine_context *context = team->context;

    if (!context || !agree(team, addresses, TOKEN_AT, ENGINE_TOKEN_BYTES) ||
        (context->settings.on_one_host && !on_one_host))
        return A_CONTEXT_OF_ITS_OWN;
    if (team->is_world || !on_one_host || context->settings.on_one_host)
        return THE_CONTEXT;
    if (team->local && agree(team, addresses, LOCAL_AT, ENGINE_TOKEN_BYTES))
        return THE_LOCAL_ONE;
    const bool have_room = ((const uint8_t *)addresses[0])[ROOM_AT];
    return have_room && agree(team, addresses, ROOM_AT, 1) ? A_LOCAL_ONE : THE_CONTEXT;
}

static void drop(struct engine_context **context)
{
    if (*context)
        engine_drop(*context);
    *context = NULL;
}

/* Under the engine's lock. */
static tutti_status add_context(tutti_team *team, bool on_one_host, bool is_local)
{
    drop(&team->context);
    if (engine_is_full())
        return fail(&team->caller, TUTTI_ERR_PLUGIN, 0,
                    "this process has made %d contexts of UCC, which cannot be freed, and makes no "
                    "more; each group that failed has taken one, and so has each world of other "
                    "members. Start a new process, or use another backend",
                    ENGINE_CONTEXTS_MAX);
    struct settings settings = settings_choose(&team->caller, on_one_host, team->bind_address);
    settings.is_further = is_local;
    team->context =
        engine_add(team->ucc, team->run_id, team->rank, team->size, team->token, &settings);
    if (!team->context || (is_local && !engine_set_local(team->context, team->world_ranks)))
        return fail(&team->caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for a context");
    return TUTTI_OK;
}

/* Under the engine's lock. */
static tutti_status begin_form(tutti_team *team, enum place place, bool on_one_host)
{
    tutti_status status = TUTTI_OK;

    if (place == A_CONTEXT_OF_ITS_OWN || place == A_LOCAL_ONE)
        status = add_context(team, on_one_host, place == A_LOCAL_ONE);
    if (status)
        return status;
    if (place == THE_LOCAL_ONE) {
        drop(&team->context);
        team->context = team->local;
        team->local = NULL;
    }
    drop(&team->local);
    const int error = form_begin(team->context, &team->caller, team->rank, team->size,
                                 team->deadline_ns, &team->form);
    return error ? fail(&team->caller, TUTTI_ERR_SYSTEM, error, "cannot start a thread") : TUTTI_OK;
}

static tutti_status team_form(tutti_team *team, const void *const *addresses, const uint64_t *bytes)
{
    if (team->size == 1)
        return TUTTI_OK;
    tutti_status status = check_addresses(team, addresses, bytes);
    if (status)
        return status;
    const bool on_one_host = share_memory(team, addresses);
    const enum place place = choose(team, addresses, on_one_host);
    engine_lock();
    status = begin_form(team, place, on_one_host);
    engine_unlock();
    return status;
}

static tutti_status failed_to_form(const tutti_team *team, const struct form_result *result)
{
    if (result->is_late)
        return fail(&team->caller, TUTTI_ERR_TIMEOUT, 0,
                    "timed out in %s, which waits for all members of the group", result->where);
    if (result->gather) /* the core has the message */
        return result->gather;
    return fail(&team->caller, TUTTI_ERR_PLUGIN, 0,
                "%s of %.200s failed: %.100s; UCC_LOG_LEVEL=debug may tell more", result->where,
                team->ucc->path, team->ucc->status_string(result->code));
}

static tutti_status team_form_test(tutti_team *team)
{
    struct form_result result;

    if (team->size == 1)
        return TUTTI_OK;
    if (!form_has_ended(team->form, &result))
        return TUTTI_ERR_NOT_READY;
    if (result.code)
        return failed_to_form(team, &result);
    team->team = result.team;
    return TUTTI_OK;
}

/* ---- operations ---- */

static tutti_status failure(const tutti_team *team, const char *what, ucci_status code)
{
    return fail(&team->caller, TUTTI_ERR_PLUGIN, 0, "%s failed: %.200s", what,
                team->ucc->status_string(code));
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static tutti_status halted(const tutti_team *team)
{
    return fail(&team->caller, TUTTI_ERR_ABORTED, 0,
                "a failed group of the same world was destroyed with an operation under way; UCC "
                "cannot take it back, so it does nothing more for the world and its other groups. "
                "Call tutti_init() again, or keep failed groups until the others have ended");
}

/* Moves the operation so often, at most; then team->request is NULL if it is complete. */
static ucci_status move(tutti_team *team, int polls)
{
    ucci_request *request = team->request;
    ucci_status code = UCCI_OK;

    for (int i = 0; i < polls && code >= 0 && request->status == UCCI_INPROGRESS; i++)
        code = team->ucc->context_progress(team->context->context);
    if (code < 0 || request->status < 0)
        return code < 0 ? code : request->status;
    if (request->status == UCCI_INPROGRESS)
        return UCCI_OK;
    team->request = NULL;
    return team->ucc->collective_finalize(request);
}

static ucci_status post(tutti_team *team, ucci_coll_args *args, const char **ret_where)
{
    ucci_request *request = NULL;
    ucci_status code = team->ucc->collective_init(args, &request, team->team);

    *ret_where = "ucc_collective_init";
    if (code)
        return code;
    code = team->ucc->collective_post(request);
    *ret_where = "ucc_collective_post";
    if (code < 0) /* whether UCC comes back to it is not known */
        return code;
    *ret_where = "the operation";
    team->request = request;
    return move(team, POLLS_AT_START);
}

static tutti_status team_start(tutti_team *team, const tutti_collective *what,
                               tutti_request *request)
{
    ucci_coll_args args;
    const char *where;

    operations_fill(what, team->rank, team->counts, team->places, &args);
    engine_lock();
    const bool is_halted = team->context->is_halted;
    const ucci_status code = is_halted ? UCCI_OK : post(team, &args, &where);
    engine_unlock();
    if (is_halted)
        return halted(team);
    if (code)
        return failure(team, where, code);
    request->status = team->request ? TUTTI_ERR_NOT_READY : TUTTI_OK;
    if (team->request)
        team->moved_ns = now_ns();
    return TUTTI_OK;
}

/*
 * UCC 1.3 crashes when it sends to a member that has ended: it cancels the request that UCX did not make. In a
 * process that was stopped this may be the first thing to happen, so the core gets time to hear of the end first.
 */
static bool has_to_rest(tutti_team *team)
{
    const int64_t now = now_ns();

    if (now - team->moved_ns > STOPPED_NS)
        team->rests_ns = now + REST_NS;
    team->moved_ns = now;
    return now < team->rests_ns;
}

static tutti_status team_test(tutti_team *team, tutti_request *request)
{
    if (request->status != TUTTI_ERR_NOT_READY || has_to_rest(team))
        return request->status;
    engine_lock();
    if (team->context->is_halted) {
        engine_unlock();
        return request->status = halted(team);
    }
    const ucci_status code = move(team, POLLS);
    engine_unlock();
    if (code)
        request->status = failure(team, "the operation", code);
    else if (!team->request)
        request->status = TUTTI_OK;
    return request->status;
}

/* ---- the end ---- */

static tutti_status team_abort(tutti_team *team)
{
    team->aborted = true;
    if (team->form)
        form_stop(team->form);
    return team->request ? TUTTI_ERR_NOT_READY : TUTTI_OK;
}

static void team_close(tutti_team *team)
{
    engine_lock();
    if (team->request)
        team->context->is_halted = true;
    if (team->form)
        form_end(team->form, team->aborted || team->request);
    if (!team->form)
        drop(&team->context);
    drop(&team->local);
    engine_unlock();
    listeners_leave(&team->caller);
    team_free(team);
}

/* ---- what is exported ---- */

const tutti_collectives_ops ucc_collectives = {.struct_size = sizeof ucc_collectives,
                                               .threads = TUTTI_THREADS_ONE_AT_A_TIME,
                                               .serves = ucc_serves,
                                               .open = team_open,
                                               .address = team_address,
                                               .form = team_form,
                                               .form_test = team_form_test,
                                               .start = team_start,
                                               .test = team_test,
                                               .abort = team_abort,
                                               .close = team_close,
                                               .engine = ucc_engine,
                                               .describe = scores_describe};

static void ucc_leave(int32_t clean)
{
    if (clean)
        engine_leave();
}

static const tutti_provider collectives = {.struct_size = sizeof(tutti_provider),
                                           .kind = TUTTI_PROVIDER_COLLECTIVES,
                                           .name = "ucc",
                                           .ops = &ucc_collectives};
static const tutti_provider *const providers[] = {&collectives};
static const tutti_plugin_option options[] = {UCC_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("ucc", TUTTI_VERSION ", UCC 1.3 or later", "Apache-2.0", providers, 1,
                          ucc_leave, NULL, options, NULL, NULL);
