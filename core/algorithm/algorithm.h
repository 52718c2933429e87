/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the core. Each file holds one: its descriptor, its cost and what it emits.
 *
 * An algorithm knows members, bytes and places; never a dtype, a socket or a work. emit() writes
 * the schedule of one member and may be called on a view (schedule_view()), which is how composed
 * algorithms reuse the plain ones. Every algorithm of all_reduce leaves the same bits on
 * every member.
 *
 * The inline algorithms (at most 4 KiB on one host's mapped memory) have no schedule: they are a
 * pair of functions, post and poll, that never wait and call nothing indirectly but the kernel.
 */
#ifndef TUTTI_ALGORITHM_ALGORITHM_H
#define TUTTI_ALGORITHM_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "algorithm/layout.h"
#include "base/call.h"
#include "work/mapped.h"
#include "work/runner.h"
#include "work/schedule.h"

/* A call as algorithms see it. */
struct request {
    uint64_t bytes;              /* of the vector; a multiple of the schedule's element_bytes */
    int root;                    /* broadcast: position in the view */
    bool finish;                 /* the op has a last step on the reduced values (AVG) */
    const struct layout *layout; /* composed algorithms only */
};

/* What a call costs on the longest way through it, in the terms of the model. */
struct cost {
    double messages; /* hand-overs between processes that follow one another, over the network */
    double message_bytes;
    double hand_overs;   /* the same through mapped memory */
    double mapped_bytes; /* copied into, out of, or read from mapped memory */
    double reduced_bytes;
};

enum algorithm_kind {
    ALGORITHM_ALONE,    /* one member */
    ALGORITHM_INLINE,   /* mapped memory of one host, post and poll */
    ALGORITHM_MAPPED,   /* mapped memory of one host, a schedule */
    ALGORITHM_MESSAGES, /* messages between any members */
    ALGORITHM_COMPOSED  /* mapped memory inside hosts, messages between them */
};

struct algorithm {
    const char *name;
    enum operation operation;
    enum algorithm_kind kind;
    tutti_status (*emit)(struct schedule *sched, const struct request *req); /* NULL: inline */
    struct cost (*cost)(const struct layout *layout, uint64_t bytes);
};

extern const struct algorithm all_reduce_alone_algorithm, all_reduce_inline_algorithm,
    all_reduce_staged_algorithm, all_reduce_staged_parts_algorithm,
    all_reduce_recursive_doubling_algorithm, all_reduce_halving_doubling_algorithm,
    all_reduce_ring_algorithm, all_reduce_composed_algorithm;
extern const struct algorithm broadcast_alone_algorithm, broadcast_inline_algorithm,
    broadcast_mapped_algorithm, broadcast_binomial_algorithm,
    broadcast_scatter_all_gather_algorithm, broadcast_composed_algorithm;
extern const struct algorithm barrier_alone_algorithm, barrier_inline_algorithm,
    barrier_dissemination_algorithm, barrier_composed_algorithm;

/* One inline call. */
struct inline_call {
    struct mapped_call announce;
    const void *in; /* may be out */
    void *out;
    uint64_t bytes; /* at most MAPPED_PAYLOAD_MAX */
    uint64_t count; /* elements */
    int root;       /* broadcast: index of the mate */
    const struct kernels *kernels;
};

/*
 * post: TUTTI_OK when my line is out (the caller then wakes its mates); TUTTI_ERR_NOT_READY: no
 * room yet, nothing happened. poll, after post: TUTTI_OK when the call is complete. Both:
 * TUTTI_ERR_NOT_READY leaves the mate that is missing in mapped->culprit; TUTTI_ERR_MISMATCH and
 * TUTTI_ERR_INTERNAL as mapped_meet().
 */
tutti_status all_reduce_inline_post(struct mapped *mapped, const struct inline_call *call);
tutti_status all_reduce_inline_poll(struct mapped *mapped, const struct inline_call *call);
tutti_status broadcast_inline_post(struct mapped *mapped, const struct inline_call *call);
tutti_status broadcast_inline_poll(struct mapped *mapped, const struct inline_call *call);
tutti_status barrier_inline_post(struct mapped *mapped, const struct inline_call *call);
tutti_status barrier_inline_poll(struct mapped *mapped, const struct inline_call *call);

#endif
