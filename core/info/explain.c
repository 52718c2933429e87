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

#include "base/cleanup.h"
#include "base/cpu.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "dispatch/dispatch.h"
#include "dispatch/tuning.h"
#include "info/carriers.h"
#include "plugin/known.h"
#include "reduce/reduce.h"

enum { MEMBERS_MAX = 65535, REASON_MAX = 256, ENGINE_MAX = 4096 };

/* Its schedule has some million steps; beyond, only memory would be measured. */
static const uint64_t bytes_max = UINT64_C(64) << 30;

/* ---- the query ---- */

/* The call to explain: a collective, or a message between member 0 and another. */
struct question {
    struct call_fields fields;
    uint32_t element_bytes;
    uint64_t bytes; /* of the vector, or of each block */
    bool message;
    bool asks_engine;
    bool on_device; /* the tensors are */
};

/* "all_gather", "all_gather_v", "send". */
static tutti_status parse_operation(const char *name, struct question *question)
{
#define NAME(NAME, name) name " "
    static const char known[] = OPERATION_LIST(NAME);
#undef NAME
    const size_t length = name ? strlen(name) : 0;
    const bool uneven = length > 2 && !strcmp(name + length - 2, "_v");
    const size_t plain = uneven ? length - 2 : length;

    question->message = length && (!strcmp(name, "send") || !strcmp(name, "recv"));
    if (question->message)
        return TUTTI_OK;
    for (uint8_t i = OPERATION_NONE + 1; name && i < OPERATION_COUNT; i++)
        if (!strncmp(name, operation_name(i), plain) && !operation_name(i)[plain] &&
            (!uneven || operation_has_blocks(i))) {
            question->fields.operation = i;
            question->fields.flags = uneven ? CALL_UNEVEN : 0;
            return TUTTI_OK;
        }
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "unknown operation '%s'; known: %ssend recv, and the _v forms of those with a "
                     "block for every member",
                     name ? name : "(null)", known);
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

/* The elements that the call's fields count. */
static uint64_t counted(const struct call_fields *fields, uint64_t count, int members)
{
    if (!operation_moves(fields->operation))
        return 0;
    if (!(fields->flags & CALL_UNEVEN))
        return count;
    return operation_shares_sizes(fields->operation) ? count * (uint64_t)members : 0;
}

static tutti_status parse_device(const char *device, bool *ret_on_device)
{
    const bool on_host = !device || !strcmp(device, "cpu");

    if (!on_host && !known_device_type(device, strlen(device)))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "device '%s': tensors lie in host memory, \"cpu\", or on \"cuda\"",
                         device);
    *ret_on_device = !on_host;
    return TUTTI_OK;
}

static tutti_status parse_question(const tutti_explain_query *query, struct question *ret_question)
{
    const tutti_dtype dtype = query->dtype ? query->dtype : TUTTI_F32;
    const size_t size = tutti_dtype_size(dtype);
    struct question question = {.fields = {.dtype = dtype, .op = -1, .root = -1},
                                .element_bytes = (uint32_t)size,
                                .bytes = query->bytes};
    struct call_fields *fields = &question.fields;
    tutti_status status = parse_operation(query->operation, &question);

    if (!status)
        status = parse_device(query->device, &question.on_device);
    if (status)
        return status;
    if (!size)
        return error_set(TUTTI_ERR_UNSUPPORTED, "dtype 0x%x is not known", dtype);
    if (query->bytes > bytes_max || query->bytes % size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%llu bytes: give at most 64 GiB of whole %s elements",
                         (unsigned long long)query->bytes, tutti_dtype_name(dtype));
    if (query->flags & ~(TUTTI_FIXED_ORDER | TUTTI_EXPLAIN_ENGINE))
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "flags 0x%x: only TUTTI_FIXED_ORDER and TUTTI_EXPLAIN_ENGINE are known",
                         query->flags);
    question.asks_engine = query->flags & TUTTI_EXPLAIN_ENGINE;
    if (query->root < 0 || query->root >= query->members)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "rank %d is not in a group of %d: ranks are 0 to %d", query->root,
                         query->members, query->members - 1);
    if (!question.message && !operation_moves(fields->operation)) {
        question.bytes = 0;
        question.on_device = false;
    }
    fields->count = counted(fields, question.bytes / size, query->members);
    if (question.message || operation_has_root(fields->operation))
        fields->root = query->root;
    if (operation_reduces(fields->operation)) {
        fields->op = query->op;
        if (query->flags & TUTTI_FIXED_ORDER || environment_is_reproducible())
            fields->flags |= CALL_ORDERED;
        status = reduce_check(query->op, dtype);
        if (status)
            return status;
    }
    *ret_question = question;
    return TUTTI_OK;
}

