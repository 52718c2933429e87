/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on all dumps of a job: the ranks that are late, stuck or different. */
#pragma once

#include "trace/trace_read.h"

/* In the order in which one explains the others. */
#define TRACE_CLASS_LIST(X)                                                                        \
    X(DIFFERENT, "different", "members called different things under one number")                  \
    X(DEAD, "dead", "a process ended without leaving the group")                                   \
    X(CUT, "cut", "hosts do not reach each other, and processes on both sides live")               \
    X(LEFT, "left", "a member left in order before a call that needs it")                          \
    X(ABORTED, "aborted", "a member ended the group on purpose")                                   \
    X(STOPPED, "stopped", "a process does not run, as others saw")                                 \
    X(MISSING, "missing", "other ranks wait for a rank that has no dump")                          \
    X(LATE, "late", "a member has not called the operation in which others wait")                  \
    X(STUCK, "stuck", "all have called it, and it does not move; or a circle of waiting")          \
    X(FAILED, "failed", "the group failed for another reason")                                     \
    X(FINE, "fine", "no rank waits for long, and no group has failed")

enum trace_class {
#define TRACE_CLASS_ENUM(NAME, name, meaning) TRACE_##NAME,
    TRACE_CLASS_LIST(TRACE_CLASS_ENUM)
#undef TRACE_CLASS_ENUM
};

const char *trace_class_name(enum trace_class class);

struct trace_finding {
    enum trace_class class;
    GArray *ranks;    /* int: whom it is about, ascending */
    guint64 sequence; /* 0: no collective */
    char *words;
};

/* One group, from all its dumps. */
struct trace_verdict {
    const char *name, *backend;
    const char *status, *status_words; /* what the ranks themselves said; NULL: nothing */
    guint64 id;
    int size;
    bool in_init; /* it is being made: of a rank in tutti_init() nothing else is known */
    const struct trace_group **by_rank; /* [size] its newest dump; NULL: none, or too old */
    GPtrArray *groups;                  /* the same without the gaps, in the order of the ranks */
    GArray *missing;                    /* int: ranks without a dump */
    GArray *waiting;     /* int: ranks that wait in collective `sequence`, or in init */
    guint64 sequence;    /* 0: nobody waits in one */
    double seconds;      /* the longest of them has */
    GPtrArray *findings; /* struct trace_finding; the first explains most */
};

/* `groups`: struct trace_group of one id and size, at least one; they must outlive the verdict. It costs
 * in proportion to what the dumps hold. */
struct trace_verdict *trace_judge(const GPtrArray *groups, const GPtrArray *dumps);
/* The same of the group that the process of `first` was joining, from all dumps of the job. */
struct trace_verdict *trace_judge_joining(const struct trace_dump *first, const GPtrArray *dumps);
/* Whether no dump before it tells of joining the same group. */
bool trace_is_first_to_join(const GPtrArray *dumps, guint index);
bool trace_same_job(const struct trace_dump *a, const struct trace_dump *b);
void trace_verdict_free(struct trace_verdict *verdict);

/* "rank 2", "ranks 0, 1 and 3", "ranks 0-5 and 9"; freed by the caller. */
char *trace_ranks_words(const GArray *ranks);
/* "#4 all_reduce 8 x f32, sum", as far as a dump knows; freed by the caller. */
char *trace_call_words(const struct trace_verdict *verdict, guint64 sequence);
