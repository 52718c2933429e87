/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is used of NCCL, in declarations of our own: no build needs a package of NVIDIA's, and nccl.h in a default
 * include folder changes nothing. Names, numbers and types are nccl.h's. test_nccl_names compiles this file
 * after nccl.h, where there is one, and compares them.
 *
 * The functions are those of NCCL 2.18; newer ones have a list of their own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* X(name, value) */
#define NCCL_RESULTS(X)                                                                            \
    X(ncclSuccess, 0)                                                                              \
    X(ncclUnhandledCudaError, 1)                                                                   \
    X(ncclSystemError, 2)                                                                          \
    X(ncclInternalError, 3)                                                                        \
    X(ncclInvalidArgument, 4)                                                                      \
    X(ncclInvalidUsage, 5)                                                                         \
    X(ncclRemoteError, 6)                                                                          \
    X(ncclInProgress, 7)

#define NCCL_TYPES(X)                                                                              \
    X(ncclInt8, 0)                                                                                 \
    X(ncclUint8, 1)                                                                                \
    X(ncclInt32, 2)                                                                                \
    X(ncclUint32, 3)                                                                               \
    X(ncclInt64, 4)                                                                                \
    X(ncclUint64, 5)                                                                               \
    X(ncclFloat16, 6)                                                                              \
    X(ncclFloat32, 7)                                                                              \
    X(ncclFloat64, 8)                                                                              \
    X(ncclBfloat16, 9)

/* Since 2.24. */
#define NCCL_NEW_TYPES(X)                                                                          \
    X(ncclFloat8e4m3, 10)                                                                          \
    X(ncclFloat8e5m2, 11)

#define NCCL_OPS(X)                                                                                \
    X(ncclSum, 0)                                                                                  \
    X(ncclProd, 1)                                                                                 \
    X(ncclMax, 2)                                                                                  \
    X(ncclMin, 3)                                                                                  \
    X(ncclAvg, 4)

#ifndef NCCL_VERSION_CODE /* else nccl.h was here */
#define NCCL_ENUMERATOR(name, value) name = (value),
typedef enum { NCCL_RESULTS(NCCL_ENUMERATOR) } ncclResult_t;
typedef enum { NCCL_TYPES(NCCL_ENUMERATOR) NCCL_NEW_TYPES(NCCL_ENUMERATOR) } ncclDataType_t;
typedef enum { NCCL_OPS(NCCL_ENUMERATOR) ncclMaxRedOp = 0x7fffffff } ncclRedOp_t;
#undef NCCL_ENUMERATOR

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *cudaStream_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef struct nccl_config ncclConfig_t;
#endif

/* ncclConfig_t as 2.18 has it. Later versions know it by `size` and `version`, and have more members behind these. */
struct nccl_config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
};

/* NCCL_CONFIG_INITIALIZER's; each number that is not set is NCCL_NOT_SET, each pointer NULL. */
#define NCCL_MAGIC 0xcafebeefU
#define NCCL_NOT_SET (-2147483647 - 1)
#define NCCL_CONFIG(how_blocking)                                                                  \
    ((ncclConfig_t){.size = sizeof(ncclConfig_t),                                                  \
                    .magic = NCCL_MAGIC,                                                           \
                    .version = 21800,                                                              \
                    .blocking = (how_blocking),                                                    \
                    .cgaClusterSize = NCCL_NOT_SET,                                                \
                    .minCTAs = NCCL_NOT_SET,                                                       \
                    .maxCTAs = NCCL_NOT_SET,                                                       \
                    .splitShare = NCCL_NOT_SET})

/* X(result, name, arguments) */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclResult_t, ncclGetVersion, (int *version))                                                \
    X(const char *, ncclGetErrorString, (ncclResult_t result))                                     \
    X(const char *, ncclGetLastError, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                                          \
    X(ncclResult_t, ncclCommInitRankConfig,                                                        \
      (ncclComm_t * comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config))              \
    X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                                            \
    X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                                              \
    X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                \
    X(ncclResult_t, ncclReduce,                                                                    \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,     \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclBroadcast,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,    \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclAllReduce,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,               \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclReduceScatter,                                                             \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,               \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclAllGather,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,              \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclSend,                                                                      \
      (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,               \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclRecv,                                                                      \
      (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                    \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclGroupStart, (void))                                                        \
    X(ncclResult_t, ncclGroupEnd, (void))

/* Since 2.19; a library may lack them. */
#define NCCL_MEMORY_FUNCTIONS(X)                                                                   \
    X(ncclResult_t, ncclMemAlloc, (void **memory, size_t bytes))                                   \
    X(ncclResult_t, ncclMemFree, (void *memory))                                                   \
    X(ncclResult_t, ncclCommRegister,                                                              \
      (const ncclComm_t comm, void *memory, size_t bytes, void **handle))                          \
    X(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))

/* Since 2.27. */
#define NCCL_NEW_FUNCTIONS(X)                                                                      \
    X(ncclResult_t, ncclCommWindowRegister,                                                        \
      (ncclComm_t comm, void *memory, size_t bytes, ncclWindow_t *window, int flags))              \
    X(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))
