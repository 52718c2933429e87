/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's plan: the algorithm that was chosen, its schedule, and for `tutti explain` the reasons in
 * words, which say what decided: a rule, a measured threshold, or the model.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "dispatch/dispatch.h"
#include "reduce/reduce.h"

/* "": nobody could carry it. */
static const char *carrier_of(const struct group_facts *facts, enum algorithm_kind kind)
{
    const char *name = kind == ALGORITHM_ALONE      ? "self"
                       : algorithm_by_engine(kind)  ? (facts->native ? facts->native->name : NULL)
                       : kind == ALGORITHM_MESSAGES ? facts->remote_name
                                                    : facts->local_name;

    return name ? name : "";
}

static void make_plan(const struct group_facts *facts, const struct algorithm *algorithm,
                      struct plan *ret_plan)
{
    const char *name = carrier_of(facts, algorithm->kind);
    const char *remote = carrier_of(facts, ALGORITHM_MESSAGES);
    const bool both =
        algorithm->kind == ALGORITHM_COMPOSED && *name && *remote && strcmp(name, remote) != 0;

    *ret_plan = (struct plan){.algorithm = algorithm};
    snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s%s%s", name, both ? "+" : "",
             both ? remote : "");
}

tutti_status plan_choose(const struct group_facts *facts, const struct call_fields *fields,
                         uint32_t element_bytes, struct plan *ret_plan)
{
    const struct algorithm *algorithm =
        choose_algorithm(facts, fields, fields->count * element_bytes);

    if (!algorithm)
        return error_set(TUTTI_ERR_UNSUPPORTED, "no algorithm for operation %u", fields->operation);
    const char *why = choose_obstacle(facts, algorithm->kind);

    if (why)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "%s between %d members on %d hosts is not possible: %s; choose a backend "
                         "that connects all hosts, or TUTTI_BACKEND=auto",
                         algorithm->name, facts->layout->size, facts->layout->hosts, why);
    make_plan(facts, algorithm, ret_plan);
    return TUTTI_OK;
}

struct kernels plan_kernels(const struct plan *plan, const struct call_fields *fields,
                            uint32_t members, uint32_t element_bytes)
{
    struct kernels kernels = {.reduce = reduce_kernel(fields->dtype, fields->op),
                              .many = reduce_many(fields->dtype, fields->op),
                              .finish = reduce_finish(fields->dtype, fields->op, members),
                              .element_bytes = element_bytes,
                              .members = members};

    if (fields->flags & CALL_ORDERED)
        kernels.tree = reduce_tree_of(fields->op, fields->dtype);
    if (members > 1 && reduce_averages_once(fields->op, fields->dtype) &&
        !(plan->algorithm->flags & ALGORITHM_ROUNDS_ON_THE_WAY)) {
        kernels.tree = reduce_tree_of_average(fields->dtype, members);
        kernels.finish = NULL;
    }
    return kernels;
}

tutti_status plan_emit(const struct plan *plan, const struct group_facts *facts,
                       const struct call_fields *fields, uint32_t element_bytes,
                       const struct call_sizes *sizes, bool finish, struct schedule *sched)
{
    const struct layout *layout = facts->layout;
    const int members = facts->mapped ? layout_host_size(layout, layout->host) : 1;
    struct request req = {.in = place_in_block(0, 0),
                          .out = place_out_block(0, 0),
                          .bytes = fields->count * element_bytes,
                          .root = fields->root,
                          .finish = finish,
                          .layout = layout};

    if (sizes) {
        req.bytes = sizes->own;
        req.in_bytes = sizes->in;
        req.out_bytes = sizes->out;
    }
    schedule_begin(sched, layout->thresholds, layout->rank, layout->size, members,
                   facts->mapped ? layout->local : 0, element_bytes);
    algorithm_emit(plan->algorithm, sched, &req);
    if (sched->status)
        return error_set(sched->status,
                         "no memory for the schedule of %s: it needs more than %u steps",
                         plan->algorithm->name, sched->count);
    return TUTTI_OK;
}

static bool is_fixed(const struct group_facts *facts, const struct algorithm *algorithm)
{
    return facts->layout->thresholds->fixed[algorithm->operation] == algorithm;
}

static const char *why_chosen(const struct group_facts *facts, const struct algorithm *algorithm)
{
    static const char *const words[] = {
        [ALGORITHM_ALONE] = "the group has no other member",
        [ALGORITHM_INLINE] = "fits in the announce line: one hand-over",
        [ALGORITHM_MAPPED] =
            "all members share memory, and this is the fastest mapped algorithm at this size",
        [ALGORITHM_MESSAGES] = "the way over messages at this size",
        [ALGORITHM_COMPOSED] = "memory inside hosts, messages only between them",
        [ALGORITHM_REGISTERED] = "the tensors are in registered memory",
        [ALGORITHM_KERNELS] = "the engine moves, and kernels of the device reduce as it does not",
        [ALGORITHM_NATIVE] = "the backend's engine does all of it",
    };

    if (is_fixed(facts, algorithm))
        return "the tuning file names it";
    if (algorithm->flags & ALGORITHM_SHARES_CPUS)
        return "the ranks of the host outnumber its CPUs: one switch to each rank in a round";
    return words[algorithm->kind];
}

