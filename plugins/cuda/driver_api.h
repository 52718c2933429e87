/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin uses of CUDA's driver API, in declarations of its own: no build needs a package of NVIDIA's,
 * and cuda.h in a default include folder changes nothing. Names, numbers and types are cuda.h's, which
 * promises them to programs that are compiled already; functions have the names that libcuda.so.1 exports. A
 * test compiles this file after cuda.h, where there is one, and compares them.
 *
 * The functions are those of drivers from CUDA 11.7 on.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* X(name, value): results that have words of their own, or are no failure. */
#define DRIVER_RESULTS(X)                                                                          \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                 \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                                                                 \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                           \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                                           \
    X(CUDA_ERROR_INVALID_PTX, 218)                                                                 \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                                      \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                              \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                        \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                          \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                               \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                               \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                            \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                      \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                              \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                     \
    X(CUDA_ERROR_CAPTURED_EVENT, 907)                                                              \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                                 \
    X(CUDA_ERROR_UNKNOWN, 999)

#define DRIVER_DEVICE_ATTRIBUTES(X)                                                                \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                \
    X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                                          \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                                  \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                            \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)

#define DRIVER_POINTER_ATTRIBUTES(X)                                                               \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                             \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                          \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                   \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)

#define DRIVER_MEMORY_TYPES(X)                                                                     \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)

#define DRIVER_CAPTURE_STATUSES(X)                                                                 \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                            \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                          \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define DRIVER_CAPTURE_MODES(X)                                                                    \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

/* Flags, whose enums are in no function's type. */
#define DRIVER_FLAGS(X)                                                                            \
    X(CU_STREAM_DEFAULT, 0)                                                                        \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                  \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                                                 \
    X(CU_MEM_ATTACH_GLOBAL, 1)                                                                     \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                 \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)

#ifndef CUDA_VERSION /* else cuda.h was here */
#define DRIVER_ENUMERATOR(name, value) name = (value),
typedef enum { DRIVER_RESULTS(DRIVER_ENUMERATOR) } CUresult;
typedef enum { DRIVER_DEVICE_ATTRIBUTES(DRIVER_ENUMERATOR) } CUdevice_attribute;
typedef enum { DRIVER_POINTER_ATTRIBUTES(DRIVER_ENUMERATOR) } CUpointer_attribute;
typedef enum { DRIVER_MEMORY_TYPES(DRIVER_ENUMERATOR) } CUmemorytype;
typedef enum { DRIVER_CAPTURE_STATUSES(DRIVER_ENUMERATOR) } CUstreamCaptureStatus;
typedef enum { DRIVER_CAPTURE_MODES(DRIVER_ENUMERATOR) } CUstreamCaptureMode;
enum { DRIVER_FLAGS(DRIVER_ENUMERATOR) };
#undef DRIVER_ENUMERATOR

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#endif

/* X(name, arguments): what libcuda.so.1 exports and the plugin calls. All return CUresult. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, (CUresult result, const char **name))                                        \
    X(cuGetErrorString, (CUresult result, const char **words))                                     \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                               \
    X(cuDeviceGetName, (char *name, int bytes, CUdevice device))                                   \
    X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                        \
    X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                      \
    X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))           \
    X(cuDeviceGetPCIBusId, (char *bus, int bytes, CUdevice device))                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                            \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                             \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                    \
    X(cuCtxPopCurrent_v2, (CUcontext * context))                                                   \
    X(cuCtxGetDevice, (CUdevice * device))                                                         \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                    \
    X(cuPointerGetAttributes,                                                                      \
      (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address))         \
    X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                         \
    X(cuMemAllocManaged, (CUdeviceptr * memory, size_t bytes, unsigned flags))                     \
    X(cuMemFree_v2, (CUdeviceptr memory))                                                          \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                               \
    X(cuMemFreeHost, (void *memory))                                                               \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))               \
    X(cuStreamDestroy_v2, (CUstream stream))                                                       \
    X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                      \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                      \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                             \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                         \
    X(cuStreamWaitValue32_v2,                                                                      \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags))                      \
    X(cuEventCreate, (CUevent * event, unsigned flags))                                            \
    X(cuEventDestroy_v2, (CUevent event))                                                          \
    X(cuEventRecord, (CUevent event, CUstream stream))                                             \
    X(cuEventQuery, (CUevent event))                                                               \
    X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                    \
    X(cuModuleUnload, (CUmodule module))                                                           \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))             \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,     \
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,      \
                       CUstream stream, void **arguments, void **extra))

/* The functions of one loaded library: driver->cuInit(0). */
struct driver_api {
#define DRIVER_MEMBER(name, arguments) CUresult(*name) arguments;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};
