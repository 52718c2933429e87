/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a copy of a schedule goes by plain or by streaming stores (api/tutti/plugin_copy.h): into windows and outputs of
 * local peers, and to the caller's own outputs.
 */
#pragma once

#include "schedule/mapped.h"
#include "schedule/schedule.h"

/* Copies step->bytes of a STEP_COPY to where step->to is. `mapped` is NULL in a group without mapped
 * memory. `streams`: what local peers read goes by streaming stores (trial.h). */
void copies_make(struct mapped *mapped, const struct schedule *schedule, const struct step *step,
                 bool streams, void *to, const void *from);
