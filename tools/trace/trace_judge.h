/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that find a verdict. */
#pragma once

#include "trace/trace_verdict.h"

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

/* Ranks that are dead or cut off; ranks that left in order, or ended the group on purpose; stopped
 * processes. */
void judge_losses(struct trace_verdict *verdict);
void judge_endings(struct trace_verdict *verdict);
void judge_halted(struct trace_verdict *verdict);

/* ---- trace_missing.c ---- */

/* Whether somebody is known to wait for this very rank in a collective, and not for one behind it. */
bool judge_is_awaited(const struct trace_verdict *verdict, int rank);
/* Judges that the rank is waited for and gave no dump, or that any rank without a dump may be the
 * one. */
void judge_missing(struct trace_verdict *verdict, int rank);
void judge_several_missing(struct trace_verdict *verdict);

/* ---- trace_circle.c ---- */

/* The message that this member waits in for long, NULL: none; `group` may be NULL. */
const struct trace_call *judge_in_message(const struct trace_group *group);
/* Whether the other side of this message of `rank` is in flight as well. */
bool judge_is_met(const struct trace_group *peer, int rank, const struct trace_call *call);
/* "; rank 2 has sent rank 0 tag 6, which nobody has asked for yet", where `rank` waits to receive another; or "". */
char *judge_other_tag(const struct trace_verdict *verdict, int rank, const struct trace_call *call);
/* Tells of ranks that wait for each other where the message that `rank` waits in leads to such, and nothing is told of
 * them yet; else false. It need not be one of them. */
bool judge_circle(struct trace_verdict *verdict, int rank);

/* ---- trace_waits.c ---- */

bool judge_waits_long(const struct trace_group *group, const struct trace_call *call);
/* The collective in flight that this member waits in for long, NULL: none; `group` may be NULL. */
const struct trace_call *judge_in_collective(const struct trace_group *group);
/* Ranks that are late or stuck in collectives, and in messages. */
void judge_waits(struct trace_verdict *verdict);
void judge_messages(struct trace_verdict *verdict);
