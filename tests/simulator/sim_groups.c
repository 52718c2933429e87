/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups as they are: the planned algorithms on every layout; random operations back to back over
 * the same mapped memory, with members that fall behind; and members that call something else.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

struct named_layout {
    const char *name;
    int size;
    int host_of[24];
};

static const struct named_layout layouts[] = {
    {"{2}", 2, {0}},
    {"{4}", 4, {0}},
    {"{1,3}", 4, {0, 1, 1, 1}},
    {"{3,1,4}", 8, {0, 0, 0, 1, 2, 2, 2, 2}},
    {"{2,2}", 4, {0, 0, 1, 1}},
    {"{5,2,3,2}", 12, {0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3}},
    {"{6,6,6}", 18, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}},
    {"2 hosts, round robin", 6, {0, 1, 0, 1, 0, 1}},
    {"3 hosts, round robin", 7, {0, 1, 2, 0, 1, 2, 0}},
    {"one host a rank", 5, {0, 1, 2, 3, 4}},
    {"hosts with odd numbers", 5, {7, -1, 7, 7, -1}},
    {"one host of 24", 24, {0}},
};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0], CALLS_MAX = 64, PAIRS = 32 };

static uint64_t cases, number;

/* ---- every layout ---------------------------------------------------------------------------- */

/* The operations that came later than all_reduce and broadcast; those with blocks share the
 * vector's size. Returns how many. */
static uint64_t blocks_of_every_kind(struct sim_world *world, struct sim_op op)
{
    uint64_t done = 0;

    for (int operation = OPERATION_REDUCE; operation < OPERATION_COUNT; operation++, done++) {
        struct sim_op call = op;

        call.operation = (enum operation)operation;
        if (operation != OPERATION_REDUCE)
            call.count = op.count / (uint64_t)world->size;
        sim_all(world, &call, number++);
        call.uneven = operation_has_blocks(operation);
        if (call.uneven)
            sim_all(world, &call, number++);
    }
    return done;
}

static void every_size(struct sim_world *world, uint64_t largest)
{
    static const uint64_t counts[] = {0,     1,      7,      1024,   1025,    4096,
                                      4097,  8191,   8192,   32769,  65536,   65537,
                                      70000, 262144, 262145, 524289, 1048577, 1200000};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MIN, TUTTI_MAX};
    struct sim_op op = {.operation = OPERATION_BARRIER, .dtype = TUTTI_U8};

    sim_all(world, &op, number++);
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i] * (uint64_t)world->size > largest)
            break;
        op = (struct sim_op){.operation = OPERATION_ALL_REDUCE,
                             .dtype = i % 2 ? TUTTI_F32 : TUTTI_I32,
                             .op = ops[i % 4],
                             .count = counts[i],
                             .in_place = i % 3 == 0};
        sim_all(world, &op, number++);
        op.random = i % 2;
        if (op.random)
            sim_all(world, &op, number++);
        op.random = false;
        op.operation = OPERATION_BROADCAST;
        op.root = (int)sim_below(world, (uint64_t)world->size);
        sim_all(world, &op, number++);
        cases += 2 + blocks_of_every_kind(world, op);
    }
}

/* Leaders send in all what one all_reduce of the whole vector between the hosts would. */
static void check_traffic(struct sim_world *world, const struct named_layout *layout)
{
    const uint64_t hosts = (uint64_t)world->members[0].layout.hosts, bytes = 64 * 12 * 256;
    const struct sim_op op = {.operation = OPERATION_ALL_REDUCE,
                              .dtype = TUTTI_F32,
                              .op = TUTTI_SUM,
                              .count = bytes / 4,
                              .algorithm = &all_reduce_composed_algorithm};
    uint64_t sent = 0;

    sim_all(world, &op, number++);
    for (int rank = 0; rank < world->size; rank++)
        sent += world->members[rank].sent_bytes;
    if (sent != 2 * (hosts - 1) * bytes)
        sim_fail("%s: %lu bytes between %lu hosts for %lu", layout->name, (unsigned long)sent,
                 (unsigned long)hosts, (unsigned long)bytes);
}

