/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_digits: trains a classifier of handwritten digits on all ranks together, after PyTorch's
 * distributed tutorial, in plain C on tutti's public API. train.c is the training loop, share.c divides
 * the images among the ranks, comm.c has every call to tutti, net.c and layers.c the net. gpu.c holds the gradients
 * on a GPU while they are summed, for --device.
 *
 * Exit status: 0; 1 after a failure; 2 for a wrong command line. The last line on standard error says what
 * failed.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "data.h"
#include "net.h"
#include "options.h"
#include "plot.h"
#include "save.h"
#include "train.h"

struct run {
    struct options options;
    struct data data;
    struct net net;
    struct comm comm;
    struct plot_point *points;
    FILE *shares;
    uint32_t epochs;
    bool met, talks;
};

/* All that can fail on this rank alone, before it meets the others. */
static bool prepare(struct run *run, struct failure *why)
{
    const struct options *o = &run->options;

    if ((o->save_weights && !save_possible(o->save_weights, why)) ||
        (o->plot && !save_possible(o->plot, why)) ||
        !data_open(o->data, o->held_out, &run->data, why))
        return false;
    const struct net_profile *profile = net_profile_for(run->data.side);
    if (!profile)
        return failure_set(why,
                           "there is no net for images of %u x %u pixels, only for 8 x 8 and "
                           "28 x 28",
                           run->data.side, run->data.side);
    if (o->batch > run->data.train_count)
        return failure_set(why, "--batch %u is more than the %u images to train on", o->batch,
                           run->data.train_count);
    run->epochs = o->epochs ? o->epochs : (uint32_t)profile->epochs;
    run->points = calloc(run->epochs, sizeof *run->points);
    if (!run->points)
        return failure_set(why, "no memory for %u epochs", run->epochs);
    return net_create(profile, o->seed, &run->net, why);
}

/* Ranks that were started differently would train past each other without an error. */
static bool agree(struct run *run, struct failure *why)
{
    const uint64_t mine[] = {run->epochs, run->options.batch, run->options.seed,
                             data_fingerprint(&run->data)};
    double different = 0;
    bool same;

    if (!comm_same_as_rank_0(&run->comm, mine, sizeof mine / sizeof mine[0], &same, why))
        return false;
    different = !same;
    if (!comm_sum(&run->comm, &different, 1, why))
        return false;
    if (!same)
        return failure_set(why, "this rank's epochs, batch, seed or images are not rank 0's: "
                                "start all ranks with the same options");
    if (different > 0)
        return failure_set(why,
                           "%.0f of %u ranks were started with other epochs, batch, seed or "
                           "images than rank 0",
                           different, run->comm.size);
    return true;
}

static bool open_shares(struct run *run, struct failure *why)
{
    char path[PATH_MAX];

    if (!run->options.shares)
        return true;
    if (snprintf(path, sizeof path, "%s.%u", run->options.shares, run->comm.rank) >=
        (int)sizeof path)
        return failure_set(why, "cannot write %.64s...: %s", run->options.shares,
                           strerror(ENAMETOOLONG));
    run->shares = fopen(path, "we");
    return run->shares || failure_set(why, "cannot write %s: %s", path, strerror(errno));
}

static bool close_shares(struct run *run, struct failure *why)
{
    FILE *shares = run->shares;

    run->shares = NULL;
    if (!shares)
        return true;
    bool failed = ferror(shares) != 0;
    if (fclose(shares) != 0 || failed)
        return failure_set(why, "cannot write %s.%u: %s", run->options.shares, run->comm.rank,
                           strerror(errno ? errno : EIO));
    return true;
}

static void print_configuration(const struct run *run)
{
    const struct data *d = &run->data;

    printf("%u images of %ux%u (%u to train on, %u held out), %zu weights; %u rank%s over %s, "
           "batch %u, %u steps an epoch, %u epochs, seed %" PRIu64 "%s\n",
           d->count, d->side, d->side, d->train_count, d->held_out_count, run->net.count,
           run->comm.size, run->comm.size == 1 ? "" : "s", run->comm.backend, run->options.batch,
           (d->train_count + run->options.batch - 1) / run->options.batch, run->epochs,
           run->options.seed, run->options.device ? ", gradients on GPUs" : "");
    fflush(stdout);
}

