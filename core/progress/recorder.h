/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a ring of the group's last calls, always on. Writing one costs a few stores, under
 * the progress lock; readers take the progress lock too.
 */
#pragma once

#include "group/group.h"

/* The common part of the records of all collectives with these fields. */
tutti_record record_of_fields(const struct call_fields *fields);
uint64_t record_collective(struct tutti_group *group, const struct call *call);
/* The collective by which the program learns that the group has failed: what it would have called. */
void record_refused(struct tutti_group *group, const struct call_fields *fields, uint64_t bytes);
uint64_t record_message(struct tutti_group *group, const struct call *call, bool is_send);
/* Notes the source of a receive's message, and its backend. */
void record_source(struct tutti_group *group, uint64_t number, int source);

/* "all_reduce 8 x f32, sum" */
void call_fields_text(const struct call_fields *fields, char *ret_text, size_t capacity);