static void run_layouts(uint64_t seed)
{
    struct sim_world world;

    for (int i = 0; i < LAYOUTS; i++)
        for (int mapped = 0; mapped < 2; mapped++) {
            sim_open(&world, layouts[i].size, layouts[i].host_of, mapped, seed + (uint64_t)i);
            every_size(&world, mapped && world.size <= 8 ? 10u << 20 : 2u << 20);
            if (mapped && world.members[0].layout.hosts > 1 &&
                world.members[0].layout.hosts < world.size)
                check_traffic(&world, &layouts[i]);
            sim_close(&world);
        }
}

/* ---- random operations back to back ---------------------------------------------------------- */

static struct sim_op random_op(struct sim_world *world)
{
    static const uint64_t limits[] = {1, 16, 1100, 4096, 40000, 140000, 600000};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MIN, TUTTI_MAX};
    const uint64_t limit = limits[sim_below(world, world->size > 8 ? 4 : world->size > 2 ? 6 : 7)];
    const enum operation operation = (enum operation)(1 + sim_below(world, OPERATION_COUNT - 1));

    return (struct sim_op){.operation = operation,
                           .dtype = sim_below(world, 2) ? TUTTI_F32 : TUTTI_I32,
                           .op = ops[sim_below(world, 4)],
                           .root = (int)sim_below(world, (uint64_t)world->size),
                           .count = sim_below(world, limit + 1),
                           .in_place = sim_below(world, 2),
                           .uneven = operation_has_blocks(operation) && sim_below(world, 2)};
}

/* Some members become slow, others fast, for a while. */
static void shuffle_speeds(struct sim_world *world)
{
    for (int rank = 0; rank < world->size; rank++)
        world->members[rank].weight = sim_below(world, 3) ? 100 : 1;
}

/* Checks the call that a member has finished and makes its next one. */
static void next_call(struct sim_member *member, const struct sim_op *ops, int count)
{
    const int done = (int)member->sequence - 1;

    sim_check(member->world, member->rank, &ops[done], (uint64_t)done);
    if (done + 1 < count)
        sim_call(member, &ops[done + 1], (uint64_t)done + 1);
}

static void run_sequence(struct sim_world *world, int count)
{
    struct sim_op ops[CALLS_MAX];
    struct sim_member *member;
    uint64_t idle = 0, activity = 0;

    for (int i = 0; i < count; i++)
        ops[i] = random_op(world);
    for (int rank = 0; rank < world->size; rank++)
        sim_call(&world->members[rank], &ops[0], 0);
    while ((member = sim_pick(world)) != NULL) {
        const tutti_status status = sim_advance(member);

        if (sim_below(world, 500) == 0)
            shuffle_speeds(world);
        if (status && status != TUTTI_ERR_NOT_READY)
            sim_fail("%s: rank %d got %s", member->algorithm->name, member->rank,
                     tutti_status_name(status));
        idle = world->activity == activity ? idle + 1 : 0;
        activity = world->activity;
        if (idle > 4 * (uint64_t)world->size)
            sim_must_move(world);
        for (int rank = 0; rank < world->size; rank++)
            if (!world->members[rank].running && (int)world->members[rank].sequence <= count)
                if (world->members[rank].checked != world->members[rank].sequence) {
                    world->members[rank].checked = world->members[rank].sequence;
                    next_call(&world->members[rank], ops, count);
                }
    }
    cases += (uint64_t)count;
}

static void run_sequences(uint64_t seed, int rounds)
{
    struct sim_world world;

    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < LAYOUTS; i++) {
            sim_open(&world, layouts[i].size, layouts[i].host_of, round % 4 != 3,
                     seed + (uint64_t)(round * LAYOUTS + i));
            run_sequence(&world, layouts[i].size > 8 ? 24 : CALLS_MAX);
            sim_close(&world);
        }
}

/* Their windows change hands after as many pages as an operation fills: what lies on each other differs from call to call. */
static void run_pairs(uint64_t seed, int rounds)
{
    static const int one_host[2] = {0};
    struct sim_world world;

    for (int round = 0; round < PAIRS * rounds; round++) {
        sim_open(&world, 2, one_host, true, seed + (uint64_t)round);
        run_sequence(&world, CALLS_MAX);
        sim_close(&world);
    }
}

/* ---- members that differ --------------------------------------------------------------------- */

/* Whom a member that cannot move waits for. */
static int awaited(const struct sim_member *member)
{
    return member->algorithm->emit ? run_waiting(&member->run).rank
                                   : member->mapped.ranks[member->mapped.culprit];
}

