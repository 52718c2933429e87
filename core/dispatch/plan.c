/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an algorithm, its schedule, and the reasons in words.
 *
 * One host with mapped memory: the inline path, staging beyond. Several hosts of which one has
 * mates with mapped memory: the composition. Else: messages between all members. Inside each, the
 * size decides by the thresholds that the members agreed on.
 */
#include <stdio.h>
#include <string.h>

#include "algorithm/parts.h"
#include "base/error.h"
#include "dispatch/dispatch.h"

static const struct algorithm *const algorithms[] = {
    &all_reduce_inline_algorithm,
    &all_reduce_staged_algorithm,
    &all_reduce_staged_parts_algorithm,
    &all_reduce_composed_algorithm,
    &all_reduce_recursive_doubling_algorithm,
    &all_reduce_halving_doubling_algorithm,
    &all_reduce_ring_algorithm,
    &all_reduce_alone_algorithm,
    &broadcast_inline_algorithm,
    &broadcast_mapped_algorithm,
    &broadcast_composed_algorithm,
    &broadcast_binomial_algorithm,
    &broadcast_scatter_all_gather_algorithm,
    &broadcast_alone_algorithm,
    &barrier_inline_algorithm,
    &barrier_composed_algorithm,
    &barrier_dissemination_algorithm,
    &barrier_alone_algorithm,
};

enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

/* ---- what the group can do ------------------------------------------------------------------- */

static bool mates_fit(const struct layout *layout)
{
    for (int host = 0; host < layout->hosts; host++)
        if (layout_mates(layout, host) > MAPPED_MATES_MAX)
            return false;
    return true;
}

/* NULL: the group's providers can run algorithms of this kind; else why not. */
static const char *obstacle(const struct group_facts *facts, enum algorithm_kind kind)
{
    const struct layout *layout = facts->layout;
    const bool uses_memory =
        kind == ALGORITHM_INLINE || kind == ALGORITHM_MAPPED || kind == ALGORITHM_COMPOSED;

    if (kind == ALGORITHM_ALONE)
        return layout->size == 1 ? NULL : "only for a group of one";
    if (layout->size == 1)
        return "the group has one member";
    if (uses_memory && !facts->mapped)
        return "no provider maps memory between members";
    if (uses_memory && !mates_fit(layout))
        return "a host has more members than can share mapped memory";
    if (!uses_memory || kind == ALGORITHM_COMPOSED) {
        if (!facts->messages)
            return "no provider carries messages between all members";
    } else if (layout->hosts > 1) {
        return "members are on several hosts";
    }
    if (kind == ALGORITHM_COMPOSED && layout->hosts == 1)
        return "all members are on one host";
    if (kind == ALGORITHM_COMPOSED && layout->hosts == layout->size)
        return "no two members share a host";
    return NULL;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static const struct thresholds *thresholds_of(const struct group_facts *facts)
{
    return facts->thresholds ? facts->thresholds : &thresholds_default;
}

static const struct algorithm *choose_all_reduce(const struct group_facts *facts, uint64_t bytes)
{
    const struct thresholds *t = thresholds_of(facts);
    const int size = facts->layout->size;

    if (!obstacle(facts, ALGORITHM_ALONE))
        return &all_reduce_alone_algorithm;
    if (!obstacle(facts, ALGORITHM_INLINE)) {
        if (bytes <= min_u64(t->inline_max, MAPPED_PAYLOAD_MAX))
            return &all_reduce_inline_algorithm;
        return bytes <= t->one_phase_max / (uint64_t)size ? &all_reduce_staged_algorithm
                                                          : &all_reduce_staged_parts_algorithm;
    }
    if (!obstacle(facts, ALGORITHM_COMPOSED))
        return bytes ? &all_reduce_composed_algorithm : &barrier_composed_algorithm;
    return bytes ? all_reduce_by_messages(t, size, bytes) : &barrier_dissemination_algorithm;
}

static const struct algorithm *choose_broadcast(const struct group_facts *facts, uint64_t bytes)
{
    const struct thresholds *t = thresholds_of(facts);

    if (!obstacle(facts, ALGORITHM_ALONE))
        return &broadcast_alone_algorithm;
    if (!obstacle(facts, ALGORITHM_INLINE))
        return bytes <= min_u64(t->inline_max, MAPPED_PAYLOAD_MAX) ? &broadcast_inline_algorithm
                                                                   : &broadcast_mapped_algorithm;
    if (!obstacle(facts, ALGORITHM_COMPOSED))
        return &broadcast_composed_algorithm;
    return broadcast_by_messages(t, facts->layout->size, bytes);
}

static const struct algorithm *choose_barrier(const struct group_facts *facts)
{
    return !obstacle(facts, ALGORITHM_ALONE)      ? &barrier_alone_algorithm
           : !obstacle(facts, ALGORITHM_INLINE)   ? &barrier_inline_algorithm
           : !obstacle(facts, ALGORITHM_COMPOSED) ? &barrier_composed_algorithm
                                                  : &barrier_dissemination_algorithm;
}

static const struct algorithm *choose(const struct group_facts *facts, uint8_t operation,
                                      uint64_t bytes)
{
    switch (operation) {
    case OPERATION_ALL_REDUCE:
        return choose_all_reduce(facts, bytes);
    case OPERATION_BROADCAST:
        return choose_broadcast(facts, bytes);
    case OPERATION_BARRIER:
        return choose_barrier(facts);
    default:
        return NULL;
    }
}

static void make_plan(const struct group_facts *facts, const struct algorithm *algorithm,
                      struct plan *ret_plan)
{
    const char *local = facts->local_name ? facts->local_name : "?";
    const char *remote = facts->remote_name ? facts->remote_name : "?";

    *ret_plan = (struct plan){.algorithm = algorithm};
    if (algorithm->kind == ALGORITHM_COMPOSED)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s+%s", local, remote);
    else if (algorithm->kind == ALGORITHM_MESSAGES)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s", remote);
    else if (algorithm->kind == ALGORITHM_ALONE)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "self");
    else
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s", local);
}

