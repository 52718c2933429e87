/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_matrix_list(): every operation with every dtype and reduction over one backend, as the plans
 * of the core have it. Nothing is listed by hand: operations, dtypes and reductions come from the
 * lists that the code itself is made from, whether a cell is served from the table of kernels and from
 * the choice of an algorithm, which is asked for each size.
 */
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/tensor.h>

#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "info/carriers.h"
#include "reduce/reduce.h"

enum { MEMBERS = 4, ALGORITHM_WORDS_MAX = 512 };

/* More than 2^31 elements of the largest dtype: engines may count in int. */
static const uint64_t largest_bytes = UINT64_C(1) << 36;

static const struct placing {
    const char *name;
    int host_of[MEMBERS];
} placings[] = {
    {"one host", {0, 0, 0, 0}},
    {"one member on each host", {0, 1, 2, 3}},
    {"several members on each host", {0, 0, 1, 1}},
};

struct listing {
    tutti_matrix_fn fn;
    void *user;
    const struct carriers *carriers;
    const char *layout;
    struct group_facts facts, crowded; /* the second: where members outnumber the CPUs of a host */
    struct native_facts native;
    char unreached[96]; /* why members of this layout make no group; "": they do */
};

/* ---- one cell ---- */

static void add_word(char *words, const char *word)
{
    struct text text = text_after(words, ALGORITHM_WORDS_MAX);

    if (!text_list_has(words, word))
        text_add(&text, "%s%s", text.used ? ", " : "", word);
}

/* Whether an engine does it, and without carrying what it leaves to the core. */
static bool is_engine_alone(const struct listing *listing, const struct plan *plan)
{
    return plan->algorithm->kind == ALGORITHM_NATIVE &&
           strcmp(plan->provider, listing->facts.remote_name) != 0;
}

/* Adds the algorithm of a group whose members outnumber their CPUs, which one on several hosts never is. */
static tutti_status add_crowded(const struct listing *listing, const struct call_fields *fields,
                                uint32_t element_bytes, char algorithms[ALGORITHM_WORDS_MAX])
{
    struct plan plan;

    if (listing->facts.layout->hosts > 1)
        return TUTTI_OK;
    tutti_status status = plan_choose(&listing->crowded, fields, element_bytes, &plan);

    if (!status)
        add_word(algorithms, plan.algorithm->name);
    return status;
}

/* The algorithms from the smallest size to the largest, and the provider that carries the largest.
 * An engine that does the other sizes and carries nothing is named in front. */
static tutti_status sweep(const struct listing *listing, struct call_fields fields,
                          uint32_t element_bytes, char ret_algorithms[ALGORITHM_WORDS_MAX],
                          struct plan *ret_plan)
{
    struct plan engine = {.algorithm = NULL}, last;
    tutti_status status;

    *ret_algorithms = 0;
    for (uint64_t count = 1; count * element_bytes <= largest_bytes; count *= 2) {
        fields.count = operation_moves(fields.operation) ? count : 0;
        status = plan_choose(&listing->facts, &fields, element_bytes, &last);
        if (status)
            return status;
        add_word(ret_algorithms, last.algorithm->name);
        status = add_crowded(listing, &fields, element_bytes, ret_algorithms);
        if (status)
            return status;
        if (is_engine_alone(listing, &last))
            engine = last;
    }
    *ret_plan = last;
    if (engine.algorithm && last.algorithm->kind != ALGORITHM_NATIVE)
        snprintf(ret_plan->provider, sizeof ret_plan->provider, "%.31s+%.31s", engine.provider,
                 last.provider);
    return TUTTI_OK;
}

static void list_cell(const struct listing *listing, const char *operation,
                      const struct call_fields *fields, const char *dtype, const char *op)
{
    const bool moves = operation_moves(fields->operation);
    const uint32_t element_bytes = moves ? (uint32_t)tutti_dtype_size(fields->dtype) : 1;
    char algorithms[ALGORITHM_WORDS_MAX] = "", refusal[ERROR_MESSAGE_MAX] = "";
    struct plan plan = {.algorithm = NULL};

    if (*listing->unreached)
        snprintf(refusal, sizeof refusal, "%s", listing->unreached);
    else if (fields->op >= 0 && !reduce_kernel(fields->dtype, fields->op))
        snprintf(refusal, sizeof refusal, "%s does not take %s", op, dtype);
    else if (sweep(listing, *fields, element_bytes, algorithms, &plan))
        snprintf(refusal, sizeof refusal, "%s", error_message());
    listing->fn(&(tutti_matrix_cell){.operation = operation,
                                     .dtype = dtype,
                                     .op = op,
                                     .layout = listing->layout,
                                     .provider = *refusal ? "" : plan.provider,
                                     .algorithms = *refusal ? "" : algorithms,
                                     .refusal = refusal},
                listing->user);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    tutti_dtype number;
} dtypes[] = {
#define DTYPE(NAME, name, code, bits) {name, TUTTI_##NAME},
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
};

