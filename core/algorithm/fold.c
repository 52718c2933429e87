/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/fold.h"

struct fold fold_in(struct schedule *sched, const struct request *req)
{
    const int core = fold_core(sched->size), extra = sched->size - core, r = sched->rank;
    struct fold fold = {core, extra, r - extra, req->in};

    if (r >= 2 * extra)
        return fold;
    if (r % 2 == 0) {
        schedule_send(sched, r + 1, req->in, req->bytes);
        schedule_fence(sched); /* `out`, which may be `in`, is about to be overwritten */
        fold.index = -1;
        return fold;
    }
    const uint64_t mark = sched->scratch_used;
    const struct place theirs = schedule_scratch(sched, req->bytes);

    schedule_recv(sched, r - 1, theirs, req->bytes);
    schedule_fence(sched);
    schedule_reduce(sched, req->out, theirs, req->in, req->bytes);
    sched->scratch_used = mark;
    fold.index = r / 2;
    fold.mine = req->out;
    return fold;
}

void fold_out(struct schedule *sched, const struct request *req, const struct fold *fold)
{
    const int r = sched->rank;

    if (r >= 2 * fold->extra)
        return;
    if (r % 2 == 0)
        schedule_recv(sched, r + 1, req->out, req->bytes);
    else
        schedule_send(sched, r - 1, req->out, req->bytes);
    schedule_fence(sched);
}
