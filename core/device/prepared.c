/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernels of a device are loaded. The driver loads none as long as a stream waits for a word, and blocks its caller
 * meanwhile. Streams wait for words of ours until works are complete, so loading waits for these first, where deadlines
 * and failures of the group are heard. A word that is taken at the same moment may still hold up the driver, until its
 * work is complete.
 */
#include "base/cleanup.h"
#include "device/device_inside.h"

/* The entry of a dtype in `loaded`, where 0 is a free one. */
static uint32_t entry_of(tutti_dtype dtype)
{
    return dtype + 1;
}

static bool is_loaded(const struct device *device, uint32_t entry)
{
    uint32_t found = 0;

    for (int i = 0; i < KERNELS_MAX && found != entry; i++)
        if (!(found = atomic_load(&device->loaded[i])))
            return false;
    return found == entry;
}

static void note_loaded(struct device *device, uint32_t entry)
{
    int i = 0;

    LOCK_SCOPE(&device->lock);
    while (i < KERNELS_MAX && device->loaded[i] && device->loaded[i] != entry)
        i++;
    if (i < KERNELS_MAX)
        atomic_store(&device->loaded[i], entry);
}

tutti_status device_prepare(struct device *device, tutti_dtype dtype)
{
    const uint32_t entry = entry_of(dtype);

    if (is_loaded(device, entry) || !TUTTI_HAS(device_ops(device), prepare))
        return TUTTI_OK;
    if (device_streams_wait(device))
        return TUTTI_ERR_NOT_READY;
    const tutti_status status = device_ops(device)->prepare(device->accelerator, dtype);
    if (!status)
        note_loaded(device, entry);
    return status;
}
