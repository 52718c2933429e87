/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/copies.h"

#include "reduce/reduce.h"
#include "schedule/trial.h"

/* Calls that touch less than this part of the caches are taken to be in them, one of 4, and those that touch so many
 * times as much not to be. */
enum { CACHED_FOR_SURE = 4, UNCACHED_FOR_SURE = 2 };

/* What is known of copies of so many bytes into windows and outputs of local peers; NULL: they are plain. */
static tutti_copy *known_to(struct mapped *mapped, uint8_t kind, bool swaps, size_t bytes)
{
    switch (kind) {
    case PLACE_STAGED_IN:
    case PLACE_STAGED_OUT:
    case PLACE_PART:
        if (bytes < MAPPED_FEW_BYTES)
            return NULL;
        if (swaps)
            return bytes < TUTTI_COPY_LONG ? &mapped->copy_swapped_few : &mapped->copy_swapped;
        return bytes < TUTTI_COPY_LONG ? &mapped->copy_few : &mapped->copy;
    case PLACE_PEER_OUT:
        return bytes < TUTTI_COPY_LONG ? NULL : &mapped->copy_out;
    default:
        return NULL;
    }
}

/* Whether it is a long copy to the caller's output. Not in a schedule with messages, which may send what it has copied. */
static bool is_output(const struct mapped *mapped, const struct schedule *schedule,
                      const struct step *step)
{
    return step->to.kind == PLACE_OUT && step->bytes >= TUTTI_COPY_LONG && mapped &&
           !schedule->tickets;
}

bool copies_may_be_cached(const struct mapped *mapped, const struct schedule *schedule)
{
    return schedule->user_bytes >= mapped->uncached / CACHED_FOR_SURE &&
           schedule->user_bytes / UNCACHED_FOR_SURE < mapped->uncached && !schedule->tickets;
}

uint8_t copies_untried_way(const struct mapped *mapped, const struct schedule *schedule)
{
    return schedule->user_bytes >= mapped->uncached ? TRIAL_OUTPUTS : 0;
}

/* Plain stores fetch lines first that no cache holds. */
static bool output_streams(const struct mapped *mapped, const struct schedule *schedule,
                           uint8_t way)
{
    return copies_may_be_cached(mapped, schedule) ? way & TRIAL_OUTPUTS
                                                  : copies_untried_way(mapped, schedule);
}

/* Not as `known` would choose. Plain stores are judged anew: the lines that they find are in no cache now. */
static void stream_past(tutti_copy *known, void *to, const void *from, size_t bytes)
{
    tutti_copy_stream(to, from, bytes);
    known->plain_bytes = 0;
    known->samples = 0;
}

void copies_make(struct mapped *mapped, const struct schedule *schedule, const struct step *step,
                 uint8_t way, void *to, const void *from)
{
    const size_t bytes = (size_t)step->bytes;
    tutti_copy *known = known_to(mapped, step->to.kind, schedule->swap_pages != 0, bytes);

    if (to == from) /* in place */
        return;
    if (known && way & TRIAL_WINDOWS)
        stream_past(known, to, from, bytes);
    else if (known)
        mapped_copy(known, to, from, bytes);
    else if (is_output(mapped, schedule, step) && output_streams(mapped, schedule, way))
        tutti_copy_stream(to, from, bytes);
    else
        reduce_copy(to, from, bytes);
}
