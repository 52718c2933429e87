/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of `tutti bench`. */
#pragma once

#include "bench/settings.h"

/* Measures what the settings ask for, together with the other ranks; returns the exit code. Rank 0
 * prints. */
int member_run(const struct bench_settings *settings);
