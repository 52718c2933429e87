/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which algorithm a call takes.
 *
 * A plan is a function of facts that all members share: the group's layout and providers, and
 * the call's fields. Nothing local (alignment, in-place, blocking or not) comes in,
 * so that every member chooses the same without asking. plan_choose() walks the candidates of the
 * operation in order of preference and takes the first that fits; plan_explain() hands out all of
 * them with the reason for and against each. The model, too, goes by shared facts alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin_engine.h>
#include <tutti/status.h>

#include "algorithm/algorithm.h"
#include "algorithm/layout.h"
#include "base/call.h"
#include "schedule/runner.h"
#include "schedule/schedule.h"

/* The collectives of an engine that reaches all members. */
struct native_facts {
    const char *name; /* the backend's */
    const tutti_collectives_ops *ops;
    const tutti_host *host; /* what ops->serves is given */
    void *host_self;
    int32_t device_type; /* of the memory that it takes, TUTTI_DEVICE_…; 0: host memory */
};

struct group_facts {
    const struct layout *layout;
    bool mapped;                       /* the members of each host see each other's memory */
    bool messages;                     /* any member reaches any other by messages */
    const char *local_name;            /* the backend whose memory is mapped; NULL: none */
    const char *remote_name;           /* the backend of the messages; NULL: none */
    const tutti_cost *remote_cost;     /* of these messages; NULL where remote_name is */
    const struct native_facts *native; /* NULL: no engine does whole operations */
};

struct plan {
    const struct algorithm *algorithm;
    char provider[64]; /* a backend, or "shm+tcp" for two; "": nobody could carry it */
};

/*
 * The plan for one call; element_bytes is that of fields->dtype (1 for a barrier).
 * TUTTI_ERR_UNSUPPORTED with a message when the providers of the group cannot serve it.
 */
tutti_status plan_choose(const struct group_facts *facts, const struct call_fields *fields,
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
struct kernels plan_kernels(const struct plan *plan, const struct call_fields *fields,
                            uint32_t members, uint32_t element_bytes);

/*
 * Emits this member's schedule for a plan whose algorithm has one. `sizes`: NULL unless the call is
 * uneven. `finish`: there is a last step (plan_kernels() has one). The schedule may be kept
 * and run again for every call with the same plan_key().
 */
tutti_status plan_emit(const struct plan *plan, const struct group_facts *facts,
                       const struct call_fields *fields, uint32_t element_bytes,
                       const struct call_sizes *sizes, bool finish, struct schedule *sched);

/* The facts that an engine is told of all calls with these fields, without number and memory. If
 * blocks are uneven, only the facts that every member knows. */
tutti_collective plan_describe(const struct call_fields *fields, int members,
                               uint32_t element_bytes);

/* Calls with the same key share plan and schedule; it is a hash, so compare the fields too. */
static inline uint64_t plan_key(const struct call_fields *fields)
{
    uint64_t kind = (uint64_t)fields->operation << 56 ^ (uint64_t)(uint32_t)fields->root << 32 ^
                    (uint64_t)(uint32_t)fields->op << 24 ^ (uint64_t)fields->flags << 48 ^
                    fields->dtype;

    return (fields->count ^ kind * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
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
 * vector, or of each block, for the model; the plan itself goes by the fields. */
int plan_explain(const struct group_facts *facts, const struct call_fields *fields,
                 uint32_t element_bytes, uint64_t moved,
                 struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX]);

/* ---- which algorithms a call may take, and which it takes (choose.c) ---- */

/* NULL: the group's providers can run algorithms of this kind; else why not. */
const char *choose_obstacle(const struct group_facts *facts, enum algorithm_kind kind);
/* NULL: this call could take the algorithm, which is one of its operation; else why not. `bytes` as
 * in struct request. */
const char *choose_objection(const struct group_facts *facts, const struct algorithm *algorithm,
                             const struct call_fields *fields, uint64_t bytes);

/* How calls use tensors on a device. */
enum device_way {
    DEVICE_WAY_STAGED, /* by stand-ins in pinned memory */
    DEVICE_WAY_NATIVE, /* where they lie, by an engine */
    DEVICE_WAY_KERNELS /* where they lie, by kernels of the device between operations of the engine */
};
/*
 * Only operation, op, dtype and order count, so that it is known before the tensors are looked at, and the same for
 * blocks of one size and of several.
 */
enum device_way choose_device_way(const struct group_facts *facts,
                                  const struct call_fields *fields);

/* The algorithm that the call takes, possible or not; NULL: there is no such operation. */
const struct algorithm *choose_algorithm(const struct group_facts *facts,
                                         const struct call_fields *fields, uint64_t bytes);

/*
 * The algorithm that such a call takes instead of `algorithm`, if its tensors are in registered memory on all
 * members that count; NULL: none. Short calls, engines, and calls that leave the host have none.
 */
const struct algorithm *choose_registered(const struct group_facts *facts,
                                          const struct algorithm *algorithm,
                                          const struct call_fields *fields, uint64_t bytes);

/* ---- the built-in model: what an algorithm's cost comes to (model.c) ---- */

/* Picoseconds, with the cost of the facts. */
uint64_t model_estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                        uint64_t bytes);
/* One message by a transport of that cost. */
uint64_t model_message(const tutti_cost *cost, uint64_t bytes);
/* Whether a composition is to be left for messages; not where both cost the same. */
bool model_finds_slower(const struct group_facts *facts, const struct algorithm *composed,
                        const struct algorithm *messages, uint64_t bytes);

static inline double model_us(uint64_t ps)
{
    return (double)ps * 1e-6;
}
