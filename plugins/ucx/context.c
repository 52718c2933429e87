/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: one for the process, unless endpoints differ in settings or in the network interface.
 *
 * UCX listens on every interface by default. An endpoint knows the address by which the others reach this
 * host, so its interface is the only one whose socket UCX gets; devices without sockets stay. With
 * UCX_NET_DEVICES or TUTTI_UCX_NET_DEVICES the user chooses.
 *
 * UCX puts 4.3 MiB for a worker into /dev/shm, by its transport posix. Where that does not work and nobody has chosen
 * transports, the process goes on without posix: memory of System V does the same without /dev/shm. Each address
 * says what its worker has, so others need not do the same.
 *
 * UCX starts a thread of its own with a context or worker. It must not take the program's signals, so they
 * are all blocked here meanwhile.
 */
#include "context.h"

#include "../common/interface.h"
#include "../common/listeners.h"
#include "../common/log.h"
#include "devices.h"
#include "options.h"

#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#define NET_DEVICES "NET_DEVICES"
#define PARTS "TX_SEG_SIZE"

/* The parts in which tcp sends the plugin's long messages (flights.c). UCX's 8 KiB take a system call each: 1 MiB
 * over loopback takes twice as long. Not above what tcp takes in one part. */
#define PARTS_SIZE "64k"
#define TLS "TLS"
#define WITHOUT_POSIX "^posix"

_Static_assert(LOG_LEVEL_WARN == (int)UCS_LOG_LEVEL_WARN &&
                   LOG_LEVEL_INFO == (int)UCS_LOG_LEVEL_INFO &&
                   LOG_STOP == (int)UCS_LOG_FUNC_RC_STOP &&
                   LOG_CONTINUE == (int)UCS_LOG_FUNC_RC_CONTINUE,
               "log.h has UCX's numbers");
