/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in front of which wrappers stand. */
#include <stdlib.h>

#include "harness/rank.h"

enum { WORKS = 4, FEW = 8, MANY = 300000 };

/* The ring's messages, then works in flight at once, then calls that wait. */
RANK_CASE(calls_of_all_kinds)
{
    tutti_group *world = rank_init(NULL);
    int64_t extents[3];
    float *data = calloc(WORKS * MANY, sizeof *data), mine[FEW] = {0}, theirs[FEW];
    tutti_tensor out = tutti_tensor_1d(mine, TUTTI_F32, &extents[0], FEW);
    tutti_tensor in = tutti_tensor_1d(theirs, TUTTI_F32, &extents[1], FEW);
    tutti_work *sent, *works[WORKS];

    require_ok(tutti_isend(world, &out, (rank + 1) % size, 7, NULL, &sent));
    check_ok(tutti_recv(world, &in, TUTTI_ANY_SOURCE, 7, NULL, NULL));
    check_ok(tutti_work_wait(sent, 0));
    tutti_work_free(sent);
    for (int i = 0; i < WORKS; i++) {
        tutti_tensor t = tutti_tensor_1d(data + (size_t)i * MANY, TUTTI_F32, &extents[2], MANY);

        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &works[i]));
    }
    for (int i = 0; i < WORKS; i++) {
        check_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
    }
    check_ok(tutti_broadcast(world, &out, size - 1, NULL, NULL));
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("called");
    check_ok(tutti_group_destroy(world));
    free(data);
}

/* The status and words of init, when it must fail. */
RANK_CASE(init_is_refused)
{
    tutti_group *world = NULL;

    rank_value("status", "%s", tutti_status_name(tutti_init(NULL, &world)));
    rank_value("words", "%s", tutti_last_error());
    check(!world);
}
