/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda: NVIDIA GPUs, for tensors in their memory. It drives them through the driver API alone, whose library it
 * opens when the core first asks for a device, so neither its build nor a host without a GPU needs CUDA.
 */
#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "inside.h"

/* DLPack's numbers. */
enum { DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };

static const tutti_device_ops operations = {
    .struct_size = sizeof(tutti_device_ops),
    .device_type = DL_CUDA,
    .host_type = DL_CUDA_HOST,
    .managed_type = DL_CUDA_MANAGED,
    .open = driver_open,
    .close = driver_close,
    .describe = driver_describe,
    .device = driver_device,
    .locate = driver_locate,
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
    .event_query = event_query,
    .event_wait = event_wait,
    .copy = work_copy,
    .pack = work_pack,
    .unpack = work_unpack,
    .reduce = work_reduce,
    .scale = work_scale,
    .prepare = work_prepare,
    .wait_word = queues_wait_word,
    .enter = accelerator_begin,
    .leave = accelerator_end,
};

static const tutti_provider device = {sizeof device, TUTTI_PROVIDER_DEVICE, "cuda", &operations};
static const tutti_provider *const providers[] = {&device};

static const tutti_plugin_option options[] = {CUDA_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("cuda", TUTTI_VERSION, "Apache-2.0", providers, 1, 0, 0, options, 0, 0);
