/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/trial.h"

#include "schedule/mapped.h"

/* The word of another plan in the same place says nothing. A trial that this member does not decide stays as it began. */
uint8_t trial_way(const struct trial *trial, const struct mapped *mapped, int decider)
{
    _Atomic uint64_t *word =
        &mapped->areas[decider]->trials[trial->plan / TRIAL_WAYS % MAPPED_TRIALS];
    uint64_t shown;

    if (mapped->self == decider) {
        atomic_store_explicit(word, trial->plan + trial->way, memory_order_relaxed);
        return trial->way;
    }
    shown = atomic_load_explicit(word, memory_order_relaxed) - trial->plan;
    return shown < TRIAL_WAYS ? (uint8_t)shown : trial->way;
}

/* The way has been tried that differs from the chosen one in this kind of stores. One that wins is tried again at once,
 * one that does not after a longer while. */
static void judge(struct trial *trial, struct trial_kind *kind)
{
    const uint64_t tried = trial->cost[trial->way], before = trial->cost[trial->chosen];

    if (tried + tried / TRIAL_WINS_BY >= before) {
        kind->wins = 0;
        kind->pause = kind->pause < TRIAL_PAUSE_MAX ? 2 * kind->pause + 1 : TRIAL_PAUSE_MAX;
    } else {
        kind->pause = 0;
        if (++kind->wins >= TRIAL_WINS) {
            trial->chosen = trial->way;
            kind->wins = 0;
        }
    }
    trial->way = trial->chosen;
    kind->blocks = kind->pause;
}

/* A block of the chosen way is over. */
static void choose_next(struct trial *trial)
{
    for (int k = 0; k < TRIAL_KINDS; k++) {
        struct trial_kind *kind = &trial->kinds[k];

        if (!(trial->may & 1 << k))
            continue;
        if (kind->blocks)
            kind->blocks--;
        else if (trial->way == trial->chosen)
            trial->way = (uint8_t)(trial->chosen ^ 1 << k);
    }
}

void trial_took(struct trial *trial, uint64_t ticks, uint64_t bytes)
{
    const uint32_t warm = trial->calls++;

    if (warm < TRIAL_WARM_CALLS || trial->bytes < TRIAL_WARM_BYTES) {
        trial->bytes += bytes;
        return;
    }
    if (!trial->least || ticks < trial->least)
        trial->least = ticks;
    if (++trial->counted < TRIAL_CALLS)
        return;
    trial->cost[trial->way] = trial->least;
    trial->least = trial->bytes = 0;
    trial->calls = trial->counted = 0;
    for (int k = 0; k < TRIAL_KINDS; k++)
        if ((trial->way ^ trial->chosen) == 1 << k) {
            judge(trial, &trial->kinds[k]);
            return;
        }
    choose_next(trial);
}
