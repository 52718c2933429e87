/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of JSON as `tutti trace` takes them from anybody: one that is cut short, of another program,
 * no file at all, or made to do harm. Reading one never waits and never takes more memory than was
 * said; whether the parser, which recurses, can bear it is asked before it is parsed.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* The bytes of a regular file and a NUL behind them, g_free(). NULL: what is wrong, in `ret_words`
 * (g_free), one of it being that the file has more than `max_mib`. */
char *trace_file_read(const char *path, int max_mib, gsize *ret_size, char **ret_words);

/* Whether brackets nest deeper than in anything that tutti writes. */
bool trace_file_nests_deep(const char *text, gsize size);
