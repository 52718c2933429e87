/* SPDX-License-Identifier: Apache-2.0 */
/* More ranks on a host than CPUs: calls go in rounds, and give what they give by other
 * algorithms. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/rank.h"

/* Elements of 4 bytes: LONGEST is the longest vector of a CROWD that goes in rounds. */
enum {
    CROWD = 8,
    LONGEST = 8192,
    BEYOND = 300000,
    FEW = 4,
    SPACE = 4 * BEYOND,
    WORKS = 6,
    EACH = 5000
};

static _Alignas(64) unsigned char memory[SPACE], original[SPACE], expected[SPACE];

/* Onto one of the CPUs that this process may use, the one of number `n` modulo their count. */
static void pin(int n)
{
    cpu_set_t usable, one;
    int cpu = 0;

    CPU_ZERO(&one);
    require(!sched_getaffinity(0, sizeof usable, &usable));
    n %= CPU_COUNT(&usable);
    while (!CPU_ISSET(cpu, &usable) || n--)
        cpu++;
    CPU_SET(cpu, &one);
    require(!sched_setaffinity(0, sizeof one, &one));
}

static void sum_is_right(tutti_group *group, void *at, int64_t count)
{
    const int size = tutti_group_size(group), rank = tutti_group_rank(group);
    int32_t *values = at;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_I32, &shape, count);

    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)i + rank;
    require_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    for (int64_t i = 0; i < count; i++)
        if (values[i] != size * (int32_t)i + size * (size - 1) / 2)
            require(!"a right sum");
}

static void expect_rounds(tutti_group *group)
{
    sum_is_right(group, memory, 2);
    check_str_eq(rank_served_by(group), "shm all_reduce_inline_rounds");
    sum_is_right(group, memory, LONGEST);
    check_str_eq(rank_served_by(group), "shm all_reduce_rounds");
    sum_is_right(group, memory, BEYOND);
    check_str_eq(rank_served_by(group), "shm all_reduce_staged_parts");
    require_ok(tutti_barrier(group, NULL, NULL));
    check_str_eq(rank_served_by(group), "shm barrier_inline_rounds");
}

RANK_CASE(groups_of_many_ranks_go_in_rounds_and_others_do_not)
{
    tutti_group *world = rank_init(NULL), *turned, *part;

    expect_rounds(world);
    require_ok(tutti_group_split(world, 0, -rank, NULL, &turned));
    expect_rounds(turned);
    require_ok(tutti_group_split(world, rank / FEW, 0, NULL, &part));
    require(tutti_group_size(part) < size);
    sum_is_right(part, memory, 2);
    check_str_eq(rank_served_by(part), "shm all_reduce_inline");
    expect_rounds(world);
    check_ok(tutti_group_destroy(part));
    check_ok(tutti_group_destroy(turned));
    check_ok(tutti_group_destroy(world));
}

/* Some may use one CPU, the others all: a member alone could not tell whether they are crowded. */
RANK_CASE(ranks_with_different_cpus_agree)
{
    if (rank % 3)
        pin(rank % 2);
    tutti_group *world = rank_init(NULL);

    sum_is_right(world, memory, 2);
    check_contains(rank_served_by(world), "shm all_reduce_inline");
    sum_is_right(world, memory, LONGEST);
    check_ok(tutti_group_destroy(world));
}

static size_t longest(const tutti_group *group)
{
    const size_t members = (size_t)tutti_group_size(group);

    return (size_t)LONGEST * 4 * members * members / (CROWD * CROWD);
}

/* The reference goes to rank 0 by another algorithm, and from there to all. */
static void same_bits(tutti_group *world, tutti_dtype dtype, tutti_reduce_op op, int64_t count)
{
    const size_t bytes = (size_t)count * tutti_dtype_size(dtype);
    int64_t shape;
    tutti_tensor sum = tutti_tensor_1d(memory, dtype, &shape, count);
    tutti_tensor reference = tutti_tensor_1d(expected, dtype, &shape, count);

    memcpy(memory, original, bytes);
    memcpy(expected, original, bytes);
    require_ok(tutti_reduce(world, &reference, op, 0, NULL, NULL));
    require_ok(tutti_broadcast(world, &reference, 0, NULL, NULL));
    require_ok(tutti_all_reduce(world, &sum, op, NULL, NULL));
    check_contains(rank_served_by(world), bytes <= longest(world) ? "_rounds" : "staged");
    if (memcmp(memory, expected, bytes) != 0)
        check(!"the same bits");
}

RANK_CASE(results_have_the_same_bits_as_by_other_algorithms)
{
    static const int64_t counts[] = {1, 12, 13, 1000, 4097, 8192, 16383, 18000};
    static const struct {
        tutti_dtype dtype;
        tutti_reduce_op op;
    } kinds[] = {{TUTTI_F32, TUTTI_SUM}, {TUTTI_BF16, TUTTI_SUM},    {TUTTI_F16, TUTTI_AVG},
                 {TUTTI_F32, TUTTI_AVG}, {TUTTI_F64, TUTTI_PRODUCT}, {TUTTI_U8, TUTTI_SUM},
                 {TUTTI_C128, TUTTI_SUM}};
    tutti_group *world = rank_init(NULL);

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        srand((unsigned)(rank + 1));
        /* Small finite values of each dtype: the high byte of each element is not all ones. */
        for (size_t i = 0; i < SPACE; i++)
            original[i] = (unsigned char)(i % 2 ? 0x38 + rand() % 4 : rand() % 256);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            if (counts[c] * (int64_t)tutti_dtype_size(kinds[k].dtype) <= SPACE)
                same_bits(world, kinds[k].dtype, kinds[k].op, counts[c]);
    }
    check_ok(tutti_group_destroy(world));
}