tutti_status plan_choose(const struct group_facts *facts, const struct call_words *words,
                         uint32_t element_bytes, struct plan *ret_plan)
{
    const struct algorithm *algorithm =
        choose(facts, words->operation, words->count * element_bytes);

    if (!algorithm)
        return error_set(TUTTI_ERR_UNSUPPORTED, "no algorithm for operation %u", words->operation);
    const char *why = obstacle(facts, algorithm->kind);

    if (why)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "%s between %d members on %d hosts is not possible: %s; choose a backend "
                         "that connects all hosts, or TUTTI_BACKEND=auto",
                         algorithm->name, facts->layout->size, facts->layout->hosts, why);
    make_plan(facts, algorithm, ret_plan);
    return TUTTI_OK;
}

tutti_status plan_emit(const struct plan *plan, const struct group_facts *facts,
                       const struct call_words *words, uint32_t element_bytes, bool finish,
                       struct schedule *sched)
{
    const struct layout *layout = facts->layout;
    const int mates = facts->mapped ? layout_mates(layout, layout->host) : 1;
    struct request req = {.in = place_in(0),
                          .out = place_out(0),
                          .bytes = words->count * element_bytes,
                          .root = words->root,
                          .finish = finish,
                          .layout = layout,
                          .thresholds = thresholds_of(facts)};

    if (!plan->algorithm->emit)
        return error_set(TUTTI_ERR_INTERNAL, "%s has no schedule", plan->algorithm->name);
    schedule_begin(sched, layout->rank, layout->size, mates, facts->mapped ? layout->local : 0,
                   element_bytes);
    if (plan->algorithm->emit(sched, &req) != TUTTI_OK)
        return error_set(schedule_status(sched),
                         "no memory for the schedule of %s: it needs more than %u steps",
                         plan->algorithm->name, sched->count);
    return TUTTI_OK;
}

/* ---- the model and the reasons ------------------------------------------------------------------
 */

/* Microseconds and microseconds a byte, on two cores that share a cache. */
struct link {
    const char *name;
    double alpha, beta;
};

