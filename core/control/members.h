/* SPDX-License-Identifier: Apache-2.0 */
/* The fate of members: they connect, leave or are lost. All under the lock. */
#pragma once

#include "control/control.h"

void control_frame(struct control *control, struct control_conn *conn, enum frame_type type,
                   const uint8_t *body, size_t size);
void control_connected(struct control *control, struct control_conn *conn);
void control_disconnected(struct control *control, int rank, const char *message);
/* `rank` left in order; passed on to all connections but `except`. */
void control_left(struct control *control, int rank, const struct announce *last,
                  const struct control_conn *except);
/* Dialing `rank` failed: it has left and its leave message is on the way, or it is lost. */
void control_unreachable(struct control *control, int rank, const char *message);
/* The process of `rank` ended, or cannot be reached any more. */
void control_lost(struct control *control, int rank, const char *message);
/* The lowest member that is not known to be dead, left or passed over; may be this one. */
int control_lowest_living(const struct control *control);
/* Tells once more which member was lost, as a verdict if the group is ready by now. */
void control_tell_lost(struct control *control);
