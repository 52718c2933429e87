/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens UCC, once for the process and for good: the file that TUTTI_UCC names, else libucc.so.1 as the dynamic
 * linker finds it.
 *
 * UCC brings UCX. That would rewrite code of libc and take signals while it is loaded, so the environment has
 * some variables more just then: ../common/environment.h. A process that has another UCX keeps that one, and a UCC
 * that does not fit it cannot be opened; then the message names both.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "../common/environment.h"
#include "../common/loaded.h"

#define SONAME "libucc.so.1"
#define INSTALL                                                                                    \
    "set TUTTI_UCC to the path of a " SONAME ", or install UCC (docs/engines.md, «Install UCC»)"

static tutti_status check_variable(const struct caller *c, const char *wanted)
{
    /* UCC and UCX open the files, also of code, that the environment names. */
    if (getauxval(AT_SECURE))
        return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                    "a set-id program does not load UCC, which would open the files, also of "
                    "code, that its caller's environment names; use another backend");
    if (*wanted && !strchr(wanted, '/'))
        return fail(c, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "TUTTI_UCC=%.200s is not valid: use the path of a " SONAME, wanted);
    return TUTTI_OK;
}

static tutti_status open_file(const struct caller *c, const char *wanted, void **ret_handle)
{
    struct environment environment;
    struct loaded_copies before;
    char ucx[400] = "";
    const char *path = *wanted ? wanted : SONAME;

    loaded_find("libucs", &before);
    const bool changed = environment_lend(&environment);
    *ret_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = *ret_handle ? NULL : dlerror();
    if (changed)
        environment_take_back(&environment);
    if (*ret_handle)
        return TUTTI_OK;
    if (*before.first)
        snprintf(
            ucx, sizeof ucx,
            "; this process has the UCX of %.250s already, and a process has one UCX: use a UCC "
            "that was built for it",
            before.first);
    return fail(c, TUTTI_ERR_PLUGIN, 0, "%s%.250s cannot be opened: %.250s%s; " INSTALL,
                *wanted ? "TUTTI_UCC=" : "", path, reason ? reason : "no reason given", ucx);
}

static tutti_status find_functions(const struct caller *c, struct ucc_library *library)
{
    const char *missing = NULL;

#define FIND(result, name, parameters)                                                             \
    {                                                                                              \
        void *address = dlsym(library->handle, "ucc_" #name);                                      \
                                                                                                   \
        memcpy(&library->name, &address, sizeof address);                                          \
    }
#define NEED(result, name, parameters)                                                             \
    FIND(result, name, parameters) missing = library->name ? missing : "ucc_" #name;
    UCCI_FUNCTIONS(NEED)
    UCCI_OPTIONAL_FUNCTIONS(FIND)
#undef NEED
#undef FIND
    return missing ? fail(c, TUTTI_ERR_PLUGIN, 0,
                          "%.300s has no %s(): UCC 1.3 or later is needed; " INSTALL, library->path,
                          missing)
                   : TUTTI_OK;
}

static void find_path(struct ucc_library *library, const char *wanted)
{
    void *function = dlsym(library->handle, "ucc_get_version");
    Dl_info where;

    if (!function || !dladdr(function, &where) || !where.dli_fname)
        where.dli_fname = *wanted ? wanted : SONAME;
    snprintf(library->path, sizeof library->path, "%s", where.dli_fname);
}

static tutti_status open_once(const struct caller *c, struct ucc_library *library)
{
    const char *variable = c->host->config(c->self, ""), *wanted = variable ? variable : "";
    tutti_status status = check_variable(c, wanted);

    if (!status)
        status = open_file(c, wanted, &library->handle);
    if (status)
        return status;
    find_path(library, wanted);
    status = find_functions(c, library);
    if (status)
        return status;
    library->get_version(&library->major, &library->minor, &library->release);
    if (library->major == UCCI_MAJOR)
        return TUTTI_OK;
    return fail(c, TUTTI_ERR_PLUGIN, 0,
                "%.300s is UCC %u.%u.%u, and this plugin knows %d.x; " INSTALL, library->path,
                library->major, library->minor, library->release, UCCI_MAJOR);
}

tutti_status library_open(const struct caller *caller, const struct ucc_library **ret_library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ucc_library library;
    static bool is_open;
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&lock);
    if (!is_open)
        status = open_once(caller, &library);
    is_open = is_open || !status;
    pthread_mutex_unlock(&lock);
    if (!status)
        *ret_library = &library;
    return status;
}