/* ---- the answer ---- */

/* NULL: the tensors are in host memory, or taken where they lie. */
static const char *staging_of(const struct question *question)
{
    return question->on_device && !(question->fields.flags & CALL_DIRECT) ? "pinned host memory"
                                                                          : NULL;
}

static tutti_status count_steps(const struct group_facts *facts,
                                const struct plan_candidate *candidate,
                                const struct question *question, struct schedule *sched,
                                int32_t *ret_steps)
{
    const struct call_fields *fields = &question->fields;
    const size_t members = (size_t)facts->layout->size;
    struct call_sizes sizes;
    AUTOFREE uint64_t *table = NULL;
    const bool finish =
        operation_reduces(fields->operation) &&
        plan_kernels(&candidate->plan, fields, (uint32_t)members, question->element_bytes).finish;

    *ret_steps = 0;
    if (!candidate->possible || !candidate->plan.algorithm->emit)
        return TUTTI_OK;
    if (fields->flags & CALL_UNEVEN) {
        table = malloc(members * sizeof *table);
        if (!table)
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu sizes", members);
        for (size_t i = 0; i < members; i++)
            table[i] = question->bytes;
        /* Blocks that are uneven in form, of which all have the same size: those that member 0 knows. */
        const bool knows_all = fields->root <= 0;
        sizes = (struct call_sizes){
            .in = knows_all && operation_takes_blocks(fields->operation) ? table : NULL,
            .out = knows_all && operation_gives_blocks(fields->operation) ? table : NULL,
            .own = question->bytes};
    }
    tutti_status status = plan_emit(&candidate->plan, facts, fields, question->element_bytes,
                                    table ? &sizes : NULL, finish, sched);

    if (status == TUTTI_OK)
        *ret_steps = sched->count > INT32_MAX ? INT32_MAX : (int32_t)sched->count;
    return status;
}

/* The reason, with the threshold if one decides: between the chosen algorithm and others of its
 * kind. */
static void say_reason(const struct group_facts *facts, const struct plan_candidate *candidate,
                       const struct plan_candidate *chosen, char ret_words[REASON_MAX])
{
    struct text words = text_in(ret_words, REASON_MAX);
    char buffer[128];
    struct text threshold = text_in(buffer, sizeof buffer);

    text_add(&words, "%s", candidate->reason);
    if (candidate->possible && candidate->plan.algorithm->kind == chosen->plan.algorithm->kind)
        tuning_words(facts->layout->thresholds, candidate->plan.algorithm, facts->layout->size,
                     &threshold);
    if (*buffer)
        text_add(&words, " (%s)", buffer);
}

/* What the engine says of a call that it does as a whole; "": nothing. */
static void ask_engine(const struct group_facts *facts, const struct plan_candidate *candidate,
                       const struct question *question, char ret_lines[ENGINE_MAX])
{
    const struct native_facts *native = facts->native;
    const tutti_collective what =
        plan_describe(&question->fields, facts->layout->size, question->element_bytes);

    *ret_lines = 0;
    if (question->asks_engine && candidate->chosen &&
        candidate->plan.algorithm->kind == ALGORITHM_NATIVE && native &&
        TUTTI_HAS(native->ops, describe))
        native->ops->describe(native->host, native->host_self, &what, ret_lines, ENGINE_MAX);
}

