/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every algorithm of the table by itself, for numbers of members from 1 to 64 and sizes on both sides
 * of every seam: the result against a serial reference, no deadlock, and as many bytes sent as the
 * algorithm's formula says, where it has one here; the composed ones on hosts of several shapes, where
 * each host's own bytes are counted.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "algorithm/fold.h"
#include "algorithm/parts.h"
#include "sim.h"

static uint64_t cases, number;

static void run_form(struct sim_world *world, struct sim_op call)
{
    call.operation = call.algorithm->operation;
    call.root = (int)sim_below(world, (uint64_t)world->size);
    call.in_place = sim_below(world, 2);
    call.elsewhere = sim_below(world, 4) ? 0 : (int)sim_below(world, (uint64_t)world->size) + 1;
    sim_all(world, &call, number++);
    cases++;
}

static void run(struct sim_world *world, const struct algorithm *algorithm, uint64_t count,
                tutti_dtype dtype, tutti_reduce_op op)
{
    run_form(world,
             (struct sim_op){.dtype = dtype, .op = op, .count = count, .algorithm = algorithm});
}

/* Rounded at other places than the reference, and still the same on every member. */
static void same_bits(struct sim_world *world, const struct algorithm *algorithm)
{
    static const tutti_dtype dtypes[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F32};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_PRODUCT, TUTTI_MIN,
                                          TUTTI_MAX};

    for (int d = 0; d < 3; d++)
        for (int o = 0; o < 5; o++) {
            const struct sim_op call = {.operation = OPERATION_ALL_REDUCE,
                                        .dtype = dtypes[d],
                                        .op = ops[o],
                                        .count = 1 + sim_below(world, 1000),
                                        .in_place = o % 2,
                                        .random = true,
                                        .algorithm = algorithm};

            sim_all(world, &call, number++);
            cases++;
        }
}

static uint64_t total_sent(const struct sim_world *world)
{
    uint64_t total = 0;

    for (int rank = 0; rank < world->size; rank++)
        total += world->members[rank].sent_bytes;
    return total;
}

/* Parts that go down the binomial tree of a scatter: each member's subtree. */
static uint64_t scattered_parts(uint64_t n)
{
    uint64_t parts = 0;

    for (uint64_t v = 1; v < n; v++)
        parts += min_u64(v & -v, n - v);
    return parts;
}

/* Times that a block travels in an all_to_all whose steps are powers of two: the bits of its way. */
static uint64_t stepped_blocks(uint64_t n)
{
    uint64_t blocks = 0;

    for (uint64_t way = 1; way < n; way++)
        blocks += (uint64_t)__builtin_popcountll(way);
    return n * blocks;
}

static const uint64_t unknown = UINT64_MAX;

/* By all members together, for a vector that divides evenly. */
static uint64_t formula(const struct algorithm *algorithm, uint64_t n, uint64_t bytes)
{
    const uint64_t core = (uint64_t)fold_core((int)n), extra = n - core;

    if (algorithm == &all_reduce_recursive_doubling_algorithm)
        return core * log2_ceil(core) * bytes + 2 * extra * bytes;
    if (algorithm == &all_reduce_halving_doubling_algorithm)
        return 2 * (core - 1) * bytes + 2 * extra * bytes;
    if (algorithm == &all_reduce_ring_algorithm || algorithm == &all_reduce_direct_algorithm)
        return 2 * (n - 1) * bytes;
    if (algorithm == &broadcast_binomial_algorithm)
        return (n - 1) * bytes;
    if (algorithm == &broadcast_scatter_all_gather_algorithm)
        return (scattered_parts(n) + (n - 1) * (n - 1)) * (bytes / n);
    if (algorithm == &reduce_binomial_algorithm || algorithm == &gather_direct_algorithm ||
        algorithm == &scatter_direct_algorithm)
        return (n - 1) * bytes;
    if (algorithm == &reduce_parts_algorithm)
        return (n - 1) * bytes + (n - 1) * (bytes / n);
    if (algorithm == &gather_binomial_algorithm || algorithm == &scatter_binomial_algorithm)
        return scattered_parts(n) * bytes;
    if (algorithm ==
        &reduce_scatter_halving_algorithm) /* a fold: all blocks, and one of the results */
        return ((core - 1) * n + extra * (n + 1)) * bytes;
    if (algorithm == &all_to_all_bruck_algorithm)
        return stepped_blocks(n) * bytes;
    if (algorithm == &all_gather_bruck_algorithm || algorithm == &all_gather_direct_algorithm ||
        algorithm == &all_gather_ring_algorithm || algorithm == &reduce_scatter_direct_algorithm ||
        algorithm == &all_to_all_direct_algorithm)
        return n * (n - 1) * bytes;
    return algorithm->kind == ALGORITHM_MESSAGES ? unknown : 0;
}

