/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks put in, and whether the right results came out.
 *
 * Element k of a rank's input is a whole number from 0 to 7 that follows from the rank, k modulo a
 * period and the reduction. Numbers are chosen so that every partial result can be
 * represented exactly in every dtype: of a sum or product one rank has the number of an element, the
 * others 0 or 1. So a result is right if all its bits are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bench/call.h"

enum { VALUES_PREMUL_FACTOR = 2 }; /* of every rank, if the reduction is premul_sum */

/* Writes a whole number from 0 to 15 as one element. */
void values_put(tutti_dtype dtype, uint64_t number, char *ret_element);

/* Whether results of the call can be checked: they are exact. */
bool values_are_exact(const struct bench_call *call);

/* Fills the input with the numbers, and the output with bytes that no result has. */
void values_fill(struct bench_call *call);

struct values_wrong {
    int64_t count; /* elements that are wrong on this rank */
    int64_t first; /* one of them */
    char got[40], expected[40];
};

/* Compares the output with the result of values_fill() and one call. */
void values_check(const struct bench_call *call, struct values_wrong *ret_wrong);

/* Writes the whole input, as a program does before a call: with ones, by stores that stay in the cache. */
void values_touch(struct bench_call *call);
