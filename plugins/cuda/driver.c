/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver: its library, found at run time, its devices and its words for failures.
 *
 * libcuda.so.1 comes with the kernel driver and is on machines with a GPU only, so the plugin opens it by name
 * and calls it by the addresses that dlsym gives. A library that the process has loaded, as torch does, is
 * found under the same name. What is missing is told with what to do about it, since `tutti info` and the
 * failure of a call print these words.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dlinfo */
#endif
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

#define LIBRARY "libcuda.so.1"

enum { WORDS_BYTES = 1024 };

/* ---- failures --- */

/* Nothing works on the device any more, for this process. */
static bool is_lost(CUresult result)
{
    return result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_ILLEGAL_ADDRESS ||
           (result > CUDA_ERROR_CONTEXT_IS_DESTROYED && result <= CUDA_ERROR_LAUNCH_FAILED);
}

static tutti_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return TUTTI_ERR_NO_MEMORY;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_HANDLE:
        return TUTTI_ERR_INVALID_ARGUMENT;
    case CUDA_ERROR_NOT_SUPPORTED:
        return TUTTI_ERR_UNSUPPORTED;
    default:
        return TUTTI_ERR_SYSTEM;
    }
}

/* What the user can do; "" where the driver's words say it. */
static const char *advice(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_STUB_LIBRARY:
        return "; this is the stub that programs are linked with: take its folder out of "
               "LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "; the kernel module and the driver's library have different versions: load the "
               "module again, or restart the machine";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "; on machines with NVSwitch, start the service nvidia-fabricmanager";
    case CUDA_ERROR_UNKNOWN:
        return "; the kernel module nvidia_uvm may be missing: run `nvidia-modprobe -u` as root";
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        return "; install the driver's libnvidia-ptxjitcompiler.so.1";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return "; the program has reset the device, for instance by cudaDeviceReset()";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "; nvidia-smi shows who uses the device's memory";
    default:
        return is_lost(result) ? "; this process can no longer use the device: restart it" : "";
    }
}

/* For a library that cannot say, as a stub. */
static const char *name_of(CUresult result)
{
    switch (result) {
#define NAME(name, value)                                                                          \
    case name:                                                                                     \
        return #name;
        DRIVER_RESULTS(NAME)
#undef NAME
    default:
        return "a result that is not known";
    }
}

