/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wheels and other prefixes keep the library where the dynamic linker does not look, but beside the
 * launcher: PREFIX/bin/mpiexec and PREFIX/lib/libmpi_abi.so.1. Neither the environment nor the processes
 * above decide what a set-id program opens.
 */
#include "abi_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, ANCESTORS_MAX = 16 };

/* PREFIX/lib/libmpi_abi.so.1 of PREFIX/bin/PROGRAM. False: it is not there. */
static bool beside(const char *program, char ret_path[PATH_BYTES])
{
    const char *name = strrchr(program, '/');
    const int folder = name ? (int)(name - program) : 0;
    int bytes = snprintf(ret_path, PATH_BYTES, "%.*s/../lib/" ABI_LIBRARY, folder, program);

    return name && bytes < PATH_BYTES && access(ret_path, R_OK) == 0;
}

/* 0: it cannot be told. */
static pid_t parent_of(pid_t pid)
{
    char path[64], stat[512] = "";
    int parent = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t bytes = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    stat[bytes] = 0;
    const char *end = strrchr(stat, ')'); /* of the program's name, which may hold anything */
    return end && sscanf(end, ") %*c %d", &parent) == 1 && parent > 1 ? (pid_t)parent : 0;
}

/* MPICH's processes that start ranks: mpiexec's proxy on each host, or mpiexec itself. */
static bool is_launcher(const char *program)
{
    const char *name = strrchr(program, '/');

    return name && (!strcmp(name, "/hydra_pmi_proxy") || !strcmp(name, "/mpiexec.hydra") ||
                    !strcmp(name, "/mpiexec") || !strcmp(name, "/mpiexec.gforker"));
}

static bool beside_launcher(char ret_path[PATH_BYTES])
{
    char link[64], program[PATH_BYTES];
    pid_t pid = getppid();

    for (int i = 0; i < ANCESTORS_MAX && pid && !getauxval(AT_SECURE); i++, pid = parent_of(pid)) {
        snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
        ssize_t bytes = readlink(link, program, sizeof program - 1);
        if (bytes < 0)
            continue;
        program[bytes] = 0;
        if (is_launcher(program))
            return beside(program, ret_path);
    }
    return false;
}

static bool beside_mpiexec(char ret_path[PATH_BYTES])
{
    char program[PATH_BYTES], target[PATH_BYTES];
    const char *at = secure_getenv("PATH");

    while (at && *at) {
        const size_t length = strcspn(at, ":");
        const int bytes = snprintf(program, sizeof program, "%.*s/mpiexec", (int)length, at);

        if (length && bytes < PATH_BYTES && realpath(program, target) && beside(target, ret_path))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* NULL: there is none ("" in ret_path), or the one at ret_path cannot be opened. */
static void *open_first(char ret_path[PATH_BYTES])
{
    void *handle = dlopen(ABI_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!handle && (beside_launcher(ret_path) || beside_mpiexec(ret_path)))
        return dlopen(ret_path, RTLD_NOW | RTLD_LOCAL);
    *ret_path = 0;
    return handle;
}

tutti_status abi_library_open(const struct caller *c)
{
    char path[PATH_BYTES];

    if (open_first(path))
        return TUTTI_OK;
    const char *words = dlerror();
    if (*path)
        return refuse(c, TUTTI_ERR_PLUGIN, "an MPI with the standard ABI cannot be opened: %.400s",
                      words ? words : path);
    return refuse(c, TUTTI_ERR_PLUGIN,
                  "there is no " ABI_LIBRARY ", neither where the dynamic linker looks nor in "
                  "../lib of an mpiexec in PATH; install an MPI with the standard ABI (`pip "
                  "install mpich`) and put its bin into PATH, or its lib into LD_LIBRARY_PATH");
}

bool abi_library_is_there(void)
{
    char path[PATH_BYTES];

    return open_first(path);
}

bool abi_library_is_launchers(void)
{
    char path[PATH_BYTES];

    return beside_launcher(path);
}
