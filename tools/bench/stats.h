/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of samples. */
#pragma once

#include <stddef.h>

/* Sorts upwards. */
void stats_sort(double *samples, size_t count);

/* The smallest of the sorted samples that at least `percent` of them do not exceed (nearest rank). */
double stats_percentile(const double *sorted, size_t count, double percent);

/* The median of the sorted samples, and two of them between which the median of all that could be
 * taken lies, at 95 %. Holds for any distribution. */
double stats_median(const double *sorted, size_t count, double *ret_low, double *ret_high);
