/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device with its primary context, and memory. The primary context is the one that the CUDA runtime, and
 * with it torch and NCCL, uses: memory and streams of these programs belong to it.
 */
#include <signal.h>
#include <stdio.h>

#include "inside.h"

/* ---- the context --- */

tutti_status accelerator_begin(tutti_accelerator *accelerator, int32_t *ret_before)
{
    struct entry entry;
    const CUresult result = accelerator_enter(accelerator, &entry);

    if (result)
        return driver_fails(accelerator->driver, result, accelerator->words,
                            "making it the current device");
    *ret_before = (int32_t)entry.mode;
    return TUTTI_OK;
}

void accelerator_end(tutti_accelerator *accelerator, int32_t before)
{
    struct entry entry = {.mode = (CUstreamCaptureMode)before};

    (void)accelerator_leave(accelerator, &entry, CUDA_SUCCESS);
}

/* Makes the context, if the process has none yet. The driver's threads must not take the program's signals. */
static CUresult retain(tutti_accelerator *accelerator)
{
    const struct driver_api *api = &accelerator->driver->api;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const CUresult result =
        api->cuDevicePrimaryCtxRetain(&accelerator->context, accelerator->device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static tutti_status find_device(tutti_accelerator *accelerator)
{
    const tutti_driver *driver = accelerator->driver;
    int processors = 0, unified = 0;
    CUresult result = driver->api.cuDeviceGet(&accelerator->device, accelerator->number);

    if (!result)
        result = driver->api.cuDeviceGetAttribute(
            &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, accelerator->device);
    if (!result)
        result = driver->api.cuDeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                                                  accelerator->device);
    if (result)
        return driver_fails(driver, result, accelerator->words, "asking what it is");
    if (!unified)
        return driver_refuses(driver, TUTTI_ERR_UNSUPPORTED,
                              "%s shares no address space with the host", accelerator->words);
    accelerator->processors = processors > 0 ? (uint32_t)processors : 1;
    result = retain(accelerator);
    return result ? driver_fails(driver, result, accelerator->words, "beginning to use it")
                  : TUTTI_OK;
}

tutti_status accelerator_attach(tutti_driver *driver, int32_t number,
                                tutti_accelerator **ret_accelerator)
{
    const tutti_host *host = driver->host;
    tutti_accelerator_info info = {.struct_size = sizeof info};
    tutti_status status = driver_device(driver, number, &info);

    if (status)
        return status;
    tutti_accelerator *accelerator = host->allocate(driver->host_self, sizeof *accelerator);
    if (!accelerator)
        return driver_refuses(driver, TUTTI_ERR_NO_MEMORY, "no memory for device %d", number);
    accelerator->driver = driver;
    accelerator->number = number;
    snprintf(accelerator->words, sizeof accelerator->words, "device %d (%s)", number, info.name);
    status = find_device(accelerator);
    if (status) {
        host->release(driver->host_self, accelerator);
        return status;
    }
    if (number < DEVICES_KNOWN)
        atomic_store(&driver->contexts[number], accelerator->context);
    pthread_mutex_init(&accelerator->loading, NULL); /* neither fails on Linux */
    pthread_mutex_init(&accelerator->waits_lock, NULL);
    accelerator->waits_most = queues_for_waits();
    *ret_accelerator = accelerator;
    return TUTTI_OK;
}

void accelerator_detach(tutti_accelerator *accelerator)
{
    tutti_driver *driver = accelerator->driver;

    if (accelerator->number < DEVICES_KNOWN)
        atomic_store(&driver->contexts[accelerator->number], NULL);
    kernel_unload_all(accelerator);
    queues_free(accelerator);
    pthread_mutex_destroy(&accelerator->loading);
    (void)driver->api.cuDevicePrimaryCtxRelease_v2(accelerator->device); /* it may be lost */
    driver->host->release(driver->host_self, accelerator);
}

/* ---- memory --- */

tutti_status accelerator_allocate(tutti_accelerator *accelerator, uint32_t kind, uint64_t bytes,
                                  void **ret_memory)
{
    CUdeviceptr device = 0;
    void *host = NULL;
    CUresult result;

    switch (kind) {
    case TUTTI_MEMORY_DEVICE:
        result = IN_CONTEXT(accelerator, cuMemAlloc_v2(&device, bytes));
        break;
    case TUTTI_MEMORY_MANAGED:
        result = IN_CONTEXT(accelerator, cuMemAllocManaged(&device, bytes, CU_MEM_ATTACH_GLOBAL));
        break;
    case TUTTI_MEMORY_PINNED:
        result = IN_CONTEXT(
            accelerator,
            cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
        break;
    default:
        return driver_refuses(accelerator->driver, TUTTI_ERR_INVALID_ARGUMENT,
                              "%s: %u is no kind of memory", accelerator->words, kind);
    }
    if (result)
        return driver_fails(accelerator->driver, result, accelerator->words,
                            "allocating %llu bytes of %s memory", (unsigned long long)bytes,
                            kind == TUTTI_MEMORY_PINNED    ? "pinned host"
                            : kind == TUTTI_MEMORY_MANAGED ? "managed"
                                                           : "device");
    *ret_memory = host ? host : (void *)(uintptr_t)device;
    return TUTTI_OK;
}

void accelerator_release(tutti_accelerator *accelerator, uint32_t kind, void *memory)
{
    if (!memory)
        return;
    /* Fails where the device is lost, and the memory with it. */
    if (kind == TUTTI_MEMORY_PINNED)
        (void)IN_CONTEXT(accelerator, cuMemFreeHost(memory));
    else
        (void)IN_CONTEXT(accelerator, cuMemFree_v2((CUdeviceptr)(uintptr_t)memory));
}
