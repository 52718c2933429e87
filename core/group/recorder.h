/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a ring of the group's last calls, always on. Writing one costs a few stores, under
 * the baton; readers take the baton too.
 */
#ifndef TUTTI_GROUP_RECORDER_H
#define TUTTI_GROUP_RECORDER_H

#include "group/group.h"

enum { RECORD_QUEUED, RECORD_RUNNING, RECORD_DONE, RECORD_FAILED };

/* What all collectives with these words have in common. */
tutti_record record_of_words(const struct call_words *words);
uint64_t record_collective(struct tutti_group *group, const struct call *call);
/* The collective by which the program learns that the group has failed: what it would have called. */
void record_refused(struct tutti_group *group, const struct call_words *words, uint64_t bytes);
uint64_t record_message(struct tutti_group *group, const struct call *call, bool is_send);
/* Whom a receive's message came from, and through what. */
void record_source(struct tutti_group *group, uint64_t number, int source);

static inline tutti_record *record_at(struct tutti_group *group, uint64_t number)
{
    return &group->recorder.records[number % GROUP_RECORDS];
}

/* Whether the ring has gone on and the record is another call's by now. */
static inline bool record_is_gone(const struct tutti_group *group, uint64_t number)
{
    return group->recorder.count - number > GROUP_RECORDS;
}

static inline void record_state(struct tutti_group *group, uint64_t number, int32_t state)
{
    if (!record_is_gone(group, number))
        record_at(group, number)->state = state;
}

/* "all_reduce 8 x f32, sum" */
void call_words_text(const struct call_words *words, char *ret_text, size_t capacity);

#endif
