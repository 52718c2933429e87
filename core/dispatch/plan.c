/* SPDX-License-Identifier: Apache-2.0 */
/* A call's plan: the algorithm that was chosen, its schedule, and the reasons in words. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "dispatch/choose.h"
#include "dispatch/model.h"

static void make_plan(const struct group_facts *facts, const struct algorithm *algorithm,
                      struct plan *ret_plan)
{
    const char *local = facts->local_name ? facts->local_name : "?";
    const char *remote = facts->remote_name ? facts->remote_name : "?";

    *ret_plan = (struct plan){.algorithm = algorithm};
    if (algorithm->kind == ALGORITHM_COMPOSED)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s+%s", local, remote);
    else if (algorithm->kind == ALGORITHM_NATIVE)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%s",
                 facts->native ? facts->native->name : "?");
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
        choose_algorithm(facts, words, words->count * element_bytes);

    if (!algorithm)
        return error_set(TUTTI_ERR_UNSUPPORTED, "no algorithm for operation %u", words->operation);
    const char *why = choose_obstacle(facts, algorithm->kind);

    if (why)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "%s between %d members on %d hosts is not possible: %s; choose a backend "
                         "that connects all hosts, or TUTTI_BACKEND=auto",
                         algorithm->name, facts->layout->size, facts->layout->hosts, why);
    make_plan(facts, algorithm, ret_plan);
    return TUTTI_OK;
}

tutti_status plan_emit(const struct plan *plan, const struct group_facts *facts,
                       const struct call_words *words, uint32_t element_bytes,
                       const struct call_sizes *sizes, bool finish, struct schedule *sched)
{
    const struct layout *layout = facts->layout;
    const int mates = facts->mapped ? layout_mates(layout, layout->host) : 1;
    struct request req = {.in = place_in(0),
                          .out = place_out(0),
                          .bytes = words->count * element_bytes,
                          .root = words->root,
                          .finish = finish,
                          .layout = layout,
                          .thresholds = choose_thresholds(facts)};

    if (sizes) {
        req.bytes = sizes->own;
        req.in_bytes = sizes->in;
        req.out_bytes = sizes->out;
    }
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

/* ---- the reasons --------------------------------------------------------------------------- */

static const char *why_chosen(const struct algorithm *algorithm)
{
    static const char *const words[] = {
        [ALGORITHM_ALONE] = "nobody to talk to",
        [ALGORITHM_INLINE] = "fits in the announce line: one hand-over",
        [ALGORITHM_MAPPED] = "all members share memory; best for this size",
        [ALGORITHM_MESSAGES] = "best for this size among those over messages",
        [ALGORITHM_COMPOSED] = "memory inside hosts, messages only between them",
        [ALGORITHM_NATIVE] = "the backend's engine does all of it",
    };

    return words[algorithm->kind];
}

static const char *why_not(const struct algorithm *algorithm, const struct algorithm *chosen,
                           uint64_t bytes)
{
    if (algorithm->kind != chosen->kind)
        return chosen->kind == ALGORITHM_NATIVE     ? "the engine comes first"
               : chosen->kind == ALGORITHM_COMPOSED ? "would send more between hosts"
               : chosen->kind == ALGORITHM_MESSAGES ? "slower: too few members share a host"
               : chosen->kind == ALGORITHM_INLINE   ? "short enough for the announce line"
                                                    : "mapped memory is faster";
    return bytes ? "slower at this size" : "there is nothing to move";
}

static void add_candidate(const struct group_facts *facts, const struct algorithm *algorithm,
                          const struct algorithm *chosen, const struct call_words *words,
                          uint64_t bytes, struct plan_candidate *ret_candidate)
{
    const char *objection = choose_objection(facts, algorithm, words, bytes);

    *ret_candidate = (struct plan_candidate){
        .chosen = algorithm == chosen && !objection,
        .possible = !objection,
        .estimated_us = objection ? 0 : model_estimate(facts, algorithm, bytes),
        .reason = objection             ? objection
                  : algorithm == chosen ? why_chosen(algorithm)
                                        : why_not(algorithm, chosen, bytes)};
    make_plan(facts, algorithm, &ret_candidate->plan);
}

int plan_explain(const struct group_facts *facts, const struct call_words *words,
                 uint32_t element_bytes, struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX])
{
    const uint64_t bytes = words->count * element_bytes;
    const struct algorithm *chosen = choose_algorithm(facts, words, bytes);
    int count = 0;

    if (!chosen)
        return 0;
    add_candidate(facts, chosen, chosen, words, bytes, &ret_candidates[count++]);
    for (int possible = 1; possible >= 0; possible--)
        for (int i = 0; i < ALGORITHMS && count < PLAN_CANDIDATES_MAX; i++)
            if (algorithms[i]->operation == words->operation && algorithms[i] != chosen &&
                (facts->native || algorithms[i]->kind != ALGORITHM_NATIVE) &&
                (choose_objection(facts, algorithms[i], words, bytes) == NULL) == possible)
                add_candidate(facts, algorithms[i], chosen, words, bytes, &ret_candidates[count++]);
    return count;
}
