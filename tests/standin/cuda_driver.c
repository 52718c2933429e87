/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's settings, its errors' words, its devices, and the addresses of its functions.
 */
#include "cuda.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct settings standin_settings;
pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t standin_changed = PTHREAD_COND_INITIALIZER;

static pid_t initialised_by;

/* The driver's own words. */
static const struct error {
    int code;
    const char *name, *words;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

void standin_die(const char *call, const char *format, ...)
{
    va_list more;

    fprintf(stderr, "standin libcuda: %s: ", call);
    va_start(more, format);
    vfprintf(stderr, format, more);
    va_end(more);
    fprintf(stderr, "\n");
    abort();
}

double standin_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void standin_sleep_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&time, NULL);
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

static bool faults_are_ours(void)
{
    const char *wanted = getenv("STANDIN_CUDA_FAULT_RANK"), *rank = getenv("TUTTI_RANK");

    if (!rank)
        rank = getenv("RANK");
    return !wanted || (rank && strcmp(wanted, rank) == 0);
}

/* As the driver reads it: up to the first index that is not there. */
static int read_visible(int count, int *ret_visible)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    int found = 0;

    if (!at) {
        for (; found < count; found++)
            ret_visible[found] = found;
        return count;
    }
    while (*at && found < count) {
        char *end;
        long index = strtol(at, &end, 10);

        if (end == at || index < 0 || index >= count)
            break;
        ret_visible[found++] = (int)index;
        at = *end == ',' ? end + 1 : end;
    }
    return found;
}

void standin_read_settings(void)
{
    struct settings *s = &standin_settings;
    long devices = number("STANDIN_CUDA_DEVICES", 1);

    devices = devices < 0 ? 0 : devices > MAX_DEVICES ? MAX_DEVICES : devices;
    s->devices = read_visible((int)devices, s->visible);
    s->memory = (size_t)number("STANDIN_CUDA_MEMORY_MIB", 1024) << 20;
    s->seed = (uint64_t)number("STANDIN_CUDA_SEED", (long)(standin_now_ms() * 1e3) ^ getpid());
    s->connections = (int)number("CUDA_DEVICE_MAX_CONNECTIONS", 0);
    s->delay_us = number("STANDIN_CUDA_DELAY_US", 100);
    s->peers = number("STANDIN_CUDA_PEERS", 1) != 0;
    s->version = (int)number("STANDIN_CUDA_VERSION", 12040);
    s->lost_device = -1;
    s->lost_error = CUDA_ERROR_LAUNCH_FAILED;
    if (number("STANDIN_CUDA_VERBOSE", 0))
        fprintf(stderr, "standin libcuda: STANDIN_CUDA_SEED=%llu\n", (unsigned long long)s->seed);
    if (!faults_are_ours())
        return;
    s->oom_at = number("STANDIN_CUDA_OOM_AT", 0);
    s->lost_at = number("STANDIN_CUDA_LOST_AT", 0);
    s->lost_file = getenv("STANDIN_CUDA_LOST_FILE");
    s->lost_device = (int)number("STANDIN_CUDA_LOST_DEVICE", -1);
    s->lost_error = (CUresult)number("STANDIN_CUDA_LOST_ERROR", CUDA_ERROR_LAUNCH_FAILED);
    s->late_copy = number("STANDIN_CUDA_LATE_COPY", 0);
    s->slow_mibs = number("STANDIN_CUDA_SLOW_MIBS", 0);
}

/* A child of fork() cannot use its parent's driver, as with the real one. */
CUresult standin_initialised(void)
{
    return initialised_by == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuInit(unsigned flags)
{
    CUresult result = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (initialised_by && initialised_by != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&standin_lock);
    if (!initialised_by) {
        standin_read_settings();
        if (standin_settings.devices)
            initialised_by = getpid();
        else
            result = CUDA_ERROR_NO_DEVICE;
    }
    pthread_mutex_unlock(&standin_lock);
    return result;
}

EXPORT CUresult cuDriverGetVersion(int *ret_version)
{
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_version = (int)number("STANDIN_CUDA_VERSION", 12040);
    return CUDA_SUCCESS;
}

static const struct error *find_error(CUresult code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == (int)code)
            return &errors[i];
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **ret_name)
{
    const struct error *error = find_error(code);

    *ret_name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **ret_words)
{
    const struct error *error = find_error(code);

    *ret_words = error ? error->words : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The newest form of a name that the stand-in has. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **ret_function, int version,
                                    uint64_t flags, int *ret_status)
{
    static const char *const endings[] = {"_v2", ""};
    Dl_info self;
    void *library, *found = NULL;
    char full[128];

    (void)version;
    (void)flags;
    if (!name || !ret_function)
        return CUDA_ERROR_INVALID_VALUE;
    if (!dladdr((void *)(uintptr_t)&cuInit, &self) ||
        !(library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD)))
        return CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < 2 && !found; i++) {
        snprintf(full, sizeof full, "%s%s", name, endings[i]);
        found = dlsym(library, full);
    }
    dlclose(library);
    *ret_function = found;
    if (ret_status)
        *ret_status = found ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    return found || ret_status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult check_device(CUdevice device, const void *ret)
{
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    return device < 0 || device >= standin_settings.devices ? CUDA_ERROR_INVALID_DEVICE
                                                            : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *ret_count)
{
    CUresult result = check_device(0, ret_count);

    if (result == CUDA_SUCCESS)
        *ret_count = standin_settings.devices;
    return result;
}

