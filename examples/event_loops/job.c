/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

void job_start(struct job *job)
{
    must(tutti_init(NULL, &job->world));
    must(tutti_context_fd(NULL, &job->fd)); /* before the first operation */
    if (tutti_group_rank(job->world) == 0)
        usleep(100000); /* the others are to wait, each in its loop */
    for (int i = 0; i < JOB_SUMS; i++) {
        job->sums[i] = i + 1;
        tutti_tensor tensor = tutti_tensor_1d(&job->sums[i], TUTTI_F64, &job->shapes[i], 1);
        must(tutti_all_reduce(job->world, &tensor, TUTTI_SUM, NULL, &job->works[i]));
        must(tutti_work_watch(job->works[i]));
    }
}

bool job_look(struct job *job)
{
    int left = 0;

    must(tutti_dispatch(NULL)); /* before the works are looked at: it empties the descriptor */
    for (int i = 0; i < JOB_SUMS; i++) {
        int32_t done = 1;

        if (job->works[i])
            must(tutti_work_test(job->works[i], &done));
        left += !done;
        if (done) {
            tutti_work_free(job->works[i]);
            job->works[i] = NULL;
        }
    }
    return left == 0;
}

void job_end(struct job *job)
{
    printf("rank %d: %g %g %g after %s\n", tutti_group_rank(job->world), job->sums[0], job->sums[1],
           job->sums[2], job->ticks ? "some ticks" : "no tick");
    must(tutti_group_destroy(job->world));
}
