/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/operation.h"

#include <glib.h>
#include <string.h>

#include <tutti/info.h>

#include "bench/message.h"

/* ---- what calls do ---- */

static tutti_status run_all_reduce(struct bench_call *call, tutti_work **work)
{
    return tutti_all_reduce(call->world, &call->in.tensor, call->op, NULL, work);
}

static tutti_status run_broadcast(struct bench_call *call, tutti_work **work)
{
    return tutti_broadcast(call->world, &call->in.tensor, call->root, NULL, work);
}

static tutti_status run_barrier(struct bench_call *call, tutti_work **work)
{
    return tutti_barrier(call->world, NULL, work);
}

static tutti_status run_monitored_barrier(struct bench_call *call, tutti_work **work)
{
    return tutti_monitored_barrier(call->world, NULL, work);
}

static tutti_status run_reduce(struct bench_call *call, tutti_work **work)
{
    return tutti_reduce_into(call->world, &call->in.tensor, &call->out.tensor, call->op, call->root,
                             NULL, work);
}

static tutti_status run_all_gather(struct bench_call *call, tutti_work **work)
{
    return tutti_all_gather(call->world, &call->in.tensor, &call->out.tensor, NULL, work);
}

static tutti_status run_all_gather_v(struct bench_call *call, tutti_work **work)
{
    return tutti_all_gather_v(call->world, &call->in.tensor, &call->out.tensor, call->out_counts,
                              NULL, NULL, work);
}

static tutti_status run_gather(struct bench_call *call, tutti_work **work)
{
    return tutti_gather(call->world, &call->in.tensor, &call->out.tensor, call->root, NULL, work);
}

static tutti_status run_gather_v(struct bench_call *call, tutti_work **work)
{
    return tutti_gather_v(call->world, &call->in.tensor, &call->out.tensor, call->out_counts, NULL,
                          call->root, NULL, work);
}

static tutti_status run_scatter(struct bench_call *call, tutti_work **work)
{
    return tutti_scatter(call->world, &call->in.tensor, &call->out.tensor, call->root, NULL, work);
}

static tutti_status run_scatter_v(struct bench_call *call, tutti_work **work)
{
    return tutti_scatter_v(call->world, &call->in.tensor, call->in_counts, NULL, &call->out.tensor,
                           call->root, NULL, work);
}

static tutti_status run_reduce_scatter(struct bench_call *call, tutti_work **work)
{
    return tutti_reduce_scatter(call->world, &call->in.tensor, &call->out.tensor, call->op, NULL,
                                work);
}

static tutti_status run_reduce_scatter_v(struct bench_call *call, tutti_work **work)
{
    return tutti_reduce_scatter_v(call->world, &call->in.tensor, call->in_counts, NULL,
                                  &call->out.tensor, call->op, NULL, work);
}

static tutti_status run_all_to_all(struct bench_call *call, tutti_work **work)
{
    return tutti_all_to_all(call->world, &call->in.tensor, &call->out.tensor, NULL, work);
}

static tutti_status run_all_to_all_v(struct bench_call *call, tutti_work **work)
{
    return tutti_all_to_all_v(call->world, &call->in.tensor, call->in_counts, NULL,
                              &call->out.tensor, call->out_counts, NULL, NULL, work);
}

/* ---- where results come from ---- */

static bool from_all(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){.count = call->count, .rank = -1};
    return block == 0;
}

static bool at_root_from_all(const struct bench_call *call, int block,
                             struct bench_origin *ret_origin)
{
    return from_all(call, block, ret_origin) && call->rank == call->root;
}

static bool from_root(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){.count = call->count, .rank = call->root};
    return block == 0;
}

static bool from_each(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){
        .at = call_out_offset(call, call->rank, block),
        .count = call_block_count(call, block, call->rank),
        .rank = block,
        .first = call->operation->blocks_in ? call_in_offset(call, block, call->rank) : 0};
    return true;
}

static bool at_root_from_each(const struct bench_call *call, int block,
                              struct bench_origin *ret_origin)
{
    return from_each(call, block, ret_origin) && call->rank == call->root;
}

static bool part_of_root(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){.count = call_block_count(call, call->root, call->rank),
                                        .rank = call->root,
                                        .first = call_in_offset(call, call->root, call->rank)};
    return block == 0;
}

static bool part_of_all(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){.count = call_block_count(call, call->rank, call->rank),
                                        .rank = -1,
                                        .first = call_in_offset(call, call->rank, call->rank)};
    return block == 0;
}

static bool from_peer(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    *ret_origin = (struct bench_origin){.count = call->window * call->count,
                                        .rank = call->rank ? 0 : call->root};
    return block == 0 && call_takes_part(call);
}

