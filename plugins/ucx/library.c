/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens UCX, once for the process and for good.
 *
 * Which: the file that TUTTI_UCX names, else the one that the process has (Debian's MPICH brings one), else
 * libucp.so.0 as the dynamic linker finds it. Two copies in one process share names and memory hooks, so a
 * second one is refused.
 *
 * UCX reads its settings for the whole process from the environment while it is loaded. It would then
 * rewrite the code of mmap() and munmap() in libc and take signals. So the environment has, just then, three
 * variables more, each unless the user has set it (environment.c).
 *
 * A process keeps the UCX that it has opened: UCX's destructors run as the process exits.
 */
#include "library.h"

#include "../common/environment.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define SONAME "libucp.so.0"
#define INSTALL                                                                                    \
    "apt-get install libucx0, or set TUTTI_UCX to the libucp.so.0 of another place (such as that " \
    "of `pip install libucx-cu12`)"

/* ---- what the process has ---- */

static tutti_status find_loaded(const struct caller *c, char ret_path[LOADED_PATH_BYTES])
{
    struct loaded_copies copies;

    loaded_find("libucp", &copies);
    if (*copies.second)
        return fail(c, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "this process has two copies of UCX already, %.300s and %.300s, and tutti "
                    "cannot tell which one works; load one only",
                    copies.first, copies.second);
    memcpy(ret_path, copies.first, sizeof copies.first);
    return TUTTI_OK;
}

static tutti_status check_variable(const struct caller *c, const char *wanted, const char *loaded)
{
    if (!*wanted)
        return TUTTI_OK;
    if (!strchr(wanted, '/'))
        return fail(c, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "TUTTI_UCX=%.200s is not valid: use the path of a " SONAME, wanted);
    if (*loaded && !loaded_is_same_file(wanted, loaded))
        return fail(c, TUTTI_ERR_INVALID_ARGUMENT, 0,
                    "TUTTI_UCX=%.300s, but this process has %.300s loaded already, and a process "
                    "has one UCX; unset TUTTI_UCX, or set it to that file",
                    wanted, loaded);
    return TUTTI_OK;
}

/* UCX reads from the environment which files it writes and which code it opens. A set-id program that
 * has loaded UCX itself has taken that on. */
static tutti_status refuse_callers_files(const struct caller *c, const char *loaded)
{
    if (!getauxval(AT_SECURE) || *loaded)
        return TUTTI_OK;
    return fail(c, TUTTI_ERR_UNSUPPORTED, 0,
                "a set-id program does not load UCX, which would open the files, also of code, "
                "that its caller's environment names; use another backend, or link the program "
                "with UCX");
}

/* ---- loading ---- */

/* A wheel's files do not say where those beside them are. They are opened first, each after what it needs. */
static void open_parts_beside(const char *path)
{
    static const char *const parts[] = {"libucm.so.0", "libucs.so.0", "libuct.so.0"};
    const char *slash = strrchr(path, '/');
    char part[LOADED_PATH_BYTES];

    for (size_t i = 0; slash && i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(part, sizeof part, "%.*s/%s", (int)(slash - path), path, parts[i]);
        if (access(part, R_OK) == 0)
            (void)dlopen(part, RTLD_NOW | RTLD_LOCAL);
    }
}

static void *open_file(const char *path, char ret_words[400])
{
    struct environment environment;
    const bool changed = environment_lend(&environment);

    open_parts_beside(path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *words = handle ? NULL : dlerror();

    snprintf(ret_words, 400, "%s", words ? words : "");
    if (changed)
        environment_take_back(&environment);
    return handle;
}

static tutti_status open_library(const struct caller *c, const char *wanted, const char *loaded,
                                 void **ret_handle)
{
    char words[400] = "";

    *ret_handle = *loaded ? dlopen(loaded, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)
                          : open_file(*wanted ? wanted : SONAME, words);
    if (*ret_handle)
        return TUTTI_OK;
    if (*loaded)
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "%.300s is loaded in this process and cannot be opened again", loaded);
    if (*wanted)
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "TUTTI_UCX=%.200s cannot be opened: %.300s; set it to the path of a "
                    "libucp.so.0, or unset it to use the installed one",
                    wanted, words);
    return fail(c, TUTTI_ERR_PLUGIN, 0, "UCX cannot be opened: %.300s; " INSTALL, words);
}

