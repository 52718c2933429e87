/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls, transports and groups are shown to wrappers.
 *
 * Those of a world are opened in the order in which they were named, see a call begin in that order
 * and end in the other, and are closed when the last group that uses them is freed. Any of them may
 * refuse a call when it begins, or say another status when it ends: this member then proposes that
 * as the verdict, and the call stays until it is there. What wrappers tell each other travels as
 * notes of the control plane and is heard under the progress lock.
 */
#include "provider/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/about.h"
#include "plugin/descriptor.h"
#include "plugin/host.h"
#include "plugin/plugin.h"
#include "tensor/packed.h"

enum {
    WRAPPERS_MAX = 8,
    TELL_MAX = 192, /* CONTROL_NOTE_MAX, less a name */
    POLL_EVERY = 16,
    FINISH_MS = 2000
};

#define HOLD_MAX_NS (3600 * CLOCK_NS_PER_S)

struct wrapper {
    struct host_user user; /* its status: of the function that was called last */
    const tutti_wrapper_ops *ops;
    tutti_wrapper *instance;
    struct wrappers *all;
};

struct wrappers {
    _Atomic unsigned groups; /* that use them */
    int rank;                /* in the world */
    unsigned count;
    uint64_t calls; /* under the progress lock */
    struct wrapper items[WRAPPERS_MAX];
};

/* ---- host services; `self` is the wrapper, which begins with its struct host_user ---- */

static void host_tell(void *self, const tutti_wrapped_group *group, const void *bytes,
                      uint64_t count)
{
    struct wrapper *wrapper = self;
    struct tutti_group *from = group->core;
    uint8_t body[CONTROL_NOTE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};

    if (count > TELL_MAX)
        return;
    write_string(&w, wrapper->user.name);
    write_bytes(&w, bytes, count);
    control_tell(from->control, body, w.size);
}

static const tutti_host host_services = {
    HOST_SERVICES(host),
    .tell = host_tell,
};

/* ---- opening and closing ---- */

static tutti_status open_one(struct wrappers *all, const struct tutti_group *world,
                             const char *name)
{
    struct wrapper *wrapper = &all->items[all->count];
    tutti_wrapper_options options = {.struct_size = sizeof options,
                                     .rank = world->bootstrap.rank,
                                     .size = world->bootstrap.size,
                                     .run_id = world->bootstrap.run_id};
    const tutti_plugin *plugin;

    for (unsigned i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].user.name, name))
            return error_set(TUTTI_ERR_INVALID_ARGUMENT, "wrapper %s is named twice", name);
    if (all->count == WRAPPERS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "more than %d wrappers", WRAPPERS_MAX);
    tutti_status status = plugin_find_wrapper(name, &plugin);
    if (!status)
        status = plugin_check_options(name);
    if (status)
        return status;
    *wrapper = (struct wrapper){.all = all, .ops = plugin_ops(plugin, TUTTI_PROVIDER_WRAPPER)};
    snprintf(wrapper->user.name, sizeof wrapper->user.name, "%s", name);
    if (!wrapper->ops)
        return error_set(TUTTI_ERR_PLUGIN, "plugin %s is not a wrapper", name);
    status = wrapper->ops->open(&host_services, wrapper, &options, &wrapper->instance);
    if (!status)
        all->count++;
    else if (!wrapper->user.status)
        error_set(status, "wrapper %s could not be opened: %s", name, tutti_status_string(status));
    return status;
}

static void close_all(struct wrappers *all)
{
    while (all->count) {
        struct wrapper *wrapper = &all->items[--all->count];

        wrapper->ops->close(wrapper->instance);
    }
    free(all);
}

static tutti_status open_all(struct wrappers *all, const struct tutti_group *world,
                             const char *names)
{
    tutti_status status = TUTTI_OK;

    for (const char *at = names; at && !status; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ",");
        char name[PLUGIN_NAME_MAX + 1] = "";

        if (length <= PLUGIN_NAME_MAX)
            memcpy(name, at, length);
        status = descriptor_name_is_valid(name)
                     ? open_one(all, world, name)
                     : error_set(TUTTI_ERR_INVALID_ARGUMENT,
                                 "\"%.*s\" at byte %zu is not a wrapper's name", TEXT_CUT(at, 64),
                                 (size_t)(at - names));
        at += length;
    }
    return status;
}

