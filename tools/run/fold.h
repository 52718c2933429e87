/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equal error lines of several ranks. When a group fails, each rank prints what tutti_last_error() says,
 * which is the same on all of them. A line of stderr with a message in it that libtutti has told the
 * launcher (records.h) is entered here instead of printed, and shown once, with the ranks: by the report of
 * a job that fails, a moment later (output.c) in one that goes on.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

struct fold;

/* One line, and the ranks that have printed it. */
struct fold_line {
    GString *text; /* without its newline; may hold NUL bytes */
    GArray *ranks; /* of int, ascending */
    guint told;    /* how many ranks had printed it when we printed it last, 0: not yet */
};

struct fold *fold_new(void);
void fold_free(struct fold *fold);

/* From now on lines that hold `message` are taken. */
void fold_message(struct fold *fold, const char *message);

/* The line that the rank has printed, entered; NULL: it is none of these. `size` with the newline. */
struct fold_line *fold_take(struct fold *fold, int rank, const char *text, size_t size);

/* The rank has printed the line, too. */
void fold_add_rank(const struct fold_line *line, int rank);

/* All of them, struct fold_line *, in the order in which they came. */
const GPtrArray *fold_lines(const struct fold *fold);

/* "tutti run: ranks 0,2-5 (5): TEXT" and a newline; freed with g_string_free(). */
GString *fold_words(const struct fold_line *line);

/* "0,2-5" of ascending numbers; freed with g_free(). */
char *fold_ranges(const GArray *ranks);

/* The same with the number of ranks if there is a range: "0,2", "0,2-5 (5)". */
char *fold_ranks(const GArray *ranks);