/* The file that has `function`. */
static const char *file_of(void *function)
{
    Dl_info where;

    return function && dladdr(function, &where) && where.dli_fname ? where.dli_fname : "";
}

static tutti_status find_functions(const struct caller *c, void *handle,
                                   struct ucx_library *library)
{
    const char *missing = NULL;

#define FIND(function)                                                                             \
    {                                                                                              \
        void *address = dlsym(handle, #function);                                                  \
                                                                                                   \
        memcpy(&library->function, &address, sizeof address);                                      \
    }
#define NEED(function) FIND(function) if (!library->function) missing = #function;
#define WANT(function) FIND(function) library->has_uct = library->has_uct && library->function;
    UCX_VERSION_FUNCTIONS(NEED)
    UCX_FUNCTIONS(NEED)
    UCX_OPTIONAL_FUNCTIONS(FIND)
    library->has_uct = true;
    UCX_DEVICE_FUNCTIONS(WANT)
#undef NEED
#undef WANT
#undef FIND
    if (missing)
        return fail(c, TUTTI_ERR_PLUGIN, 0,
                    "%.300s has no %s(): UCX 1.13 or later is needed; " INSTALL, library->path,
                    missing);
    return TUTTI_OK;
}

/* A file named by its path may get the other libraries of UCX from another installation. */
static tutti_status check_parts(const struct caller *c, const struct ucx_library *library,
                                void *ucs_function)
{
    char own[PATH_MAX] = "", other[PATH_MAX] = "";
    const char *part = file_of(ucs_function);

    if (!realpath(library->path, own) || !realpath(part, other) || !strrchr(own, '/') ||
        !strrchr(other, '/'))
        return TUTTI_OK;
    *strrchr(own, '/') = *strrchr(other, '/') = 0;
    if (!strcmp(own, other))
        return TUTTI_OK;
    return fail(c, TUTTI_ERR_PLUGIN, 0,
                "%.250s has got %.250s of another installation of UCX; put the folder of the "
                "first into LD_LIBRARY_PATH",
                library->path, part);
}

static tutti_status fill(const struct caller *c, void *handle, struct ucx_library *library)
{
    void *version = dlsym(handle, "ucp_get_version"), *ucs = dlsym(handle, "ucs_status_string");

    if (version)
        snprintf(library->path, sizeof library->path, "%s", file_of(version));
    tutti_status status = find_functions(c, handle, library);
    if (!status)
        status = check_parts(c, library, ucs);
    if (status)
        return status;
    library->ucp_get_version(&library->major, &library->minor, &library->patch);
    snprintf(library->version, sizeof library->version, "%u.%u.%u", library->major, library->minor,
             library->patch);
    if (library->major == UCP_API_MAJOR && library->minor >= UCP_API_MINOR)
        return TUTTI_OK;
    return fail(c, TUTTI_ERR_PLUGIN, 0,
                "%.300s is UCX %s, and this plugin was built with the headers of UCX %d.%d: it "
                "needs %d.%d or a later %d.x",
                library->path, library->version, UCP_API_MAJOR, UCP_API_MINOR, UCP_API_MAJOR,
                UCP_API_MINOR, UCP_API_MAJOR);
}

static tutti_status open_once(const struct caller *c, struct ucx_library *library)
{
    const char *variable = c->host->config(c->self, ""), *wanted = variable ? variable : "";
    char loaded[LOADED_PATH_BYTES] = "";
    void *handle = NULL;
    tutti_status status = find_loaded(c, loaded);

    if (!status)
        status = refuse_callers_files(c, loaded);
    if (!status)
        status = check_variable(c, wanted, loaded);
    if (!status)
        status = open_library(c, wanted, loaded, &handle);
    library->handle = handle;
    snprintf(library->path, sizeof library->path, "%s",
             *loaded   ? loaded
             : *wanted ? wanted
                       : SONAME);
    return status ? status : fill(c, handle, library);
}

tutti_status library_open(const struct caller *caller, const struct ucx_library **ret_library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ucx_library library;
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
