/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that scatter long blocks until something is done to one of them. Where they outnumber the CPUs, the others
 * read the blocks in the root's own memory, which the root writes again as soon as its call has returned,
 * whatever it returned: a rank whose call succeeds must not see that. TUTTI_TEST_VICTIM is the rank that something is
 * done to, TUTTI_TEST_CALL_MS how long a call waits at most.
 */
#include <stdlib.h>

#include "rank_tell.h"

enum { BLOCK = 128 * 1024, LAPS = 20, BEFORE = 1, AFTER = -1 }; /* elements of 4 bytes */

static int32_t *blocks, block[BLOCK];

static void fill(int64_t count, int32_t value)
{
    for (int64_t i = 0; i < count; i++)
        blocks[i] = value;
}

static tutti_status scatter(tutti_group *world, int root, const tutti_options *options)
{
    const int rank = tutti_group_rank(world);
    int64_t count = BLOCK, all = (int64_t)BLOCK * tutti_group_size(world);
    tutti_tensor in = tutti_tensor_1d(blocks, TUTTI_I32, &all, all);
    tutti_tensor out = tutti_tensor_1d(block, TUTTI_I32, &count, count);

    if (rank == root)
        fill(all, BEFORE);
    tutti_status status =
        tutti_scatter(world, rank == root ? &in : NULL, &out, root, options, NULL);
    if (rank == root)
        fill(all, AFTER);
    for (int64_t i = 0; !status && i < BLOCK; i++)
        if (block[i] != BEFORE) {
            check(!"what the root had before its call");
            break;
        }
    return status;
}

RANK_CASE(scatters_for_ever)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_group *world = rank_init(NULL);
    tutti_status status = TUTTI_OK;

    require(blocks = malloc(sizeof *blocks * BLOCK * (size_t)size));
    for (int i = 0; !status; i++) {
        options.timeout_ms = i <= LAPS ? 0 : number_of("TUTTI_TEST_CALL_MS", 0);
        status = scatter(world, size - 1, &options);
        if (i == (rank == victim() ? 0 : LAPS))
            rank_point("running");
    }
    tell(status);
    check_status(tutti_group_destroy(world), status);
    rank_point("left");
    free(blocks);
}