/* The local peer's record must tell what it called. */
static void check_record(const struct sim_member *member)
{
    const struct mapped *mapped = &member->mapped;
    struct announce theirs;

    if (!mapped_record(mapped, mapped->culprit, mapped->culprit_sequence, &theirs) ||
        theirs.signature != mapped->culprit_signature)
        sim_fail("rank %d finds no record of rank %d's call", member->rank, mapped->culprit);
}

/* Advances until no member can move any more; a member that gets through its call goes on to
 * `then`. */
static void run_until_still(struct sim_world *world, const struct sim_op *then,
                            bool found[SIM_MEMBERS_MAX])
{
    const uint64_t last = world->members[0].sequence + 1;
    struct sim_member *member;

    for (int idle = 0; idle < 100 && (member = sim_pick(world)) != NULL; idle++) {
        const uint64_t before = world->activity;
        const tutti_status status = sim_advance(member);

        if (world->activity != before)
            idle = 0;
        if (status == TUTTI_ERR_NOT_READY)
            continue;
        if (status == TUTTI_OK && member->sequence < last) {
            sim_call(member, then, number);
        } else if (status == TUTTI_ERR_MISMATCH) {
            check_record(member);
            found[member->rank] = true;
        } else {
            sim_fail("rank %d got %s from a different call", member->rank,
                     tutti_status_name(status));
        }
    }
}

/*
 * One member calls `odd`, the others `op`; a barrier follows for members that get through. On one
 * host with mapped memory a member finds it, and the others wait for one that has: the verdict's
 * turn.
 */
static void run_mismatch(struct sim_world *world, const struct sim_op *op, const struct sim_op *odd,
                         int who)
{
    static const struct sim_op barrier = {.operation = OPERATION_BARRIER, .dtype = TUTTI_U8};
    bool found[SIM_MEMBERS_MAX] = {false};

    for (int rank = 0; rank < world->size; rank++)
        sim_call(&world->members[rank], rank == who ? odd : op, number);
    run_until_still(world, &barrier, found);
    for (int rank = 0; rank < world->size; rank++) {
        const struct sim_member *member = &world->members[rank];

        if (!found[rank] && !(member->running && found[awaited(member)]))
            sim_fail("rank %d did not see the difference", rank);
    }
    cases++;
}

static void run_mismatches(uint64_t seed)
{
    static const struct sim_op calls[] = {
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 2, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 3, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_MAX, 0, 2, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_I32, TUTTI_SUM, 0, 2, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 0, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 8000, false, false, false, NULL, 0},
        {OPERATION_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 300000, false, false, false, NULL, 0},
        {OPERATION_BROADCAST, TUTTI_F32, TUTTI_SUM, 0, 2, false, false, false, NULL, 0},
        {OPERATION_BROADCAST, TUTTI_F32, TUTTI_SUM, 1, 2, false, false, false, NULL, 0},
        {OPERATION_BROADCAST, TUTTI_F32, TUTTI_SUM, 1, 300000, false, false, false, NULL, 0},
        {OPERATION_BARRIER, TUTTI_U8, TUTTI_SUM, 0, 0, false, false, false, NULL, 0},
    };
    enum { CALLS = sizeof calls / sizeof calls[0] };
    const int one_host[3] = {0};
    struct sim_world world;

    for (int i = 0; i < CALLS; i++)
        for (int j = 0; j < CALLS; j++) {
            if (i == j)
                continue;
            sim_open(&world, 3, one_host, true, seed + (uint64_t)(i * CALLS + j));
            for (uint64_t before = sim_below(&world, 6); before > 0; before--)
                sim_all(&world, &calls[before], number);
            run_mismatch(&world, &calls[i], &calls[j], (i + j) % 3);
            sim_close(&world);
        }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int rounds = argc > 2 ? atoi(argv[2]) : 4;

    printf("sim_groups: seed %lu\n", (unsigned long)seed);
    run_layouts(seed);
    printf("sim_groups: layouts right\n");
    run_sequences(seed, rounds);
    run_pairs(seed, rounds);
    printf("sim_groups: sequences right\n");
    run_mismatches(seed);
    printf("sim_groups: %lu cases right\n", (unsigned long)cases);
    return 0;
}
