/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens NCCL, once for the process and for good: the file that TUTTI_NCCL names, else the libnccl.so.2 that
 * the process has already, since a framework brings one of its own, else the one that the dynamic linker finds.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#include "conf.h"

#define SONAME "libnccl.so.2"
#define INSTALL                                                                                    \
    "install NCCL 2.18 or later (pip install nvidia-nccl-cu12, or the package libnccl2 of "        \
    "NVIDIA), "                                                                                    \
    "or set TUTTI_NCCL to the path of a " SONAME

enum { OLDEST = 21800 };

static tutti_status check_variable(const struct caller *c, const char *wanted)
{
    if (getauxval(AT_SECURE))
        return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                    "a set-id program does not load NCCL, which would open the plugins that its "
                    "caller's environment names; use another backend");
    if (*wanted && !strchr(wanted, '/'))
        return fail(c, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "TUTTI_NCCL=%.200s is not valid: use the path of a " SONAME, wanted);
    return TUTTI_OK;
}

static tutti_status open_file(const struct caller *c, const char *wanted, void **ret_handle)
{
    void *handle = *wanted ? NULL : dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    const char *reason;

    if (!handle)
        handle = dlopen(*wanted ? wanted : SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
        *ret_handle = handle;
        return TUTTI_OK;
    }
    reason = dlerror();
    return fail(c, TUTTI_ERR_PLUGIN, 0, "%s%.250s cannot be opened: %.250s; " INSTALL,
                *wanted ? "TUTTI_NCCL=" : "", *wanted ? wanted : SONAME,
                reason ? reason : "no reason given");
}

/* Its name in the library's table, for a message; NULL: all are there. */
static const char *find_functions(void *handle, struct nccl_library *library)
{
    const char *missing = NULL;
    void *address;

#define FIND(result, name, parameters)                                                             \
    address = dlsym(handle, #name);                                                                \
    memcpy(&library->name, &address, sizeof address);                                              \
    missing = missing || address ? missing : #name;
    NCCL_FUNCTIONS(FIND)
#undef FIND
    return missing;
}

static void find_memory_functions(void *handle, struct nccl_library *library)
{
    bool has_all = true;
    void *address;

#define FIND(result, name, parameters)                                                             \
    address = dlsym(handle, #name);                                                                \
    memcpy(&library->name, &address, sizeof address);                                              \
    has_all = has_all && address;
    NCCL_MEMORY_FUNCTIONS(FIND)
#undef FIND
    if (!has_all)
        library->ncclMemAlloc = NULL;
}

/* Since 2.9 a minor has two digits of the code. */
static void split_version(struct nccl_library *library)
{
    const unsigned code = (unsigned)library->code, of_minor = code >= 10000 ? 10000 : 1000;

    library->major = code / of_minor;
    library->minor = code % of_minor / 100;
    library->patch = code % 100;
}

static tutti_status open_once(const struct caller *c, struct nccl_library *library)
{
    const char *variable = c->host->config(c->self, ""), *wanted = variable ? variable : "";
    const char *missing;
    void *handle = NULL;
    Dl_info where;

    tutti_status status = check_variable(c, wanted);
    if (!status)
        status = open_file(c, wanted, &handle);
    if (status)
        return status;
    missing = find_functions(handle, library);
    find_memory_functions(handle, library);
    if (!library->ncclGetVersion || library->ncclGetVersion(&library->code))
        library->code = 0;
    split_version(library);
    if (!library->ncclGetVersion || !dladdr((void *)(uintptr_t)library->ncclGetVersion, &where) ||
        !where.dli_fname)
        where.dli_fname = *wanted ? wanted : SONAME;
    snprintf(library->path, sizeof library->path, "%s", where.dli_fname);
    if (library->code < OLDEST || missing)
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "%.300s is NCCL %u.%u.%u%s%s, and 2.18 or later is needed; " INSTALL,
                    library->path, library->major, library->minor, library->patch,
                    missing ? " without " : "", missing ? missing : "");
    conf_read(library->code);
    return TUTTI_OK;
}

tutti_status library_open(const struct caller *caller, const struct nccl_library **ret_library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct nccl_library library;
    static bool is_open; /* atomic: each call of a group asks */
    tutti_status status = TUTTI_OK;

    if (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&lock);
        if (!is_open)
            status = open_once(caller, &library);
        __atomic_store_n(&is_open, !status, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&lock);
    }
    if (!status)
        *ret_library = &library;
    return status;
}
