/* SPDX-License-Identifier: Apache-2.0 */
/* Results as a picture: times and bus bandwidths by size, a curve for each operation, by gnuplot. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "bench/result.h"

/* False after having said that there is no gnuplot. */
bool plot_is_possible(void);

/* Draws the results (struct bench_result) as an SVG file. False after having said why not. */
bool plot_draw(const struct bench_facts *facts, const GArray *results, const char *path);
