/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather and scatter, composed: the same way, to the root or from it.
 *
 * The root's local peers hand it their blocks, or get theirs, through mapped memory. On every other host the
 * first member speaks for all with short blocks, as a message costs more than a copy: it collects them
 * from its local peers, or hands them out, in the same way, and they cross in one message. A long block
 * crosses by itself, straight between its member and its place at the root.
 * Cost: short: a hand-over at either end, a message for each host, each block copied twice more; long:
 * n-1 messages less those of local peers. Every block crosses once in either.
 */
#pragma once

#include "algorithm/algorithm.h"

/* `to_root`: a gather. */
void rooted_emit(struct schedule *sched, const struct request *req, bool to_root);
struct cost rooted_cost(const struct layout *layout, uint64_t bytes, bool to_root);
