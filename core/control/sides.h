/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that members made under the number in which they differ. All under the lock. */
#pragma once

#include "control/control.h"

enum { SIDES_CALL_BYTES = 40 }; /* of a call in a frame */

/* A member's call under the number in which members differ. */
struct control_side {
    bool answered;
    uint64_t called;      /* answered: its last collective */
    struct announce call; /* sequence 0: not known */
};

void sides_write_call(struct writer *writer, const struct announce *call);
void sides_read_call(struct reader *reader, struct announce *ret_call);
/* Asks all members for their call of the difference's number. */
void sides_gather(struct control *control);
/* Notes the calls of a difference's pair, if it is of the number that is gathered. */
void sides_note_pair(struct control *control, const struct control_difference *difference);
/* `rank` has left. */
void sides_left(struct control *control, int rank);
void sides_answered(struct control *control, int rank, uint64_t called,
                    const struct announce *call);
/* Whether every member that can answer has. */
bool sides_complete(const struct control *control);
/* Writes the sets of members with the same call into the verdict's message. */
void sides_tell(const struct control *control, struct control_verdict *verdict);
