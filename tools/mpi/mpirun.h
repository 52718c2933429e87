/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launchers of MPIs, which make processes a job: which of them are installed, and how each is
 * called. What they start, and why, is pmi_proxy.h's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mpirun {
    const char *family; /* the value of TUTTI_MPI */
    const char *programs[3], *package;
    const char *arguments[9];
    const char
        *mark; /* what ranks have in their environment that the launcher does not tell; or NULL */
};

/* The MPI that `backend` (TUTTI_BACKEND's value; may be NULL) asks a launcher for: that of `chosen`
 * (TUTTI_MPI's value; may be NULL or ""), else the first whose launcher is installed. NULL: the
 * backend is not mpi. "": there is no launcher. */
const char *mpirun_family(const char *backend, const char *chosen);

/* Whether the launcher of `family` is installed. */
bool mpirun_is_there(const char *family);

/* NULL, with a message for the user: there is no such family, or its launcher is not in PATH. */
const struct mpirun *mpirun_find(const char *family, char *ret_words, size_t size);

/* Starts `count` processes of `program`, its path and its arguments up to a NULL, in a session of the
 * launcher's own. What it prints goes to `output`. It dies with the thread that called. Returns its
 * process, or -1 and errno. */
pid_t mpirun_start(const struct mpirun *mpirun, int count, const char *const *program, int output);
