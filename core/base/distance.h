/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

enum { DISTANCE_WORD_MAX = 63 };

/* How many letters to change, add, drop or swap with their neighbour to make `a` into `b`: the
 * optimal string alignment distance. Longer words are cut at DISTANCE_WORD_MAX. */
unsigned word_distance(const char *a, const char *b);

/* Whether `word` may be a typing error for `candidate`: one change in a word of three letters or more,
 * and not of its first letter, which is seldom mistyped; so "train" is not taken for "grain". */
bool word_is_near(const char *word, const char *candidate);
