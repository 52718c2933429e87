/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors on devices, as calls use them: the device of the group is found, the tensor and the stream are
 * checked, and the tensor gets a stand-in in pinned memory. All of this is on the caller's thread and without
 * the progress lock, since opening a device and making pinned memory block.
 */
#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "collective/batch.h"
#include "collective/call.h"
#include "device/device.h"
#include "dispatch/dispatch.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/routes.h"

/* Once a process: nobody has asked for this way. */
static void warn_of_way(const struct tutti_group *group, const struct device *device)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (environment_warns_here() && !atomic_flag_test_and_set(&warned))
        log_line(
            LOG_WARN, group->rank,
            "group %s: tensors of %s go through pinned host memory and %s, since no backend here "
            "moves them between devices; a backend's name instead of auto asks for that, without "
            "this warning",
            group->name, device_name(device), group->backend);
}

static tutti_status device_of_group(struct tutti_group *group, int32_t type,
                                    struct device **ret_device)
{
    const bool is_first = !atomic_load(&group->device);
    const tutti_status status =
        group_open_device(group, type, group->origin.local_rank, ret_device);

    if (!status && is_first && group->choice.device_is_auto && !*group->choice.auto_engine)
        warn_of_way(group, *ret_device);
    return status;
}

static tutti_status check_device(const struct tutti_group *group, struct device *device,
                                 const tutti_tensor *tensor, int32_t type, const char *what)
{
    if (type == device_type(device) && tensor->device.id == device_number(device))
        return TUTTI_OK;
    return error_set(
        TUTTI_ERR_INVALID_ARGUMENT,
        "%s is on device %d of type %d, but group %s uses %s on this rank: say which one by "
        "TUTTI_DEVICE, or by device in tutti_init_options",
        what, tensor->device.id, type, group->name, device_name(device));
}

/* How a long tensor is used while the rest of it is on its way; an engine takes it as a whole. Messages need no engine. */
static uint32_t parts_of(const struct tutti_group *group, const struct stand_ins *stand_ins)
{
    if (!stand_ins->fields)
        return 1;
    if (group->ways.native)
        return 0;
    return stand_ins->by_parts ? (uint32_t)group->size : 1;
}

/* Moves all groups until `ready` has an answer; `words`: of the time-out. */
static tutti_status await(struct tutti_group *group, int64_t timeout_ms,
                          tutti_status (*ready)(void *user), void *user, const char *words)
{
    const int64_t until_ns = clock_deadline_ms(timeout_ms);
    tutti_status status;

    while ((status = ready(user)) == TUTTI_ERR_NOT_READY) {
        if (group_ended(group))
            return group_verdict(group);
        if (clock_now_ns() > until_ns)
            return error_set(TUTTI_ERR_TIMEOUT, "timed out after %lld ms: %s",
                             (long long)timeout_ms, words);
        engine_wait_ns(&group->context->engine, CLOCK_NS_PER_MS / 10);
    }
    return status;
}

static tutti_status are_filled(void *list)
{
    return packed_fill(list);
}

tutti_status call_await_stand_ins(struct tutti_group *group, struct packed *list,
                                  int64_t timeout_ms)
{
    return await(group, timeout_ms, are_filled, list,
                 "earlier work on the stream of this rank's tensor is not done");
}

tutti_status call_again(struct tutti_group *group, const struct stand_ins *stand_ins)
{
    if (!packed_hold(stand_ins->first))
        return error_set(TUTTI_ERR_BUSY,
                         "the last run of this plan is not over, and its tensors on devices have "
                         "one stand-in each: wait for its work first");
    tutti_status status = packed_again(stand_ins->first);
    if (!status && group->ways.wrappers)
        status = call_await_stand_ins(group, stand_ins->first, call_patience(group, stand_ins));
    if (status) {
        struct packed *held = stand_ins->first;

        packed_end(&held, false);
    }
    return status;
}

/* A stand-in that is made. */
struct making {
    struct device *device;
    const struct device_tensor *tensor;
    struct packed **list;
    void **ret_data;
};

static tutti_status is_made(void *user)
{
    const struct making *m = user;

    return device_stand_in(m->device, m->tensor, m->list, m->ret_data);
}

struct pinned_wait {
    const struct pinned_try *try;
    struct device *device;
    bool in_batch;
};

