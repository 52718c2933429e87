/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for UCC: libucc.so.1 with real collectives between the processes of one host, over shared memory.
 * UCX's sockets are there, too, for tests that count them, where UCX_TLS and UCX_NET_DEVICES do not leave them out.
 *
 * It follows UCC 1.3 to 1.8, also where that is inconvenient: a context gathers addresses in two rounds and
 * spins until all members have come, a team gathers once, nothing is compared between members, a member that
 * has died is never noticed, and nothing that was begun can be taken back. scripts/check-ucc runs the same
 * tests over a real UCC; where the two differ, this one is wrong.
 *
 * Variables of the environment, read once, switch faults on:
 *
 *   STANDIN_UCC_F16=waits       sums that UCC cannot compute (f16, MAX of complex, …) never end. Without it
 *                               they do so from 4 KiB on, and below they end with OK and a wrong result.
 *   STANDIN_UCC_LATE_MS=N       a status is OK only N ms after the operation is complete
 *   STANDIN_UCC_NEVER=NAME[:K]  operations of a kind (allreduce, bcast, …; all) never end, from the K-th on
 *   STANDIN_UCC_FAILS=PART      context, team, post or operation fails with an error
 *   STANDIN_UCC_ONLY=R          the three above in member R of the context alone
 *   STANDIN_UCC_VERSION=2.0.0   what the library says of itself
 *   STANDIN_UCC_SAYS=N          N warnings when a context is created; on stdout, as all that UCC says
 *   STANDIN_UCC_ROUNDS=3        a context gathers once more
 *   STANDIN_UCC_THREADS=single  grants one thread only
 *
 * UCC_LOG_LEVEL and UCC_LOG_FILE are those of UCC, and so is ucc_log_push_handler(), as of 1.8. What is undefined
 * there (an operation posted twice, two threads at once where one was granted, a team destroyed under an operation)
 * ends the process with words.
 */
#include "ucc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- faults --------------------------------------------------------------------------------- */

static const char *const kinds[] = {"allgather",      "allgatherv",      "allreduce", "alltoall",
                                    "alltoallv",      "barrier",         "bcast",     "fanin",
                                    "fanout",         "gather",          "gatherv",   "reduce",
                                    "reduce_scatter", "reduce_scatterv", "scatter",   "scatterv"};

static struct faults faults, harmless;
static pthread_once_t faults_read = PTHREAD_ONCE_INIT;

static const char *variable(const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "STANDIN_UCC_%s", name);
    return getenv(full) ?: "";
}

static uint32_t kinds_named(const char *name)
{
    const size_t length = strcspn(name, ":");

    if (length == 3 && !strncmp(name, "all", 3))
        return UINT32_MAX;
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strlen(kinds[k]) == length && !strncmp(name, kinds[k], length))
            return UINT32_C(1) << k;
    if (*name)
        misused("STANDIN_UCC_NEVER=%s names no operation", name);
    return 0;
}

static void read_faults(void)
{
    const char *never = variable("NEVER"), *from = strchr(never, ':');

    faults.f16_waits = harmless.f16_waits = !strcmp(variable("F16"), "waits");
    faults.late_ms = atoi(variable("LATE_MS"));
    faults.never = kinds_named(never);
    faults.never_from = from ? (unsigned)atoi(from + 1) : 1;
    snprintf(faults.fails, sizeof faults.fails, "%s", variable("FAILS"));
    faults.says = harmless.says = (unsigned)atoi(variable("SAYS"));
    faults.third_round = harmless.third_round = !strcmp(variable("ROUNDS"), "3");
    faults.one_thread = harmless.one_thread = !strcmp(variable("THREADS"), "single");
    faults.only = *variable("ONLY") ? atoi(variable("ONLY")) : -1;
}

const struct faults *faults_of(int member)
{
    pthread_once(&faults_read, read_faults);
    return faults.only >= 0 && faults.only != member ? &harmless : &faults;
}

/* ---- words ---------------------------------------------------------------------------------- */

static int level_number(const char *level)
{
    static const char *const levels[] = {"fatal", "error", "warn", "diag", "info", "debug"};

    for (int i = 0; i < (int)(sizeof levels / sizeof *levels); i++)
        if (!strcasecmp(level, levels[i]))
            return i;
    return 2;
}

enum { HANDLERS_MAX = 4, HANDLER_STOPS = 0 };

static log_handler *handlers[HANDLERS_MAX]; /* asked from the last one on */
static unsigned handler_count;

void ucc_log_push_handler(log_handler *handler)
{
    if (handler_count < HANDLERS_MAX)
        handlers[handler_count++] = handler;
}

static int ask_handler(log_handler *handler, int level, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    const int answer = handler("standin.c", 1, "ucc_say", level, NULL, format, list);
    va_end(list);
    return answer;
}

static bool is_taken(const char *level, const char *words)
{
    for (unsigned i = handler_count; i > 0; i--)
        if (ask_handler(handlers[i - 1], level_number(level), "%s", words) == HANDLER_STOPS)
            return true;
    return false;
}

