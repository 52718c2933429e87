/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_explain(): the plan of a call that nobody makes. The group is made up from the query; of the
 * backends that it names the plugins are opened, as tutti_init() would, to know what they can do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/collective.h>
#include <tutti/info.h>
#include <tutti/tensor.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/options.h"
#include "dispatch/dispatch.h"
#include "info/carriers.h"
#include "reduce/reduce.h"

enum { MEMBERS_MAX = 65535 };

/* Its schedule has some million steps; beyond, only memory would be measured. */
static const uint64_t bytes_max = UINT64_C(64) << 30;

/* ---- the query ----------------------------------------------------------------------------- */

static tutti_status parse_operation(const char *name, uint8_t *ret_operation)
{
    for (uint8_t i = OPERATION_NONE + 1; name && i < OPERATION_COUNT; i++)
        if (!strcmp(name, operation_name(i))) {
            *ret_operation = i;
            return TUTTI_OK;
        }
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "unknown operation '%s'; there are "
#define NAME(NAME, name) name " "
                     OPERATION_LIST(NAME)
#undef NAME
                         ,
                     name ? name : "(null)");
}

/* "2,2" to the host of each member; NULL: one host. */
static tutti_status parse_layout(const char *text, int members, int *ret_host_of)
{
    const char *at = text;
    int placed = 0;

    if (!text)
        return TUTTI_OK;
    for (int host = 0;; host++) {
        char *end;
        long count;

        errno = 0;
        count = strtol(at, &end, 10);
        if (end == at || errno || count < 1 || count > members - placed ||
            (*end != ',' && *end != 0))
            break;
        for (long i = 0; i < count; i++)
            ret_host_of[placed++] = host;
        if (*end == 0 && placed == members)
            return TUTTI_OK;
        if (*end == 0)
            break;
        at = end + 1;
    }
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "layout '%s' does not place %d members: give the members of each host, "
                     "such as \"2,2\" for 4",
                     text, members);
}

static tutti_status words_of(const tutti_explain_query *query, struct call_words *ret_words,
                             uint32_t *ret_element_bytes)
{
    const tutti_dtype dtype = query->dtype ? query->dtype : TUTTI_F32;
    const size_t size = tutti_dtype_size(dtype);
    struct call_words words = {.dtype = dtype, .op = -1, .root = -1};
    tutti_status status = parse_operation(query->operation, &words.operation);

    if (status)
        return status;
    if (!size)
        return error_set(TUTTI_ERR_UNSUPPORTED, "dtype 0x%x is not known", dtype);
    if (query->bytes > bytes_max || query->bytes % size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%llu bytes: give at most 64 GiB of whole %s elements",
                         (unsigned long long)query->bytes, tutti_dtype_name(dtype));
    if (query->flags & ~TUTTI_FIXED_ORDER || query->reserved)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "flags 0x%x: only TUTTI_FIXED_ORDER is known, and `reserved` must be 0",
                         query->flags);
    words.count = operation_moves(words.operation) ? query->bytes / size : 0;
    if (operation_has_root(words.operation))
        words.root = 0;
    if (operation_reduces(words.operation)) {
        words.op = query->op;
        if (query->flags & TUTTI_FIXED_ORDER || environment_is_reproducible())
            words.flags |= CALL_ORDERED;
        status = reduce_check(query->op, dtype);
        if (status)
            return status;
    }
    *ret_words = words;
    *ret_element_bytes = (uint32_t)size;
    return TUTTI_OK;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static tutti_status count_steps(const struct group_facts *facts,
                                const struct plan_candidate *candidate,
                                const struct call_words *words, uint32_t element_bytes,
                                struct schedule *sched, int32_t *ret_steps)
{
    const bool finish =
        operation_reduces(words->operation) && reduce_finish(words->dtype, words->op) != NULL;

    *ret_steps = 0;
    if (!candidate->possible || !candidate->plan.algorithm->emit)
        return TUTTI_OK;
    tutti_status status =
        plan_emit(&candidate->plan, facts, words, element_bytes, NULL, finish, sched);

    if (status == TUTTI_OK)
        *ret_steps = sched->count > INT32_MAX ? INT32_MAX : (int32_t)sched->count;
    return status;
}

static tutti_status explain(const struct group_facts *facts, const struct call_words *words,
                            uint32_t element_bytes, tutti_explain_fn fn, void *user)
{
    struct plan_candidate candidates[PLAN_CANDIDATES_MAX];
    struct schedule sched = {0};
    struct plan plan;
    tutti_status status = plan_choose(facts, words, element_bytes, &plan);
    const int count = status ? 0 : plan_explain(facts, words, element_bytes, candidates);

    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        tutti_explain_row row = {.provider = candidates[i].plan.provider,
                                 .algorithm = candidates[i].plan.algorithm->name,
                                 .reason = candidates[i].reason,
                                 .estimated_us = candidates[i].estimated_us,
                                 .chosen = candidates[i].chosen};

        status = count_steps(facts, &candidates[i], words, element_bytes, &sched, &row.steps);
        if (status == TUTTI_OK)
            fn(&row, user);
    }
    schedule_free(&sched);
    return status;
}

static tutti_status make_layout(const tutti_explain_query *query, struct layout *ret_layout)
{
    int *host_of;
    tutti_status status;

    if (query->members < 1 || query->members > MEMBERS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%d members: give 1 to %d", query->members,
                         MEMBERS_MAX);
    host_of = calloc((size_t)query->members, sizeof *host_of);
    if (!host_of)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", query->members);
    status = parse_layout(query->layout, query->members, host_of);
    if (status == TUTTI_OK && layout_init(ret_layout, query->members, 0, host_of))
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", query->members);
    free(host_of);
    return status;
}

tutti_status tutti_explain(const tutti_explain_query *query, tutti_explain_fn fn, void *user)
{
    tutti_explain_query q;
    struct backend_choice choice;
    struct carriers carriers;
    struct call_words words;
    struct layout layout;
    uint32_t element_bytes = 0;
    tutti_status status;

    if (!query || !fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "tutti_explain: query or fn is NULL");
    status = options_copy(&q, sizeof q, query, "tutti_explain_query");
    if (status)
        return status;
    status = backend_resolve(q.backend, &choice);
    if (status == TUTTI_OK)
        status = carriers_find(&choice, &carriers);
    if (status == TUTTI_OK)
        status = words_of(&q, &words, &element_bytes);
    if (status == TUTTI_OK)
        status = make_layout(&q, &layout);
    if (status)
        return status;
    struct native_facts native;
    const struct group_facts facts = carriers_facts(&carriers, &layout, &native);

    status = explain(&facts, &words, element_bytes, fn, user);
    layout_free(&layout);
    return status;
}
