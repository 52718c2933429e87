/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the rows of served.tsv for this place and number of members, each by one rank: runs each operation at a few
 * sizes, and between two sizes that were served differently looks for the byte at which it changes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/served.h"
#include "harness/gpu.h"
#include "harness/rank.h"

enum { LARGEST = 4 << 20, MEMBERS_MAX = 8 };

struct served {
    const char *provider, *algorithm;
};

struct probe {
    tutti_group *world;
    const char *operation;
    tutti_status (*run)(const struct probe *probe, const tutti_tensor *tensor);
    const tutti_options *options;   /* of operations that reduce, */
    tutti_reduce_op op;             /* and by what */
    uint8_t *memory, *blocks;       /* LARGEST bytes each, */
    tutti_device device;            /* on it */
    int teller, from_rank, to_rank; /* the latter of messages */
    uint64_t from;                  /* of the row that is not told yet */
};

static tutti_tensor tensor_at(const struct probe *probe, uint8_t *memory, int64_t *shape,
                              int64_t count)
{
    tutti_tensor tensor = tutti_tensor_1d(memory, TUTTI_U8, shape, count);

    tensor.device = probe->device;
    return tensor;
}

static tutti_status run_all_reduce(const struct probe *probe, const tutti_tensor *tensor)
{
    return tutti_all_reduce(probe->world, tensor, probe->op, probe->options, NULL);
}

static tutti_status run_broadcast(const struct probe *probe, const tutti_tensor *tensor)
{
    return tutti_broadcast(probe->world, tensor, 0, NULL, NULL);
}

static tutti_status run_reduce(const struct probe *probe, const tutti_tensor *tensor)
{
    return tutti_reduce(probe->world, tensor, probe->op, 0, probe->options, NULL);
}

/* A block for every member beside the one in `tensor`. */
static tutti_tensor blocks_of(const struct probe *probe, const tutti_tensor *tensor,
                              int64_t *ret_shape)
{
    return tensor_at(probe, probe->blocks, ret_shape,
                     tensor->shape[0] * tutti_group_size(probe->world));
}

static tutti_status run_all_gather(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape;
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    return tutti_all_gather(probe->world, tensor, &blocks, NULL, NULL);
}

static tutti_status run_gather(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape;
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    return tutti_gather(probe->world, tensor, &blocks, 0, NULL, NULL);
}

static tutti_status run_scatter(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape;
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    return tutti_scatter(probe->world, &blocks, tensor, 0, NULL, NULL);
}

static tutti_status run_reduce_scatter(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape;
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    return tutti_reduce_scatter(probe->world, &blocks, tensor, probe->op, probe->options, NULL);
}

static tutti_status run_all_to_all(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape;
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    return tutti_all_to_all(probe->world, &blocks, &blocks, NULL, NULL);
}

/* With counts, where all know them: everything is rank 0's. */
struct counted {
    int64_t counts[MEMBERS_MAX], all, own;
    tutti_tensor blocks, vector;
};

static void count_all(const struct probe *probe, const tutti_tensor *tensor,
                      struct counted *counted)
{
    const int64_t all = tensor->shape[0], own = tutti_group_rank(probe->world) == 0 ? all : 0;

    memset(counted->counts, 0, sizeof counted->counts);
    counted->counts[0] = all;
    counted->blocks = tensor_at(probe, probe->blocks, &counted->all, all);
    counted->vector = tensor_at(probe, probe->memory, &counted->own, own);
}

static tutti_status run_all_gather_v(const struct probe *probe, const tutti_tensor *tensor)
{
    struct counted c;

    count_all(probe, tensor, &c);
    return tutti_all_gather_v(probe->world, &c.vector, &c.blocks, c.counts, NULL, NULL, NULL);
}

static tutti_status run_gather_v(const struct probe *probe, const tutti_tensor *tensor)
{
    struct counted c;

    count_all(probe, tensor, &c);
    return tutti_gather_v(probe->world, &c.vector, &c.blocks, c.counts, NULL, 0, NULL, NULL);
}

