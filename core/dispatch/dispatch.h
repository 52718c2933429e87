/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which algorithm a call takes.
 *
 * A plan is a function of facts that all members share: the group's layout and providers, the
 * thresholds, and the call's words. Nothing local (alignment, in-place, blocking or not) comes in,
 * so that every member chooses the same without asking. plan_choose() walks the candidates of the
 * operation in order of preference and takes the first that fits; plan_explain() hands out all of
 * them with the reason for and against each.
 */
#ifndef TUTTI_DISPATCH_DISPATCH_H
#define TUTTI_DISPATCH_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin_engine.h>
#include <tutti/status.h>

#include "algorithm/algorithm.h"
#include "algorithm/layout.h"
#include "base/call.h"
#include "work/runner.h"
#include "work/schedule.h"

/* The collectives of an engine that reaches all members. */
struct native_facts {
    const char *name; /* the backend's */
    const tutti_collectives_ops *ops;
    const tutti_host *host; /* what ops->serves is given */
    void *host_self;
};

struct group_facts {
    const struct layout *layout;
    bool mapped;                         /* the members of each host see each other's memory */
    bool messages;                       /* any member reaches any other by messages */
    const char *local_name;              /* provider of the mapped memory, "shm"; NULL: none */
    const char *remote_name;             /* provider of the messages, "tcp"; NULL: none */
    const struct thresholds *thresholds; /* NULL: thresholds_default */
    const struct native_facts *native;   /* NULL: no engine does whole operations */
};

struct plan {
    const struct algorithm *algorithm;
    char provider[64]; /* "shm", "tcp", "shm+tcp"; "": nobody could carry it */
};

/*
 * The plan for one call; element_bytes is that of words->dtype (1 for a barrier).
 * TUTTI_ERR_UNSUPPORTED with words when the providers of the group cannot serve it.
 */
tutti_status plan_choose(const struct group_facts *facts, const struct call_words *words,
                         uint32_t element_bytes, struct plan *ret_plan);

/* The sizes of uneven blocks in bytes, as this member knows them. */
struct call_sizes {
    const uint64_t *in, *out; /* of each block; NULL: that side is a vector */
    uint64_t own;             /* of the vector, or of my block */
};

/*
 * What reduces in a call of the plan, whose op is built in; reduce_check() has passed. An average of
 * 8- and 16-bit floats comes divided out of the reduction where the algorithm meets all operands at once,
 * and then has no last step.
 */
struct kernels plan_kernels(const struct plan *plan, const struct call_words *words,
                            uint32_t members, uint32_t element_bytes);

/*
 * Emits this member's schedule for a plan that is not inline. `sizes`: NULL unless the call is
 * uneven. `finish`: there is a last step (plan_kernels() has one). The schedule may be kept
 * and run again for every call with the same plan_key().
 */
tutti_status plan_emit(const struct plan *plan, const struct group_facts *facts,
                       const struct call_words *words, uint32_t element_bytes,
                       const struct call_sizes *sizes, bool finish, struct schedule *sched);

/* What an engine is told of all calls with these words: no number and no memory. Of uneven blocks, what every
 * member knows. */
tutti_collective plan_describe(const struct call_words *words, int members, uint32_t element_bytes);

/* Calls with the same key share plan and schedule; it is a hash, so compare the words too. */
static inline uint64_t plan_key(const struct call_words *words)
{
    uint64_t kind = (uint64_t)words->operation << 56 ^ (uint64_t)(uint32_t)words->root << 32 ^
                    (uint64_t)(uint32_t)words->op << 24 ^ (uint64_t)words->flags << 48 ^
                    words->dtype;

    return (words->count ^ kind * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
}

/* One candidate of a call, best first; the chosen one is the first. */
struct plan_candidate {
    struct plan plan;
    bool chosen;
    bool possible;       /* the group's providers could run it */
    double estimated_us; /* of the built-in model; 0 when it is not possible */
    const char *reason;
};

enum { PLAN_CANDIDATES_MAX = 12 };

/* Returns how many candidates `operation` has; fills as many, chosen first. `moved`: bytes of the
 * vector, or of each block, for the model; the plan itself goes by the words. */
int plan_explain(const struct group_facts *facts, const struct call_words *words,
                 uint32_t element_bytes, uint64_t moved,
                 struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX]);

#endif
