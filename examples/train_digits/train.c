/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "progress.h"
#include "share.h"

/* The numbers that ranks add up at the end of an epoch. */
enum total { TRAIN_LOSS, HELD_OUT_RIGHT, COMM_SECONDS, SECONDS, BYTES_SENT, BYTES_MAPPED, TOTALS };

/* One run's working memory. */
struct work {
    uint32_t *order; /* the epoch's */
    float *image;
    struct progress progress; /* over the steps of all epochs */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Learns from this rank's share of one step; returns the sum of its losses. */
static double learn_share(const struct training *t, const struct work *work, uint32_t epoch,
                          uint32_t step)
{
    const struct share share =
        share_of_step(t->data->train_count, t->batch, step, t->comm->rank, t->comm->size);
    double loss = 0;

    net_clear_gradients(t->net);
    for (uint32_t at = share.first; at < share.end; at += share.stride) {
        const uint32_t index = work->order[at];

        data_image(t->data, index, work->image);
        loss += (double)net_learn(t->net, work->image, t->data->labels[index],
                                  random_for(t->seed, RANDOM_DROPOUT, epoch, index));
        if (t->shares)
            fprintf(t->shares, "%u %u %u\n", epoch, step, index);
    }
    return loss;
}

/* The mean over the step's images, however they were shared out: ranks sum, then all divide by the
 * number that all know. */
static bool train_epoch(const struct training *t, struct work *work, uint32_t epoch,
                        double *ret_loss, struct failure *why)
{
    const uint32_t count = t->data->train_count, steps = share_steps(count, t->batch);
    double loss = 0;
    bool ok = true;

    share_order(t->data->train, count, t->seed, epoch, work->order);
    for (uint32_t step = 0; ok && step < steps; step++) {
        loss += learn_share(t, work, epoch, step);
        ok = comm_sum_gradients(t->comm, t->net->gradients, t->net->count, why);
        if (ok)
            net_step(t->net, t->batch, share_batch(count, t->batch, step));
        progress_show(&work->progress, (uint64_t)epoch * steps + step + 1);
    }
    progress_clear(&work->progress);
    *ret_loss = loss;
    return ok;
}

/* How many of this rank's share of the held-out images the net gets right. */
static uint32_t count_right(const struct training *t, const struct work *work)
{
    uint32_t right = 0;
    float loss;

    for (uint32_t i = t->comm->rank; i < t->data->held_out_count; i += t->comm->size) {
        const uint32_t index = t->data->held_out[i];

        data_image(t->data, index, work->image);
        right += net_classify(t->net, work->image, t->data->labels[index], &loss) ==
                 t->data->labels[index];
    }
    return right;
}

static void print_epoch(const struct training *t, uint32_t epoch, const struct plot_point *point,
                        const double totals[static TOTALS])
{
    const double seconds = totals[SECONDS] / t->comm->size;

    printf("epoch %3u/%u  loss %.4f  held-out %6.2f %%  %8.0f images/s  communication %5.1f %%  "
           "sent %.2f MB\n",
           epoch + 1, t->epochs, point->loss, 100 * point->accuracy, t->data->train_count / seconds,
           100 * totals[COMM_SECONDS] / totals[SECONDS],
           1e-6 * (totals[BYTES_SENT] + totals[BYTES_MAPPED]));
    fflush(stdout);
}

static bool run_epoch(const struct training *t, struct work *work, uint32_t epoch,
                      struct plot_point *ret_point, struct failure *why)
{
    struct comm_traffic before, after;
    double totals[TOTALS], comm_before = t->comm->seconds, start = now();

    if (!comm_traffic(t->comm, &before, why) ||
        !train_epoch(t, work, epoch, &totals[TRAIN_LOSS], why) ||
        !comm_traffic(t->comm, &after, why))
        return false;
    totals[SECONDS] = now() - start;
    totals[COMM_SECONDS] = t->comm->seconds - comm_before;
    totals[BYTES_SENT] = (double)(after.sent - before.sent);
    totals[BYTES_MAPPED] = (double)(after.mapped - before.mapped);
    totals[HELD_OUT_RIGHT] = count_right(t, work);
    if (!comm_sum(t->comm, totals, TOTALS, why))
        return false;

    ret_point->loss = totals[TRAIN_LOSS] / t->data->train_count;
    ret_point->accuracy = totals[HELD_OUT_RIGHT] / t->data->held_out_count;
    if (!isfinite(ret_point->loss))
        return failure_set(why, "the loss of epoch %u is not finite: the training diverged",
                           epoch + 1);
    if (t->talks)
        print_epoch(t, epoch, ret_point, totals);
    return true;
}

bool train_run(const struct training *t, struct plot_point *ret_points, struct failure *why)
{
    const size_t area = (size_t)t->data->side * t->data->side;
    struct work work = {
        .order = malloc(t->data->train_count * sizeof *work.order),
        .image = malloc(area * sizeof *work.image),
        .progress = progress_begin(t->talks, (uint64_t)t->epochs *
                                                 share_steps(t->data->train_count, t->batch)),
    };
    bool ok = work.order && work.image;

    if (!ok)
        failure_set(why, "no memory for the order of %u images", t->data->train_count);
    for (uint32_t epoch = 0; ok && epoch < t->epochs; epoch++)
        ok = run_epoch(t, &work, epoch, &ret_points[epoch], why);
    free(work.order);
    free(work.image);
    return ok;
}
