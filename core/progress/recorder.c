/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a ring of the group's last calls, always on. Writing one costs a few stores, under
 * the progress lock; readers take the progress lock too.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/without.h"
#include "progress/progress.h"
#include "reduce/op.h"
#include "tensor/packed.h"

static void add_op(struct text *text, const struct call_fields *fields)
{
    char op[REDUCE_OP_TEXT];

    reduce_op_text(fields->op, op);
    text_add(text, ", %s%s", op, fields->flags & CALL_ORDERED ? ", fixed order" : "");
}

void call_fields_text(const struct call_fields *fields, char *ret_text, size_t capacity)
{
    const bool uneven = fields->flags & CALL_UNEVEN;
    struct text text = text_in(ret_text, capacity);

    text_add(&text, "%s%s", call_name(fields), uneven ? "_v" : "");
    if (!operation_moves(fields->operation) || fields->flags & (CALL_SPLIT | CALL_REGISTER))
        return;
    if (fields->count || !uneven)
        text_add(&text, " %llu x", (unsigned long long)fields->count);
    text_add(&text, " %s", tutti_dtype_name(fields->dtype));
    if (operation_reduces(fields->operation))
        add_op(&text, fields);
    if (operation_has_root(fields->operation))
        text_add(&text, ", root %d", fields->root);
    if (fields->flags & CALL_ON_DEVICE)
        text_add(&text, ", tensors on a device");
    if (fields->flags & CALL_WITH_NEXT)
        text_add(&text, ", in one launch with the next call of its batch");
    if (fields->flags & CALL_CAPTURED)
        text_add(&text, ", captured into a graph");
    if (fields->sizes)
        text_add(&text, ", sizes #%04x", fields->sizes);
}

tutti_record record_of_fields(const struct call_fields *fields)
{
    return (tutti_record){.count = fields->count,
                          .operation = call_name(fields),
                          .provider = "none",
                          .algorithm = "none",
                          .dtype = fields->dtype,
                          .op = fields->op,
                          .peer = fields->root,
                          .flags = fields->flags & CALL_UNEVEN ? TUTTI_RECORD_UNEVEN : 0};
}

uint64_t record_collective(struct tutti_group *group, const struct plan_entry *plan,
                           uint64_t sequence, uint64_t bytes)
{
    if (WITHOUT_RECORDER)
        return 0;

    const uint64_t number = group->recorder.count++;
    tutti_record *record = record_at(group, number);

    *record = plan->record;
    record->sequence = sequence;
    record->bytes = bytes;
    return number;
}

void record_registered(struct tutti_group *group, const struct call *call)
{
    if (!record_is_gone(group, call->record))
        record_at(group, call->record)->algorithm = call->plan->registered->name;
}

void record_staged(struct tutti_group *group, const struct call *call)
{
    if (!record_is_gone(group, call->record) && packed_is_staged(call->packed))
        record_at(group, call->record)->flags |= TUTTI_RECORD_STAGED;
}

void record_refused(struct tutti_group *group, const struct call_fields *fields, uint64_t bytes)
{
    tutti_record *record = record_at(group, group->recorder.count++);

    *record = record_of_fields(fields);
    record->sequence = group->calls.sequence + 1;
    record->bytes = bytes;
    record->state = RECORD_FAILED;
    record->flags |= TUTTI_RECORD_REFUSED;
}

/* The backend of messages with `peer`; any of them if it is not known yet. */
static const char *way_to(const struct tutti_group *group, int peer)
{
    return peer < 0 ? group->backend : group->ways.members[peer].carrier;
}

uint64_t record_message(struct tutti_group *group, bool is_send, int32_t peer, uint64_t tag,
                        uint64_t bytes, int32_t state)
{
    if (WITHOUT_RECORDER)
        return 0;

    const uint64_t number = group->recorder.count++;
    tutti_record *record = record_at(group, number);

    /* All fields: to zero the record first takes as long again. */
    record->sequence = ++group->recorder.messages;
    record->count = bytes;
    record->bytes = bytes;
    record->tag = tag;
    record->operation = is_send ? "send" : "recv";
    record->provider = way_to(group, peer);
    record->algorithm = "message";
    record->dtype = 0;
    record->op = -1;
    record->peer = peer;
    record->state = state;
    record->flags = TUTTI_RECORD_MESSAGE;
    record->reserved = 0;
    record->rule = peer == group->rank ? NULL : group->ways.routes.message_words;
    return number;
}

void record_source(struct tutti_group *group, uint64_t number, int source)
{
    if (record_is_gone(group, number))
        return;
    record_at(group, number)->peer = source;
    record_at(group, number)->provider = way_to(group, source);
}

void record_moved(struct tutti_group *group, uint64_t number, const char *provider)
{
    if (record_is_gone(group, number))
        return;
    record_at(group, number)->provider = provider;
    record_at(group, number)->flags &= ~(uint32_t)TUTTI_RECORD_STAGED;
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
        struct endpoint *e = &group->ways.endpoints[level];
        uint64_t counters[5] = {0};

        if (!e->ops || !TUTTI_HAS(e->ops, traffic))
            continue;
        e->ops->traffic(e->endpoint, counters);
        traffic.sent_bytes += counters[0];
        traffic.received_bytes += counters[1];
        traffic.sent_messages += counters[2];
        traffic.mapped_bytes += counters[4];
    }
    traffic.mapped_bytes += group->calls.mapped_bytes;
    engine_release(&group->context->engine);
    options_give(&traffic, sizeof traffic, ret_traffic);
    return TUTTI_OK;
}
