/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the engine. A process has one MPI: Open MPI makes its symbols global as it starts, and
 * two would share names. So what is loaded already wins over the launcher, and TUTTI_MPI may name
 * another one only where none is loaded.
 *
 * MPICH is two families, by its own ABI and by the standard's, and any MPICH's launcher starts either.
 */
#include "choose.h"

#include "abi_library.h"
#include "caller.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { OPENMPI, MPICH, ABI, FAMILIES };
enum { PATH_BYTES = 4096 };

static const struct family {
    const char *name;         /* as in TUTTI_MPI, and of the engine's file */
    const char *words;        /* to users */
    const char *libraries[3]; /* by which its presence in a process shows */
    const char *variables[3]; /* that its launchers set, and no other's */
} families[FAMILIES] = {
    [OPENMPI] = {"openmpi",
                 "Open MPI",
                 {"libmpi.so.40", "libmpi.so.80"},
                 {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}},
    [MPICH] = {"mpich", "MPICH", {"libmpich.so.12", "libmpi.so.12"}, {"PMI_RANK", "PMI_FD"}},
    [ABI] = {"abi", "an MPI with the standard ABI", {ABI_LIBRARY}, {NULL}},
};

/* The library of the family that this process has; NULL: none. */
static const char *loaded_library(const struct family *family)
{
    for (int i = 0; family->libraries[i]; i++) {
        void *handle = dlopen(family->libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

        if (handle) {
            dlclose(handle);
            return family->libraries[i];
        }
    }
    return NULL;
}

static const char *launched_by(const struct family *family)
{
    for (int i = 0; family->variables[i]; i++) {
        const char *value = getenv(family->variables[i]);

        if (value && *value)
            return family->variables[i];
    }
    return NULL;
}

int32_t choose_is_launched(void)
{
    for (int i = 0; i < FAMILIES; i++)
        if (launched_by(&families[i]))
            return 1;
    return 0;
}

static tutti_status by_variable(const struct caller *c, const char *name,
                                const struct family **ret_family)
{
    for (int i = 0; i < FAMILIES; i++)
        if (!strcmp(families[i].name, name))
            *ret_family = &families[i];
    if (!*ret_family)
        return refuse(c, TUTTI_ERR_INVALID_ARGUMENT,
                      "TUTTI_MPI=%.64s is not valid: use openmpi, mpich or abi", name);
    for (int i = 0; i < FAMILIES; i++) {
        const char *library = loaded_library(&families[i]);

        if (&families[i] != *ret_family && library)
            return refuse(
                c, TUTTI_ERR_INVALID_ARGUMENT,
                "TUTTI_MPI=%s, but this process has %s loaded already (%s), and a process "
                "has one MPI; unset TUTTI_MPI, or link the program with %s",
                name, families[i].words, library, (*ret_family)->words);
    }
    return TUTTI_OK;
}

/* The one family for which `shows` has an answer; NULL: none. */
static tutti_status the_only(const struct caller *c, const char *what,
                             const char *(*shows)(const struct family *),
                             const struct family **ret_family)
{
    const char *first = NULL;

    for (int i = 0; i < FAMILIES; i++) {
        const char *sign = shows(&families[i]);

        if (!sign)
            continue;
        if (first)
            return refuse(
                c, TUTTI_ERR_INVALID_ARGUMENT,
                "%s: %s shows %s, and %s shows %s; set TUTTI_MPI to one of openmpi, mpich and abi",
                what, first, (*ret_family)->words, sign, families[i].words);
        first = sign;
        *ret_family = &families[i];
    }
    return TUTTI_OK;
}

/* Engines lie beside this file. False: the path is too long. */
static bool engine_path(const struct family *family, char ret_path[PATH_BYTES])
{
    Dl_info here;
    const char *end = dladdr(families, &here) ? strrchr(here.dli_fname, '/') : NULL;
    const int folder = end ? (int)(end + 1 - here.dli_fname) : 0;
    int bytes =
        snprintf(ret_path, PATH_BYTES, "%.*stutti-mpi-%s.so", folder, end ? here.dli_fname : "",
                 family->name); /* NOLINT: without a family refuse() has returned an error */

    return bytes > 0 && bytes < PATH_BYTES;
}

static bool is_built(const struct family *family)
{
    char path[PATH_BYTES];

    return engine_path(family, path) && access(path, R_OK) == 0;
}

/* Whether the family's engine opens, for which its library must be installed. Leaves nothing open, or the
 * process would have this MPI and no other; except for the standard ABI's, which is one of last resort. */
static bool is_here(const struct family *family)
{
    char path[PATH_BYTES];

    if (!is_built(family) || (family == &families[ABI] && !abi_library_is_there()))
        return false;
    void *handle = engine_path(family, path) ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (handle)
        dlclose(handle);
    return handle;
}

static tutti_status not_launched(const struct caller *c)
{
    for (int i = 0; i < FAMILIES; i++)
        if (is_here(&families[i]))
            return refuse(
                c, TUTTI_ERR_INVALID_ARGUMENT,
                "no MPI launcher started this process (neither OMPI_COMM_WORLD_SIZE nor PMI_RANK "
                "is set); start the program with `tutti run -n 4 --backend mpi PROGRAM`, "
                "`mpirun.openmpi -n 4 PROGRAM` or `mpirun.mpich -n 4 PROGRAM`");
    return refuse(c, TUTTI_ERR_PLUGIN,
                  "no MPI that this plugin was built for is installed: apt-get install openmpi-bin "
                  "(or mpich), or `pip install mpich` for an MPI with the standard ABI");
}

/* An MPI learns from the environment which files it opens, files of code among them. A set-id program
 * that has loaded its MPI itself has taken that on. */
static tutti_status refuse_callers_files(const struct caller *c)
{
    if (!getauxval(AT_SECURE))
        return TUTTI_OK;
    for (int i = 0; i < FAMILIES; i++)
        if (loaded_library(&families[i]))
            return TUTTI_OK;
    return refuse(c, TUTTI_ERR_UNSUPPORTED,
                  "a set-id program does not load an MPI, which would open the files, also of "
                  "code, that its caller's environment names; use another backend, or link the "
                  "program with its MPI");
}

static tutti_status choose(const struct caller *c, const struct family **ret_family)
{
    const char *variable = c->host->config(c->host_self, "");

    *ret_family = NULL;
    if (variable && *variable)
        return by_variable(c, variable, ret_family);
    tutti_status status =
        the_only(c, "two MPIs are loaded in this process", loaded_library, ret_family);
    if (status || *ret_family)
        return status;
    status = the_only(c, "two MPI launchers started this process", launched_by, ret_family);
    if (!status && !*ret_family)
        status = not_launched(c);
    if (*ret_family == &families[MPICH] &&
        (abi_library_is_launchers() || (!is_built(&families[MPICH]) && abi_library_is_there())))
        *ret_family = &families[ABI];
    return status;
}

static tutti_status open_engine(const struct caller *c, const struct family *family,
                                const struct mpi_engine **ret_engine)
{
    char path[PATH_BYTES];
    tutti_status status = family == &families[ABI] ? abi_library_open(c) : TUTTI_OK;

    if (status)
        return status;
    if (!engine_path(family, path))
        return refuse(c, TUTTI_ERR_PLUGIN, "the path of the engine for %s is too long",
                      family->words);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *words = dlerror();

        return refuse(c, TUTTI_ERR_PLUGIN,
                      "the engine for %s cannot be opened: %.400s; it needs %s installed where "
                      "tutti was built and where it runs",
                      family->words, words ? words : "no reason given", family->words);
    }
    const struct mpi_engine *engine = dlsym(handle, MPI_ENGINE_SYMBOL);
    if (!engine || engine->struct_size != sizeof *engine)
        return refuse(
            c, TUTTI_ERR_PLUGIN,
            "%.400s is of another build of tutti than this plugin; install both from one build",
            path);
    *ret_engine = engine;
    return TUTTI_OK;
}

tutti_status choose_engine(const tutti_host *host, void *host_self,
                           const struct mpi_engine **ret_engine)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct mpi_engine *chosen;
    const struct caller c = {.host = host, .host_self = host_self};
    const struct family *family;
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&lock);
    if (!chosen) {
        status = refuse_callers_files(&c);
        if (!status)
            status = choose(&c, &family);
        if (!status)
            status = open_engine(&c, family, &chosen);
    }
    *ret_engine = chosen;
    pthread_mutex_unlock(&lock);
    return status;
}