static tutti_status explain_collective(const struct group_facts *facts,
                                       const struct backend_rule *rule,
                                       const struct question *question, tutti_explain_fn fn,
                                       void *user)
{
    struct plan_candidate candidates[PLAN_CANDIDATES_MAX];
    struct schedule sched = {0};
    struct plan plan;
    tutti_status status = plan_choose(facts, &question->fields, question->element_bytes, &plan);
    const int count = status ? 0
                             : plan_explain(facts, &question->fields, question->element_bytes,
                                            question->bytes, candidates);

    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        char reason[REASON_MAX], engine[ENGINE_MAX];
        tutti_explain_row row = {.provider = candidates[i].plan.provider,
                                 .algorithm = candidates[i].plan.algorithm->name,
                                 .reason = reason,
                                 .estimated_us = candidates[i].estimated_us,
                                 .chosen = candidates[i].chosen,
                                 .rule = rule ? rule->words : NULL,
                                 .staging = staging_of(question)};

        say_reason(facts, &candidates[i], &candidates[0], reason);
        ask_engine(facts, &candidates[i], question, engine);
        if (*engine)
            row.engine = engine;
        status = count_steps(facts, &candidates[i], question, &sched, &row.steps);
        if (status == TUTTI_OK)
            fn(&row, user);
    }
    schedule_free(&sched);
    return status;
}

/* What `auto` decides between hosts, in a row about the backend that it does not use there. */
static void explain_fabric(bool taken, const char *rule, tutti_explain_fn fn, void *user)
{
    fn(&(tutti_explain_row){.provider = taken ? known_auto_remote : known_auto_fabric,
                            .algorithm = "message",
                            .reason = rule},
       user);
}

