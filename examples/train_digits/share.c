/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <string.h>

#include "random.h"

/* Fisher and Yates. */
void share_order(const uint32_t *all, uint32_t count, uint64_t seed, uint32_t epoch,
                 uint32_t *ret_order)
{
    struct random random = random_for(seed, RANDOM_ORDER, epoch, 0);

    memcpy(ret_order, all, count * sizeof *all);
    for (uint32_t left = count; left > 1; left--) {
        uint32_t other = random_below(&random, left);
        uint32_t last = ret_order[left - 1];

        ret_order[left - 1] = ret_order[other];
        ret_order[other] = last;
    }
}

uint32_t share_steps(uint32_t count, uint32_t batch)
{
    return count / batch + (count % batch != 0);
}

uint32_t share_batch(uint32_t count, uint32_t batch, uint32_t step)
{
    uint32_t before = step * batch;

    return count - before < batch ? count - before : batch;
}

struct share share_of_step(uint32_t count, uint32_t batch, uint32_t step, uint32_t rank,
                           uint32_t ranks)
{
    uint32_t begin = step * batch, size = share_batch(count, batch, step);

    return (struct share){
        .first = begin + (rank < size ? rank : size), .end = begin + size, .stride = ranks};
}
