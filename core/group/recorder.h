/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a ring of the group's last calls, always on. Writing one costs a few stores, under
 * the baton; readers take the baton too.
 */
#ifndef TUTTI_GROUP_RECORDER_H
#define TUTTI_GROUP_RECORDER_H

#include "group/group.h"

enum { RECORD_QUEUED, RECORD_RUNNING, RECORD_DONE, RECORD_FAILED };

const char *operation_name(int operation);

uint64_t record_collective(struct tutti_group *group, const struct call *call);
uint64_t record_message(struct tutti_group *group, const struct call *call, bool is_send);

static inline tutti_record *record_at(struct tutti_group *group, uint64_t number)
{
    return &group->records[number % GROUP_RECORDS];
}

/* "all_reduce 8 x f32, sum" */
void call_words_text(const struct call_words *words, char *ret_text, size_t capacity);

#endif