tutti_status wrappers_open(struct tutti_group *world, const char *option)
{
    const struct environment_wrappers wanted = environment_wrappers(option);

    if (!*wanted.names)
        return TUTTI_OK;
    struct wrappers *all = calloc(1, sizeof *all);
    if (!all)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for wrappers");
    all->rank = world->bootstrap.rank;
    atomic_store(&all->groups, 1);
    tutti_status status = open_all(all, world, wanted.names);
    if (!status) {
        world->ways.wrappers = all;
        return TUTTI_OK;
    }
    error_prefix("%s=%.*s", option ? "wrap" : wanted.source, TEXT_CUT(wanted.names, 128));
    close_all(all);
    if (world->bootstrap.size == 1)
        return status;
    error_keep(&world->refusal);
    return TUTTI_OK;
}

void wrappers_share(const struct tutti_group *parent, struct tutti_group *group)
{
    group->ways.wrappers = parent->ways.wrappers;
    if (group->ways.wrappers)
        atomic_fetch_add(&group->ways.wrappers->groups, 1);
}

void wrappers_leave(struct tutti_group *group)
{
    for (unsigned i = 0; group->ways.wrappers && i < group->ways.wrappers->count; i++) {
        struct wrapper *wrapper = &group->ways.wrappers->items[i];

        if (TUTTI_HAS(wrapper->ops, leave))
            wrapper->ops->leave(wrapper->instance, &group->ways.wrapped);
    }
    if (group->ways.wrappers && atomic_fetch_sub(&group->ways.wrappers->groups, 1) == 1)
        close_all(group->ways.wrappers);
    group->ways.wrappers = NULL;
    error_forget(&group->refusal);
}

void wrappers_know(struct tutti_group *group)
{
    if (group->control)
        group->control->takes_notes = group->ways.wrappers != NULL;
    group->ways.wrapped = (tutti_wrapped_group){.struct_size = sizeof group->ways.wrapped,
                                                .rank = group->rank,
                                                .size = group->size,
                                                .name = group->name,
                                                .world_ranks = group->origin.world_ranks,
                                                .core = group};
}

/* ---- in front of a transport ---- */

static tutti_status wrap_transport(struct wrapper *wrapper, const tutti_wrapped_group *group,
                                   struct endpoint *endpoint)
{
    const tutti_transport_ops *ops = NULL;
    tutti_endpoint *outer = NULL;

    if (!TUTTI_HAS(wrapper->ops, transport))
        return TUTTI_OK;
    wrapper->user.status = TUTTI_OK;
    tutti_status status = wrapper->ops->transport(wrapper->instance, group, endpoint->user.name,
                                                  endpoint->ops, endpoint->endpoint, &ops, &outer);
    if (status == TUTTI_ERR_UNSUPPORTED)
        return TUTTI_OK;
    if (status)
        return wrapper->user.status
                   ? status
                   : error_set(status, "wrapper %s cannot wrap %s: %s", wrapper->user.name,
                               endpoint->user.name, tutti_status_string(status));
    uint64_t more = ops->capabilities & ~endpoint->ops->capabilities;
    status = descriptor_check_transport(wrapper->user.name, ops);
    if (!status && more)
        status = error_set(TUTTI_ERR_PLUGIN, "wrapper %s adds capabilities 0x%llx to %s",
                           wrapper->user.name, (unsigned long long)more, endpoint->user.name);
    endpoint->ops = ops;
    endpoint->endpoint = outer;
    return status;
}

tutti_status wrappers_transport(struct tutti_group *group, struct endpoint *endpoint)
{
    struct wrappers *wrappers = group->ways.wrappers;
    tutti_status status = TUTTI_OK;

    for (unsigned i = wrappers->count; i > 0 && !status; i--)
        status = wrap_transport(&wrappers->items[i - 1], &group->ways.wrapped, endpoint);
    return status;
}

/* ---- in front of a call ---- */

static bool same_result(const struct call *call)
{
    uint8_t operation = call->announce.fields.operation;

    return operation == OPERATION_ALL_REDUCE || operation == OPERATION_BROADCAST ||
           operation == OPERATION_ALL_GATHER;
}

/* One side of a call, as wrappers see it: one piece, or a block for each member. */
struct seen_side {
    void *one;
    void *const *blocks;
    const uint64_t *block_bytes;
    uint64_t bytes;
};

/* `sizes`: of the blocks, when they differ. */
static struct seen_side side_of(const struct tutti_group *group, const struct call *call,
                                const struct blocks *side, bool blocks, const uint64_t *sizes)
{
    const uint64_t members = blocks ? (uint64_t)group->size : 1;
    struct seen_side seen = {.bytes = call->bytes * members};

    if (blocks && side->each) {
        seen.blocks = side->each;
        seen.block_bytes = sizes;
        for (uint64_t i = seen.bytes = 0; i < members; i++)
            seen.bytes += sizes ? sizes[i] : call->bytes;
    } else {
        seen.one = seen.bytes ? side->base : NULL;
    }
    return seen;
}

