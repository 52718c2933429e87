/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, Bruck: at distances d = 1, 2, 4, … each member gets from the one d above it what that one
 * has so far, in one message. Any number of members. Cost: log2(n) * alpha + (n-1) * bytes * beta + n *
 * bytes copied; wins for short blocks. Invariant: before distance d, member r has the blocks r, r+1, …
 * r+d-1 (mod n) in scratch, in this order.
 */
#include "algorithm/algorithm.h"
#include "algorithm/parts.h"

static void emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank;
    const struct place blocks = schedule_scratch(sched, (uint64_t)n * req->bytes);

    schedule_copy(sched, blocks, req->in, req->bytes);
    for (int64_t d = 1; d < n; d *= 2) {
        const uint64_t some = min_u64((uint64_t)d, (uint64_t)(n - d)) * req->bytes;

        schedule_recv(sched, (int)((r + d) % n), place_after(blocks, (uint64_t)d * req->bytes),
                      some);
        schedule_send(sched, (int)((r - d + n) % n), blocks, some);
        schedule_fence(sched);
    }
    schedule_copy(sched, place_out_block(r, 0), req->in, req->bytes);
    for (int i = 1; i < n; i++)
        schedule_copy(sched, place_out_block((r + i) % n, 0),
                      place_after(blocks, (uint64_t)i * req->bytes), req->bytes);
}

static bool fits(const struct thresholds *thresholds, int members, uint64_t bytes)
{
    (void)members;
    return bytes < thresholds->bytes[THRESHOLD_ALL_GATHER_RING_MIN];
}

COST(.messages = log2_ceil(n), .message_bytes = (n - 1) * bytes, .mapped_bytes = n * bytes)
ALGORITHM(all_gather_bruck, ALL_GATHER, MESSAGES, .flags = ALGORITHM_NEEDS_EQUAL_BLOCKS,
          .members = {.least = BRUCK_MEMBERS_MIN}, .fits = fits, .emit = emit, .cost = cost);