/* In the plain all_reduces of a power of two nobody sends more than another; in a ring, and where all
 * take the same steps, ever. */
static bool is_even(const struct algorithm *algorithm, int n)
{
    return algorithm == &all_reduce_ring_algorithm || algorithm == &all_gather_ring_algorithm ||
           algorithm == &all_gather_bruck_algorithm || algorithm == &all_to_all_bruck_algorithm ||
           (algorithm->operation == OPERATION_ALL_REDUCE && fold_core(n) == n);
}

static void check_formula(struct sim_world *world, const struct algorithm *algorithm,
                          uint64_t bytes)
{
    const uint64_t want = formula(algorithm, (uint64_t)world->size, bytes);

    if (want == unknown)
        return;
    if (total_sent(world) != want)
        sim_fail("%s: %d members send %lu bytes for %lu, not %lu", algorithm->name, world->size,
                 (unsigned long)total_sent(world), (unsigned long)bytes, (unsigned long)want);
    for (int rank = 0; is_even(algorithm, world->size) && rank < world->size; rank++)
        if (world->members[rank].sent_bytes * (uint64_t)world->size != want)
            sim_fail("%s: rank %d of %d sends %lu of %lu", algorithm->name, rank, world->size,
                     (unsigned long)world->members[rank].sent_bytes, (unsigned long)want);
}

/* What the members of one host send together in a composed algorithm. */
static uint64_t formula_of_host(const struct algorithm *algorithm, const struct layout *layout,
                                int host, int root, uint64_t bytes)
{
    const uint64_t n = (uint64_t)layout->size, members = (uint64_t)layout_host_size(layout, host);
    const bool roots = host == layout->host_of[root];

    if (algorithm == &gather_composed_algorithm)
        return roots ? 0 : members * bytes;
    if (algorithm == &scatter_composed_algorithm)
        return roots ? (n - members) * bytes : 0;
    if (algorithm == &reduce_composed_algorithm)
        return bytes;
    if (algorithm == &all_gather_composed_algorithm)
        return members * (uint64_t)(layout->hosts - 1) * bytes;
    if (algorithm == &all_to_all_composed_algorithm)
        return members * (n - members) * bytes;
    if (algorithm == &reduce_scatter_composed_algorithm)
        return (n - members) * bytes;
    return unknown;
}

static void no_message_to_a_local_peer(const struct sim_member *member)
{
    const struct schedule *sched = &member->schedule;
    const int *host_of = member->layout.host_of;

    for (uint32_t i = 0; i < sched->count; i++)
        if (sched->steps[i].kind == STEP_SEND && sched->steps[i].peer >= 0 &&
            host_of[sched->steps[i].peer] == member->layout.host)
            sim_fail("%s: rank %d sends to %d on its own host", member->algorithm->name,
                     member->rank, sched->steps[i].peer);
}

