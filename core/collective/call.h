/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of collectives and messages (arguments, starting, waiting), and the way of a
 * collective. */
#pragma once

#include <stddef.h>

#include <tutti/collective.h>
#include <tutti/work.h>

#include "base/fork.h"
#include "base/without.h"
#include "group/group.h"
#include "reduce/op.h"
#include "tensor/packed.h"

/* Checks the group and the options; the call's time-out. */
tutti_status call_check_closely(const struct tutti_group *group, const tutti_options *options,
                                int64_t *ret_timeout_ms);
static inline tutti_status call_check(const struct tutti_group *group, const tutti_options *options,
                                      int64_t *ret_timeout_ms)
{
    if (!group || options || group->fork_generation != fork_current())
        return call_check_closely(group, options, ret_timeout_ms);
    *ret_timeout_ms = WITHOUT_DEADLINE ? 0 : group->timeout_ms;
    return TUTTI_OK;
}

/* The flags of options that call_check() has passed. */
static inline uint32_t call_flags(const tutti_options *options)
{
    return options && options->struct_size > offsetof(tutti_options, flags) ? options->flags : 0;
}

tutti_status call_check_root(const struct tutti_group *group, int32_t root);

/* options.stream of options that call_check() has passed. */
static inline void *call_stream(const tutti_options *options)
{
    return options && options->struct_size > offsetof(tutti_options, stream) ? options->stream
                                                                             : NULL;
}

/* The stand-ins of a call's tensors, and the stream that orders those of devices. */
struct stand_ins {
    struct packed *first;
    void *stream;
    int64_t timeout_ms; /* of the call; 0: the group's */
    bool by_parts;      /* the operation works on a part of the tensor for each member at once */
    bool receives;      /* a message, begun before the stream comes to it */
    bool may_move;      /* a message, of a group whose engine for devices may move it to its peer */
    bool may_wait;      /* that has no use for a stand-in before it has met its other side */
    bool moves;         /* its tensor can be moved, too */
    int peer;           /* of a message that may be moved */
    uint32_t flags;     /* TUTTI_FIXED_ORDER, … */
    bool is_direct;     /* a tensor has none, since an engine takes it where it lies, on a device */
    bool by_kernels;    /* … and kernels of the device do what the engine does not */
    bool is_captured;   /* the stream of such a tensor is, into a graph */
    bool has_host;      /* a tensor is in host memory */
    bool has_device;    /* one is on a device, and has a stand-in */
    const struct call_fields
        *fields; /* of the call, while its tensors are looked at; NULL: it is a message */
};

/*
 * A tensor that the operation reads or writes on this member: where its elements are
 * in row-major order, how many, how many bytes. One that is not C-contiguous, or not in host memory, gets a
 * stand-in, which becomes the call's.
 */
tutti_status call_tensor_closely(struct tutti_group *group, const tutti_tensor *tensor,
                                 const char *what, enum tensor_use use, struct stand_ins *stand_ins,
                                 void **ret_data, uint64_t *ret_count, uint64_t *ret_bytes);
static inline tutti_status call_tensor(struct tutti_group *group, const tutti_tensor *tensor,
                                       const char *what, enum tensor_use use,
                                       struct stand_ins *stand_ins, void **ret_data,
                                       uint64_t *ret_count, uint64_t *ret_bytes)
{
    if (!tensor || tensor->device.type != TUTTI_DEVICE_CPU ||
        !tensor_measure_vector(tensor, ret_count, ret_bytes))
        return call_tensor_closely(group, tensor, what, use, stand_ins, ret_data, ret_count,
                                   ret_bytes);
    stand_ins->has_host = true;
    *ret_data = tensor->data;
    return TUTTI_OK;
}

/* ---- on_device.c ---- */

/* The stand-in of a tensor that lies on a device, or is used in the order of a stream. */
tutti_status call_device_tensor(struct tutti_group *group, const tutti_tensor *tensor,
                                const struct tensor_size *size, const char *what,
                                enum tensor_use use, struct stand_ins *stand_ins, void **ret_data);
