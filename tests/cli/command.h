/* SPDX-License-Identifier: Apache-2.0 */
/* Runs shell commands in which $TUTTI is the command under test, and looks at what is left. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct ran {
    int code; /* of the shell: 128+n when a signal ended it */
    double seconds;
    char *out, *err;
};

/* Runs `script` (printf-style) with /bin/sh to its end. */
struct ran ran(const char *script, ...) G_GNUC_PRINTF(1, 2);
void ran_free(struct ran *ran);

/* Starts `tutti WORDS` in the background, its output in `output_path`; returns its pid. */
pid_t command_start(const char *words, const char *output_path);
/* Waits for it; the exit code, 128+n for a signal, -1 when it is still there after the time. */
int command_wait(pid_t pid, double seconds);
/* From when a command is to end: made just before it is told to. */
struct command_ending {
    pid_t pids[3]; /* the command, its child and this process */
    gint64 from_us, delay_ns;
};
struct command_ending command_ending(pid_t pid);
/* The same after `seconds`, not counting what the machine withheld since then: its stalls (harness/stalls.h), and
 * how long these processes waited for a CPU. It waits longer than that, so that nothing is left. */
int command_ends_within(const struct command_ending *ending, double seconds);

/* A fresh folder, removed by folder_remove(). */
char *folder_new(void);
void folder_remove(char *folder);
/* The contents of a file in it, "" when there is none. */
char *folder_read(const char *folder, const char *name);

/* How many processes have `marker` in their arguments, this one aside. */
int processes_with(const char *marker);
/* Waits until there are so many; false when that takes longer. */
bool wait_for_processes(const char *marker, int count, double seconds);
/* Waits until the file is there. */
bool wait_for_file(const char *folder, const char *name, double seconds);
/* Waits until the words are in the file. */
bool wait_for_words(const char *folder, const char *name, const char *words, double seconds);
/* The first child of a process, 0 when it has none. */
pid_t child_of(pid_t pid);

/* In what a command printed; the file includes <criterion/criterion.h> and <string.h>. */
#define CONTAINS(text, words)                                                                      \
    cr_assert_not_null(strstr(text, words), "no \"%s\" in:\n%s", words, text)
#define LACKS(text, words) cr_assert_null(strstr(text, words), "\"%s\" in:\n%s", words, text)
/* How often the words are in it. */
int count_of(const char *text, const char *words);