static tutti_status run_scatter_v(const struct probe *probe, const tutti_tensor *tensor)
{
    struct counted c;

    count_all(probe, tensor, &c);
    return tutti_scatter_v(probe->world, &c.blocks, c.counts, NULL, &c.vector, 0, NULL, NULL);
}

static tutti_status run_reduce_scatter_v(const struct probe *probe, const tutti_tensor *tensor)
{
    struct counted c;

    count_all(probe, tensor, &c);
    return tutti_reduce_scatter_v(probe->world, &c.blocks, c.counts, NULL, &c.vector, probe->op,
                                  probe->options, NULL);
}

static tutti_status run_all_to_all_v(const struct probe *probe, const tutti_tensor *tensor)
{
    int64_t shape, counts[MEMBERS_MAX];
    const tutti_tensor blocks = blocks_of(probe, tensor, &shape);

    for (int i = 0; i < tutti_group_size(probe->world); i++)
        counts[i] = tensor->shape[0];
    return tutti_all_to_all_v(probe->world, &blocks, counts, NULL, &blocks, counts, NULL, NULL,
                              NULL);
}

static tutti_status run_monitored_barrier(const struct probe *probe, const tutti_tensor *tensor)
{
    (void)tensor;
    return tutti_monitored_barrier(probe->world, NULL, NULL);
}

static tutti_status run_barrier(const struct probe *probe, const tutti_tensor *tensor)
{
    (void)tensor;
    return tutti_barrier(probe->world, NULL, NULL);
}

static tutti_status run_message(const struct probe *probe, const tutti_tensor *tensor)
{
    if (tutti_group_rank(probe->world) == probe->from_rank)
        return tutti_send(probe->world, tensor, probe->to_rank, 0, NULL);
    return tutti_recv(probe->world, tensor, probe->from_rank, 0, NULL, NULL);
}

static struct served served_at(const struct probe *probe, uint64_t bytes)
{
    int64_t shape;
    const tutti_tensor tensor = tensor_at(probe, probe->memory, &shape, (int64_t)bytes);
    tutti_record record = {0};
    uint32_t count;

    require_ok(probe->run(probe, &tensor));
    require_ok(tutti_recorder_read(probe->world, &record, sizeof record, 1, &count));
    return (struct served){record.provider, record.algorithm};
}

static bool same(struct served a, struct served b)
{
    return !a.algorithm || (!strcmp(a.provider, b.provider) && !strcmp(a.algorithm, b.algorithm));
}

static void tell(const struct probe *probe, uint64_t to, struct served served)
{
    if (served.algorithm && tutti_group_rank(probe->world) == probe->teller)
        printf("served\t%s\t%s\t%d\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n", probe->operation,
               served_place(getenv("TUTTI_TEST_WHERE")), tutti_group_size(probe->world),
               probe->from, to, served.provider, served.algorithm);
}

/* Between two sizes that differ, the last of the first kind. All ranks take the same way. */
static void tell_changes(struct probe *probe, uint64_t low, struct served at_low, uint64_t high,
                         struct served at_high)
{
    if (same(at_low, at_high))
        return;
    if (high == low + 1) {
        tell(probe, low, at_low);
        probe->from = high;
        return;
    }
    const uint64_t middle = low + (high - low) / 2;
    const struct served at_middle = served_at(probe, middle);

    tell_changes(probe, low, at_low, middle, at_middle);
    tell_changes(probe, middle, at_middle, high, at_high);
}

static void tell_operation(struct probe *probe, uint64_t largest)
{
    uint64_t low = 0;
    struct served at_low = served_at(probe, 0);

    for (uint64_t high = 1; high <= largest; high *= 4) {
        const struct served at_high = served_at(probe, high);

        tell_changes(probe, low, at_low, high, at_high);
        low = high;
        at_low = at_high;
    }
    tell(probe, largest, at_low);
}

/* Messages between two ranks. */
static void tell_messages(struct probe *probe, const char *hosts, int low, int high)
{
    const int rank = tutti_group_rank(probe->world);

    if (rank != low && rank != high)
        return;
    probe->run = run_message;
    probe->teller = low;
    for (int is_send = 0; is_send < 2; is_send++) {
        probe->operation = served_message(hosts, is_send, low, high);
        probe->from_rank = is_send ? low : high;
        probe->to_rank = is_send ? high : low;
        probe->from = 0;
        tell_operation(probe, LARGEST);
    }
}