EXPORT CUresult cuDeviceGet(CUdevice *ret_device, int ordinal)
{
    CUresult result = check_device(ordinal, ret_device);

    if (result == CUDA_SUCCESS)
        *ret_device = ordinal;
    return result;
}

EXPORT CUresult cuDeviceGetName(char *ret_name, int length, CUdevice device)
{
    CUresult result = check_device(device, ret_name);

    if (result == CUDA_SUCCESS && length > 0)
        snprintf(ret_name, (size_t)length, "Stand-in GPU %d", standin_settings.visible[device]);
    return result;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *ret_uuid, CUdevice device)
{
    CUresult result = check_device(device, ret_uuid);

    if (result == CUDA_SUCCESS) {
        memcpy(ret_uuid->bytes, "tutti stand-in \0", 16);
        ret_uuid->bytes[15] = (char)standin_settings.visible[device];
    }
    return result;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice device)
{
    CUresult result = check_device(device, ret_bytes);

    if (result == CUDA_SUCCESS)
        *ret_bytes = standin_settings.memory;
    return result;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *ret_id, int length, CUdevice device)
{
    CUresult result = check_device(device, ret_id);

    if (result == CUDA_SUCCESS && length > 0)
        snprintf(ret_id, (size_t)length, "0000:%02X:00.0", 0x10 + standin_settings.visible[device]);
    return result;
}

/* By the numbers of CUdevice_attribute: those that somebody may ask about. */
EXPORT CUresult cuDeviceGetAttribute(int *ret_value, CUdevice_attribute attribute, CUdevice device)
{
    static const struct {
        int attribute, value;
    } known[] = {
        {1, 1024},                /* MAX_THREADS_PER_BLOCK */
        {2, 1024},                /* MAX_BLOCK_DIM_X */
        {5, 2147483647},          /* MAX_GRID_DIM_X */
        {8, 49152},               /* MAX_SHARED_MEMORY_PER_BLOCK */
        {10, 32},                 /* WARP_SIZE */
        {16, 4},                  /* MULTIPROCESSOR_COUNT */
        {18, 0},                  /* INTEGRATED */
        {19, 1},                  /* CAN_MAP_HOST_MEMORY */
        {20, 0},                  /* COMPUTE_MODE: default */
        {39, 2048},               /* MAX_THREADS_PER_MULTIPROCESSOR */
        {40, 2},                  /* ASYNC_ENGINE_COUNT */
        {41, 1},                  /* UNIFIED_ADDRESSING */
        {50, 0},                  /* PCI_DOMAIN_ID */
        {75, 9},         {76, 0}, /* COMPUTE_CAPABILITY */
        {83, 1},                  /* MANAGED_MEMORY */
        {88, 0},                  /* PAGEABLE_MEMORY_ACCESS */
        {89, 1},                  /* CONCURRENT_MANAGED_ACCESS */
        {91, 1},                  /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
        {99, 1},                  /* HOST_REGISTER_SUPPORTED */
        {122, 1},                 /* CAN_USE_64_BIT_STREAM_MEM_OPS */
        {123, 1},                 /* CAN_USE_STREAM_WAIT_VALUE_NOR */
    };
    CUresult result = check_device(device, ret_value);

    if (result)
        return result;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == (int)attribute) {
            *ret_value = known[i].value;
            return CUDA_SUCCESS;
        }
    if ((int)attribute == 33) { /* PCI_BUS_ID */
        *ret_value = 0x10 + standin_settings.visible[device];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer)
{
    CUresult result = check_device(device, ret_can);

    if (result == CUDA_SUCCESS)
        result = check_device(peer, ret_can);
    if (result == CUDA_SUCCESS)
        *ret_can = device != peer && standin_settings.peers;
    return result;
}
