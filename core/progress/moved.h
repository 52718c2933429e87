/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose bytes the group's engine for devices moves where they lie. Under the progress lock, but for
 * moved_may() and moved_await(). */
#pragma once

#include "group/group.h"

/* Whether a message of so many bytes may be one, as far as this member is concerned; by any thread. */
bool moved_may(const struct tutti_group *group, int peer, uint64_t bytes);
/* The number of a new batch, for its messages. */
uint64_t moved_batch(struct tutti_group *group);
/* One is about to be posted, or held. Its buffer; NULL: it has none yet. */
void *moved_post(struct call *call);
/* It leaves the list of messages. */
void moved_forget(struct tutti_group *group, struct call *call);
/* Moves those that have met something; how many things moved. */
unsigned moved_move(struct tutti_group *group);
void moved_look(struct tutti_group *group, int64_t now_ns);
/* The group has failed: streams go on, and works end with the verdict. */
void moved_fail(struct tutti_group *group);
/* The stream of a blocking call, which is on the engine's, waits for it. On the thread that called. */
tutti_status moved_await(struct call *call);
