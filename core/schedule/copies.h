/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a copy of a schedule goes by plain or by streaming stores (api/tutti/plugin_copy.h): into windows and outputs of
 * local peers, and to the caller's own outputs.
 */
#pragma once

#include "schedule/mapped.h"
#include "schedule/schedule.h"

/* Copies step->bytes of a STEP_COPY to where step->to is. `mapped` is NULL in a group without mapped
 * memory. `way`: which stores stream in this call (trial.h). */
void copies_make(struct mapped *mapped, const struct schedule *schedule, const struct step *step,
                 uint8_t way, void *to, const void *from);

/* Whether a cache may hold the outputs of the schedule, or not: what else runs on the host decides, so it is tried. */
bool copies_may_be_cached(const struct mapped *mapped, const struct schedule *schedule);

/* The way of calls that are not tried, and of the first ones of those that are. */
uint8_t copies_untried_way(const struct mapped *mapped, const struct schedule *schedule);