void ucc_say(const char *level, const char *format, ...)
{
    const char *path = getenv("UCC_LOG_FILE");
    char words[256], host[64] = "";
    struct timespec now;
    va_list list;

    if (level_number(level) > level_number(getenv("UCC_LOG_LEVEL") ?: "warn"))
        return;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    if (is_taken(level, words))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gethostname(host, sizeof host - 1);
    FILE *to = path && *path ? fopen(path, "ae") : stdout;

    if (!to)
        return;
    fprintf(to, "[%ld.%06ld] [%s:%-5d:0]           standin.c:1    UCC  %-5s %s\n", (long)now.tv_sec,
            now.tv_nsec / 1000, host, (int)getpid(), level, words);
    if (to == stdout)
        fflush(to);
    else
        fclose(to);
}

void misused(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fputs("stand-in for UCC: misuse: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const char *ucc_status_string(ucci_status status)
{
    switch (status) {
    case UCCI_OK:
        return "Success";
    case UCCI_INPROGRESS:
        return "Operation in progress";
    case UCCI_INITIALIZED:
        return "Operation initialized";
    case UCCI_ERR_NOT_SUPPORTED:
        return "Operation is not supported";
    case UCCI_ERR_NOT_IMPLEMENTED:
        return "Not implemented";
    case UCCI_ERR_INVALID_PARAM:
        return "Invalid parameter";
    case UCCI_ERR_NO_MEMORY:
        return "Out of memory";
    case UCCI_ERR_NO_RESOURCE:
        return "Resources are not available for the operation";
    case UCCI_ERR_NO_MESSAGE:
        return "Unhandled error";
    case UCCI_ERR_NOT_FOUND:
        return "Not found";
    case UCCI_ERR_TIMED_OUT:
        return "Timeout expired";
    default:
        return "Unknown error";
    }
}

/* ---- the library ---------------------------------------------------------------------------- */

const char *ucc_get_version_string(void)
{
    return *variable("VERSION") ? variable("VERSION") : "1.8.0";
}

void ucc_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = *minor = *release = 0;
    sscanf(ucc_get_version_string(), "%u.%u.%u", major, minor, release);
}

ucci_status ucc_lib_config_read(const char *prefix, const char *file, ucci_lib_config_h *ret_config)
{
    (void)prefix;
    if (file)
        return UCCI_ERR_NOT_IMPLEMENTED;
    *ret_config = calloc(1, sizeof **ret_config);
    return *ret_config ? UCCI_OK : UCCI_ERR_NO_MEMORY;
}

/* UCC's library has one option of its own. */
ucci_status ucc_lib_config_modify(ucci_lib_config_h config, const char *name, const char *value)
{
    (void)config;
    if (strcmp(name, "CLS") != 0)
        return UCCI_ERR_NOT_FOUND;
    return !strcmp(value, "basic") || !strcmp(value, "all") ? UCCI_OK : UCCI_ERR_INVALID_PARAM;
}

void ucc_lib_config_release(ucci_lib_config_h config)
{
    free(config);
}

ucci_status ucc_init_version(unsigned major, unsigned minor, const ucci_lib_params *params,
                             ucci_lib_config_h config, ucci_lib_h *ret_lib)
{
    const bool asks = params->mask & UCCI_LIB_FIELD_THREAD_MODE;
    unsigned own_major, own_minor, release;

    *ret_lib = NULL;
    if (!config)
        return UCCI_ERR_INVALID_PARAM;
    ucc_get_version(&own_major, &own_minor, &release);
    if (major != own_major || minor > own_minor) /* UCC says no more than that */
        ucc_say("WARN", "UCC version is incompatible, required: %u.%u, actual: %u.%u.%u", major,
                minor, own_major, own_minor, release);
    ucci_lib_h lib = calloc(1, sizeof *lib);

    if (!lib)
        return UCCI_ERR_NO_MEMORY;
    lib->threads = asks && !faults_of(-1)->one_thread ? params->thread_mode : UCCI_THREAD_SINGLE;
    *ret_lib = lib;
    return UCCI_OK;
}

ucci_status ucc_lib_get_attr(ucci_lib_h lib, ucci_lib_attr *ret_attr)
{
    enum { COLL_TYPES = 1 << 1 };

    if (ret_attr->mask & UCCI_LIB_FIELD_THREAD_MODE)
        ret_attr->thread_mode = lib->threads;
    if (ret_attr->mask & COLL_TYPES)
        ret_attr->coll_types = 0xffff & ~(uint64_t)UCCI_SCATTER;
    return ret_attr->mask & ~(uint64_t)(UCCI_LIB_FIELD_THREAD_MODE | COLL_TYPES)
               ? UCCI_ERR_NOT_SUPPORTED
               : UCCI_OK;
}

ucci_status ucc_finalize(ucci_lib_h lib)
{
    free(lib);
    return UCCI_OK;
}