static tutti_call collective_facts(const struct tutti_group *group, const struct call *call)
{
    const struct call_fields *fields = &call->announce.fields;
    const int operation = fields->operation;
    const struct call_sizes *sizes = &call->plan->sizes;
    struct seen_side in = {0}, out = {0};

    if (group_gives(group, fields))
        in = side_of(group, call, &call->in, operation_takes_blocks(operation), sizes->in);
    if (group_gets(group, fields))
        out = side_of(group, call, &call->out, operation_gives_blocks(operation), sizes->out);
    return (tutti_call){
        .flags = same_result(call) ? TUTTI_CALL_SAME_RESULT : 0,
        .operation = operation_name(operation),
        .sequence = call->announce.sequence,
        .count = fields->count,
        .dtype = fields->dtype,
        .op = fields->op,
        .peer = fields->root,
        .dtype_name = fields->dtype ? tutti_dtype_name(fields->dtype) : "",
        .op_name = fields->op >= 0 ? tutti_reduce_op_name(fields->op) : "",
        .algorithm = call->plan->plan.algorithm->name,
        .in = in.one,
        .in_bytes = in.bytes,
        .out = out.one,
        .out_bytes = out.bytes,
        .in_blocks = (const void *const *)in.blocks,
        .in_block_bytes = in.block_bytes,
        .out_blocks = out.blocks,
        .out_block_bytes = out.block_bytes,
    };
}

/* The facts of a message; the one that a receive matched is known when the receive has ended. */
static tutti_call message_facts(const struct call *call, bool ended)
{
    const bool sends = call->kind == CALL_SEND;
    const bool met = ended && !sends && call->message.source >= 0;
    const uint32_t dtype = call->announce.fields.dtype;
    const uint64_t bytes = met ? call->message.bytes : call->bytes;
    const uint64_t element = tutti_dtype_size(dtype);

    return (tutti_call){
        .flags = TUTTI_CALL_MESSAGE,
        .operation = sends ? "send" : "recv",
        .tag = call->tag,
        .count = element ? bytes / element : bytes,
        .dtype = dtype,
        .op = -1,
        .peer = met ? call->message.source : call->peer,
        .dtype_name = dtype ? tutti_dtype_name(dtype) : "",
        .op_name = "",
        .algorithm = "message",
        .in = sends && bytes ? call->in.base : NULL,
        .in_bytes = sends ? bytes : 0,
        .out = !sends && bytes ? call->out.base : NULL,
        .out_bytes = sends ? 0 : bytes,
    };
}

static tutti_call facts_of(struct tutti_group *group, struct call *call, bool ended)
{
    tutti_call facts =
        call->kind == CALL_COLLECTIVE ? collective_facts(group, call) : message_facts(call, ended);

    facts.struct_size = sizeof facts;
    facts.number = call->number;
    facts.group = &group->ways.wrapped;
    facts.begun_ns = call->begun_ns;
    facts.provider = "";
    if (packed_is_staged(call->packed))
        facts.flags |= TUTTI_CALL_STAGED;
    if (!record_is_gone(group, call->record)) {
        facts.provider = record_at(group, call->record)->provider;
        if (call->kind != CALL_COLLECTIVE)
            facts.sequence = record_at(group, call->record)->sequence;
    }
    return facts;
}

/* A wrapper's error ends the group: it tells what no other call would find out. */
static void propose(struct tutti_group *group, struct wrapper *wrapper, tutti_status status,
                    int culprit, const char *where)
{
    char message[CONTROL_MESSAGE_MAX];

    if (!wrapper->user.status)
        error_set(status,
                  "wrapper %s failed and gave no reason; its error functions must call "
                  "tutti_host.error()",
                  wrapper->user.name);
    snprintf(message, sizeof message, "%s%.*s", where, TEXT_CUT(error_message(), 900));
    control_propose(group->control, status, culprit, message);
}

static void propose_call(struct tutti_group *group, struct wrapper *wrapper, const tutti_call *call,
                         tutti_status status)
{
    char where[96];

    snprintf(where, sizeof where, "#%llu %s on rank %d: ", (unsigned long long)call->sequence,
             call->operation, group->rank);
    propose(group, wrapper, status, group->rank, where);
}

