/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity from MPI: rank and size of MPI_COMM_WORLD, whatever its launcher's variables are called.
 * Text of rank 0 goes to all by non-blocking broadcasts over the communicator for messages, so that
 * the wait for it has a deadline.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine_inside.h"
#include "job.h"

struct tutti_bootstrap {
    const tutti_host *host;
    void *host_self;
    const struct job *job;
};

static tutti_status broadcast_failed(const tutti_bootstrap *b, int code)
{
    char reason[MPI_MAX_ERROR_STRING], message[512];

    snprintf(message, sizeof message, "MPI_Ibcast failed: %.400s", job_words(code, reason));
    return b->host->error(b->host_self, TUTTI_ERR_PLUGIN, 0, message);
}

/* Until `done` says so; a copy of MPI's request stays with MPI when the time is over. */
static tutti_status await(tutti_bootstrap *b, MPI_Request *request, int64_t deadline_ns)
{
    int done = 0;

    for (;;) {
        if (job_ready() && !request)
            return TUTTI_OK;
        if (request) {
            job_lock();
            int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
            job_unlock();
            if (code != MPI_SUCCESS)
                return broadcast_failed(b, code);
        }
        if (done)
            return TUTTI_OK;
        if (b->host->now_ns(b->host_self) > deadline_ns)
            return b->host->error(b->host_self, TUTTI_ERR_TIMEOUT, 0,
                                  "timed out waiting for the other processes of the MPI job: have "
                                  "all of them called tutti_init()?");
        sched_yield();
    }
}

static tutti_status broadcast(tutti_bootstrap *b, void *bytes, uint64_t count, int64_t deadline_ns)
{
    /* MPI writes to what it was given even after the time is over. */
    static char words[1024];
    MPI_Request request;
    tutti_status status = await(b, NULL, deadline_ns);

    if (status)
        return status;
    if (count > sizeof words)
        return b->host->error(b->host_self, TUTTI_ERR_INTERNAL, 0, "at most 1 KiB is broadcast");
    memcpy(words, bytes, count);
    job_lock();
    int code = MPI_Ibcast(words, (int)count, MPI_UINT8_T, 0, b->job->messages, &request);
    job_unlock();
    if (code != MPI_SUCCESS)
        return broadcast_failed(b, code);
    status = await(b, &request, deadline_ns);
    if (!status)
        memcpy(bytes, words, count);
    return status;
}

/* The number in the first of these variables that is set; -1: none is set. */
static int32_t number_of(const char *first, const char *second)
{
    const char *value = getenv(first);

    if (!value)
        value = getenv(second);
    return value ? (int32_t)strtol(value, NULL, 10) : -1;
}

/* The same for all processes of the job, and another for each job: rank 0 draws it. */
static tutti_status name_job(tutti_bootstrap *b, int64_t deadline_ns, char *ret_job, size_t size)
{
    uint64_t drawn[2] = {0};

    if (b->job->rank == 0 && getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return b->host->error(b->host_self, TUTTI_ERR_SYSTEM, 0, "no random numbers");
    tutti_status status = broadcast(b, drawn, sizeof drawn, deadline_ns);
    snprintf(ret_job, size, "mpi-%016llx%016llx", (unsigned long long)drawn[0],
             (unsigned long long)drawn[1]);
    return status;
}

static void bootstrap_close(tutti_bootstrap *b)
{
    b->host->release(b->host_self, b);
}

static tutti_status bootstrap_open(const tutti_host *host, void *host_self, int64_t deadline_ns,
                                   tutti_identity *ret_identity, tutti_bootstrap **ret_bootstrap)
{
    tutti_bootstrap *b = host->allocate(host_self, sizeof *b);

    if (!b)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    *b = (tutti_bootstrap){.host = host, .host_self = host_self};
    tutti_status status = job_join(host, host_self, deadline_ns, &b->job);
    if (!status)
        status = name_job(b, deadline_ns, ret_identity->job, sizeof ret_identity->job);
    if (status) {
        bootstrap_close(b);
        return status;
    }
    ret_identity->rank = b->job->rank;
    ret_identity->size = b->job->size;
    ret_identity->local_rank = number_of("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID");
    ret_identity->local_size = number_of("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS");
    *ret_bootstrap = b;
    return TUTTI_OK;
}

const tutti_bootstrap_ops mpi_bootstrap_ops = {
    .struct_size = sizeof(tutti_bootstrap_ops),
    .open = bootstrap_open,
    .broadcast = broadcast,
    .close = bootstrap_close,
};
