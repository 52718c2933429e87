/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plans that a group's calls have used: algorithm, schedule and kernels, found again by the
 * fields of the call (and its sizes, where blocks are uneven: those are looked up in one bucket, so
 * that calls whose sizes change each time keep no more than that). A training loop makes the same
 * few calls again and again, so the last one is looked at first. A bucket keeps at most
 * PLANS_PER_BUCKET plans that nobody uses.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "progress/progress.h"
#include "provider/routes.h"
#include "reduce/op.h"
#include "reduce/tree.h"

enum { PLANS_PER_BUCKET = 8 };

static void plan_free(struct plan_entry *entry)
{
    schedule_free(&entry->schedule);
    schedule_free(&entry->registered_schedule);
    free(entry);
}

void group_plans_free(struct tutti_group *group)
{
    for (int i = 0; i < GROUP_PLANS; i++)
        while (group->calls.plans[i]) {
            struct plan_entry *entry = group->calls.plans[i];

            group->calls.plans[i] = entry->next;
            plan_free(entry);
        }
}

/* Copies the sizes behind the entry, which has room for them. */
static void keep_sizes(struct plan_entry *entry, const struct call_sizes *sizes, int members)
{
    uint64_t *table = (uint64_t *)(entry + 1);
    const size_t n = (size_t)members;

    entry->sizes = (struct call_sizes){.own = sizes->own};
    if (sizes->in)
        entry->sizes.in = memcpy(table, sizes->in, n * sizeof *table);
    if (sizes->out)
        entry->sizes.out = memcpy(table + n, sizes->out, n * sizeof *table);
}

static bool same_table(const uint64_t *a, const uint64_t *b, size_t n)
{
    return !a == !b && (!a || !memcmp(a, b, n * sizeof *a));
}

static bool same_call(const struct plan_entry *entry, const struct call_fields *fields,
                      const struct call_sizes *sizes, int members)
{
    if (memcmp(&entry->fields, fields, sizeof *fields))
        return false;
    return !sizes || (entry->sizes.own == sizes->own &&
                      same_table(entry->sizes.in, sizes->in, (size_t)members) &&
                      same_table(entry->sizes.out, sizes->out, (size_t)members));
}

/* None for an operation made at run time, which comes with each call. */
static bool has_kernels(const struct call_fields *fields)
{
    return operation_reduces(fields->operation) && fields->op < REDUCE_OPS_MADE;
}

static uint64_t bytes_to_mapped(const struct plan_entry *entry, uint64_t bytes)
{
    uint64_t sum = 0;

    if (entry->plan.algorithm->kind == ALGORITHM_INLINE)
        return sizeof(uint64_t) * 2 + bytes;
    for (uint32_t i = 0; i < entry->schedule.count; i++) {
        const struct step *step = &entry->schedule.steps[i];
        bool staged = step->to.kind == PLACE_STAGED_IN || step->to.kind == PLACE_STAGED_OUT ||
                      step->to.kind == PLACE_PART;

        if (staged && step->kind == STEP_COPY)
            sum += step->bytes;
        else if (staged && (step->kind == STEP_REDUCE || step->kind == STEP_REDUCE_LOCAL))
            sum += step->bytes * entry->kernels.element_bytes;
    }
    return sum;
}

/* The carrier of the calls, by a name that stays as long as the group. */
static const char *carrier_of(const struct tutti_group *group, const struct plan_entry *entry)
{
    const struct route *route = &group->ways.routes.each[entry->route];

    switch (entry->plan.algorithm->kind) {
    case ALGORITHM_ALONE:
        return "self";
    case ALGORITHM_MESSAGES:
        return route->facts.remote_name;
    case ALGORITHM_COMPOSED:
        return route->composed;
    case ALGORITHM_NATIVE:
    case ALGORITHM_KERNELS:
        return route->facts.native->name;
    default:
        return route->facts.local_name;
    }
}