/* All stand-ins of a call are there. A stream without any is an error; wrappers read the tensors when the call begins,
 * so these are waited for. The fields of a collective (NULL: it is a message) tell whether its tensors lie on a device,
 * where that makes a difference. */
tutti_status call_check_stand_ins(struct tutti_group *group, const struct stand_ins *stand_ins,
                                  int64_t timeout_ms, struct call_fields *fields);
/* The others are to hear that a device has failed before this member could begin a call in which they wait; else as
 * group_others_wait(). */
static inline bool call_others_wait(const struct tutti_group *group, tutti_status status)
{
    return group_others_wait(group, status) ||
           (status == TUTTI_ERR_SYSTEM && group->size > 1 && !group_ended(group));
}
/* How long the call may wait for what it needs before it begins. */
static inline int64_t call_patience(const struct tutti_group *group,
                                    const struct stand_ins *stand_ins)
{
    return stand_ins->timeout_ms ? stand_ins->timeout_ms : group->timeout_ms;
}
/* Takes pinned memory of the device for `what`; NOT_READY: calls have to give some back first. */
struct pinned_try {
    tutti_status (*taken)(void *user);
    void *user;
    const char *what;
};
/* Tries until there is enough. */
tutti_status call_await_pinned(struct tutti_group *group, struct device *device, int64_t timeout_ms,
                               const struct pinned_try *try);
/* Waits until the stand-ins are filled, where the caller's thread has to read them before the call begins. */
tutti_status call_await_stand_ins(struct tutti_group *group, struct packed *list,
                                  int64_t timeout_ms);

/* ---- capture.c ---- */

/* Whether the stream of tensors that are used where they lie is captured. UNSUPPORTED: it is, and the call cannot be
 * recorded. */
tutti_status capture_look(const struct tutti_group *group, struct device *device,
                          struct stand_ins *stand_ins);
/* UNSUPPORTED, where the stream is captured: the call needs a copy of `what` on the device. */
tutti_status capture_check_copy(const struct stand_ins *stand_ins, const char *what);
/* Waits until a captured call is recorded, or has failed. */
void capture_await(struct tutti_work *work);

/* Fills the stand-ins that a plan keeps for another run, which ends them. BUSY: the last run has not. */
tutti_status call_again(struct tutti_group *group, const struct stand_ins *stand_ins);

static inline struct async_call *call_of_work(struct tutti_work *work)
{
    return (struct async_call *)((char *)work - offsetof(struct async_call, work));
}

/* Memory for a call that nobody waits for; under the progress lock. */
tutti_status call_memory(struct tutti_group *group, struct async_call **ret_call);
/* Makes the work of it. */
void call_work_init(struct tutti_group *group, struct async_call *async);
/* Both. */
tutti_status call_allocate(struct tutti_group *group, struct async_call **ret_call);
/* Makes the call of it, whose end is owed to the work from here on. */
static inline void call_prepare(struct tutti_group *group, struct async_call *async)
{
    call_init(&async->call, group, &async->work);
    async->work.references = 2;
    engine_count_unattended(async->work.engine, 1);
}
/* Gives it back, under the progress lock; it was prepared and not started. */
void call_give_back(struct async_call *async);
/* What it was for is over already, and no call was made of it: its work is complete. */
static inline tutti_work *call_over(struct async_call *async, uint64_t bytes, int32_t source)
{
    async->work.bytes = bytes;
    async->work.source = source;
    async->call.state = (struct operation_state){.status = TUTTI_OK, .work = &async->work};
    return &async->work;
}
/*
 * Ends the start of such a call, which was made under the progress lock, and releases it. OK: moves
 * things once, if that may help the call (`moves`), and hands the work to the caller, and, unless the caller
 * waits for it next (`waited`), to the engine if it is not complete. A wait that is over before the work does
 * so then. Otherwise nothing was started: the memory goes back, and the status is returned.
 */