/* Of ranks whose tensors are in registered memory, and of one whose tensors are not. */
RANK_CASE(registered_memory_is_used_beside_rounds)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *registered;

    require_ok(tutti_memory_allocate(world, SPACE, &registered));
    for (int turn = 0; turn < 6; turn++) {
        const bool elsewhere = turn % 2 && rank == turn;

        sum_is_right(world, elsewhere ? memory : tutti_memory_address(registered), LONGEST);
        check_contains(rank_served_by(world),
                       turn % 2 ? "all_reduce_rounds" : "all_reduce_registered");
        sum_is_right(world, tutti_memory_address(registered), 3);
    }
    check_ok(tutti_memory_free(registered));
    check_ok(tutti_group_destroy(world));
}

/* ---- long blocks of a scatter ---- */

enum { LONG_BLOCK = 40000 }; /* elements of 4 bytes */

static void scatter_is_right(tutti_group *group, int root, bool as_list)
{
    static int32_t all[CROWD][LONG_BLOCK], own[LONG_BLOCK];
    const int size = tutti_group_size(group), rank = tutti_group_rank(group);
    int64_t count = LONG_BLOCK, total = (int64_t)LONG_BLOCK * size;
    tutti_tensor in = tutti_tensor_1d(all, TUTTI_I32, &total, total), list[CROWD];
    const tutti_tensor *each[CROWD];
    tutti_tensor out = tutti_tensor_1d(own, TUTTI_I32, &count, count);

    for (int r = 0; r < size; r++) {
        /* Of a list: from the last to the first. */
        list[r] = tutti_tensor_1d(all[size - 1 - r], TUTTI_I32, &count, count);
        each[r] = &list[r];
        for (int i = 0; rank == root && i < LONG_BLOCK; i++)
            all[as_list ? size - 1 - r : r][i] = 1000 * root + r + i;
    }
    if (as_list)
        require_ok(tutti_scatter_list(group, rank == root ? each : NULL, &out, root, NULL, NULL));
    else
        require_ok(tutti_scatter(group, rank == root ? &in : NULL, &out, root, NULL, NULL));
    for (int i = 0; i < LONG_BLOCK; i++)
        if (own[i] != 1000 * root + rank + i)
            require(!"the right block");
}

/* Whether nothing forbids a process to read the memory of one that it has not started. */
static bool peers_may_be_read(void)
{
    FILE *scope = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");
    const int digit = scope ? fgetc(scope) : '0';
    char byte;
    const struct iovec here = {&byte, 1}, there = {&original, 1};
    const pid_t child = fork();

    if (scope)
        fclose(scope);
    if (!child)
        for (;;)
            pause();
    const bool may = child > 0 && process_vm_readv(child, &here, 1, &there, 1, 0) == 1;
    if (child > 0 && !kill(child, SIGKILL))
        waitpid(child, NULL, 0);
    return may && digit == '0';
}

RANK_CASE(long_blocks_are_read_in_the_roots_memory)
{
    const bool may = peers_may_be_read();
    tutti_group *world = rank_init(NULL);

    for (int turn = 0; turn < 3 * size; turn++)
        scatter_is_right(world, turn % size, turn % 2);
    if (may)
        check_str_eq(rank_served_by(world), "shm scatter_registered");
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(long_blocks_are_staged_if_one_rank_is_told_so)
{
    if (rank == 2)
        setenv("TUTTI_PEER_READS", "0", 1);
    tutti_group *world = rank_init(NULL);

    for (int turn = 0; turn < 2 * size; turn++)
        scatter_is_right(world, turn % size, turn % 2);
    check_str_eq(rank_served_by(world), "shm scatter_mapped");
    check_ok(tutti_group_destroy(world));
}

/* A member that is ahead gives its part of a later call while others are in one of another kind. */
RANK_CASE(works_of_all_kinds_are_in_flight_together)
{
    tutti_group *world = rank_init(NULL);
    static int32_t values[WORKS][EACH];
    tutti_work *works[WORKS + 1] = {0};
    int64_t shapes[WORKS];

    for (int lap = 0; lap < 30; lap++) {
        for (int i = 0; i < WORKS; i++) {
            tutti_tensor tensor =
                tutti_tensor_1d(values[i], TUTTI_I32, &shapes[i], i % 2 ? EACH : 3);

            for (int64_t k = 0; k < shapes[i]; k++)
                values[i][k] = i % 3 || !rank ? (int32_t)k + lap : -1;
            require_ok(i % 3 ? tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, &works[i])
                             : tutti_broadcast(world, &tensor, 0, NULL, &works[i]));
        }
        require_ok(rank_end_works(works, WORKS, tutti_barrier(world, NULL, NULL)));
        for (int i = 0; i < WORKS; i++)
            for (int64_t k = 0; k < shapes[i]; k++)
                if (values[i][k] != ((int32_t)k + lap) * (i % 3 ? size : 1))
                    require(!"a right result");
    }
    check_ok(tutti_group_destroy(world));
}