/* In host memory, or on the GPU of this rank. */
static void open_probe(struct probe *probe, int rank)
{
    static uint8_t memory[LARGEST], blocks[LARGEST];
    const bool on_device = getenv("TUTTI_TEST_DEVICES");

    if (on_device)
        gpu_use(rank);
    probe->world = rank_init(NULL);
    probe->memory = on_device ? gpu_allocate(LARGEST) : memory;
    probe->blocks = on_device ? gpu_allocate(LARGEST) : blocks;
    probe->device = on_device ? gpu_device() : (tutti_device){.type = TUTTI_DEVICE_CPU};
}

RANK_CASE(served)
{
    struct probe probe = {0};
    const uint64_t largest_block = LARGEST / (uint64_t)size;
    const char *hosts = getenv("TUTTI_TEST_HOSTS"), *where = getenv("TUTTI_TEST_WHERE");
    const struct {
        const char *operation;
        tutti_status (*run)(const struct probe *probe, const tutti_tensor *tensor);
        uint64_t largest;
        bool fixed, core;
    } operations[] = {
        {"all_reduce", run_all_reduce, LARGEST, false, false},
        {"all_reduce_fixed", run_all_reduce, LARGEST, true, false},
        {"all_reduce_core", run_all_reduce, LARGEST, false, true},
        {"broadcast", run_broadcast, LARGEST, false, false},
        {"barrier", run_barrier, 0, false, false},
        {"reduce", run_reduce, LARGEST, false, false},
        {"reduce_fixed", run_reduce, LARGEST, true, false},
        {"reduce_core", run_reduce, LARGEST, false, true},
        {"all_gather", run_all_gather, largest_block, false, false},
        {"all_gather_v", run_all_gather_v, LARGEST, false, false},
        {"gather", run_gather, largest_block, false, false},
        {"gather_v", run_gather_v, 0, false, false},
        {"scatter", run_scatter, largest_block, false, false},
        {"scatter_v", run_scatter_v, 0, false, false},
        {"reduce_scatter", run_reduce_scatter, largest_block, false, false},
        {"reduce_scatter_fixed", run_reduce_scatter, largest_block, true, false},
        {"reduce_scatter_core", run_reduce_scatter, largest_block, false, true},
        {"reduce_scatter_v", run_reduce_scatter_v, LARGEST, false, false},
        {"reduce_scatter_v_fixed", run_reduce_scatter_v, LARGEST, true, false},
        {"reduce_scatter_v_core", run_reduce_scatter_v, LARGEST, false, true},
        {"all_to_all", run_all_to_all, largest_block, false, false},
        {"all_to_all_v", run_all_to_all_v, 0, false, false},
        {"monitored_barrier", run_monitored_barrier, 0, false, false},
    };
    const tutti_options fixed = {.struct_size = sizeof fixed, .flags = TUTTI_FIXED_ORDER};
    bool told_local = false, told_away = false;

    require(hosts && where);
    open_probe(&probe, rank);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        probe.operation = operations[i].operation;
        probe.run = operations[i].run;
        probe.options = operations[i].fixed ? &fixed : NULL;
        probe.op = TUTTI_MAX;
        if (operations[i].core)
            probe.op = served_by_engine(where, TUTTI_U8, TUTTI_AVG) ? TUTTI_BAND : TUTTI_AVG;
        if (operations[i].core && served_by_engine(where, TUTTI_U8, probe.op))
            continue;
        probe.from = 0;
        tell_operation(&probe, operations[i].largest);
    }
    for (int low = 0; low < size; low++)
        for (int high = low + 1; high < size; high++) {
            bool *told = *hosts && hosts[low] != hosts[high] ? &told_away : &told_local;

            if (!*told)
                tell_messages(&probe, hosts, low, high);
            *told = true;
        }
    fflush(stdout);
    check_ok(tutti_barrier(probe.world, NULL, NULL));
    check_ok(tutti_group_destroy(probe.world));
}