static tutti_status plan_new(struct tutti_group *group, const struct call_fields *fields,
                             const struct call_sizes *sizes, struct plan_entry **ret_entry)
{
    const size_t table = sizes ? 2 * (size_t)group->size * sizeof(uint64_t) : 0;
    struct plan_entry *entry = calloc(1, sizeof *entry + table);
    uint32_t element = fields->dtype ? (uint32_t)tutti_dtype_size(fields->dtype) : 1;

    if (!entry)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a plan");
    entry->fields = *fields;
    entry->digest = XXH3_64bits(fields, sizeof *fields);
    if (sizes)
        keep_sizes(entry, sizes, group->size);
    entry->kernels.element_bytes = element;
    const struct backend_rule *rule =
        backend_rule_of(&group->choice, fields, fields->count * element);
    entry->route = route_of(group, rule);
    const struct group_facts *facts = &group->ways.routes.each[entry->route].facts;
    tutti_status status = has_kernels(fields) ? reduce_check(fields->op, fields->dtype) : TUTTI_OK;
    if (!status)
        status = plan_choose(facts, fields, element, &entry->plan);
    if (!status && has_kernels(fields))
        entry->kernels = plan_kernels(&entry->plan, fields, (uint32_t)group->size, element);
    if (!status && entry->plan.algorithm->emit)
        status = plan_emit(&entry->plan, facts, fields, element, sizes ? &entry->sizes : NULL,
                           entry->kernels.finish != NULL, &entry->schedule);
    if (status) {
        plan_free(entry);
        return status;
    }
    if (group->ways.has_mapped)
        entry->trial =
            run_trial(&group->ways.mapped, &entry->schedule, entry->digest, group->needs.crowded);
    entry->record = record_of_fields(fields);
    entry->record.provider = carrier_of(group, entry);
    entry->record.algorithm = entry->plan.algorithm->name;
    entry->record.rule = rule ? rule->words : NULL;
    entry->engine = plan_describe(fields, group->size, element);
    if (algorithm_by_engine(entry->plan.algorithm->kind))
        entry->engine.device_type = facts->native->device_type;
    entry->mapped_bytes = bytes_to_mapped(entry, fields->count * element);
    *ret_entry = entry;
    return TUTTI_OK;
}

tutti_status group_plan_registered(struct tutti_group *group, struct plan_entry *entry)
{
    const struct group_facts *facts = &group->ways.routes.each[entry->route].facts;
    const struct call_fields *fields = &entry->fields;
    const uint32_t element = entry->kernels.element_bytes;
    struct plan plan = entry->plan;
    tutti_status status = TUTTI_OK;

    if (entry->registered_chosen)
        return TUTTI_OK;
    plan.algorithm =
        choose_registered(facts, entry->plan.algorithm, fields, fields->count * element);
    if (plan.algorithm)
        status = plan_emit(&plan, facts, fields, element,
                           fields->flags & CALL_UNEVEN ? &entry->sizes : NULL,
                           entry->kernels.finish != NULL, &entry->registered_schedule);
    if (status)
        return status;
    entry->registered = plan.algorithm;
    entry->registered_chosen = true;
    return TUTTI_OK;
}

/* Drops the oldest plan of the bucket that nobody uses, when there are many. */
static void trim(struct tutti_group *group, struct plan_entry **bucket)
{
    struct plan_entry **oldest = NULL;
    int count = 0;

    for (struct plan_entry **at = bucket; *at; at = &(*at)->next) {
        count++;
        if (!(*at)->users)
            oldest = at;
    }
    if (count < PLANS_PER_BUCKET || !oldest)
        return;
    struct plan_entry *entry = *oldest;
    *oldest = entry->next;
    if (group->calls.last_plan == entry)
        group->calls.last_plan = NULL;
    plan_free(entry);
}

tutti_status group_find_plan(struct tutti_group *group, const struct call_fields *fields,
                             const struct call_sizes *sizes, struct plan_entry **ret_plan)
{
    if (group->calls.last_plan && same_call(group->calls.last_plan, fields, sizes, group->size)) {
        *ret_plan = group->calls.last_plan;
        return TUTTI_OK;
    }
    struct plan_entry **bucket = &group->calls.plans[plan_key(fields) >> 32 & (GROUP_PLANS - 1)];
    struct plan_entry *entry = *bucket;

    while (entry && !same_call(entry, fields, sizes, group->size))
        entry = entry->next;
    if (!entry) {
        trim(group, bucket);
        tutti_status status = plan_new(group, fields, sizes, &entry);
        if (status)
            return status;
        entry->next = *bucket;
        *bucket = entry;
    }
    group->calls.last_plan = *ret_plan = entry;
    return TUTTI_OK;
}
