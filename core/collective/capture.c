/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose stream is captured into a graph: what may be recorded, before anything is exchanged.
 *
 * Only what an engine for devices does goes into a graph, on the tensors as they lie: a copy in the device's memory, before
 * or behind the operation, would have to be kept as long as the graph, of which nobody tells. The call returns when it
 * is recorded, also if it has a work, since the program ends the capture next. Members record the same calls, so the
 * fields of each have CALL_CAPTURED.
 */
#include "base/error.h"
#include "collective/batch.h"
#include "device/device.h"
#include "progress/progress.h"
#include "provider/native.h"

static tutti_status check_engine(const struct tutti_group *group)
{
    const struct native *n = group->ways.device_native;

    if (TUTTI_HAS(n->ops, captures) && n->ops->captures)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_UNSUPPORTED,
                     "the stream is being captured into a graph, and operations of %s cannot be "
                     "recorded: call it outside of the capture",
                     n->user.name);
}

tutti_status capture_look(const struct tutti_group *group, struct device *device,
                          struct stand_ins *stand_ins)
{
    const tutti_status status =
        device_check_recording(device, stand_ins->stream, &stand_ins->is_captured);

    if (status || !stand_ins->is_captured)
        return status;
    return stand_ins->by_kernels ? device_check_stream(device, stand_ins->stream)
                                 : check_engine(group);
}

tutti_status capture_check_copy(const struct stand_ins *stand_ins, const char *what)
{
    if (!stand_ins->is_captured)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_UNSUPPORTED,
                     "the stream is being captured into a graph, and %s needs a copy in the "
                     "device's memory, which is not kept as long as the graph: copy it yourself",
                     what);
}

tutti_status capture_look_again(struct tutti_group *group, struct kept_call *first)
{
    struct device *device = atomic_load(&group->device);
    tutti_status status = TUTTI_OK;

    for (struct kept_call *kept = first; kept && !status; kept = kept->next) {
        struct stand_ins *stand_ins = kept->is_message ? NULL : &kept->collective.packed;

        if (!stand_ins || !stand_ins->is_direct)
            continue;
        status = capture_look(group, device, stand_ins);
    }
    return status;
}

bool capture_takes(const struct kept_call *first)
{
    return first && !first->is_message && first->collective.packed.is_captured;
}

tutti_status capture_check_all(const struct kept_call *first)
{
    const bool captured = capture_takes(first);
    int number = 0;

    for (const struct kept_call *kept = first; kept; kept = kept->next, number++)
        if (captured != (!kept->is_message && kept->collective.packed.is_captured))
            return error_set(
                TUTTI_ERR_UNSUPPORTED,
                "call %d, %s, is on a stream that is %scaptured into a graph, unlike the calls "
                "before it: put all calls of a batch or plan on captured streams, or none",
                number + 1, kept->is_message ? kept->message.function : kept->collective.function,
                captured ? "not " : "");
    return TUTTI_OK;
}

void capture_await(struct tutti_work *work)
{
    (void)engine_wait(work->engine, work->state, INT64_MAX);
}