static const char *const log_functions[] = {"ucs_log_push_handler", NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_context *contexts;
static bool is_without_posix; /* contexts from now on, unless the user chooses */

struct plan {
    const struct caller *caller;
    const struct ucx_library *library;
    struct ucx_options options;
    char interface[IF_NAMESIZE]; /* to listen on; "": UCX's choice */
    bool chooses_transports;     /* the user does */
    bool without_posix;
};

/* Whether the user sets UCX_NAME, or TUTTI_UCX_NAME. */
static bool is_set(const struct ucx_options *options, const char *name)
{
    char own[OPTION_NAME_MAX + 5];

    for (size_t i = 0; i < options->count; i++)
        if (!strcmp(options->list[i].name, name))
            return true;
    snprintf(own, sizeof own, "UCX_%s", name);
    const char *variable = getenv(own);
    return variable && *variable;
}

static tutti_status make_plan(const struct caller *caller, const char *bind_address,
                              struct plan *plan)
{
    tutti_status status = options_read(caller, &plan->options);

    plan->caller = caller;
    *plan->interface = 0;
    plan->chooses_transports = is_set(&plan->options, TLS);
    plan->without_posix =
        !plan->chooses_transports && __atomic_load_n(&is_without_posix, __ATOMIC_RELAXED);
    if (!status && bind_address && !is_set(&plan->options, NET_DEVICES) &&
        !interface_find(bind_address, plan->interface, sizeof plan->interface))
        return fail(caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "no network interface has the address %.64s, on which UCX would listen; set "
                    "TUTTI_UCX_" NET_DEVICES " to the devices to use",
                    bind_address);
    return status;
}

static tutti_status set_interface(const struct plan *plan, const struct ucx_devices *devices,
                                  ucp_config_t *config)
{
    char list[1024], words[200];

    if (!*plan->interface || !plan->library->has_uct)
        return TUTTI_OK;
    if (!devices_of_interface(devices, plan->interface, list, sizeof list)) {
        snprintf(words, sizeof words,
                 "UCX has no device for the network interface %s; it may listen on others "
                 "(TUTTI_UCX_" NET_DEVICES " chooses)",
                 plan->interface);
        plan->caller->host->log(plan->caller->self, 1, words);
        return TUTTI_OK;
    }
    if (!plan->library->ucp_config_modify(config, NET_DEVICES, list))
        return TUTTI_OK;
    return fail(plan->caller, TUTTI_ERR_INTERNAL, 0, "UCX does not take " NET_DEVICES "=%.400s",
                list);
}

static tutti_status set_parts(const struct plan *plan, const struct ucx_devices *devices,
                              ucp_config_t *config)
{
    const char *name = options_name_transports(plan->library) ? "TCP_" PARTS : PARTS;

    if (!devices->small_parts || is_set(&plan->options, "TCP_" PARTS) ||
        !plan->library->ucp_config_modify(config, name, PARTS_SIZE))
        return TUTTI_OK;
    return fail(plan->caller, TUTTI_ERR_INTERNAL, 0, "UCX does not take %s=" PARTS_SIZE, name);
}

/* UCX warns of a setting that no transport of a context has. */
static bool is_about_parts(const char *warning)
{
    return !strcmp(warning, "invalid configuration: " PARTS "=" PARTS_SIZE) ||
           !strcmp(warning, "invalid configuration: TCP_" PARTS "=" PARTS_SIZE);
}

static tutti_status prepare(struct plan *plan, ucp_config_t *config)
{
    struct ucx_devices devices;
    tutti_status status = devices_find(plan->caller, plan->library,
                                       plan->options.count ? &plan->options : NULL, &devices);

    if (status)
        return status;
    status = options_check(plan->caller, plan->library, &plan->options, config);
    if (!status)
        status = options_apply(plan->caller, plan->library, &plan->options, config);
    if (!status)
        status = set_interface(plan, &devices, config);
    if (!status)
        status = set_parts(plan, &devices, config);
    if (!status && plan->without_posix &&
        plan->library->ucp_config_modify(config, TLS, WITHOUT_POSIX))
        status =
            fail(plan->caller, TUTTI_ERR_INTERNAL, 0, "UCX does not take " TLS "=" WITHOUT_POSIX);
    devices_free(&devices);
    return status;
}

static tutti_status begin(const struct plan *plan, const ucp_config_t *config,
                          ucp_context_h *ret_ucp)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                 .name = "tutti"};
    char heard[LOG_HEARD_BYTES];

    log_listen(heard);
    ucs_status_t status =
        plan->library->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, ret_ucp);
    log_listen(NULL);
    if (!status) {
        if (*heard)
            plan->caller->host->log(plan->caller->self, 1, heard);
        return TUTTI_OK;
    }
    return fail(plan->caller,
                status == UCS_ERR_NO_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_INVALID_ARGUMENT, 0,
                "UCX %s cannot be used with the settings that it has from TUTTI_UCX_..., UCX_... "
                "and its files: %s%s%.400s",
                plan->library->version, plan->library->ucs_status_string(status),
                *heard ? ": " : "", heard);
}

