/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of the recorder as they are read back (docs/formats.md). A file may be cut short, of another
 * program, or made to do harm: its size and depth are bounded before it is parsed, every field is
 * checked for its type and range, and text loses its control characters. What is wrong is said in
 * words that name the field; the other files are read all the same.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

enum trace_lost { TRACE_NOT_LOST, TRACE_ENDED, TRACE_VANISHED };

struct trace_member {
    char *host, *process; /* process: NULL, or as the kernel had it */
    int pid, layout, world_rank;
    gint64 left_after; /* -1: it has not left */
    enum trace_lost lost;
    bool lost_after_failure; /* of the group, so it did not cause that */
};

/* A call in flight. */
struct trace_call {
    bool message;
    guint64 sequence; /* of a collective */
    char *operation;  /* of a message */
    int peer;
    guint64 tag, bytes, moved;
    double seconds; /* -1: not known */
    bool waited;    /* a thread of its program waits for it */
    bool unwaited;  /* none does; neither: not known, or for any of several */
    int waits_rank; /* -1: nobody, or anybody */
    char *waits_what;
    GArray *not_called; /* int */
};

struct trace_record {
    bool message, refused; /* refused: called after the group had failed */
    guint64 sequence;
    char *call;       /* "all_reduce 8 x f32, sum" */
    bool all_for_all; /* a collective that nobody leaves before all have called it */
    bool is_send;
    int peer; /* of a message; -1: anybody */
    guint64 tag;
    bool has_signature;
    guint64 signature;
    char *state;
};

struct trace_dump;

struct trace_group {
    const struct trace_dump *dump;
    char *name, *backend;
    guint64 id;
    int rank, size;
    struct trace_member *members;  /* [size] */
    char *verdict, *verdict_words; /* NULL: none */
    int culprit;
    guint64 started, completed;
    GPtrArray *unfinished; /* struct trace_call */
    GPtrArray *records;    /* struct trace_record */
    bool has_all_records;  /* none was overwritten by later ones */
    GHashTable *by_number; /* sequence (gint64) of a collective -> its record */
};

struct trace_dump {
    char *path, *cause, *run, *host; /* run: NULL: not known */
    int attempt, rank, pid, context;
    gint64 wall_ns;
    bool busy;
    char *joining; /* the group that tutti_init() was making, NULL: none */
    int joining_size;
    double joining_s;  /* since it was called */
    GPtrArray *groups; /* struct trace_group */
};

/* A dump of these bytes, freed with trace_dump_free(); NULL with `ret_words`, to be freed. `path` is
 * only kept. */
struct trace_dump *trace_read_text(const char *path, const char *text, gsize size,
                                   char **ret_words);
struct trace_dump *trace_read_file(const char *path, char **ret_words);
void trace_dump_free(struct trace_dump *dump);

/* The record of a collective, NULL: not there. */
const struct trace_record *trace_record_of(const struct trace_group *group, guint64 sequence);