static void check_hosts(const struct sim_world *world, const struct algorithm *algorithm,
                        uint64_t bytes)
{
    const struct layout *layout = &world->members[0].layout;
    const int root = world->members[0].op.root;
    uint64_t sent[SIM_MEMBERS_MAX] = {0};

    for (int rank = 0; rank < world->size; rank++) {
        sent[layout->host_of[rank]] += world->members[rank].sent_bytes;
        no_message_to_a_local_peer(&world->members[rank]);
    }
    for (int host = 0; host < layout->hosts; host++) {
        const uint64_t want = formula_of_host(algorithm, layout, host, root, bytes);

        if (algorithm == &reduce_composed_algorithm && host == layout->host_of[root])
            continue; /* sends parts to their reducers, where that is cheaper */
        if (want != unknown && sent[host] != want)
            sim_fail("%s: host %d of %d sends %lu bytes for %lu, not %lu", algorithm->name, host,
                     layout->hosts, (unsigned long)sent[host], (unsigned long)bytes,
                     (unsigned long)want);
    }
}

/* Elements of 4 bytes that an inline call takes at most. */
static uint64_t inline_max(const struct algorithm *algorithm, uint64_t n)
{
    return MAPPED_PAYLOAD_MAX / 4 / (operation_takes_blocks(algorithm->operation) ? n : 1);
}

static void small_sizes(struct sim_world *world, const struct algorithm *algorithm)
{
    const uint64_t n = (uint64_t)world->size;
    const uint64_t counts[] = {1, n > 1 ? n - 1 : 1, n + 1, 16 * n + 3, 1024, 1025};
    const uint64_t even =
        operation_has_blocks(algorithm->operation) ? 16 : 16 * n * (uint64_t)fold_core(world->size);
    const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MAX, TUTTI_MIN};

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (algorithm->kind != ALGORITHM_INLINE || counts[i] <= inline_max(algorithm, n))
            run(world, algorithm, counts[i], i % 2 ? TUTTI_I32 : TUTTI_F32, ops[i % 4]);
    if (algorithm->kind == ALGORITHM_INLINE || algorithm->kind == ALGORITHM_MESSAGES)
        run(world, algorithm, 0, TUTTI_I32, TUTTI_SUM);
    if (algorithm->kind == ALGORITHM_INLINE) {
        for (uint64_t count = 12; count <= 13; count++) /* the last that fits the line itself */
            if (count <= inline_max(algorithm, n))
                run(world, algorithm, count, TUTTI_I32, TUTTI_SUM);
        return;
    }
    run(world, algorithm, even, TUTTI_I32, TUTTI_SUM);
    if (algorithm->kind == ALGORITHM_COMPOSED)
        check_hosts(world, algorithm, even * 4);
    else
        check_formula(world, algorithm, even * 4);
}

static bool takes_uneven(const struct algorithm *algorithm)
{
    return operation_has_blocks(algorithm->operation) &&
           !(algorithm->flags & ALGORITHM_NEEDS_EQUAL_BLOCKS) &&
           (algorithm->kind == ALGORITHM_MESSAGES || algorithm->kind == ALGORITHM_REGISTERED ||
            (algorithm->kind == ALGORITHM_COMPOSED &&
             operation_shares_sizes(algorithm->operation)));
}

/* Blocks of which some are empty, and some longer than a slot where that does not take long. */
static void uneven_sizes(struct sim_world *world, const struct algorithm *algorithm)
{
    const uint64_t counts[] = {0, 1, 1000, world->size <= 8 ? 80000 : 3000};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MAX, TUTTI_MIN};

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        run_form(world, (struct sim_op){.dtype = i % 2 ? TUTTI_F32 : TUTTI_I32,
                                        .op = ops[i],
                                        .count = counts[i],
                                        .uneven = true,
                                        .algorithm = algorithm});
}

/* On both sides of where one more chunk or piece begins, and where a window is full. */
static void large_sizes(struct sim_world *world, const struct algorithm *algorithm)
{
    const uint64_t n = (uint64_t)world->size, chunk = MAPPED_CHUNK_MAX;
    const uint64_t part = n > 1 ? chunk / (n - 1) / PART_ALIGN * PART_ALIGN * n : chunk;
    const uint64_t window = MAPPED_WINDOW_PAGES * MAPPED_PAGE;
    const uint64_t seams[] = {ROUND_CHUNK_MAX, chunk / 4, chunk,    chunk * 4,
                              window,          part,      part * 4, chunk * n};

    for (unsigned i = 0; i < sizeof seams / sizeof seams[0]; i++)
        for (int64_t off = -1; off <= 1; off++)
            if ((seams[i] + 8) * n * (operation_has_blocks(algorithm->operation) ? n : 1) <=
                24u << 20)
                run(world, algorithm, (uint64_t)((int64_t)seams[i] + off), TUTTI_U8, TUTTI_MAX);
}