static tutti_status make_ucp(struct plan *plan, ucp_context_h *ret_ucp)
{
    sigset_t all, before;
    ucp_config_t *config;

    if (plan->library->ucp_config_read(NULL, NULL, &config))
        return fail(plan->caller, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "UCX %s does not take its own settings from UCX_... and its files; `ucx_info "
                    "-c` says more",
                    plan->library->version);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tutti_status status = prepare(plan, config);
    if (!status)
        status = begin(plan, config, ret_ucp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    plan->library->ucp_config_release(config);
    return status;
}

/* The context for the plan without its UCP context. NULL: no memory. */
static struct ucx_context *describe(const struct plan *plan)
{
    const char *posix = plan->without_posix ? WITHOUT_POSIX : "";
    const size_t bytes =
        options_settings(&plan->options, NULL, 0) + sizeof plan->interface + strlen(posix) + 3;
    struct ucx_context *context = calloc(1, sizeof *context + bytes);

    if (!context)
        return NULL;
    const int used = snprintf(context->settings, bytes, "%s\n%s\n", plan->interface, posix);
    options_settings(&plan->options, context->settings + used, bytes - (size_t)used);
    context->library = plan->library;
    context->may_leave_posix = !plan->chooses_transports && !plan->without_posix;
    return context;
}

static tutti_status find_or_make(struct plan *plan, struct ucx_context **ret_context)
{
    struct ucx_context *context = describe(plan);

    if (!context)
        return fail(plan->caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for a context of UCX");
    for (struct ucx_context *at = contexts; at; at = at->next)
        if (!strcmp(at->settings, context->settings)) {
            free(context);
            at->users++;
            *ret_context = at;
            return TUTTI_OK;
        }
    tutti_status status = make_ucp(plan, &context->ucp);
    if (status) {
        free(context);
        return status;
    }
    context->users = 1;
    context->next = contexts;
    contexts = context;
    *ret_context = context;
    return TUTTI_OK;
}

tutti_status context_open(const struct caller *caller, const char *bind_address,
                          struct ucx_context **ret_context)
{
    struct plan plan = {.library = NULL};
    tutti_status status = library_open(caller, &plan.library);

    if (!status)
        status = listeners_join(caller);
    if (status)
        return status;
    log_take_over(plan.library->handle, log_functions);
    status = make_plan(caller, bind_address, &plan);
    if (!status) {
        pthread_mutex_lock(&lock);
        status = find_or_make(&plan, ret_context);
        pthread_mutex_unlock(&lock);
    }
    if (status)
        listeners_leave(caller);
    return status;
}

void context_close(const struct caller *caller, struct ucx_context *context)
{
    pthread_mutex_lock(&lock);
    if (--context->users == 0) {
        struct ucx_context **at = &contexts;

        while (*at != context)
            at = &(*at)->next;
        *at = context->next;
        context->library->ucp_cleanup(context->ucp);
        free(context);
    }
    pthread_mutex_unlock(&lock);
    listeners_leave(caller);
}

static tutti_status refuse_worker(const struct caller *caller, const struct ucx_context *context,
                                  ucs_status_t status, const char *heard)
{
    const char *version = context->library->version;
    const char *why = context->library->ucs_status_string(status), *colon = *heard ? ": " : "";

    if (context->may_leave_posix && status != UCS_ERR_INVALID_PARAM) {
        char words[WORDS_BYTES];

        __atomic_store_n(&is_without_posix, true, __ATOMIC_RELAXED);
        snprintf(words, sizeof words,
                 "UCX %s makes no worker with memory in /dev/shm: %s%s%.400s; this process goes on "
                 "without it (TUTTI_UCX_TLS=" WITHOUT_POSIX ")",
                 version, why, colon, heard);
        caller->host->log(caller->self, 1, words);
        return TUTTI_ERR_NOT_READY;
    }
    const bool lacks_memory = status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE;
    const char *advice = "";

    if (lacks_memory)
        advice = "; with the transport posix a worker takes 4.3 MiB of /dev/shm, and "
                 "TUTTI_UCX_TLS=" WITHOUT_POSIX " leaves it out";
    else if (status == UCS_ERR_INVALID_PARAM)
        advice = "; correct or unset the UCX_* variable that it comes from";
    return fail(caller, lacks_memory ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM, 0,
                "UCX %s makes no worker: %s%s%.400s%s", version, why, colon, heard, advice);
}

tutti_status context_worker(const struct caller *caller, struct ucx_context *context,
                            ucp_worker_h *ret_worker)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    struct descriptors before;
    char heard[LOG_HEARD_BYTES];
    sigset_t all, signals;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &signals);
    inherited_begin(&before);
    log_listen(heard);
    ucs_status_t status = context->library->ucp_worker_create(context->ucp, &params, ret_worker);
    log_listen(NULL);
    inherited_end(&before, &context->listening);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    if (status)
        return refuse_worker(caller, context, status, heard);
    if (*heard && !is_about_parts(heard))
        caller->host->log(caller->self, 1, heard);
    return TUTTI_OK;
}
