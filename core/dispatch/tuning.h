/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuning file: thresholds (algorithm/thresholds.h) as `tutti bench --tune` writes them. It is read
 * when a world is made; groups made from it inherit the thresholds. Members compare all thresholds, so
 * different files are an error of tutti_init().
 *
 * A line is `name = value`. The value is a number of bytes, and may end in K, M or G; '#' begins a
 * comment. A threshold that is not in the file keeps its standard value. A line `operation = algorithm`
 * fixes the algorithm for every size, to measure it: one over messages, or a composition. Calls that
 * cannot take it go by the thresholds. A file with a wrong line is refused as a whole.
 */
#pragma once

#include <stdbool.h>

#include <tutti/status.h>

#include "algorithm/algorithm.h"
#include "base/text.h"

enum { TUNING_PATH_MAX = 4096 };

/* The file to read: that of TUTTI_TUNING, else tutti/tuning in the user's configuration folder. False:
 * there is none to look for. *ret_named: TUTTI_TUNING names it, so it must be there. */
bool tuning_path(char ret_path[TUNING_PATH_MAX], bool *ret_named);

/* The thresholds of the file, or the standard ones if there is none. INVALID_ARGUMENT: it has a wrong
 * line, which the message names; SYSTEM: a file that TUTTI_TUNING names cannot be read. */
tutti_status tuning_read(struct thresholds *ret_thresholds);

/* Adds "NAME (TUTTI_TUNING)=BYTES\n" of each threshold, and a line of the algorithms that are fixed;
 * members compare them. */
void tuning_settings(const struct thresholds *thresholds, struct text *settings);

/* "up to NAME = 16384", or "from …", for the threshold that decides about the algorithm in a group of so many; "" if there is
 * none. "as tuned" follows a value that a file has set.
 * Nothing decides if the file fixes an algorithm of the operation. */
void tuning_words(const struct thresholds *thresholds, const struct algorithm *algorithm,
                  int members, struct text *words);
