/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in and the tests use of CUDA's driver API, and the plugin does not: as in driver_api.h.
 */
#ifndef STANDIN_CUDA_MORE_H
#define STANDIN_CUDA_MORE_H

#include "driver_api.h"

#define CUDA_ERROR_INVALID_IMAGE ((CUresult)200)
#define CUDA_ERROR_PEER_ACCESS_UNSUPPORTED ((CUresult)217)
#define CUDA_ERROR_ILLEGAL_STATE ((CUresult)401)
#define CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ((CUresult)704)
#define CUDA_ERROR_PEER_ACCESS_NOT_ENABLED ((CUresult)705)
#define CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED ((CUresult)712)
#define CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ((CUresult)713)
#define CUDA_ERROR_STREAM_CAPTURE_MERGE ((CUresult)902)
#define CUDA_ERROR_STREAM_CAPTURE_UNMATCHED ((CUresult)903)
#define CUDA_ERROR_STREAM_CAPTURE_UNJOINED ((CUresult)904)
#define CUDA_ERROR_STREAM_CAPTURE_ISOLATION ((CUresult)905)

enum { WAIT_VALUE_EQ = 1, WAIT_VALUE_AND = 2, WAIT_VALUE_NOR = 3 };

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;

/* Of user objects: nobody waits for what frees them; a graph takes the caller's reference. */
enum { USER_OBJECT_NO_DESTRUCTOR_SYNC = 1, GRAPH_USER_OBJECT_MOVE = 1 };

/* X(name, arguments). cuGraphGetNodes() counts alone here; `nodes` of cuStreamGetCaptureInfo_v2() are none. */
#define MORE_FUNCTIONS(X)                                                                          \
    X(cuGetProcAddress_v2,                                                                         \
      (const char *name, void **function, int version, uint64_t flags, int *status))               \
    X(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                           \
    X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))                 \
    X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                      \
    X(cuCtxDestroy_v2, (CUcontext context))                                                        \
    X(cuCtxSetCurrent, (CUcontext context))                                                        \
    X(cuCtxGetCurrent, (CUcontext * context))                                                      \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                     \
    X(cuCtxDisablePeerAccess, (CUcontext peer))                                                    \
    X(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address))     \
    X(cuMemGetInfo_v2, (size_t * unused, size_t * total))                                          \
    X(cuMemGetAddressRange_v2, (CUdeviceptr * start, size_t * bytes, CUdeviceptr address))         \
    X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                          \
    X(cuMemHostUnregister, (void *memory))                                                         \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *memory, unsigned flags))         \
    X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                  \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                           \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                 \
    X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                           \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))     \
    X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))           \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))     \
    X(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                       \
                     CUcontext from_context, size_t bytes))                                        \
    X(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                  \
                          CUcontext from_context, size_t bytes, CUstream stream))                  \
    X(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))                          \
    X(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count))                              \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))       \
    X(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))           \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                         \
    X(cuStreamQuery, (CUstream stream))                                                            \
    X(cuStreamSynchronize, (CUstream stream))                                                      \
    X(cuStreamGetFlags, (CUstream stream, unsigned *flags))                                        \
    X(cuStreamGetPriority, (CUstream stream, int *priority))                                       \
    X(cuStreamWaitValue64_v2,                                                                      \
      (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags))                      \
    X(cuStreamWriteValue32_v2,                                                                     \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags))                      \
    X(cuStreamWriteValue64_v2,                                                                     \
      (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags))                      \
    X(cuLaunchHostFunc, (CUstream stream, void (*run)(void *), void *argument))                    \
    X(cuEventSynchronize, (CUevent event))                                                         \
    X(cuEventElapsedTime, (float *ms, CUevent start, CUevent end))                                 \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                        \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                      \
    X(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id,  \
                                  CUgraph * graph, const void **nodes, size_t *count))             \
    X(cuUserObjectCreate, (CUuserObject * object, void *of, void (*destroy)(void *),               \
                           unsigned references, unsigned flags))                                   \
    X(cuGraphRetainUserObject,                                                                     \
      (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))                        \
    X(cuGraphGetNodes, (CUgraph graph, void **nodes, size_t *count))                               \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))  \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                          \
    X(cuGraphDestroy, (CUgraph graph))                                                             \
    X(cuGraphExecDestroy, (CUgraphExec exec))

#endif
