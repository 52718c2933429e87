/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job: serves the store, starts the ranks, watches them, ends them, reports.
 *
 *   RUNNING  until the last rank has exited, or one has failed, or a signal came
 *   WAITING  when one has failed: the others may end by themselves for a while, and mostly do
 *   ENDING   SIGTERM to what is left, SIGKILL after the grace, until this process has no child
 *   PRINTING until everything that was printed is out, the report last
 *
 * The job ends in ENDING in any case: what ranks that exited with 0 left running is ended too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LAUNCHER_MAX_RANKS = 4096 };

struct launch_options {
    int ranks;
    double wait_s;       /* from the first failure to SIGTERM, for ranks that end by themselves */
    double grace_s;      /* from SIGTERM to SIGKILL */
    double stopped_s;    /* for ranks that are stopped when all others have ended */
    const char *backend; /* NULL: as the environment says */
    const char *mpi;     /* the MPI whose job the ranks shall be (mpirun.h); NULL: none */
    const char *log_dir; /* NULL: no files */
    bool console;        /* print what the ranks print */
    bool is_verb;  /* the program is one of ours: the lines of rank 0 have no number in front, and a
                          * rank that exits with another code than 0 has said why */
    char *program; /* the file to execute */
    char **argv;   /* its arguments */
};

/* One rank, as the launcher has seen it. */
struct rank {
    int index;
    pid_t pid;
    struct rank_record *record; /* what it said of its end (records.h); NULL: nothing */
    int pidfd;                  /* -1: none, its exit is found by waitid() alone */
    bool exited;                /* and was reaped: `pid` means nothing any more */
    bool untold;                /* exited with 0, which the others have not been told */
    bool terminated, killed;    /* which signals it had got from us when it exited */
    bool stopped;               /* when it got the first of these (SIGSTOP of somebody else) */
    int wait_status;
    int exit_order; /* 1 for the first */
};

/* Runs the job; returns the exit code of `tutti run`. `guard_fd`: see guard_run(). */
int launcher_run(const struct launch_options *options, int guard_fd);
