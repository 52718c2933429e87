/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning file while `tutti bench --tune` makes it: lines that set thresholds, and comments that say
 * what was measured where. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bench/result.h"
#include "bench/settings.h"

struct tune_file;

struct tune_file *tune_file_new(void);
void tune_file_free(struct tune_file *file);

/* Sets the threshold, or keeps the standard value; `why` becomes a comment. */
void tune_file_set(struct tune_file *file, const char *name, uint64_t standard, uint64_t value,
                   const char *why);
void tune_file_keep(struct tune_file *file, const char *name, uint64_t standard, const char *why);
/* Adds a comment. */
void tune_file_note(struct tune_file *file, const char *words);

/* The lines so far with a further one, without comments; g_free(). */
char *tune_file_lines(const struct tune_file *file, const char *name, uint64_t value);

/* Writes it to settings->tune, whole or not at all, and says so. False after having said why not. */
bool tune_file_write(const struct tune_file *file, const struct bench_settings *settings,
                     const struct bench_facts *facts);
