/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of dumps, and what `tutti trace analyze` says of it. */
#pragma once

#include "fault.h"

struct dumps {
    char path[64], dump_dir[96], test_folder[96]; /* the latter two as in the environment */
    int64_t until_ns; /* dumps are awaited: nearly as long as a test lasts */
};

struct dumps dumps_new(void);
void dumps_remove(struct dumps *f);
/* Files in it whose names end so. */
int dumps_count(const struct dumps *f, const char *end);
/* Waits until there are so many dumps. False: there are more, or they did not come. */
bool dumps_await(const struct dumps *f, int count);
/* Every dump contains the words. */
void dumps_expect(const struct dumps *f, const char *words);
/* What `tutti trace analyze` says of the folder, and its exit code; -1: it crashed. */
int dumps_verdict(const struct dumps *f, char *ret_words, size_t capacity);
/* Runs `tutti trace analyze`: its exit code is `code`, its words contain each of `parts` (NULL
 * ends them). */
void dumps_analyze(const struct dumps *f, int code, const char *const *parts);