bool wrappers_begin(struct tutti_group *group, struct call *call)
{
    struct wrappers *all = group->ways.wrappers;
    int64_t hold_ns = 0;
    bool refused = false;

    if (group->rank == 0 && group->size > 1 && all->calls % POLL_EVERY == 0) {
        control_poll(group->control); /* calls that never wait leave it alone */
        wrappers_hear(group);
    }
    call->number = ++all->calls;
    call->begun_ns = clock_now_ns();
    call->wrapped = true;
    tutti_call facts = facts_of(group, call, false);
    for (unsigned i = 0; i < all->count; i++) {
        struct wrapper *wrapper = &all->items[i];
        int64_t hold = 0;

        if (!TUTTI_HAS(wrapper->ops, begin))
            continue;
        wrapper->user.status = TUTTI_OK;
        tutti_status status = wrapper->ops->begin(wrapper->instance, &facts, &hold);
        if (status && !refused)
            propose_call(group, wrapper, &facts, status);
        refused |= status != TUTTI_OK;
        hold_ns += hold < 0 ? 0 : hold < HOLD_MAX_NS ? hold : HOLD_MAX_NS;
    }
    call->hold_until_ns = hold_ns ? clock_now_ns() + hold_ns : 0;
    return !refused;
}

tutti_status wrappers_end(struct tutti_group *group, struct call *call, tutti_status status)
{
    struct wrappers *all = group->ways.wrappers;
    struct kept_error kept = {0};
    tutti_status result = status;

    if (!call->wrapped)
        return status;
    call->wrapped = false;
    if (status)
        error_keep(&kept);
    tutti_call facts = facts_of(group, call, true);
    int64_t now = clock_now_ns();
    for (unsigned i = all->count; i > 0; i--) {
        struct wrapper *wrapper = &all->items[i - 1];

        if (!TUTTI_HAS(wrapper->ops, end))
            continue;
        wrapper->user.status = TUTTI_OK;
        tutti_status said = wrapper->ops->end(wrapper->instance, &facts, result, now);
        if (said && !result) {
            propose_call(group, wrapper, &facts, said);
            result = said;
        }
    }
    if (group->rank == 0 && group->size > 1)
        wrappers_hear(group);
    if (status)
        error_give(status, &kept);
    error_forget(&kept);
    return result;
}

/* ---- what members tell the first one ---- */

static void hear(struct tutti_group *group, const struct control_note *note)
{
    struct reader r = {.data = note->data, .size = note->size};
    struct wrappers *all = group->ways.wrappers;
    char name[PLUGIN_NAME_MAX + 1];

    read_string(&r, name, sizeof name);
    for (unsigned i = 0; i < all->count && !r.bad; i++) {
        struct wrapper *wrapper = &all->items[i];

        if (strcmp(wrapper->user.name, name) || !TUTTI_HAS(wrapper->ops, hear))
            continue;
        wrapper->user.status = TUTTI_OK;
        tutti_status status = wrapper->ops->hear(wrapper->instance, &group->ways.wrapped,
                                                 note->rank, r.data + r.at, r.size - r.at);
        if (status)
            propose(group, wrapper, status, -1, "");
    }
}

void wrappers_hear(struct tutti_group *group)
{
    for (struct control_note *note; (note = control_take_note(group->control)); free(note))
        hear(group, note);
}

/* Whether something is to be heard, and somebody is there to tell it, or left after as many calls
 * as this member: that one has told, and a local peer's leave message overtakes what it sent before. */
static bool expects(struct tutti_group *group)
{
    struct control *control = group->control;
    struct wrappers *all = group->ways.wrappers;
    const uint64_t completed = atomic_load(&group->calls.completed);
    bool expected = false, there = false;

    for (unsigned i = 0; i < all->count; i++)
        if (TUTTI_HAS(all->items[i].ops, expects))
            expected |=
                all->items[i].ops->expects(all->items[i].instance, &group->ways.wrapped) != 0;
    pthread_mutex_lock(&control->lock);
    for (int r = 1; r < group->size; r++) {
        const struct control_member *m = &control->members[r];

        there |= !m->dead && (!m->left || m->last.sequence >= completed);
    }
    pthread_mutex_unlock(&control->lock);
    return expected && there;
}

void wrappers_finish(struct tutti_group *group)
{
    struct progress_engine *engine = &group->context->engine;
    int64_t deadline = clock_deadline_ms(FINISH_MS);
    struct epoll_event event;

    while (group->ways.wrappers && group->rank == 0 && group->size > 1) {
        control_poll(group->control);
        engine_take(engine);
        wrappers_hear(group);
        bool more = expects(group);
        engine_release(engine);
        if (!more || control_verdict_status(group->control) || clock_now_ns() > deadline)
            return;
        (void)epoll_wait(group->control->epoll_fd, &event, 1, 5);
    }
}