/* What a batch of this thread holds is not given back before its end, for which there would be no memory. */
static tutti_status is_taken(void *user)
{
    const struct pinned_wait *wait = user;
    const tutti_status status = wait->try->taken(wait->try->user);

    if (status != TUTTI_ERR_NOT_READY || !wait->in_batch || device_returns_pinned(wait->device))
        return status;
    return error_set(TUTTI_ERR_NO_MEMORY,
                     "%s: the calls of this batch, and others, use all the pinned memory that "
                     "they may: make fewer in a batch, or set TUTTI_PINNED_MIB",
                     wait->try->what);
}

tutti_status call_await_pinned(struct tutti_group *group, struct device *device, int64_t timeout_ms,
                               const struct pinned_try *try)
{
    return await(group, timeout_ms, is_taken,
                 &(struct pinned_wait){try, device, batch_of(group) != NULL},
                 "calls that are not over use all the pinned memory that they may; "
                 "TUTTI_PINNED_MIB raises that");
}

/*
 * Whether the tensors of the call are used where they lie, by the group's engine for devices. Every member finds the same:
 * the fields of the call that are known by now decide, and nothing of this member's tensors. Programs make calls of the
 * same kind again and again, so the last answer is kept.
 */
static enum device_way way_on_device(struct tutti_group *group, const struct stand_ins *stand_ins,
                                     tutti_dtype dtype)
{
    const struct call_fields *given = stand_ins->fields;
    const int32_t op = given ? reduce_op_in_fields(given->op) : -1;

    if (!group->ways.device_native || !given || op > TUTTI_PREMUL_SUM)
        return DEVICE_WAY_STAGED;
    const bool ordered = operation_reduces(given->operation) &&
                         (group->reproducible || stand_ins->flags & TUTTI_FIXED_ORDER);
    const uint8_t flags = given->flags | (ordered ? CALL_ORDERED : 0);
    const uint64_t kind = dtype | (uint64_t)(uint8_t)op << 32 | (uint64_t)given->operation << 40 |
                          (uint64_t)flags << 48;
    const uint64_t kept = atomic_load_explicit(&group->ways.device_way, memory_order_relaxed);

    if (kept >> 56 && (kept & (UINT64_MAX >> 8)) == kind)
        return (enum device_way)((kept >> 56) - 1);
    struct call_fields fields = *given;
    fields.dtype = dtype;
    fields.op = op;
    fields.flags = flags;
    const int route = route_of(group, &group->choice.rules[0]);
    const enum device_way way = choose_device_way(&group->ways.routes.each[route].facts, &fields);
    atomic_store_explicit(&group->ways.device_way, kind | ((uint64_t)way + 1) << 56,
                          memory_order_relaxed);
    return way;
}

enum { KERNELS_OF_STRIDES = 0 }; /* in place of a dtype */

struct loading {
    struct device *device;
    tutti_dtype dtype;
};

static tutti_status are_loaded(void *user)
{
    const struct loading *l = user;

    return device_prepare(l->device, l->dtype);
}

static tutti_status load_kernels(struct tutti_group *group, struct device *device,
                                 tutti_dtype dtype, const struct stand_ins *stand_ins)
{
    return await(group, call_patience(group, stand_ins), are_loaded,
                 &(struct loading){device, dtype},
                 "a stream waits for a work (tutti_work_wait_stream()), and the driver loads the "
                 "kernels that this call needs when none does");
}

/* Engines load and store whole elements where they reduce, and of a complex number its halves. They move bytes, and the
 * device's own kernels take any address. */
static bool suits_engine(const struct stand_ins *stand_ins, tutti_dtype dtype, const void *at)
{
    const bool is_complex = dtype == TUTTI_C64 || dtype == TUTTI_C128;
    const size_t alignment = tutti_dtype_size(dtype) / (is_complex ? 2 : 1);

    return stand_ins->by_kernels || !operation_reduces(stand_ins->fields->operation) ||
           (uintptr_t)at % alignment == 0;
}

/* What the engine leaves to kernels: reductions, the divisions of averages, the products of premul_sum. */
static bool needs_kernels(const struct stand_ins *stand_ins)
{
    const int32_t op = stand_ins->fields->op;

    return stand_ins->by_kernels || op == TUTTI_AVG || op >= TUTTI_PREMUL_SUM;
}

