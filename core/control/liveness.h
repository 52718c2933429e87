/* SPDX-License-Identifier: Apache-2.0 */
/* Asking members how far they have called. All under the lock. */
#pragma once

#include "control/control.h"

/* Asks those that have not timed out, this member among them. */
void liveness_query_all(struct control *control);
/* `by` asks this member how far it has called, and for its call of that number; 0: for none. */
void liveness_asked(struct control *control, int by, uint64_t sequence);
/* Asks one member; whether it has answered. */
void liveness_query(struct control *control, int rank);
bool liveness_has_answered(const struct control *control, int rank);
void liveness_on_query(struct control *control, const struct control_conn *from,
                       const uint8_t *body, size_t size);
void liveness_on_answer(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size);
/* Adds to a time-out of that collective what was answered. Where the culprit waits for another member
 * itself, that one becomes the culprit. */
void liveness_judge(const struct control *control, uint64_t sequence,
                    struct control_verdict *verdict);
