/* SPDX-License-Identifier: Apache-2.0 */
#include "group/recorder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "reduce/op.h"

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t capacity,
                                                         const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, capacity - used, format, arguments);
    va_end(arguments);
}

static void append_op(const struct call_words *words, char *text, size_t capacity)
{
    char op[REDUCE_OP_TEXT];

    reduce_op_text(words->op, op);
    append(text, capacity, ", %s%s", op, words->flags & CALL_ORDERED ? ", fixed order" : "");
}

void call_words_text(const struct call_words *words, char *ret_text, size_t capacity)
{
    const bool uneven = words->flags & CALL_UNEVEN;

    snprintf(ret_text, capacity, "%s%s", call_name(words), uneven ? "_v" : "");
    if (!operation_moves(words->operation) || words->flags & CALL_SPLIT)
        return;
    if (words->count || !uneven)
        append(ret_text, capacity, " %llu x", (unsigned long long)words->count);
    append(ret_text, capacity, " %s", tutti_dtype_name(words->dtype));
    if (operation_reduces(words->operation))
        append_op(words, ret_text, capacity);
    if (operation_has_root(words->operation))
        append(ret_text, capacity, ", root %d", words->root);
    if (words->sizes)
        append(ret_text, capacity, ", sizes #%04x", words->sizes);
}

static tutti_record *next_record(struct tutti_group *group, uint64_t *ret_number)
{
    *ret_number = group->recorder.count++;
    return record_at(group, *ret_number);
}

tutti_record record_of_words(const struct call_words *words)
{
    return (tutti_record){.count = words->count,
                          .operation = call_name(words),
                          .provider = "none",
                          .algorithm = "none",
                          .dtype = words->dtype,
                          .op = words->op,
                          .peer = words->root,
                          .flags = words->flags & CALL_UNEVEN ? TUTTI_RECORD_UNEVEN : 0};
}

uint64_t record_collective(struct tutti_group *group, const struct call *call)
{
    uint64_t number;
    tutti_record *record = next_record(group, &number);

    *record = call->plan->record;
    record->sequence = call->announce.sequence;
    record->bytes = call->bytes;
    return number;
}

void record_refused(struct tutti_group *group, const struct call_words *words, uint64_t bytes)
{
    uint64_t number;
    tutti_record *record = next_record(group, &number);

    *record = record_of_words(words);
    record->sequence = group->sequence + 1;
    record->bytes = bytes;
    record->state = RECORD_FAILED;
    record->flags |= TUTTI_RECORD_REFUSED;
}

/* What messages with `peer` go through; any of them when it is not known yet. */
static const char *way_to(const struct tutti_group *group, int peer)
{
    if (peer == group->rank)
        return "self";
    return peer < 0 ? group->backend
                    : route_carrier(group, route_of(group, group->routes.message_rule), peer);
}

uint64_t record_message(struct tutti_group *group, const struct call *call, bool is_send)
{
    const struct backend_rule *rule = call->peer == group->rank ? NULL : group->routes.message_rule;
    uint64_t number;
    tutti_record *record = next_record(group, &number);

    *record = (tutti_record){.sequence = ++group->recorder.messages,
                             .bytes = call->bytes,
                             .count = call->bytes,
                             .tag = call->tag,
                             .operation = is_send ? "send" : "recv",
                             .provider = way_to(group, call->peer),
                             .rule = rule ? rule->words : NULL,
                             .algorithm = "message",
                             .op = -1,
                             .peer = call->peer,
                             .state = RECORD_RUNNING,
                             .flags = TUTTI_RECORD_MESSAGE};
    return number;
}

void record_source(struct tutti_group *group, uint64_t number, int source)
{
    if (record_is_gone(group, number))
        return;
    record_at(group, number)->peer = source;
    record_at(group, number)->provider = way_to(group, source);
}

tutti_status tutti_recorder_read(const tutti_group *const_group, tutti_record *ret_records,
                                 uint32_t record_size, uint32_t capacity, uint32_t *ret_count)
{
    tutti_group *group = (tutti_group *)const_group;
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (!ret_count || (capacity && !ret_records) || !record_size)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "ret_records, record_size and ret_count must be given");
    size_t size = record_size < sizeof(tutti_record) ? record_size : sizeof(tutti_record);

    engine_take(&group->context->engine);
    uint64_t kept = group->recorder.count < GROUP_RECORDS ? group->recorder.count : GROUP_RECORDS;
    uint32_t n = kept < capacity ? (uint32_t)kept : capacity;
    for (uint32_t i = 0; i < n; i++) {
        char *out = (char *)ret_records + (size_t)i * record_size;

        memset(out, 0, record_size);
        memcpy(out, record_at(group, group->recorder.count - n + i), size);
    }
    engine_release(&group->context->engine);
    *ret_count = n;
    return TUTTI_OK;
}

tutti_status tutti_group_traffic(const tutti_group *const_group, tutti_traffic *ret_traffic)
{
    tutti_group *group = (tutti_group *)const_group;
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (!ret_traffic || ret_traffic->struct_size < sizeof(uint32_t))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_traffic and its struct_size must be set");
    tutti_traffic traffic = {0};

    engine_take(&group->context->engine);
    for (int level = 0; level < TRANSPORTS; level++) {
        struct endpoint *e = &group->endpoints[level];
        uint64_t counters[5] = {0};

        if (!e->ops || !TUTTI_HAS(e->ops, traffic))
            continue;
        e->ops->traffic(e->endpoint, counters);
        traffic.sent_bytes += counters[0];
        traffic.received_bytes += counters[1];
        traffic.sent_messages += counters[2];
        traffic.mapped_bytes += counters[4];
    }
    traffic.mapped_bytes += group->mapped_bytes;
    engine_release(&group->context->engine);
    options_give(&traffic, sizeof traffic, ret_traffic);
    return TUTTI_OK;
}