static bool from_sender(const struct bench_call *call, int block, struct bench_origin *ret_origin)
{
    return from_peer(call, block, ret_origin) && call->rank == call->root;
}

/* ---- the table ---- */

enum {
    MOVES = TUTTI_OPERATION_MOVES,
    REDUCES = TUTTI_OPERATION_MOVES | TUTTI_OPERATION_REDUCES,
    ROOT = TUTTI_OPERATION_HAS_ROOT
};

static const struct bench_operation operations[] = {
    {"all_reduce", run_all_reduce, from_all, REDUCES, .in_place = true,
     .bus = BENCH_BUS_TWICE_OTHERS},
    {"broadcast", run_broadcast, from_root, MOVES | ROOT, .in_place = true, .bus = BENCH_BUS_ONCE},
    {"barrier", run_barrier, NULL, 0, .in_place = true},
    {"reduce", run_reduce, at_root_from_all, REDUCES | ROOT, .bus = BENCH_BUS_ONCE},
    {"all_gather", run_all_gather, from_each, MOVES, .blocks_out = true, .bus = BENCH_BUS_OTHERS},
    {"all_gather_v", run_all_gather_v, from_each, MOVES, .blocks_out = true, .uneven = true,
     .bus = BENCH_BUS_OTHERS},
    {"gather", run_gather, at_root_from_each, MOVES | ROOT, .blocks_out = true,
     .bus = BENCH_BUS_OTHERS},
    {"gather_v", run_gather_v, at_root_from_each, MOVES | ROOT, .blocks_out = true, .uneven = true,
     .bus = BENCH_BUS_OTHERS},
    {"scatter", run_scatter, part_of_root, MOVES | ROOT, .blocks_in = true,
     .bus = BENCH_BUS_OTHERS},
    {"scatter_v", run_scatter_v, part_of_root, MOVES | ROOT, .blocks_in = true, .uneven = true,
     .bus = BENCH_BUS_OTHERS},
    {"reduce_scatter", run_reduce_scatter, part_of_all, REDUCES, .blocks_in = true,
     .bus = BENCH_BUS_OTHERS},
    {"reduce_scatter_v", run_reduce_scatter_v, part_of_all, REDUCES, .blocks_in = true,
     .uneven = true, .bus = BENCH_BUS_OTHERS},
    {"all_to_all", run_all_to_all, from_each, MOVES, .blocks_in = true, .blocks_out = true,
     .bus = BENCH_BUS_OTHERS},
    {"all_to_all_v", run_all_to_all_v, from_each, MOVES, .blocks_in = true, .blocks_out = true,
     .uneven = true, .bus = BENCH_BUS_OTHERS},
    {"monitored_barrier", run_monitored_barrier, NULL, 0, .in_place = true},
    {"ping_pong", message_ping_pong, from_peer, MOVES, .is_message = true, .messages = 2,
     .bus = BENCH_BUS_ONCE},
    {"both_ways", message_both_ways, from_peer, MOVES, .is_message = true, .messages = 1,
     .bus = BENCH_BUS_HALF},
    {"burst", message_burst, from_sender, MOVES, .is_message = true, .windowed = true,
     .messages = 1, .bus = BENCH_BUS_ONCE},
};

const struct bench_operation *operation_find(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

void operation_each(void (*fn)(const struct bench_operation *operation, void *user), void *user)
{
    for (size_t i = 0; i < G_N_ELEMENTS(operations); i++)
        fn(&operations[i], user);
}

char *operation_names(const char *between)
{
    GString *names = g_string_new(NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(operations); i++)
        g_string_append_printf(names, "%s%s", i ? between : "", operations[i].name);
    return g_string_free(names, FALSE);
}

bool operation_is_paced(const struct bench_operation *operation)
{
    return operation->is_message || operation->traits & TUTTI_OPERATION_HAS_ROOT;
}

int operation_parts(const struct bench_call *call)
{
    const int messages = call->operation->messages;

    return (messages ? messages : 1) * call->window;
}

double operation_size(const struct bench_call *call)
{
    const struct bench_operation *operation = call->operation;
    const double bytes = (double)call->count * (double)tutti_dtype_size(call->dtype);

    if (operation->blocks_in || operation->blocks_out)
        return bytes * call->size;
    return operation->bus == BENCH_BUS_HALF ? 2 * bytes : bytes;
}

double operation_bus_factor(const struct bench_operation *operation, int ranks)
{
    const double others = (double)(ranks - 1) / ranks;

    switch (operation->bus) {
    case BENCH_BUS_ONCE:
        return 1;
    case BENCH_BUS_OTHERS:
        return others;
    case BENCH_BUS_TWICE_OTHERS:
        return 2 * others;
    case BENCH_BUS_HALF:
        return 0.5;
    case BENCH_BUS_NOTHING:
        break;
    }
    return 0;
}
