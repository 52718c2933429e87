/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs share: exit codes, usage errors with the nearest match, sizes, colour.
 *
 * Exit codes: 0 done; 1 the request failed; 2 the command line is wrong; `tutti run` also passes a
 * rank's own code on, 126 and 127 for a program that cannot be started, 128+n for signals.
 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127
};

/* Says "tutti VERB: message" on stderr, points at --help, and returns EXIT_USAGE. */
int cli_usage(const char *verb, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Says "tutti VERB: message" on stderr. */
void cli_say(const char *verb, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The library's last message without the name of its function, which the user has not called. */
const char *cli_last_error(void);

/* Says on stderr what the library says went wrong with a request of the user's, and returns the exit
 * code: EXIT_USAGE for an argument that makes no sense, else EXIT_FAILED. */
int cli_say_failure(const char *verb, tutti_status status);

/* The candidate that `word` is a typing error for, as word_is_near() says; NULL: none. */
const char *cli_nearest(const char *word, const char *const *candidates);
/* Says that `word` is no `what`, the nearest that is known, and all. Returns EXIT_USAGE. */
int cli_unknown(const char *verb, const char *what, const char *word, const char *const *known);

/*
 * Parses the options of one verb and removes them from argv, argv[0] included. With `stop_early`
 * the first word that is no option ends them. Returns false after having said what is wrong. The
 * help text that GOption prints ends the process.
 */
bool cli_parse(const char *verb, const char *parameters, const char *summary,
               const char *description, const GOptionEntry *entries, bool stop_early, int *argc,
               char ***argv);

/*
 * From then on cli_parse() hands the table of a verb to fn instead of reading a command line, and
 * says that it cannot go on. So `tutti completion` knows the options of each verb.
 */
typedef void (*cli_table_fn)(const char *verb, const GOptionEntry *entries, void *user);
void cli_watch_tables(cli_table_fn fn, void *user);
/* Whether it is so; a verb with verbs below it lets each of them hand over its table. */
bool cli_is_watched(void);

/* "4096", "64K", "1M", "2G", "1MiB": multiples of 1024. False when it is none of these. */
bool cli_parse_size(const char *text, uint64_t *ret_bytes);

/* A whole number of any size, and nothing after it. */
bool cli_is_number(const char *text);
/* A whole number in [low, high], and nothing after it. */
bool cli_parse_int(const char *text, int low, int high, int *ret_value);

/* Members of a JSON document. A string that is NULL is told as null, and one that is no UTF-8, as a path
 * may be, with U+FFFD for what is wrong in it. */
void cli_json_string(JsonBuilder *builder, const char *name, const char *value);
void cli_json_int(JsonBuilder *builder, const char *name, gint64 value);
void cli_json_bool(JsonBuilder *builder, const char *name, bool value);
/* A member that is an array; json_builder_end_array() ends it. */
void cli_json_array(JsonBuilder *builder, const char *name);
/* Prints the document on stdout, indented. */
void cli_print_json(JsonBuilder *builder);

/* "auto", "always" or "never", for cli_color(). False: it is none of these. */
bool cli_choose_color(const char *when);
/* Whether to colour what goes to `fd`: as chosen; else without NO_COLOR, on a terminal that is not dumb or by
 * CLICOLOR_FORCE. */
bool cli_color(int fd);

/* Whether the locale can show box-drawing characters. */
bool cli_utf8(void);
