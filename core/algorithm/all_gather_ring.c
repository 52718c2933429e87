/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather, ring: in step s each member passes to its right neighbour what came from the left in
 * step s-1, piece by piece as it arrives. Cost: (n-1) * alpha + (n-1) * bytes * beta; wins for long
 * blocks, since every member speaks to two others only. Invariant: before step s member r holds the
 * blocks r, r-1, … r-s (mod n).
 */
#include "algorithm/algorithm.h"
#include "algorithm/exchange.h"

static int block_of(const struct schedule *sched, int index)
{
    return (index % sched->size + sched->size) % sched->size;
}

static struct exchange receive(struct schedule *sched, const struct request *req, int block)
{
    return exchange_recv(sched, block_of(sched, sched->rank - 1), place_out_block(block, 0),
                         out_block_bytes(req, block));
}

static void emit(struct schedule *sched, const struct request *req)
{
    const int n = sched->size, r = sched->rank, right = block_of(sched, r + 1);
    struct exchange now = receive(sched, req, block_of(sched, r - 1)), next = {0};

    exchange_send(sched, right, req->in, out_block_bytes(req, r));
    schedule_copy(sched, place_out_block(r, 0), req->in, out_block_bytes(req, r));
    for (int step = 0; step < n - 1; step++) {
        const int block = block_of(sched, r - step - 1);

        if (step + 1 < n - 1)
            next = receive(sched, req, block_of(sched, block - 1));
        for (uint64_t i = 0; i < now.count; i++) {
            const struct part piece = exchange_piece(&now, out_block_bytes(req, block), i);

            schedule_fence_ticket(sched, now.tickets[i]);
            if (step + 1 < n - 1)
                schedule_send(sched, right, place_out_block(block, piece.offset), piece.bytes);
        }
        now = next;
    }
    schedule_fence(sched);
}

COST(.messages = n - 1, .message_bytes = (n - 1) * bytes)
ALGORITHM(all_gather_ring, ALL_GATHER, MESSAGES, .members = {.least = 3},
          .least_crowded = RING_CROWDED_MIN, .least = THRESHOLD_ALL_GATHER_RING_MIN, .emit = emit,
          .cost = cost);