/* The tensor itself, or a contiguous copy on the device, which suits every engine. That is this member's own affair. */
static tutti_status use_directly(struct tutti_group *group, struct device *device,
                                 const struct device_tensor *tensor, struct stand_ins *stand_ins,
                                 void **ret_data)
{
    const tutti_dtype dtype = tensor->tensor->dtype;
    const struct tensor_size *size = tensor->size;
    char *data = (char *)tensor->tensor->data + tensor->tensor->byte_offset;
    const bool fits = !size->count || suits_engine(stand_ins, dtype, data);
    tutti_status status = TUTTI_OK;

    if (!size->contiguous || !fits)
        status = capture_check_copy(stand_ins, size->contiguous
                                                   ? "a tensor that is not aligned to its elements"
                                                   : "a tensor with strides");
    stand_ins->is_direct = true;
    if (!status && needs_kernels(stand_ins))
        status = load_kernels(group, device, dtype, stand_ins);
    if (!status && !size->contiguous)
        status = load_kernels(group, device, KERNELS_OF_STRIDES, stand_ins);
    if (!status && !size->contiguous)
        return device_pack(device, tensor, &stand_ins->first, ret_data);
    if (!status && !fits)
        return device_row(device, tensor->stream, tensor->use,
                          &(struct device_block){data, size->bytes}, 1, &stand_ins->first,
                          ret_data);
    if (!status)
        *ret_data = data;
    return status;
}

/* A contiguous tensor may be moved where it lies. Then its stand-in may come later, unless the message that it meets
 * can be one that needs it at once. */
static void look_at_move(const struct tutti_group *group, struct stand_ins *stand_ins,
                         struct device_tensor *on_device)
{
    const int32_t given = on_device->tensor->device.type & ~TUTTI_DEVICE_READ_ONLY;

    stand_ins->moves = stand_ins->may_move && given != TUTTI_DEVICE_CUDA_HOST &&
                       on_device->size->contiguous &&
                       moved_may(group, stand_ins->peer, on_device->size->bytes);
    on_device->later =
        stand_ins->moves && stand_ins->may_wait && on_device->size->bytes > P2P_EAGER_MAX;
}

tutti_status call_device_tensor(struct tutti_group *group, const tutti_tensor *tensor,
                                const struct tensor_size *size, const char *what,
                                enum tensor_use use, struct stand_ins *stand_ins, void **ret_data)
{
    const int32_t given = tensor->device.type & ~TUTTI_DEVICE_READ_ONLY;
    const bool is_pinned = given == TUTTI_DEVICE_CUDA_HOST;
    /* A message may come before the stream does, so it is not received into memory that the stream may still use. */
    const bool pinned = is_pinned && !(stand_ins->receives && stand_ins->stream);
    const bool managed = given == TUTTI_DEVICE_CUDA_MANAGED;
    const int32_t type = is_pinned ? TUTTI_DEVICE_CUDA : device_type_of(given);
    struct device_tensor on_device = {tensor,
                                      size,
                                      what,
                                      stand_ins->receives ? TENSOR_WRITTEN : use,
                                      stand_ins->stream,
                                      parts_of(group, stand_ins),
                                      false};
    struct device *device;

    stand_ins->has_host |= is_pinned;
    look_at_move(group, stand_ins, &on_device);
    if (pinned && !stand_ins->stream)
        return packed_use(tensor, size, what, use, &stand_ins->first, ret_data);
    if (!type)
        return error_set(
            TUTTI_ERR_UNSUPPORTED,
            "%s is on a device of type %d, which this libtutti does not know; host memory is "
            "device type 1",
            what, given);
    tutti_status status = device_of_group(group, type, &device);
    if (!status && !is_pinned && !managed)
        status = check_device(group, device, tensor, type, what);
    if (!status && !is_pinned)
        status = device_check_place(device, tensor, size, what);
    const enum device_way way =
        pinned ? DEVICE_WAY_STAGED : way_on_device(group, stand_ins, tensor->dtype);
    const bool direct = way != DEVICE_WAY_STAGED;
    stand_ins->by_kernels |= way == DEVICE_WAY_KERNELS;
    if (!status)
        status = direct ? capture_look(group, device, stand_ins)
                        : device_check_stream(device, stand_ins->stream);
    if (!status && stand_ins->moves) /* where it is taken, nothing may block */
        status = device_stream_prepare(device);
    if (status)
        return status;
    if (direct)
        return use_directly(group, device, &on_device, stand_ins, ret_data);
    stand_ins->has_device |= !is_pinned;
    if (!pinned && !size->contiguous)
        status = load_kernels(group, device, KERNELS_OF_STRIDES, stand_ins);
    if (!pinned)
        return status ? status
                      : call_await_pinned(
                            group, device, call_patience(group, stand_ins),
                            &(struct pinned_try){
                                is_made,
                                &(struct making){device, &on_device, &stand_ins->first, ret_data},
                                what});
    status = device_await_stream(device, &on_device, &stand_ins->first);
    if (!status && !size->contiguous) /* it is packed here and now */
        status = call_await_stand_ins(group, stand_ins->first, group->timeout_ms);
    return status ? status : packed_use(tensor, size, what, use, &stand_ins->first, ret_data);
}

