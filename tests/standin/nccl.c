/* SPDX-License-Identifier: Apache-2.0
 *
 * The process: settings, the stand-in for libcuda, words.
 */
#include "nccl.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[512];

static struct cuda cuda;
static bool has_cuda;
static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;

/* ---- settings ------------------------------------------------------------------------------- */

static long number(const char *name, long standard)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : standard;
}

/* FNV-1a */
static uint64_t hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t this_host(void)
{
    const char *named = getenv("NCCL_HOSTID");
    char name[256] = "";

    if (named && *named)
        return hash(named);
    gethostname(name, sizeof name - 1);
    return hash(name);
}

static bool has_faults(void)
{
    const long rank = number("STANDIN_NCCL_FAULT_RANK", -1);

    return rank < 0 || number("TUTTI_RANK", number("RANK", -1)) == rank;
}

static void read_settings(void)
{
    settings = (struct settings){
        .version = (int)number("STANDIN_NCCL_VERSION", 22809),
        .join_ms = number("STANDIN_NCCL_JOIN_MS", 1),
        .first_ms = number("STANDIN_NCCL_FIRST_MS", 1),
        .register_ms = number("STANDIN_NCCL_REGISTER_MS", 0),
        .later_ms = number("STANDIN_NCCL_LATER_MS", 0),
        .host = this_host(),
    };
    settings.shares_devices =
        settings.version >= 23000 && number("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1;
    if (!has_faults())
        return;
    settings.join = number("STANDIN_NCCL_JOIN", 0);
    settings.join_at = number("STANDIN_NCCL_JOIN_AT", 0);
    settings.fails_at = number("STANDIN_NCCL_FAILS_AT", 0);
    settings.async_at = number("STANDIN_NCCL_ASYNC_AT", 0);
    settings.hangs_at = number("STANDIN_NCCL_HANGS_AT", 0);
    settings.result = (ncclResult_t)number("STANDIN_NCCL_RESULT", ncclUnhandledCudaError);
    settings.abort_ms = number("STANDIN_NCCL_ABORT_MS", 0);
    settings.allocate_at = number("STANDIN_NCCL_ALLOCATE_AT", 0);
    settings.register_at = number("STANDIN_NCCL_REGISTER_AT", 0);
}

const struct settings *nccl_settings(void)
{
    pthread_once(&settings_once, read_settings);
    return &settings;
}

/* ---- the stand-in for libcuda --------------------------------------------------------------- */

/* That which the process has is taken before the one that the linker finds. */
static void load_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return;
    has_cuda = true;
#define LOAD(result, name, arguments)                                                              \
    *(void **)&cuda.name = dlsym(library, #name);                                                  \
    has_cuda = has_cuda && cuda.name;
    USED_OF_CUDA(LOAD)
#undef LOAD
}

const struct cuda *nccl_cuda(void)
{
    pthread_once(&cuda_once, load_cuda);
    if (has_cuda && cuda.cuInit(0) == CUDA_SUCCESS)
        return &cuda;
    nccl_warn(ncclUnhandledCudaError,
              "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'");
    return NULL;
}

/* ---- words ---------------------------------------------------------------------------------- */

enum level { SILENT, WARN, INFO };

static enum level level;
static FILE *lines;
static pthread_once_t lines_once = PTHREAD_ONCE_INIT;

static void open_lines(void)
{
    const char *named = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");

    level = !named                   ? SILENT
            : !strcmp(named, "INFO") ? INFO
            : !strcmp(named, "WARN") ? WARN
                                     : SILENT;
    if (level && path && *path)
        lines = fopen(path, "w");
    if (!lines)
        lines = stdout;
    setlinebuf(lines);
}

static void print(enum level of_line, const char *words)
{
    pthread_once(&lines_once, open_lines);
    if (level >= of_line)
        fprintf(lines, "%sstand-in:%d:%d [0] %sNCCL %s %s\n", of_line == WARN ? "\n" : "",
                (int)getpid(), (int)gettid(), of_line == WARN ? "standin/nccl.c:1 " : "",
                of_line == WARN ? "WARN" : "INFO", words);
}

void nccl_inform(const char *what, const char *words)
{
    char line[256];

    snprintf(line, sizeof line, "%s : Using %s", what, words ? words : "any interface");
    print(INFO, line);
}

static void begin(void)
{
    nccl_inform("Bootstrap", getenv("NCCL_SOCKET_IFNAME"));
}

void nccl_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, begin);
}

ncclResult_t nccl_warn(ncclResult_t result, const char *format, ...)
{
    va_list values;

    pthread_mutex_lock(&words_lock);
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
    print(WARN, last_error);
    pthread_mutex_unlock(&words_lock);
    return result;
}

void nccl_die(const char *call, const char *format, ...)
{
    char words[256];
    va_list values;

    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    fprintf(stderr, "stand-in of NCCL: %s: %s\n", call, words);
    abort();
}

void nccl_sleep_us(long us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

double nccl_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- calls that need no communicator -------------------------------------------------------- */

EXPORT ncclResult_t ncclGetVersion(int *ret_version)
{
    if (!ret_version)
        return ncclInvalidArgument;
    *ret_version = nccl_settings()->version;
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const words[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };

    return (unsigned)result < sizeof words / sizeof *words ? words[result] : "unknown result code";
}

/* Of the process, whichever communicator is named. */
EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char copy[sizeof last_error];

    (void)comm;
    pthread_mutex_lock(&words_lock);
    memcpy(copy, last_error, sizeof copy);
    pthread_mutex_unlock(&words_lock);
    return copy;
}