static bool stays_inside_host(const struct algorithm *algorithm)
{
    return algorithm->kind == ALGORITHM_INLINE || algorithm->kind == ALGORITHM_MAPPED;
}

/*
 * The order of the kinds is a rule, inside a kind measured thresholds decide, and only between a
 * composition and messages the model does. So the text names it, and admits it where the model
 * differs.
 */
static const char *why_not(const struct group_facts *facts, const struct call_fields *fields,
                           uint64_t bytes, const struct algorithm *algorithm,
                           const struct algorithm *chosen, bool moves, bool estimated_faster)
{
    if (algorithm->kind == ALGORITHM_REGISTERED && choose_registered(facts, chosen, fields, bytes))
        return fields->operation == OPERATION_SCATTER
                   ? "taken if the tensors are in registered memory, or ranks outnumber CPUs and "
                     "blocks are long (TUTTI_PEER_READS)"
                   : "taken if the tensors are in registered memory (tutti_memory_allocate)";
    if (is_fixed(facts, chosen))
        return "the tuning file names another one";
    if (chosen->flags & ALGORITHM_SHARES_CPUS && stays_inside_host(algorithm))
        return "takes more context switches where ranks outnumber the CPUs";
    if (algorithm->kind == chosen->kind)
        return !moves             ? "there is nothing to move"
               : estimated_faster ? "a measured threshold decides by size, not the cost model"
                                  : "no faster at this size";
    switch (chosen->kind) {
    case ALGORITHM_NATIVE:
    case ALGORITHM_KERNELS:
        return "the engine comes first";
    case ALGORITHM_INLINE:
        return "short enough for the announce line";
    case ALGORITHM_MESSAGES:
        return "slower: too few members share a host";
    case ALGORITHM_COMPOSED:
        return estimated_faster ? "a measured threshold takes messages another way, which is slower"
                                : "would send more between hosts";
    default:
        return estimated_faster ? "shared memory comes first by rule, not by the cost model, "
                                  "which leaves out waiting for a partner's turn"
                                : "mapped memory is faster";
    }
}

tutti_collective plan_describe(const struct call_fields *fields, int members,
                               uint32_t element_bytes)
{
    const bool uneven = fields->flags & CALL_UNEVEN;

    return (tutti_collective){
        .struct_size = sizeof(tutti_collective),
        .operation = fields->operation,
        .flags = uneven ? TUTTI_COLLECTIVE_UNEVEN : 0,
        .dtype = fields->dtype,
        .op = reduce_base(fields->op),
        .root = fields->root,
        .size = members,
        .element_bytes = element_bytes,
        .count = !uneven || operation_shares_sizes(fields->operation) ? fields->count : 0};
}

static struct plan_candidate candidate_of(const struct group_facts *facts,
                                          const struct algorithm *algorithm,
                                          const struct call_fields *fields, uint64_t bytes,
                                          uint64_t moved)
{
    const char *objection = choose_objection(facts, algorithm, fields, bytes);
    struct plan_candidate candidate = {
        .possible = !objection,
        .estimated_us = objection ? 0 : model_us(model_estimate(facts, algorithm, moved)),
        .reason = objection};

    make_plan(facts, algorithm, &candidate.plan);
    return candidate;
}

/* Engines that the group lacks are no candidates. */
static bool has_engine_of(const struct group_facts *facts, enum algorithm_kind kind)
{
    if (!algorithm_by_engine(kind))
        return true;
    return facts->native && (kind == ALGORITHM_NATIVE || facts->native->device_type);
}

int plan_explain(const struct group_facts *facts, const struct call_fields *fields,
                 uint32_t element_bytes, uint64_t moved,
                 struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX])
{
    const uint64_t bytes = fields->count * element_bytes;
    const struct algorithm *chosen = choose_algorithm(facts, fields, bytes);
    int count = 0;

    if (!chosen)
        return 0;

    struct plan_candidate *first = &ret_candidates[count++];
    *first = candidate_of(facts, chosen, fields, bytes, moved);
    first->chosen = first->possible;
    if (first->possible)
        first->reason = why_chosen(facts, chosen);
    for (int possible = 1; possible >= 0; possible--)
        for (int i = 0; i < ALGORITHMS && count < PLAN_CANDIDATES_MAX; i++) {
            const struct algorithm *other = algorithm_table[i];
            struct plan_candidate candidate;

            if (other->operation != fields->operation || other == chosen ||
                !has_engine_of(facts, other->kind))
                continue;
            candidate = candidate_of(facts, other, fields, bytes, moved);
            if (candidate.possible != possible)
                continue;
            if (candidate.possible)
                candidate.reason = why_not(facts, fields, bytes, other, chosen, moved > 0,
                                           candidate.estimated_us < first->estimated_us);
            ret_candidates[count++] = candidate;
        }
    return count;
}
