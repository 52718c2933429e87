/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the members, until all are done or none can move. */
#include <stdio.h>

#include "sim.h"

struct sim_member *sim_pick(struct sim_world *world)
{
    uint64_t total = 0, turn;

    for (int rank = 0; rank < world->size; rank++)
        if (world->members[rank].running)
            total += (uint64_t)world->members[rank].weight;
    if (!total)
        return NULL;
    turn = sim_below(world, total);
    for (int rank = 0;; rank++) {
        if (!world->members[rank].running)
            continue;
        if (turn < (uint64_t)world->members[rank].weight)
            return &world->members[rank];
        turn -= (uint64_t)world->members[rank].weight;
    }
}

void sim_deadlock(struct sim_world *world)
{
    static const char *const words[] = {"nothing", "room", "call", "mapped", "receive", "send"};

    for (int rank = 0; rank < world->size; rank++) {
        struct sim_member *member = &world->members[rank];
        struct waiting waiting = {WAITING_NOTHING, -1, false};

        if (!member->running)
            continue;
        if (member->algorithm->emit)
            waiting = run_waiting(&member->run);
        fprintf(stderr, "rank %d in #%lu %s, step %u, waits for %s of %d\n", rank,
                (unsigned long)member->sequence, member->algorithm->name, member->run.next,
                words[waiting.kind], waiting.rank);
    }
    sim_fail("deadlock of %d members", world->size);
}

void sim_must_move(struct sim_world *world)
{
    const uint64_t before = world->activity;

    for (int rank = 0; rank < world->size; rank++)
        if (world->members[rank].running && sim_advance(&world->members[rank]) == TUTTI_OK)
            return;
    if (world->activity == before)
        sim_deadlock(world);
}

void sim_all(struct sim_world *world, const struct sim_op *op, uint64_t number)
{
    struct sim_member *member;
    uint64_t idle = 0, activity = 0;

    for (int rank = 0; rank < world->size; rank++)
        sim_call(&world->members[rank], op, number);
    while ((member = sim_pick(world)) != NULL) {
        const tutti_status status = sim_advance(member);

        if (status && status != TUTTI_ERR_NOT_READY)
            sim_fail("%s: rank %d got %s", member->algorithm->name, member->rank,
                     tutti_status_name(status));
        idle = world->activity == activity ? idle + 1 : 0;
        activity = world->activity;
        if (idle > (uint64_t)world->size)
            sim_must_move(world);
    }
    if (op->random)
        sim_check_bits(world);
    for (int rank = 0; rank < world->size && !op->random; rank++)
        sim_check(world, rank, op, number);
}