tutti_status call_started(struct async_call *async, tutti_status status, bool moves, bool waited,
                          tutti_work **ret_work);

/* Waits for a blocking call and returns its status, with the thread's error set. */
tutti_status call_wait_for(struct call *call);
static inline tutti_status call_wait(struct call *call)
{
    return atomic_load_explicit(&call->state.status, memory_order_acquire) || call->packed
               ? call_wait_for(call)
               : TUTTI_OK;
}

/* A collective call whose arguments have been checked. */
struct collective {
    const char *function; /* of the public API, for errors about arguments */
    struct call_fields fields;
    struct blocks in, out;
    uint64_t bytes;          /* of the vector, or of each block */
    struct call_sizes sizes; /* when the fields have CALL_UNEVEN */
    struct chain memory;     /* what blocks and sizes point into */
    struct stand_ins packed; /* of tensors that are not C-contiguous, or lie on devices */
    int64_t timeout_ms;
    struct reduce_op *op; /* a reference; NULL: built in, or none */
    bool waited;          /* TUTTI_WAITS_NEXT */
    bool with_next;       /* CALL_WITH_NEXT, which does not concern its plan */
    bool has_copied;      /* what it reads was copied when the call was made */
};

static inline struct collective collective_of(const char *function, enum operation operation,
                                              int32_t op, int32_t root)
{
    return (struct collective){.function = function,
                               .fields = {.op = op, .root = root, .operation = (uint8_t)operation},
                               .packed.by_parts = operation == OPERATION_ALL_REDUCE ||
                                                  operation == OPERATION_REDUCE ||
                                                  operation == OPERATION_REDUCE_SCATTER};
}

/* As call_check(), and what else of the options is the same for all collectives. */
static inline tutti_status collective_check(const struct tutti_group *group,
                                            const tutti_options *options, struct collective *c)
{
    const tutti_status status = call_check(group, options, &c->timeout_ms);

    c->packed.fields = &c->fields;
    if (!status && options) {
        c->packed.flags = call_flags(options);
        c->waited = c->packed.flags & TUTTI_WAITS_NEXT;
        c->packed.stream = call_stream(options);
        c->packed.timeout_ms = c->timeout_ms;
    }
    return status;
}

/* Lays the blocks of a collective whose tensors are used on their device one behind the other, if they do not lie so, and
 * takes the scratch memory that it needs there. */
tutti_status call_check_direct(struct tutti_group *group, struct collective *c);
/* Copies such blocks to memory of the device, of `sizes` or `bytes` each; those that are written go back behind the
 * operation. */
tutti_status call_device_blocks(struct tutti_group *group, struct collective *c,
                                const uint64_t *sizes, uint64_t bytes, enum tensor_use use,
                                struct blocks *blocks);

/* Runs it, starts it when `work` is given, or keeps it for the batch that this thread has open;
 * `status` is what checking the arguments came to: if that is an error, it is returned. Takes
 * c->memory and c->packed in any case. */
tutti_status collective_run(struct tutti_group *group, struct collective *c, tutti_status status,
                            tutti_work **work);

/* One more call like `c`, which shares its memory, its op and its stand-ins (call_again()). */
static inline struct collective collective_again(const struct collective *c)
{
    struct collective again = *c;

    again.memory = chain_share(&c->memory);
    reduce_op_hold(again.op);
    return again;
}

/* As collective_run(), for a call that stays to be run again. Outside of batches. */
tutti_status collective_repeat(struct tutti_group *group, const struct collective *kept,
                               tutti_work **work);

/* Number, plan (unless call->plan is known) and record of a call that is started now, under the
 * progress lock. Takes c->memory and c->packed when it returns OK. */
tutti_status collective_begin(struct tutti_group *group, struct collective *c, struct call *call);
