/* SPDX-License-Identifier: Apache-2.0 */
#include "group/sampled.h"

#include "group/group.h"
#include "group/native.h"

/*
 * One costs some 5 us, which of every 257 calls of 1 us could just be measured. A call that waits for a
 * millisecond is announced anyhow, so a difference between short ones is met some thousand calls later, or as a
 * member leaves. An odd number, since what others announce ahead is kept by its remainder (GROUP_FUTURES_KEPT);
 * of powers of two who is late keeps the last.
 */
enum { SAMPLE_EVERY = 1025 };

static uint64_t after(uint64_t sequence)
{
    uint64_t next = 1;

    if (sequence >= SAMPLE_EVERY / 2)
        return (sequence / SAMPLE_EVERY + 1) * SAMPLE_EVERY;
    while (next <= sequence)
        next *= 2;
    return next;
}

bool sampled_tell(struct tutti_group *group, const struct call *call)
{
    struct sampled *sampled = &group->sampled;
    int neighbours[2];

    sampled->kept[sampled->count++ % SAMPLES_KEPT] = call->announce;
    sampled->next = after(call->announce.sequence);
    native_neighbours(group, neighbours);
    for (int i = 0; i < 2; i++)
        announced_tell(group, neighbours[i], &call->announce);
    group_hear(group);
    return !call->doomed && !control_verdict_status(group->control);
}

const struct announce *sampled_find(const struct sampled *sampled, uint64_t sequence)
{
    for (unsigned i = 0; i < SAMPLES_KEPT; i++)
        if (sampled->kept[i].sequence == sequence)
            return &sampled->kept[i];
    return NULL;
}
