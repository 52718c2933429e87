/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void stats_sort(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, by_size);
}

double stats_percentile(const double *sorted, size_t count, double percent)
{
    const size_t rank = (size_t)ceil(percent / 100 * (double)count);

    return sorted[rank ? rank - 1 : 0];
}

double stats_median(const double *sorted, size_t count, double *ret_low, double *ret_high)
{
    /* Half of the samples are below the median, give or take 1.96 standard deviations of a
     * binomial distribution, which are sqrt(count) / 2 each. */
    const double half = (double)count / 2, reach = 0.98 * sqrt((double)count);
    const double low = floor(half - reach), high = ceil(half + reach);

    *ret_low = sorted[low > 0 ? (size_t)low : 0];
    *ret_high = sorted[high < (double)(count - 1) ? (size_t)high : count - 1];
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}
