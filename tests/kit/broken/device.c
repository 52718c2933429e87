/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin cuda with one defect, which the variable KIT_DEFECT names; without it, a sound one. Its files are
 * compiled in and untouched: what is wrong takes the place of a function of its table.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

static bool is_defect(const char *name)
{
    const char *chosen = getenv("KIT_DEFECT");

    return chosen && !strcmp(chosen, name);
}

static tutti_status broken_device(tutti_driver *driver, int32_t number,
                                  tutti_accelerator_info *ret_info)
{
    if (is_defect("says-nothing") && number < 0)
        return TUTTI_ERR_INVALID_ARGUMENT;
    return driver_device(driver, number, ret_info);
}

static tutti_status broken_locate(tutti_driver *driver, const void *address,
                                  tutti_memory_place *ret_place)
{
    tutti_status status = driver_locate(driver, address, ret_place);

    if (is_defect("claims-all-memory") && !status && ret_place->kind == TUTTI_MEMORY_UNKNOWN)
        ret_place->kind = TUTTI_MEMORY_PINNED;
    return status;
}

/* Returns when the copy is done, as if it were simple to know. */
static tutti_status broken_copy(tutti_accelerator *accelerator, void *stream, void *dst,
                                const void *src, uint64_t bytes)
{
    tutti_status status = work_copy(accelerator, stream, dst, src, bytes);
    tutti_device_event *event;

    if (!is_defect("copy-waits") || status || event_create(accelerator, &event))
        return status;
    status = event_record(event, stream);
    while (!status && (status = event_query(event)) == TUTTI_ERR_NOT_READY)
        status = TUTTI_OK;
    event_free(event);
    return status;
}

static tutti_status broken_query(tutti_device_event *event)
{
    return is_defect("events-pass-at-once") ? TUTTI_OK : event_query(event);
}

static tutti_status broken_pack(tutti_accelerator *accelerator, void *stream, void *packed,
                                const tutti_device_view *view, uint64_t begin, uint64_t count)
{
    return work_pack(accelerator, stream, packed, view,
                     is_defect("pieces-are-the-first") ? 0 : begin, count);
}

static tutti_status broken_reduce(tutti_accelerator *accelerator, void *stream,
                                  const tutti_device_reduction *what)
{
    tutti_device_reduction other = *what;

    if (is_defect("max-is-min") && what->op == TUTTI_MAX && what->dtype == TUTTI_BF16)
        other.op = TUTTI_MIN;
    return work_reduce(accelerator, stream, &other);
}

static tutti_status broken_scale(tutti_accelerator *accelerator, void *stream, uint32_t dtype,
                                 void *dst, const void *a, uint64_t count, const void *factor,
                                 int32_t on_device)
{
    if (is_defect("short-by-one"))
        count--;
    return work_scale(accelerator, stream, dtype, dst, a, count, factor, on_device);
}

static const tutti_device_ops operations = {
    .struct_size = sizeof(tutti_device_ops),
    .device_type = 2,
    .host_type = 3,
    .managed_type = 13,
    .open = driver_open,
    .close = driver_close,
    .describe = driver_describe,
    .device = broken_device,
    .locate = broken_locate,
    .attach = accelerator_attach,
    .detach = accelerator_detach,
    .allocate = accelerator_allocate,
    .release = accelerator_release,
    .stream_create = stream_create,
    .stream_free = stream_free,
    .stream_check = stream_check,
    .event_create = event_create,
    .event_free = event_free,
    .event_record = event_record,
    .event_query = broken_query,
    .event_wait = event_wait,
    .copy = broken_copy,
    .pack = broken_pack,
    .unpack = work_unpack,
    .reduce = broken_reduce,
    .scale = broken_scale,
    .prepare = work_prepare,
    .wait_word = queues_wait_word,
};

static const tutti_provider device = {sizeof device, TUTTI_PROVIDER_DEVICE, "cuda", &operations};
static const tutti_provider *const providers[] = {&device};
TUTTI_PLUGIN_EXPORT("cuda", "with a defect", "Apache-2.0", providers, 1);
