/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of the three loops: a few sums that make progress while the loop does other things. Only the
 * loops differ. Each waits for `fd`, and then calls job_look().
 */
#ifndef EVENT_LOOPS_JOB_H
#define EVENT_LOOPS_JOB_H

#include <stdbool.h>

#include <tutti/tutti.h>

enum { JOB_SUMS = 3 };

struct job {
    tutti_group *world;
    int fd; /* tutti's, readable when a work may be complete; not to be read or closed */
    tutti_work *works[JOB_SUMS];
    double sums[JOB_SUMS];
    int64_t shapes[JOB_SUMS];
    int ticks; /* what else the loop did meanwhile */
};

void job_start(struct job *job);
/* To be called when `fd` is readable. True: everything is complete. */
bool job_look(struct job *job);
/* Prints what came out, and leaves. */
void job_end(struct job *job);

#endif
