/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives and messages of tutti, measured as measure.h says; to be started by `tutti run`.
 * bench/compare runs it beside the peers.
 */
#include <tutti/tutti.h>

#include "measure.h"

static tutti_group *world;
static int members, self;

static void check(tutti_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
    exit(1);
}

/* One block in (out), or one for every member. */
struct side {
    int64_t shape;
    tutti_tensor tensor;
};

static const tutti_tensor *block(struct side *side, float *data, size_t count)
{
    side->tensor = tutti_tensor_1d(data, TUTTI_F32, &side->shape, (int64_t)count);
    return &side->tensor;
}

static const tutti_tensor *blocks(struct side *side, float *data, size_t count)
{
    return block(side, data, count * (size_t)members);
}

static void all_reduce(float *in, float *out, size_t count)
{
    struct side side;

    (void)out;
    check(tutti_all_reduce(world, block(&side, in, count), TUTTI_SUM, NULL, NULL));
}

static void broadcast(float *in, float *out, size_t count)
{
    struct side side;

    (void)out;
    check(tutti_broadcast(world, block(&side, in, count), 0, NULL, NULL));
}

static void reduce(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_reduce_into(world, block(&from, in, count), block(&to, out, count), TUTTI_SUM, 0,
                            NULL, NULL));
}

static void all_gather(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_all_gather(world, block(&from, in, count), blocks(&to, out, count), NULL, NULL));
}

static void reduce_scatter(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_reduce_scatter(world, blocks(&from, in, count), block(&to, out, count), TUTTI_SUM,
                               NULL, NULL));
}

static void gather(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_gather(world, block(&from, in, count), blocks(&to, out, count), 0, NULL, NULL));
}

static void scatter(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_scatter(world, blocks(&from, in, count), block(&to, out, count), 0, NULL, NULL));
}

static void all_to_all(float *in, float *out, size_t count)
{
    struct side from, to;

    check(tutti_all_to_all(world, blocks(&from, in, count), blocks(&to, out, count), NULL, NULL));
}

/* A message from rank 0 to rank 1, or back. */
static void pass(float *data, size_t count, int from, int works)
{
    struct side side;
    const tutti_tensor *tensor = block(&side, data, count);
    tutti_work *work = NULL;

    if (self > 1)
        return;
    if (!works) {
        check(self == from ? tutti_send(world, tensor, !from, 0, NULL)
                           : tutti_recv(world, tensor, from, 0, NULL, NULL));
        return;
    }
    check(self == from ? tutti_isend(world, tensor, !from, 0, NULL, &work)
                       : tutti_irecv(world, tensor, from, 0, NULL, &work));
    check(tutti_work_wait(work, 0));
    tutti_work_free(work);
}

static void ping_pong(float *in, float *out, size_t count)
{
    pass(self ? out : in, count, 0, 0);
    pass(self ? in : out, count, 1, 0);
}

static void ping_pong_works(float *in, float *out, size_t count)
{
    pass(self ? out : in, count, 0, 1);
    pass(self ? in : out, count, 1, 1);
}

static void barrier(void)
{
    check(tutti_barrier(world, NULL, NULL));
}

static double max(double value)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F64, &shape, 1);

    check(tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL));
    return value;
}

int main(int argc, char **argv)
{
    char name[64];

    check(tutti_init(NULL, &world));
    members = tutti_group_size(world);
    self = tutti_group_rank(world);
    snprintf(name, sizeof name, "tutti-%s", tutti_group_backend(world));
    struct subject subject = {.name = name,
                              .rank = self,
                              .size = members,
                              .barrier = barrier,
                              .max = max,
                              .run = MEASURE_RUN};
    int code = measure_main(&subject, argc, argv);
    check(tutti_group_destroy(world));
    return code;
}