static const struct {
    const char *name;
    tutti_reduce_op number;
} ops[] = {
#define OP(NAME, name, number) {name, number},
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0], OPS = sizeof ops / sizeof ops[0] };

static void list_operation(const struct listing *listing, const char *name,
                           struct call_fields fields)
{
    if (!operation_moves(fields.operation)) {
        list_cell(listing, name, &fields, "", "");
        return;
    }
    for (int d = 0; d < DTYPES; d++) {
        fields.dtype = dtypes[d].number;
        fields.op = -1;
        if (!operation_reduces(fields.operation))
            list_cell(listing, name, &fields, dtypes[d].name, "");
        for (int o = 0; o < OPS && operation_reduces(fields.operation); o++) {
            fields.op = ops[o].number;
            list_cell(listing, name, &fields, dtypes[d].name, ops[o].name);
        }
    }
}

static void list_operations(const struct listing *listing)
{
    for (uint8_t i = OPERATION_NONE + 1; i < OPERATION_COUNT; i++) {
        struct call_fields fields = {
            .operation = i, .op = -1, .root = operation_has_root(i) ? 0 : -1};
        char uneven[64];

        list_operation(listing, operation_name(i), fields);
        if (!operation_has_blocks(i))
            continue;
        fields.flags = CALL_UNEVEN;
        snprintf(uneven, sizeof uneven, "%s_v", operation_name(i));
        list_operation(listing, uneven, fields);
    }
}

/* Matching, order and flow control are core/p2p's over any transport; no plan is made. Local peers talk by the
 * local one, others by the remote one. */
static void list_messages(const struct listing *listing)
{
    static const char *const names[] = {"send", "recv"};
    const char *local = listing->carriers->each[BACKEND_LOCAL].name;
    const char *remote = listing->carriers->each[BACKEND_REMOTE].name;
    const struct layout *layout = listing->facts.layout;
    const bool both =
        layout->hosts > 1 && layout->hosts < layout->size && strcmp(local, remote) != 0;
    char provider[2 * (PLUGIN_NAME_MAX + 1)];

    snprintf(provider, sizeof provider, "%s%s%s", both ? local : "", both ? "+" : "",
             both ? remote : listing->facts.remote_name);
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (int d = 0; d < DTYPES; d++)
            listing->fn(&(tutti_matrix_cell){.operation = names[n],
                                             .dtype = dtypes[d].name,
                                             .op = "",
                                             .layout = listing->layout,
                                             .provider = *listing->unreached ? "" : provider,
                                             .algorithms = *listing->unreached ? "" : "messages",
                                             .refusal = listing->unreached},
                        listing->user);
}

static tutti_status list_placing(struct listing *listing, const struct placing *placing)
{
    struct thresholds thresholds = thresholds_standard;
    struct layout layout, crowded;

    if (layout_init(&layout, MEMBERS, 0, placing->host_of))
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a layout");
    listing->layout = placing->name;
    listing->facts = carriers_facts(listing->carriers, &layout, &listing->native);
    crowded = layout;
    thresholds_fit(&thresholds, true);
    crowded.thresholds = &thresholds;
    listing->crowded = listing->facts;
    listing->crowded.layout = &crowded;
    *listing->unreached = 0;
    if (!listing->facts.messages)
        snprintf(listing->unreached, sizeof listing->unreached,
                 "%s reaches members of one host only", listing->facts.remote_name);
    list_operations(listing);
    list_messages(listing);
    layout_free(&layout);
    return TUTTI_OK;
}

tutti_status tutti_matrix_list(const char *backend, tutti_matrix_fn fn, void *user)
{
    struct backend_choice choice;
    struct carriers carriers;
    struct listing listing = {.fn = fn, .user = user, .carriers = &carriers};

    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    tutti_status status = backend_resolve(backend, &choice);
    if (!status && choice.rule_count)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT,
                           "the matrix is of backends, not of rules: name one, such as %s or %s",
                           choice.local, choice.remote);
    if (!status)
        status = carriers_find(&choice, &carriers);
    for (size_t i = 0; i < sizeof placings / sizeof placings[0] && !status; i++)
        status = list_placing(&listing, &placings[i]);
    return error_named(status);
}

const char *tutti_operation_name(int32_t number)
{
    return number > OPERATION_NONE && number < OPERATION_COUNT ? operation_name(number) : NULL;
}

uint32_t tutti_operation_traits(int32_t number)
{
    if (number <= OPERATION_NONE || number >= OPERATION_COUNT)
        return 0;
    return (operation_moves(number) ? TUTTI_OPERATION_MOVES : 0) |
           (operation_reduces(number) ? TUTTI_OPERATION_REDUCES : 0) |
           (operation_has_root(number) ? TUTTI_OPERATION_HAS_ROOT : 0) |
           (operation_has_blocks(number) ? TUTTI_OPERATION_HAS_BLOCKS : 0);
}
