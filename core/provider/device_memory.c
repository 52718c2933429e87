/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers memory of devices with the engine's team, and gives it back. The engine may block in the driver, so a
 * thread borrows the team and works without the progress lock.
 *
 * A group may fail meanwhile. The thread that finds this withdraws the calls, and leaves the abort of the team to the
 * borrower (native.owes_abort). Invariant: while the team is lent, the thread that has it makes the abort that is owed.
 * It does so before it gives memory back: the engine would wait for operations that hang on streams until the abort.
 */
#include "provider/device_memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/device.h"
#include "provider/native.h"

enum { WAITS_SILENTLY_MS = 1000 };

static bool can_register(const struct native *n)
{
    return TUTTI_HAS(n->ops, memory_register) && TUTTI_HAS(n->ops, memory_release);
}

static tutti_status by_engine(struct tutti_memory *memory)
{
    struct tutti_group *group = memory->group;
    struct native *n = group->ways.device_native;

    if (!n)
        return error_set(TUTTI_ERR_UNSUPPORTED, "no engine of group %s moves tensors on devices",
                         group->name);
    if (!can_register(n))
        return error_set(TUTTI_ERR_UNSUPPORTED, "backend %s registers no memory", n->user.name);
    tutti_status status = native_lend(group, n);
    if (status)
        return status;
    engine_take(&group->context->engine);
    const bool is_aborted = n->aborted;
    engine_release(&group->context->engine);
    const uint64_t errors = error_number();
    status = is_aborted ? group_verdict(group)
                        : n->ops->memory_register(n->team, memory->address, memory->asked,
                                                  &memory->address, &memory->of_engine);
    native_return(group, n);
    if (status && !error_since(errors))
        error_set(status, "%s failed to register memory and gave no reason", n->user.name);
    return status;
}

static tutti_status by_driver(struct tutti_memory *memory)
{
    struct device *device = memory->device;

    log_line(LOG_INFO, memory->group->rank,
             "group %s: %" PRIu64 " bytes on %s are allocated by its driver, and not registered: "
             "%s",
             memory->group->name, memory->asked, device_name(device), error_message());
    return device_ops(device)->allocate(device_accelerator(device), TUTTI_MEMORY_DEVICE,
                                        memory->asked, &memory->address);
}

tutti_status device_memory_make(struct tutti_memory *memory)
{
    const bool is_alone = memory->group->size == 1;
    const bool is_given = memory->address;

    if (is_given && is_alone) /* nobody to move it to */
        return TUTTI_OK;
    memory->is_allocated = !is_given;
    const tutti_status status = by_engine(memory);
    return status == TUTTI_ERR_UNSUPPORTED && !is_given ? by_driver(memory) : status;
}

static void give_back(struct tutti_memory *memory)
{
    struct native *n = memory->group->ways.device_native;
    struct device *device = memory->device;

    if (memory->of_engine)
        n->ops->memory_release(n->team, memory->of_engine);
    else if (memory->is_allocated)
        device_ops(device)->release(device_accelerator(device), TUTTI_MEMORY_DEVICE,
                                    memory->address);
}

void device_memory_end(struct tutti_memory *memory)
{
    struct tutti_group *group = memory->group;

    if (memory->of_engine) {
        engine_take(&group->context->engine);
        native_abort_failed(group, group->ways.device_native);
        engine_release(&group->context->engine);
    }
    give_back(memory);
}

/* The driver frees nothing while a stream waits for a work, of another group by now, and this thread may have to move
 * that. After the time-out the driver is left to wait. */
static void await_streams(struct tutti_group *group, struct device *device)
{
    const int64_t until_ns = clock_deadline_ms(group->timeout_ms);
    const int64_t tells_ns = clock_deadline_ms(WAITS_SILENTLY_MS);
    bool told = false;

    while (device_streams_wait(device) && clock_now_ns() < until_ns) {
        if (!told && clock_now_ns() >= tells_ns) {
            log_line(LOG_WARN, group->rank,
                     "group %s waits to free its registered memory: a stream waits for a work "
                     "(tutti_work_wait_stream()), and the driver frees none until no stream does",
                     group->name);
            told = true;
        }
        engine_wait_ns(&group->context->engine, CLOCK_NS_PER_MS);
    }
}

void device_memories_free(struct tutti_group *group)
{
    struct tutti_memory *memory = group->memories.on_device;

    if (memory)
        await_streams(group, memory->device);
    if (memory && group->ways.device_native)
        native_abort_failed(group, group->ways.device_native);
    while ((memory = group->memories.on_device)) {
        group->memories.on_device = memory->next;
        give_back(memory);
        free(memory);
    }
}
