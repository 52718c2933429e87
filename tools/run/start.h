/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting one rank: its environment, its pipes, its process.
 *
 * The launcher has threads by then (the store's), so between fork and exec the child makes system
 * calls only; everything that allocates is done before.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The common settings of all ranks of a job. */
struct start_job {
    int ranks;
    const char *path;                      /* the file to execute */
    char *const *argv;                     /* its arguments */
    const char *run_id;                    /* unique to this launch */
    const char *secret;                    /* NULL: what the environment says */
    const struct records *records;         /* where they say why they end; NULL: nowhere */
    const char *backend;                   /* NULL: what the environment says */
    const struct pmi_proxies *pmi_proxies; /* whose places the ranks take; NULL: nobody's */
    uint16_t store_port;                   /* on 127.0.0.1 */
    sigset_t mask;                         /* the signal mask that the ranks get */
    struct rlimit files;                   /* the limit of descriptors that the ranks get */
};

struct start_result {
    pid_t pid;
    int out, err; /* reading ends */
};

/*
 * Starts a rank in a process group of its own. Rank 0 has our stdin, the others /dev/null. A child whose
 * exec fails writes its errno (an int) into `exec_errors` and exits. Returns 0, or the errno of
 * what failed here.
 */
int start_rank(const struct start_job *job, int rank, int exec_errors,
               struct start_result *ret_result);
