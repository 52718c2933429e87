/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the caller's memory the steps of a run use, for calls whose vectors come and go in pieces. */
#include "schedule/runner.h"

static bool is_callers(const struct place *place)
{
    return place->kind == PLACE_IN || place->kind == PLACE_OUT;
}

struct uses {
    const struct place *places[3];
    int count;
    uint64_t bytes; /* at each */
};

static void add(struct uses *uses, const struct place *place)
{
    if (is_callers(place))
        uses->places[uses->count++] = place;
}

static struct uses uses_of(const struct run *run, const struct step *step)
{
    struct uses uses = {.bytes = step->bytes};
    const enum step_kind kind = step->kind;
    const bool reduces =
        kind == STEP_REDUCE || kind == STEP_REDUCE_LOCAL || kind == STEP_REDUCE_ALL;

    if (reduces || kind == STEP_FINISH)
        uses.bytes *= run->call.kernels.element_bytes;
    if (reduces || kind == STEP_COPY || kind == STEP_SEND)
        add(&uses, &step->a);
    if (kind == STEP_REDUCE)
        add(&uses, &step->b);
    if (reduces || kind == STEP_COPY || kind == STEP_RECV || kind == STEP_FINISH)
        add(&uses, &step->to);
    return uses;
}

static void *address_of(const struct run *run, const struct place *place)
{
    return place_in(place->kind == PLACE_IN ? &run->call.in : &run->call.out, place);
}

tutti_status run_reach(const struct run *run, const struct step *step)
{
    const struct uses uses = uses_of(run, step);
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < uses.count && !status; i++)
        status = run->call.reach(run->call.reach_user, address_of(run, uses.places[i]), uses.bytes);
    return status;
}

/* The first step before which step `index` is certain to be complete. */
static uint32_t end_of(const struct schedule *schedule, uint32_t index)
{
    const struct step *step = &schedule->steps[index];
    uint32_t next = index + 1;

    if (step->kind != STEP_RECV)
        return next;
    for (; next < schedule->count; next++) {
        const struct step *fence = &schedule->steps[next];

        if (fence->kind == STEP_FENCE ||
            (fence->kind == STEP_FENCE_TICKET && fence->ticket == step->ticket))
            return next + 1;
    }
    return next;
}

void run_tell_writes(const struct run *run, run_write_fn wrote, void *user)
{
    const struct schedule *schedule = run->call.schedule;

    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct step *step = &schedule->steps[i];
        const struct uses uses = uses_of(run, step);

        for (int u = 0; u < uses.count; u++)
            if (uses.places[u] == &step->to)
                wrote(user, address_of(run, &step->to), uses.bytes, end_of(schedule, i));
    }
}