static const struct link links[] = {
    {"shm", 0.3, 1.0 / 12000},
    {NULL, 6.0, 1.0 / 4400}, /* TCP over loopback, and what is not known */
};
static const double hand_over_us = 0.1, mapped_us_per_byte = 1.0 / 12000,
                    reduce_us_per_byte = 1.0 / 20000;

static double estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                       uint64_t bytes)
{
    const struct cost c = algorithm->cost(facts->layout, bytes);
    const struct link *link = links;
    double sharing = 1;

    while (link->name && (!facts->remote_name || strcmp(link->name, facts->remote_name)))
        link++;
    /* Members of one host share its network; composed algorithms have counted that. */
    if (algorithm->kind == ALGORITHM_MESSAGES && facts->layout->hosts > 1)
        sharing = (double)facts->layout->size / facts->layout->hosts;
    return c.messages * link->alpha + c.message_bytes * link->beta * sharing +
           c.hand_overs * hand_over_us + c.mapped_bytes * mapped_us_per_byte +
           c.reduced_bytes * reduce_us_per_byte;
}

static const char *why_chosen(const struct algorithm *algorithm)
{
    static const char *const words[] = {
        [ALGORITHM_ALONE] = "nobody to talk to",
        [ALGORITHM_INLINE] = "fits in the announce line: one hand-over",
        [ALGORITHM_MAPPED] = "all members share memory; best for this size",
        [ALGORITHM_MESSAGES] = "best for this size among those over messages",
        [ALGORITHM_COMPOSED] = "memory inside hosts, messages only between them",
    };

    return words[algorithm->kind];
}

static const char *why_not(const struct group_facts *facts, const struct algorithm *algorithm,
                           const struct algorithm *chosen, uint64_t bytes)
{
    const char *why = obstacle(facts, algorithm->kind);

    if (why)
        return why;
    if (algorithm->kind == ALGORITHM_INLINE)
        return "too long for the announce line";
    if (algorithm->kind != chosen->kind)
        return chosen->kind == ALGORITHM_COMPOSED ? "would send more between hosts"
               : chosen->kind == ALGORITHM_INLINE ? "short enough for the announce line"
                                                  : "mapped memory is faster";
    return bytes ? "slower at this size" : "there is nothing to move";
}

static bool is_possible(const struct group_facts *facts, const struct algorithm *algorithm,
                        uint64_t bytes)
{
    return !obstacle(facts, algorithm->kind) &&
           (algorithm->kind != ALGORITHM_INLINE || bytes <= MAPPED_PAYLOAD_MAX);
}

static void add_candidate(const struct group_facts *facts, const struct algorithm *algorithm,
                          const struct algorithm *chosen, uint64_t bytes,
                          struct plan_candidate *ret_candidate)
{
    const bool possible = is_possible(facts, algorithm, bytes);

    *ret_candidate = (struct plan_candidate){
        .chosen = algorithm == chosen && possible,
        .possible = possible,
        .estimated_us = possible ? estimate(facts, algorithm, bytes) : 0,
        .reason = algorithm == chosen && possible ? why_chosen(algorithm)
                                                  : why_not(facts, algorithm, chosen, bytes)};
    make_plan(facts, algorithm, &ret_candidate->plan);
}

int plan_explain(const struct group_facts *facts, const struct call_words *words,
                 uint32_t element_bytes, struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX])
{
    const uint64_t bytes = words->count * element_bytes;
    const struct algorithm *chosen = choose(facts, words->operation, bytes);
    int count = 0;

    if (!chosen)
        return 0;
    add_candidate(facts, chosen, chosen, bytes, &ret_candidates[count++]);
    for (int possible = 1; possible >= 0; possible--)
        for (int i = 0; i < ALGORITHMS && count < PLAN_CANDIDATES_MAX; i++)
            if (algorithms[i]->operation == words->operation && algorithms[i] != chosen &&
                is_possible(facts, algorithms[i], bytes) == possible)
                add_candidate(facts, algorithms[i], chosen, bytes, &ret_candidates[count++]);
    return count;
}