static void run_one(struct sim_world *world, const struct algorithm *algorithm)
{
    const int n = world->size;

    if (!operation_moves(algorithm->operation)) {
        run(world, algorithm, 0, TUTTI_U8, TUTTI_SUM);
        return;
    }
    small_sizes(world, algorithm);
    if (takes_uneven(algorithm))
        uneven_sizes(world, algorithm);
    if (algorithm->operation == OPERATION_ALL_REDUCE && (n <= 9 || n % 16 == 0))
        same_bits(world, algorithm);
    if (algorithm->kind != ALGORITHM_INLINE && (n <= 5 || n == 8))
        large_sizes(world, algorithm);
}

static void all_of(struct sim_world *world, enum algorithm_kind kind)
{
    for (int i = 0; i < ALGORITHMS; i++)
        if (algorithm_table[i]->kind == kind)
            run_one(world, algorithm_table[i]);
}

/* ---- several hosts --------------------------------------------------------------------------- */

static int one_alone(int rank, int n)
{
    return rank == n / 2;
}

static int three_in_turn(int rank, int n)
{
    (void)n;
    return rank % 3;
}

/* Hosts of 1, 2, 3, … members, which are no neighbours. */
static int growing(int rank, int n)
{
    int host = 0;

    for (int at = rank * 67 % n; at > host; host++)
        at -= host + 1;
    return host;
}

static int in_pairs(int rank, int n)
{
    (void)n;
    return rank / 2;
}

/* Each shape for few members; one of them, in turn, for more. */
static void on_hosts(int n, uint64_t seed)
{
    static int (*const shapes[])(int rank, int n) = {one_alone, three_in_turn, growing, in_pairs};
    enum { SHAPES = sizeof shapes / sizeof shapes[0] };
    int host_of[SIM_MEMBERS_MAX];
    struct sim_world world;

    for (int shape = 0; shape < SHAPES; shape++) {
        if (n > 8 && n % SHAPES != shape)
            continue;
        for (int rank = 0; rank < n; rank++)
            host_of[rank] = shapes[shape](rank, n);
        sim_open(&world, n, host_of, true, seed + (uint64_t)(n * SHAPES + shape));
        all_of(&world, ALGORITHM_COMPOSED);
        sim_close(&world);
    }
}

/* Numbers of members whose remainders, powers of two and halves differ; all of them with TUTTI_TEST_LONG. */
static bool is_tried(int n)
{
    return getenv("TUTTI_TEST_LONG") || n <= 9 || (n & (n - 1)) == 0 || n == 13 || n == 23 ||
           n == 31 || n == 33 || n == 48 || n == 63;
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int one_host[SIM_MEMBERS_MAX] = {0};
    struct sim_world world;

    printf("sim_algorithms: seed %lu\n", (unsigned long)seed);
    for (int n = 1; n <= SIM_MEMBERS_MAX; n++) {
        if (!is_tried(n))
            continue;
        sim_open(&world, n, one_host, n > 1, seed + (uint64_t)n);
        all_of(&world, n == 1 ? ALGORITHM_ALONE : ALGORITHM_INLINE);
        if (n > 1) {
            all_of(&world, ALGORITHM_MAPPED);
            all_of(&world, ALGORITHM_REGISTERED);
        }
        sim_close(&world);
        if (n == 1)
            continue;
        sim_open(&world, n, one_host, false, seed + (uint64_t)n);
        all_of(&world, ALGORITHM_MESSAGES);
        sim_close(&world);
        if (n > 2)
            on_hosts(n, seed);
    }
    printf("sim_algorithms: %lu cases right\n", (unsigned long)cases);
    return 0;
}
