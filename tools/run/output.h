/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks print: from each rank's two pipes, line by line with "[rank] " in front, to the
 * launcher's stdout and stderr, to log files, or to both.
 *
 * A line is written whole, and lines of one stream keep their order. A last line without a
 * newline is printed when its stream ends; a line longer than LINE_MAX_BYTES is printed in pieces,
 * each with the prefix. Nothing is dropped: when the reader of our output is slow, the ranks' pipes
 * are left alone until it has caught up, so that the ranks wait in write(2) as they would without
 * a launcher. Our own writes never block, so Ctrl-C is answered all the same.
 * A line of stderr that several ranks are known to print alike (fold.h) waits until its rank prints more,
 * for HOLD_MS at most; then it is printed for the first rank alone, and the rest is for the report.
 * Where stdout and stderr are the same terminal, file or pipe they share one queue, so the order in
 * which the launcher saw the lines is kept.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct output;

enum { OUTPUT_TAIL_LINE_BYTES = 400 }; /* of a line in output_tail() */

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR };

/* Called when something has ended (a stream, a queue) and the owner may want to look again. */
typedef void (*output_changed_fn)(void *user);

/* Called when a rank has printed on stderr, before that is looked at. */
typedef void (*output_printed_fn)(void *user);

struct output_options {
    int ranks;
    bool console;              /* print to stdout and stderr */
    bool bare;                 /* the lines of rank 0 have no prefix */
    const char *log_dir;       /* NULL: no files; else it exists, one folder a rank is made in it */
    output_changed_fn changed; /* a stream has ended, a queue is empty, a reader has gone */
    output_printed_fn printed;
    void *user;
};

/* NULL after having said what is wrong (log files that cannot be made). */
struct output *output_new(const struct output_options *options);
void output_free(struct output *output);

/* Takes the reading end of a rank's pipe. */
void output_attach(struct output *output, int rank, enum output_stream stream, int fd);

/* Whether every attached stream has ended. */
bool output_ended(const struct output *output);
/* Whether nothing waits to be written. */
bool output_drained(const struct output *output);
/* Whether the reader of our stdout or stderr has closed it (`tutti run … | head -1`). */
bool output_reader_gone(const struct output *output);
/* Whether that is since a write failed otherwise (a full disk). */
bool output_failed(const struct output *output);
/* Bytes read so far: a streak of equal answers means that the streams are quiet. */
unsigned long long output_bytes(const struct output *output);
/* Stops reading, and prints the unfinished lines. */
void output_close_streams(struct output *output);

/* Queues the launcher's own words behind what was read so far. */
void output_say(struct output *output, const char *text);

/* From now on lines of stderr that hold the message may be printed once for all ranks. */
void output_fold(struct output *output, const char *message);
/* Prints the lines that wait; those of several ranks once, with the ranks. In a job that goes on this happens
 * by itself, soon after a line has come. */
void output_print_held(struct output *output);
/* Prints the lines that wait and that one rank alone has printed. All, struct fold_line *, with them; what
 * several ranks have printed is for the caller to say. */
const GPtrArray *output_folded(struct output *output);

/* The beginning of a line as a terminal may show it: no control characters, valid UTF-8; freed with
 * g_free(). */
char *output_readable(const char *line, size_t size, size_t most);

/* The last lines of a rank's stderr, at most `lines`, made fit for a terminal; free with
 * g_strfreev(). */
char **output_tail(const struct output *output, int rank, int lines);
