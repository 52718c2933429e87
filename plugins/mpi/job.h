/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's place in its MPI job: one for all endpoints, from the first one's opening until the
 * process ends.
 *
 * The code that initialised MPI finalizes it. When that is this plugin, it happens as the process
 * exits, and only after a clean end: MPI_Finalize waits for all processes, so after a failure the
 * process leaves without it.
 */
#pragma once

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

#include <tutti/plugin_engine.h>

#include "caller.h"

struct job {
    int rank, size;       /* in MPI_COMM_WORLD */
    int numbers;          /* endpoints that a process may have at a time */
    int meetings;         /* groups that it may make at a time */
    bool serialize;       /* MPI allows one thread at a time: job_lock() does something */
    bool callers_only;    /* and the program keeps its own threads apart: none of ours calls MPI */
    bool one_thread;      /* only `home` may call MPI */
    bool programs_errors; /* errors_test() is to be asked for collectives */
    pthread_t home;
    /* Copies of MPI_COMM_WORLD; ours once job_ready(). Communicators of groups are made from the second. */
    MPI_Comm messages, forming;
    char version[24]; /* "Open MPI 4.1.4", of the library that runs */
};

/* Joins the job: initialises MPI unless the program has, and waits for that until the deadline (0: for
 * ever) unless every process of the job comes as far. */
tutti_status job_join(const tutti_host *host, void *host_self, int64_t deadline_ns,
                      const struct job **ret_job);

/* Which threads may call the engine: TUTTI_THREADS_…, once the job is joined. */
uint32_t job_threads(void);

/* TUTTI_MPI_BLOCKING=1: collectives take MPI's blocking forms. */
bool job_blocks(const tutti_host *host, void *host_self);

/* Whether the program has initialised MPI for another thread alone, so that this one may not call it. */
static inline bool job_is_foreign(const struct job *job)
{
    return job->one_thread && !pthread_equal(job->home, pthread_self());
}
/* Whether the program has finalized MPI, which ends the process that calls it then. A few ns. */
static inline bool job_is_over(void)
{
    int ended = 0;

    MPI_Finalized(&ended);
    return ended;
}
/* UNSUPPORTED or PLUGIN, with a message, where this thread may not call MPI, or no thread may any
 * more. */
tutti_status job_refuse_call(const struct caller *c, const struct job *job);
static inline tutti_status job_check_call(const struct caller *c, const struct job *job)
{
    return job_is_foreign(job) || job_is_over() ? job_refuse_call(c, job) : TUTTI_OK;
}
/* The same for a function that cannot return an error and then does nothing: warned of once. */
void job_warn_of_call(const struct caller *c, const struct job *job);
static inline bool job_is_barred(const struct caller *c, const struct job *job)
{
    const bool barred = job_is_foreign(job) || job_is_over();

    if (barred)
        job_warn_of_call(c, job);
    return barred;
}

/* A number for an endpoint, and giving it back. The last of them, numbers - 1, is nobody's. */
tutti_status job_take_number(const tutti_host *host, void *host_self, int *ret_number);
void job_give_number(int number);

/* The same for a group that is made; other members' processes may have the same. */
tutti_status job_take_meeting(const tutti_host *host, void *host_self, int *ret_number);
void job_give_meeting(int number);
/* The tag of messages about a group that is made, to whom it has that number. Tags in which the last
 * number stands first are no endpoint's. */
static inline int job_meeting_tag(const struct job *job, int number)
{
    return (job->numbers - 1) * job->numbers + number;
}

/* MPI's name and version, which can be asked for before it is started. */
void job_version(tutti_engine_version *ret_version);

/* The process exits; `clean` as in tutti_plugin.leave. */
void job_leave(int32_t clean);

/* A group has failed: warns once a program that has to finalize MPI itself. */
void job_warn_of_finalize(const struct caller *c);

/* Whether the copies can be used. Asks MPI, which must not be locked. */
bool job_ready(void);
/* Waits until it can be. */
void job_await(void);

/* Around all calls of MPI. */
void job_lock(void);
void job_unlock(void);

/* The core's status for an error code of an operation: PEER_LOST for codes that may come of a
 * death, as most do; INTERNAL for a message that is too long. */
tutti_status job_status(int code);
/* MPI's message for an error code. */
const char *job_words(int code, char ret_words[MPI_MAX_ERROR_STRING]);
