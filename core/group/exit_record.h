/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells `tutti run` why this process is about to end (base/exit_record.h). Each call sends at most one
 * datagram to this host, which takes SEND_MS at most when the launcher is stopped; without
 * TUTTI_RUN_SOCKET, or in a set-id program, none does anything. None changes the thread's error.
 */
#pragma once

#include "group/group.h"

/* This process's place in the job of `tutti run`. False: it did not start it. */
bool exit_record_place(uint32_t *ret_place);

/* The group has a verdict; under the progress lock, sent once a group. */
void exit_record_failed(struct tutti_group *group);
/* Reports the end of making the world. If it was made, it withdraws an earlier failure of this
 * process; if not, the thread's error is the reason. */
void exit_record_formed(const struct tutti_group *world, tutti_status status);
/* This process exits and leaves the group, which has not failed, without a leave message. Sends nothing after the
 * failure of another group, also of one that was destroyed since. */
void exit_record_leaving(const struct tutti_group *group);
