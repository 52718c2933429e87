/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's place in its MPI job: one for all endpoints, from the first one's opening until the
 * process ends.
 *
 * Whoever initialised MPI finalizes it. When that is us, it happens as the process exits, and only
 * after a clean end: a finalize waits for everybody, so after a failure the process leaves without
 * one.
 */
#ifndef TUTTI_MPI_JOB_H
#define TUTTI_MPI_JOB_H

#include <mpi.h>
#include <stdbool.h>

#include <tutti/plugin_engine.h>

struct job {
    int rank, size;    /* in MPI_COMM_WORLD */
    int numbers;       /* endpoints that a process may have at a time */
    bool serialize;    /* MPI allows one thread at a time: job_lock() does something */
    MPI_Comm messages; /* a copy of MPI_COMM_WORLD; ours once job_ready() */
    char version[24];  /* "Open MPI 4.1.4", of the library that runs */
};

/* Joins the job: initialises MPI unless the program has, which returns once every process of the job
 * has come as far. */
tutti_status job_join(const tutti_host *host, void *host_self, const struct job **ret_job);

/* A number for an endpoint, and giving it back. */
tutti_status job_take_number(const tutti_host *host, void *host_self, int *ret_number);
void job_give_number(int number);

/* MPI's name and version, which can be asked for before it is started. */
void job_version(tutti_engine_version *ret_version);

/* The process exits; `clean` as in tutti_plugin.leave. */
void job_leave(int32_t clean);

/* Whether `messages` can be used. Asks MPI, which must not be locked. */
bool job_ready(void);
/* Waits until it can be. */
void job_await(void);

/* Around all calls of MPI. */
void job_lock(void);
void job_unlock(void);

/* What an error code of an operation is to the core: PEER_LOST for what may come of a death, which is
 * what most of them say when they say anything; INTERNAL for a message that is too long. */
tutti_status job_status(int code);
/* MPI's words for an error code. */
const char *job_words(int code, char ret_words[MPI_MAX_ERROR_STRING]);

#endif