tutti_status driver_refuses(const tutti_driver *driver, tutti_status status, const char *format,
                            ...)
{
    char words[WORDS_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    return driver->host->error(driver->host_self, status, 0, words);
}

tutti_status driver_fails(const tutti_driver *driver, CUresult result, const char *where,
                          const char *what, ...)
{
    char doing[WORDS_BYTES / 2];
    const char *name = NULL, *words = NULL;
    va_list list;

    va_start(list, what);
    vsnprintf(doing, sizeof doing, what, list);
    va_end(list);
    driver->api.cuGetErrorName(result, &name);
    driver->api.cuGetErrorString(result, &words);
    return driver_refuses(driver, status_of(result), "%s: %s failed: %s%s%s (%d)%s", where, doing,
                          words ? words : "", words ? ", " : "", name ? name : name_of(result),
                          (int)result, advice(result));
}

/* ---- the library --- */

static tutti_status find_functions(tutti_driver *driver)
{
    struct driver_api *api = &driver->api;
    const char *missing = NULL;

#define FIND(function, arguments)                                                                  \
    *(void **)&api->function = dlsym(driver->library, #function);                                  \
    missing = api->function ? missing : #function;
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    if (!missing)
        return TUTTI_OK;
    return driver_refuses(driver, TUTTI_ERR_PLUGIN,
                          "%s has no function %s: the NVIDIA driver must be one for CUDA 11.7 "
                          "or later (515.43)",
                          driver->path, missing);
}

static void find_path(tutti_driver *driver)
{
    struct link_map *map;
    char real[PATH_MAX];

    if (dlinfo(driver->library, RTLD_DI_LINKMAP, &map) != 0)
        return;
    /* The file that the links lead to has the driver's version in its name. */
    snprintf(driver->path, sizeof driver->path, "%s",
             realpath(map->l_name, real) ? real : map->l_name);
}

static tutti_status find_library(tutti_driver *driver)
{
    const char *asked = driver->host->config(driver->host_self, "");
    const char *file = asked && *asked ? asked : LIBRARY;

    snprintf(driver->path, sizeof driver->path, "%s", file);
    driver->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library)
        return driver_refuses(driver, TUTTI_ERR_PLUGIN,
                              "no CUDA driver: %s. Install NVIDIA's driver on this host; in a "
                              "container, start it with GPUs (docker run --gpus all). TUTTI_CUDA "
                              "may name the library's file",
                              dlerror());
    find_path(driver);
    return find_functions(driver);
}

/* The driver's own threads, which this may start, must not take the program's signals. */
static CUresult start(const tutti_driver *driver)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const CUresult result = driver->api.cuInit(0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static tutti_status count_devices(tutti_driver *driver)
{
    int version = 0, count = 0;
    CUresult result = start(driver);

    if (result == CUDA_SUCCESS)
        result = driver->api.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NO_DEVICE)
        return driver_fails(driver, result, driver->path, "starting the CUDA driver");
    if (driver->api.cuDriverGetVersion(&version) == CUDA_SUCCESS)
        snprintf(driver->name, sizeof driver->name, "CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    driver->devices = result == CUDA_SUCCESS && count > 0 ? (uint32_t)count : 0;
    return TUTTI_OK;
}

tutti_status driver_open(const tutti_host *host, void *host_self, tutti_driver **ret_driver)
{
    tutti_driver *driver = host->allocate(host_self, sizeof *driver);

    if (!driver)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory for the CUDA driver");
    driver->host = host;
    driver->host_self = host_self;
    snprintf(driver->name, sizeof driver->name, "CUDA");
    tutti_status status = find_library(driver);
    if (!status)
        status = count_devices(driver);
    if (status)
        driver_close(driver);
    else
        *ret_driver = driver;
    return status;
}

/* The library stays: the driver keeps threads and handlers that outlive dlclose. */
void driver_close(tutti_driver *driver)
{
    driver->host->release(driver->host_self, driver);
}

/* ---- what is there --- */

/* A core that is older asks for less. */
static inline void give(void *to, uint32_t struct_size, const void *from, size_t bytes)
{
    void *const target = (char *)to + sizeof struct_size;
    const void *const source = (const char *)from + sizeof struct_size;

    if (struct_size >= bytes)
        memcpy(target, source, bytes - sizeof struct_size); /* of a known length */
    else
        memcpy(target, source, struct_size - sizeof struct_size);
}

tutti_status driver_describe(tutti_driver *driver, tutti_driver_info *ret_info)
{
    const tutti_driver_info info = {
        .device_count = driver->devices, .name = driver->name, .path = driver->path};

    give(ret_info, ret_info->struct_size, &info, sizeof info);
    return TUTTI_OK;
}

static void write_uuid(const uint8_t uuid[16], char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "GPU-");

    for (int i = 0; i < 16 && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static CUresult ask_device(const struct driver_api *api, CUdevice device,
                           tutti_accelerator_info *ret_info)
{
    const struct {
        CUdevice_attribute attribute;
        uint32_t flag;
    } flags[] = {{CU_DEVICE_ATTRIBUTE_INTEGRATED, TUTTI_ACCELERATOR_INTEGRATED},
                 {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, TUTTI_ACCELERATOR_HAS_MANAGED}};
    CUuuid uuid = {{0}};
    size_t bytes = 0;
    int major = 0, minor = 0;
    CUresult result = api->cuDeviceGetName(ret_info->name, sizeof ret_info->name, device);

    if (!result)
        result = api->cuDeviceGetUuid_v2(&uuid, device);
    if (!result)
        result = api->cuDeviceTotalMem_v2(&bytes, device);
    if (!result)
        result =
            api->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (!result)
        result =
            api->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    for (size_t i = 0; !result && i < sizeof flags / sizeof *flags; i++) {
        int value = 0;

        result = api->cuDeviceGetAttribute(&value, flags[i].attribute, device);
        ret_info->flags |= value ? flags[i].flag : 0;
    }
    if (api->cuDeviceGetPCIBusId(ret_info->bus, sizeof ret_info->bus, device))
        *ret_info->bus = 0;
    memcpy(ret_info->uuid, uuid.bytes, sizeof ret_info->uuid);
    write_uuid(ret_info->uuid, ret_info->uuid_text, sizeof ret_info->uuid_text);
    ret_info->bytes = bytes;
    ret_info->major = (uint32_t)major;
    ret_info->minor = (uint32_t)minor;
    return result;
}

static tutti_status refuse_number(const tutti_driver *driver, int32_t number)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (driver->devices)
        return driver_refuses(driver, TUTTI_ERR_INVALID_ARGUMENT,
                              "there is no CUDA device %d: this process has the devices 0 to %u",
                              number, driver->devices - 1);
    return driver_refuses(driver, TUTTI_ERR_INVALID_ARGUMENT,
                          "there is no CUDA device %d: this process has none%s%s", number,
                          visible ? ", since CUDA_VISIBLE_DEVICES is set to " : "",
                          visible ? (*visible ? visible : "nothing") : "");
}

tutti_status driver_device(tutti_driver *driver, int32_t number, tutti_accelerator_info *ret_info)
{
    tutti_accelerator_info info = {.flags = 0};
    CUdevice device;

    if (number < 0 || (uint32_t)number >= driver->devices)
        return refuse_number(driver, number);
    CUresult result = driver->api.cuDeviceGet(&device, number);
    if (!result)
        result = ask_device(&driver->api, device, &info);
    if (result) {
        char where[32];

        snprintf(where, sizeof where, "device %d", number);
        return driver_fails(driver, result, where, "asking what it is");
    }
    give(ret_info, ret_info->struct_size, &info, sizeof info);
    return TUTTI_OK;
}

/* Whether device memory of that context is out of reach of the primary one. Memory of pools has no context, and all
 * reach it. */
static bool is_foreign(const tutti_driver *driver, int device, CUcontext context)
{
    const CUcontext primary =
        device >= 0 && device < DEVICES_KNOWN ? atomic_load(&driver->contexts[device]) : NULL;

    return context && primary && context != primary;
}

tutti_status driver_locate(tutti_driver *driver, const void *address, tutti_memory_place *ret_place)
{
    unsigned type = 0, managed = 0;
    int device = -1;
    CUcontext context = NULL;
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    /* The driver takes them as no constants, and does not write to them. */
    static CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &managed, &device, &context, &begin, &bytes};
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    tutti_memory_place place = {.kind = TUTTI_MEMORY_UNKNOWN, .device = -1};
    /* Of memory that is not its own, the driver says success and nothing else. */
    const CUresult result =
        driver->api.cuPointerGetAttributes(sizeof values / sizeof *values, attributes, values, at);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
        return driver_fails(driver, result, "the CUDA driver", "asking where %p is", address);
    if (result == CUDA_SUCCESS && managed)
        place.kind = TUTTI_MEMORY_MANAGED;
    else if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE)
        place.kind = TUTTI_MEMORY_DEVICE;
    else if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST)
        place.kind = TUTTI_MEMORY_PINNED;
    if (place.kind == TUTTI_MEMORY_DEVICE && is_foreign(driver, device, context))
        return driver_refuses(driver, TUTTI_ERR_INVALID_ARGUMENT,
                              "%p is memory of a context of the program's own on device %d; use "
                              "memory of the primary context, which the CUDA runtime uses",
                              address, device);
    if (place.kind == TUTTI_MEMORY_DEVICE || place.kind == TUTTI_MEMORY_MANAGED)
        place.device = device;
    if (place.kind != TUTTI_MEMORY_UNKNOWN && begin && at - begin < bytes)
        place.bytes = begin + bytes - at;
    give(ret_place, ret_place->struct_size, &place, sizeof place);
    return TUTTI_OK;
}
