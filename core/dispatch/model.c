/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole picoseconds: every member computes the same choice from the same facts, on whatever CPU and
 * however it was compiled (doubles may be contracted or kept wider). A sum of times
 * longer than 213 days is taken for that.
 */
#include "dispatch/dispatch.h"

enum { PS = 1, NS = 1000 };

static const uint64_t address_space = UINT64_C(1) << 47; /* bytes of a process */

/* Measured on two cores that share a cache. */
enum { HAND_OVER = 100 * NS, MAPPED_BYTE = 83 * PS, REDUCED_BYTE = 50 * PS };

/* sum + count * each, at most UINT64_MAX. */
static uint64_t plus(uint64_t sum, uint64_t count, uint64_t each)
{
    uint64_t product;

    if (__builtin_mul_overflow(count, each, &product) || __builtin_add_overflow(sum, product, &sum))
        return UINT64_MAX;
    return sum;
}

uint64_t model_message(const tutti_cost *cost, uint64_t bytes)
{
    return plus(cost->message_ps, bytes, cost->byte_ps);
}

/*
 * What cost() is asked for at most, so that it may multiply by members without a look: by their number
 * for a vector, and by its square for a block. A vector of that size fills an address space, and a block
 * for each member does, together with the others. What is longer costs as much.
 */
static uint64_t bounded(const struct algorithm *algorithm, const struct layout *layout,
                        uint64_t bytes)
{
    const uint64_t most = operation_has_blocks(algorithm->operation)
                              ? address_space / (uint64_t)layout->size
                              : address_space;

    return bytes < most ? bytes : most;
}

uint64_t model_estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                        uint64_t bytes)
{
    const struct cost c = algorithm->cost(facts->layout, bounded(algorithm, facts->layout, bytes));
    const tutti_cost *link = facts->remote_cost;
    uint64_t sharing = 1, ps;

    /* Members of one host share its network; composed algorithms have counted that. */
    if (algorithm->kind == ALGORITHM_MESSAGES && facts->layout->hosts > 1)
        sharing = (uint64_t)layout_fullest(facts->layout);
    ps = plus(0, c.messages, link->message_ps);
    ps = plus(ps, c.at_once, link->further_ps);
    ps = plus(ps, c.message_bytes, link->byte_ps * sharing);
    ps = plus(ps, c.hand_overs, HAND_OVER);
    ps = plus(ps, c.mapped_bytes, MAPPED_BYTE);
    return plus(ps, c.reduced_bytes, REDUCED_BYTE);
}

bool model_finds_slower(const struct group_facts *facts, const struct algorithm *composed,
                        const struct algorithm *messages, uint64_t bytes)
{
    return model_estimate(facts, composed, bytes) > model_estimate(facts, messages, bytes);
}