/* Reports the bytes of a step's all_reduce, summed over the ranks, to compare with the model's
 * size. */
static bool report_traffic(struct run *run, struct failure *why)
{
    struct comm *comm = &run->comm;
    double totals[] = {(double)comm->gradient_traffic.sent, (double)comm->gradient_traffic.mapped};
    const char *engine;

    if (!comm_engine_of_gradients(comm, run->net.count, &engine, why) ||
        !comm_sum(comm, totals, 2, why))
        return false;
    if (!run->talks)
        return true;
    printf("gradients: %zu bytes on each of %u ranks, %" PRIu64 " steps; ",
           run->net.count * sizeof(float), comm->size, comm->gradient_calls);
    if (engine)
        printf("carried by %s itself, which does not tell bytes\n", engine);
    else
        printf("bytes a step, all ranks: %.0f over connections, %.0f into mapped memory\n",
               totals[0] / (double)comm->gradient_calls, totals[1] / (double)comm->gradient_calls);
    return true;
}

static bool train_together(struct run *run, struct failure *why)
{
    const struct training training = {
        .data = &run->data,
        .net = &run->net,
        .comm = &run->comm,
        .epochs = run->epochs,
        .batch = run->options.batch,
        .seed = run->options.seed,
        .talks = run->talks,
        .shares = run->shares,
    };

    return comm_barrier(&run->comm, why) && train_run(&training, run->points, why) &&
           report_traffic(run, why) &&
           (!run->talks || comm_print_carriers(&run->comm, stdout, why));
}

/* The files that rank 0 writes when the others no longer need it. */
static bool leave_results(struct run *run, struct failure *why)
{
    const struct options *o = &run->options;
    bool drawn;

    if (o->save_weights && !save_weights(o->save_weights, run->net.weights, run->net.count, why))
        return false;
    if (o->plot) {
        if (!plot_draw(o->plot, run->points, run->epochs, PLOT_PATIENCE_MS, &drawn, why))
            return false;
        if (!drawn)
            fprintf(stderr,
                    "train_digits: gnuplot is not installed, so %s was not drawn; the "
                    "numbers are beside it, in a file that ends in .dat\n",
                    o->plot);
    }
    printf("held-out accuracy %.2f %% after %u epochs\n",
           100 * run->points[run->epochs - 1].accuracy, run->epochs);
    if (fflush(stdout) != 0 || ferror(stdout))
        return failure_set(why, "cannot write to standard output: %s", strerror(errno));
    return true;
}

static bool run_all(struct run *run, struct failure *why)
{
    if (!prepare(run, why) || !comm_open(&run->comm, run->options.device, why))
        return false;
    run->met = true;
    run->talks = run->comm.rank == 0 && !run->options.quiet;
    if (!agree(run, why) || !open_shares(run, why))
        return false;
    if (run->talks)
        print_configuration(run);
    if (!train_together(run, why) || !close_shares(run, why))
        return false;
    run->met = false;
    return comm_close(&run->comm, why) && (run->comm.rank != 0 || leave_results(run, why));
}

int main(int argc, char **argv)
{
    struct failure why = {""}, ignored;
    struct run run = {0};

    if (!options_parse(argc, argv, &run.options, &why)) {
        fprintf(stderr, "train_digits: %s\n", why.words);
        return 2;
    }
    if (run.options.help) {
        options_print_help(stdout);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    bool ok = run_all(&run, &why);

    close_shares(&run, &ignored);
    if (run.met)
        comm_close(&run.comm, &ignored);
    net_free(&run.net);
    data_free(&run.data);
    free(run.points);
    if (!ok)
        fprintf(stderr, "train_digits: %s\n", why.words);
    return ok ? 0 : 1;
}
