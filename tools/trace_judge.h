/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that find a verdict. */
#ifndef TUTTI_TOOLS_TRACE_JUDGE_H
#define TUTTI_TOOLS_TRACE_JUDGE_H

#include "trace_verdict.h"

/* ---- trace_verdict.c ---- */

/* One about which nothing is known yet; trace_verdict_free(). `name` must outlive it. */
struct trace_verdict *judge_new(const char *name, int size);
/* A dump of the group; there is one unless the group is still being made. */
const struct trace_group *judge_any(const struct trace_verdict *verdict);
/* Takes `ranks` and `words` over. */
void judge_add(struct trace_verdict *verdict, enum trace_class class, GArray *ranks,
               guint64 sequence, char *words);
/* Whether something was found about the rank. */
bool judge_has(const struct trace_verdict *verdict, int rank);
/* A list of one rank; -1: of none. */
GArray *judge_ranks(int rank);

/* ---- trace_words.c ---- */

/* "rank 2 (host h, pid 17)" */
char *judge_who(const struct trace_verdict *verdict, int rank);
/* "#4 barrier", "recv of 8 bytes, tag 7, from rank 0" */
char *judge_call(const struct trace_group *group, const struct trace_call *call);
/* "it finished #3 and is outside of tutti"; the rank has a dump. */
char *judge_activity(const struct trace_verdict *verdict, int rank);

/* ---- trace_losses.c ---- */

/* Who is dead or cut off; who left in order, or ended the group on purpose; whose process does not run. */
void judge_losses(struct trace_verdict *verdict);
void judge_endings(struct trace_verdict *verdict);
void judge_halted(struct trace_verdict *verdict);

/* ---- trace_waits.c ---- */

/* Who is late or stuck in collectives, and in messages. */
void judge_waits(struct trace_verdict *verdict);
void judge_messages(struct trace_verdict *verdict);

#endif
