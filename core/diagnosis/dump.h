/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of the recorder: what every group of a context has called, what is unfinished and what it
 * waits for, as one JSON document in one file. docs/formats.md describes it; `tutti trace analyze`
 * reads the files of all ranks.
 *
 * A dump is made on request (tutti_recorder_dump()) and, where TUTTI_DUMP_DIR names a folder, on
 * SIGUSR2 and when a group has failed (dump_watch.c). Nothing of this is on the way of a call.
 */
#pragma once

#include "group/group.h"

/* ---- dump.c ---- */

/* The document; with the progress lock of the context's engine held. `busy`: another thread keeps that, so
 * it has no groups. `cause` is "request", "signal" or "error". NULL: no memory. The caller frees it. */
char *dump_text(const struct tutti_context *context, bool busy, const char *cause);
/* The name of a context's file; likewise. */
void dump_name(const struct tutti_context *context, bool busy, char *ret_name, size_t capacity);

/* ---- dump_file.c ---- */

/* How long a dump may take that nobody else waits for, and how long the process waits for such when it ends. */
enum { DUMP_PATIENCE_MS = 5000 };

/* The next number of a text; taken when that is made, under the same lock. */
unsigned int dump_number(void);
/* Writes FOLDER/NAME, the folder made if need be: under another name, renamed when it is whole, unless a text of a
 * higher number is there by then. From a thread of its own that is waited for at most `ms`: a folder may be on a host
 * that does not answer. Takes `text` over, the answer of dump_text(). TUTTI_ERR_SYSTEM with a message; nothing is left
 * behind then. TUTTI_ERR_TIMEOUT: it goes on writing. */
tutti_status dump_write(const char *folder, const char *name, char *text, unsigned int number,
                        int64_t ms);
/* At the process's very end, when the others have heard of it: waits for files that are still being written. */
void dump_files_await(void);
/* In a forked child: the threads are its parent's. */
void dump_files_forget(void);

/* ---- dump_watch.c ---- */

/* From tutti_init(): begins to watch for SIGUSR2 and failures when TUTTI_DUMP_DIR is set. */
void dump_watch_start(void);
/* At the process's end: dumps what failed unnoticed, and stops. */
void dump_watch_stop(void);
/* In a forked child: the thread is its parent's. */
void dump_watch_forget(void);
/* The group has a verdict: its dump, once; under the progress lock. */
void dump_failure(struct tutti_group *group);
