/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the group's last calls, by their numbers; progress/recorder.h writes them. */
#pragma once

#include "group/group.h"

enum { RECORD_QUEUED, RECORD_RUNNING, RECORD_DONE, RECORD_FAILED };

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