tutti_status call_device_blocks(struct tutti_group *group, struct collective *c,
                                const uint64_t *sizes, uint64_t bytes, enum tensor_use use,
                                struct blocks *blocks)
{
    const size_t n = (size_t)group->size;
    struct device_block *rows = chain_allocate(&c->memory, n * sizeof *rows);
    void **each = chain_allocate(&c->memory, n * sizeof *each), *data = NULL;
    tutti_status status = capture_check_copy(
        &c->packed, "a list of blocks that do not lie in a row, or one in place,");

    if (status)
        return status;
    if (!rows || !each)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the blocks of %zu members", n);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct device_block){block_at(blocks, i), sizes ? sizes[i] : bytes};
    status = device_row(atomic_load(&group->device), c->packed.stream, use, rows, (uint32_t)n,
                        &c->packed.first, &data);
    for (uint32_t i = 0; i < n && !status; i++) {
        each[i] = data;
        data = (char *)data + rows[i].bytes;
    }
    if (!status)
        *blocks = (struct blocks){.each = each};
    return status;
}

/* Engines take blocks that lie one behind the other. */
static tutti_status lay_in_a_row(struct tutti_group *group, struct collective *c,
                                 const uint64_t *sizes, enum tensor_use use, struct blocks *blocks)
{
    if (!blocks->each || blocks_are_in_a_row(blocks, sizes, c->bytes, (uint32_t)group->size))
        return TUTTI_OK;
    return call_device_blocks(group, c, sizes, c->bytes, use, blocks);
}

/* Where kernels of the device reduce. */
static tutti_status take_scratch(struct tutti_group *group, struct collective *c)
{
    const bool uneven = c->fields.flags & CALL_UNEVEN;

    if (!c->fields.count && !uneven)
        return TUTTI_OK;
    return device_scratch(atomic_load(&group->device), c->packed.stream,
                          native_kernels_scratch(group, &c->fields, uneven ? c->sizes.in : NULL),
                          &c->packed.first);
}

tutti_status call_check_direct(struct tutti_group *group, struct collective *c)
{
    const bool uneven = c->fields.flags & CALL_UNEVEN;
    tutti_status status = lay_in_a_row(group, c, uneven ? c->sizes.in : NULL, TENSOR_READ, &c->in);

    if (!status)
        status = lay_in_a_row(group, c, uneven ? c->sizes.out : NULL, TENSOR_WRITTEN, &c->out);
    if (!status && c->packed.by_kernels)
        status = take_scratch(group, c);
    return status;
}

tutti_status call_check_stand_ins(struct tutti_group *group, const struct stand_ins *stand_ins,
                                  int64_t timeout_ms, struct call_fields *fields)
{
    if (stand_ins->is_direct && stand_ins->has_host)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "one tensor of the call is on a device, another one in host memory, and "
                         "the engine for devices needs all of them there");
    if (stand_ins->is_direct)
        fields->flags |= CALL_ON_DEVICE | CALL_DIRECT;
    else if (fields && group->choice.by_device && stand_ins->has_device)
        fields->flags |= CALL_ON_DEVICE;
    if (stand_ins->stream && !stand_ins->is_direct && !packed_is_staged(stand_ins->first))
        return error_set(
            TUTTI_ERR_UNSUPPORTED,
            "options.stream is set, but the tensors are in host memory that no stream orders: "
            "give NULL");
    return group->ways.wrappers ? call_await_stand_ins(group, stand_ins->first, timeout_ms)
                                : TUTTI_OK;
}