/* The shortest message that the engine for devices moves where it lies; 0: it moves none. */
static uint64_t moved_from(const struct carriers *carriers, const struct question *question)
{
    const tutti_collectives_ops *ops = carriers->on_devices.engine;
    uint64_t least = 1, most = bytes_max;

    if (!question->on_device || !ops || !TUTTI_HAS(ops, carries) || !TUTTI_HAS(ops, launch_end) ||
        !ops->carries(NULL, most))
        return 0;
    while (least < most) {
        const uint64_t middle = least + (most - least) / 2;

        if (ops->carries(NULL, middle))
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

static void explain_moved(const struct carriers *carriers, uint64_t from, bool chosen,
                          tutti_explain_fn fn, void *user)
{
    char words[REASON_MAX];
    struct text reason = text_in(words, sizeof words);

    text_add(&reason, chosen ? "sends and receives " : "only messages of ");
    if (from % 1024)
        text_add(&reason, "%llu bytes", (unsigned long long)from);
    else
        text_add(&reason, "%llu KiB", (unsigned long long)from / 1024);
    text_add(&reason, chosen ? " and more from device to device" : " and more");
    fn(&(tutti_explain_row){.provider = carriers->on_devices.name,
                            .algorithm = "message",
                            .reason = words,
                            .chosen = chosen},
       user);
}

/* Why the message goes the way that leads to the member, or what of it goes there. */
static const char *carrier_reason(bool is_moved, bool is_only_way, bool is_local)
{
    return is_moved      ? "carries headers, and shorter messages by pinned host memory"
           : is_only_way ? "carries messages between all members"
           : is_local    ? "carries messages inside a host"
                         : "carries messages between hosts";
}

/* A message between member 0 and the one that is named goes the one way that leads there. */
static void explain_message(const struct carriers *carriers, const struct backend_rule *rule,
                            const struct layout *layout, const struct question *question,
                            tutti_explain_fn fn, void *user)
{
    const struct backend_way levels = {BACKEND_LOCAL, BACKEND_REMOTE};
    const struct backend_way way = rule ? rule->way : levels;
    const int peer = question->fields.root;
    const bool is_local = layout->host_of[peer] == layout->host;
    const struct carrier *carrier = &carriers->each[is_local ? way.inside : way.between];
    const struct carrier *other = &carriers->each[is_local ? way.between : way.inside];
    const uint64_t from = rule ? 0 : moved_from(carriers, question);
    const bool is_moved = from && question->bytes >= from;

    if (!peer) {
        fn(&(tutti_explain_row){.provider = "self",
                                .algorithm = "message",
                                .reason = "a message to the own rank uses no transport",
                                .chosen = 1,
                                .staging = staging_of(question)},
           user);
        return;
    }
    if (is_moved)
        explain_moved(carriers, from, true, fn, user);
    fn(&(tutti_explain_row){.provider = carrier->name,
                            .algorithm = "message",
                            .reason = carrier_reason(is_moved, carrier == other, is_local),
                            .estimated_us = model_us(model_message(carrier->cost, question->bytes)),
                            .chosen = !is_moved,
                            .rule = rule ? rule->words : NULL,
                            .staging = staging_of(question)},
       user);
    if (from && !is_moved)
        explain_moved(carriers, from, false, fn, user);
    if (strcmp(other->name, carrier->name))
        fn(&(tutti_explain_row){.provider = other->name,
                                .algorithm = "message",
                                .reason = is_local ? "only for members on other hosts"
                                                   : "only for members on the same host",
                                .staging = staging_of(question)},
           user);
}

/* Assumes that the members on one host share the CPUs of this process. */
static tutti_status make_layout(const tutti_explain_query *query, struct thresholds *thresholds,
                                struct layout *ret_layout)
{
    if (query->members < 1 || query->members > MEMBERS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%d members: give 1 to %d", query->members,
                         MEMBERS_MAX);

    AUTOFREE int *host_of = calloc((size_t)query->members, sizeof *host_of);
    tutti_status status = host_of ? parse_layout(query->layout, query->members, host_of) : TUTTI_OK;

    if (!host_of || (!status && layout_init(ret_layout, query->members, 0, host_of)))
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", query->members);
    if (!status) {
        thresholds_fit(thresholds, ret_layout->hosts == 1 && ret_layout->size > cpu_usable());
        ret_layout->thresholds = thresholds;
    }
    return status;
}

static tutti_status explain(const struct backend_choice *choice, const struct carriers *carriers,
                            const struct layout *layout, const struct question *question,
                            tutti_explain_fn fn, void *user)
{
    const struct backend_rule *rule = backend_rule_of(
        choice, &question->fields, question->fields.count * question->element_bytes);
    struct native_facts native;
    struct group_facts facts;

    if (question->message) {
        explain_message(carriers, backend_rule_of_messages(choice), layout, question, fn, user);
        return TUTTI_OK;
    }
    struct question asked = *question;
    const bool ruled = choice->rule_count && layout->size > 1;

    facts = ruled ? carriers_rule_facts(carriers, choice, rule, layout, &native)
                  : carriers_facts(carriers, layout, &native);
    if (asked.on_device && choose_device_way(&facts, &asked.fields))
        asked.fields.flags |= CALL_DIRECT;
    return explain_collective(&facts, ruled ? rule : NULL, &asked, fn, user);
}

tutti_status tutti_explain(const tutti_explain_query *query, tutti_explain_fn fn, void *user)
{
    tutti_explain_query q;
    struct backend_choice choice;
    struct carriers carriers;
    struct question question;
    struct thresholds thresholds;
    struct layout layout;
    char fabric_rule[CARRIERS_WORDS_MAX];
    tutti_status status;

    if (!query || !fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "query or fn is NULL");
    status = options_copy(&q, sizeof q, query, "tutti_explain_query");
    if (status)
        return status;
    status = tuning_read(&thresholds);
    if (status == TUTTI_OK)
        status = backend_resolve(q.backend, &choice);
    if (status == TUTTI_OK)
        status = carriers_find(&choice, &carriers);
    if (status == TUTTI_OK)
        status = make_layout(&q, &thresholds, &layout);
    if (status)
        return error_named(status);
    status = parse_question(&q, &question);
    const bool asks_fabric = status == TUTTI_OK && choice.is_auto && layout.hosts > 1;
    const bool fabric = asks_fabric && carriers_take_fabric(&carriers, fabric_rule);
    if (status == TUTTI_OK && question.on_device && choice.by_device)
        question.fields.flags |= CALL_ON_DEVICE;
    if (status == TUTTI_OK)
        status = carriers_check_hosts(&carriers, &choice, &layout);
    if (status == TUTTI_OK)
        status = explain(&choice, &carriers, &layout, &question, fn, user);
    if (status == TUTTI_OK && asks_fabric)
        explain_fabric(fabric, fabric_rule, fn, user);
    layout_free(&layout);
    return error_named(status);
}
