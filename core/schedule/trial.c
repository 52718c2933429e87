/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/trial.h"

#include "schedule/mapped.h"

/* The word of another plan in the same place means that no copy streams for the trial. */
bool trial_streams(const struct trial *trial, const struct mapped *mapped)
{
    _Atomic uint64_t *word = &mapped->areas[0]->trials[trial->plan / 2 % MAPPED_TRIALS];

    if (mapped->self == 0) {
        atomic_store_explicit(word, trial->plan + trial->streams, memory_order_relaxed);
        return trial->streams;
    }
    return atomic_load_explicit(word, memory_order_relaxed) == trial->plan + 1;
}

/* The other way has been tried. One that wins is tried again at once, one that does not after a longer while. */
static void judge(struct trial *trial)
{
    const uint64_t tried = trial->cost[trial->streams], before = trial->cost[trial->chosen];

    if (tried + tried / TRIAL_WINS_BY >= before) {
        trial->wins = 0;
        trial->pause = trial->pause < TRIAL_PAUSE_MAX ? 2 * trial->pause + 1 : TRIAL_PAUSE_MAX;
    } else {
        trial->pause = 0;
        if (++trial->wins >= TRIAL_WINS) {
            trial->chosen = trial->streams;
            trial->wins = 0;
        }
    }
    trial->streams = trial->chosen;
    trial->blocks = trial->pause;
}

void trial_took(struct trial *trial, uint64_t ticks, uint64_t bytes)
{
    if (trial->bytes < TRIAL_WARM_BYTES) {
        trial->bytes += bytes;
        return;
    }
    if (!trial->least || ticks < trial->least)
        trial->least = ticks;
    if (++trial->calls < TRIAL_CALLS)
        return;
    trial->cost[trial->streams] = trial->least;
    trial->least = trial->bytes = 0;
    trial->calls = 0;
    if (trial->streams != trial->chosen)
        judge(trial);
    else if (trial->blocks)
        trial->blocks--;
    else
        trial->streams = !trial->chosen;
}
