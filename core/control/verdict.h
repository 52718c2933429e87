/* SPDX-License-Identifier: Apache-2.0 */
/* How a cause that a member proposes becomes the verdict of all. All under the lock. */
#pragma once

#include "control/control.h"

void verdict_differ(struct control *control, int culprit,
                    const struct control_difference *difference, const char *message);
void verdict_propose(struct control *control, tutti_status status, int culprit,
                     const char *message);
void verdict_time_out(struct control *control, const struct control_timeout *timeout);
void verdict_on_propose(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size);
void verdict_on_verdict(struct control *control, const struct control_conn *from,
                        const uint8_t *body, size_t size);
void verdict_adopt(struct control *control, const struct control_verdict *verdict,
                   const struct control_conn *except);
void verdict_timers(struct control *control);
/* Tells a connection that is new what is known already. */
void verdict_greet(struct control *control, struct control_conn *conn);
