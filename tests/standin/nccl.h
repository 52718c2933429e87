/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for libnccl.so.2, over the stand-in for libcuda.so.1. It is built with the tests and never
 * installed.
 *
 * Members are processes of one host. An id names memory of the process that made it, in which all members map a
 * board: who they are, and a ring of bytes from each to each. An operation is one of a stream, which moves
 * frames through the rings while its thread waits, so it comes in the order of the stream and
 * is not complete before each member that it needs has come.
 *
 * As with NCCL, nobody compares what the members call. Where they differ, a member waits for ever, has garbage in its
 * result, or, where a frame is longer than what it expects, has an asynchronous error.
 *
 * What a caller must not do and NCCL cannot tell from luck ends the process: a message on stderr, then
 * abort(). That is the use of a communicator which was destroyed or aborted, or while another thread registers memory
 * with it; the end of one, but by ncclCommAbort(), that has registered memory; and memory that is freed while it is
 * registered.
 *
 * Variables, read at the first call:
 *
 *  NCCL_HOSTID=text             what tells hosts apart (the host's name)
 *  NCCL_MULTI_RANK_GPU_ENABLE=1 several members may use one GPU, from version 2.30.0 on
 *  NCCL_DEBUG=WARN              prints warnings on stdout, or to the file NCCL_DEBUG_FILE; INFO: which interface too
 *  NCCL_SOCKET_IFNAME=name      is told in lines of NCCL_DEBUG=INFO: as the first id or communicator of the process
 *                               finds it, and as the thread does that makes the first communicator
 *  STANDIN_NCCL_VERSION=n       what ncclGetVersion() says (22809)
 *  STANDIN_NCCL_JOIN_MS=n       how long a member takes before it joins a communicator (1)
 *  STANDIN_NCCL_FIRST_MS=n      so long the first call of a non-blocking communicator is in progress (1); 0: it is not
 *  STANDIN_NCCL_LATER_MS=n      the same of later calls (0)
 *  STANDIN_NCCL_REGISTER_MS=n   ncclCommRegister() and ncclCommDeregister() take so long (0)
 *
 * Faults:
 *
 *  STANDIN_NCCL_JOIN=n          making a communicator fails with result n; 7: it stays in progress
 *  STANDIN_NCCL_JOIN_AT=n       … of the n-th one of the process alone
 *  STANDIN_NCCL_FAILS_AT=n      the n-th call that moves data fails with STANDIN_NCCL_RESULT
 *  STANDIN_NCCL_ASYNC_AT=n      the n-th operation of the process's streams waits until an abort, and the
 *                               communicator has the asynchronous error STANDIN_NCCL_RESULT
 *  STANDIN_NCCL_HANGS_AT=n      the same without an error
 *  STANDIN_NCCL_RESULT=n        (1)
 *  STANDIN_NCCL_ABORT_MS=n      ncclCommAbort() takes so long; -1: it never returns
 *  STANDIN_NCCL_ALLOCATE_AT=n   the n-th ncclMemAlloc() of the process fails with STANDIN_NCCL_RESULT
 *  STANDIN_NCCL_REGISTER_AT=n   the same of ncclCommRegister()
 *  STANDIN_NCCL_FAULT_RANK=r    faults are for the process alone whose TUTTI_RANK (or RANK) is r
 */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include "cuda_more.h"
#include "nccl/nccl_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
/* Of this stand-in alone: how many operations the process has put on streams. */
EXPORT int standin_nccl_launches(void);
/* How many groups of calls it has, a call outside of a group among them. */
EXPORT int standin_nccl_groups(void);
#define DECLARE(result, name, arguments) EXPORT result name arguments;
/* … how many pieces of ncclMemAlloc() and of ncclCommRegister() it has, and how many tasks of it lay in registered memory
 * of their communicator. */
EXPORT int standin_nccl_allocated(void);
EXPORT int standin_nccl_registered(void);
EXPORT int standin_nccl_registered_tasks(void);
NCCL_FUNCTIONS(DECLARE)
#ifndef STANDIN_NCCL_OLD
NCCL_MEMORY_FUNCTIONS(DECLARE)
#endif
NCCL_NEW_FUNCTIONS(DECLARE)
#undef DECLARE

enum { MEMBERS_MAX = 16, RING_BYTES = 64 << 10 };

/* ---- nccl.c: the process -------------------------------------------------------------------- */

struct settings {
    int version;
    long join_ms, first_ms, later_ms, abort_ms, register_ms;
    long join, join_at, fails_at, async_at, hangs_at, allocate_at, register_at; /* 0: not at all */
    ncclResult_t result;
    uint64_t host;
    bool shares_devices;
};
const struct settings *nccl_settings(void);

/* What is used of the stand-in for libcuda; NULL: it is not there, and the last error says so. */
#define USED_OF_CUDA(X)                                                                            \
    X(CUresult, cuInit, (unsigned flags))                                                          \
    X(CUresult, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                  \
    X(CUresult, cuCtxGetCurrent, (CUcontext * context))                                            \
    X(CUresult, cuCtxPushCurrent_v2, (CUcontext context))                                          \
    X(CUresult, cuCtxPopCurrent_v2, (CUcontext * context))                                         \
    X(CUresult, cuCtxGetDevice, (CUdevice * device))                                               \
    X(CUresult, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                          \
    X(CUresult, cuDeviceGetPCIBusId, (char *bus, int bytes, CUdevice device))                      \
    X(CUresult, cuPointerGetAttribute,                                                             \
      (void *data, CUpointer_attribute attribute, CUdeviceptr address))                            \
    X(CUresult, cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                               \
    X(CUresult, cuMemFree_v2, (CUdeviceptr memory))                                                \
    X(CUresult, cuStreamGetCtx, (CUstream stream, CUcontext * context))                            \
    X(CUresult, cuStreamGetCaptureInfo_v2,                                                         \
      (CUstream stream, CUstreamCaptureStatus * status, uint64_t * id, CUgraph * graph,            \
       const void **nodes, size_t *count))                                                         \
    X(CUresult, cuUserObjectCreate,                                                                \
      (CUuserObject * object, void *of, void (*destroy)(void *), unsigned references,              \
       unsigned flags))                                                                            \
    X(CUresult, cuGraphRetainUserObject,                                                           \
      (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))                        \
    X(CUresult, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))               \
    X(CUresult, cuEventCreate, (CUevent * event, unsigned flags))                                  \
    X(CUresult, cuEventRecord, (CUevent event, CUstream stream))                                   \
    X(CUresult, cuEventDestroy_v2, (CUevent event))                                                \
    X(CUresult, standin_cuda_put,                                                                  \
      (CUstream stream, CUresult(*run)(const void *arguments), void (*number)(void *arguments),    \
       const void *arguments, size_t size))                                                        \
    X(void *, standin_cuda_view, (CUdeviceptr address, size_t bytes))

struct cuda {
#define MEMBER(result, name, arguments) result(*name) arguments;
    USED_OF_CUDA(MEMBER)
#undef MEMBER
};
const struct cuda *nccl_cuda(void);

/* A warning, which is the last error from now on. Returns `result`. */
ncclResult_t nccl_warn(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the process: the caller broke a rule. */
void nccl_die(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* What NCCL reads once a process when it makes the first id or communicator: variables for lines, and an interface. */
void nccl_begin(void);
/* A line of NCCL_DEBUG=INFO. */
void nccl_inform(const char *what, const char *words);
void nccl_sleep_us(long us);
double nccl_now_ms(void);

/* ---- nccl_join.c: communicators ------------------------------------------------------------- */

/* Bytes from one member to another. `written` and `read` count all that there ever were. */
struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) uint8_t data[RING_BYTES];
};

enum member_state { ABSENT, CLAIMED, JOINED, FINALIZED };

struct member {
    _Atomic int state; /* enum member_state */
    pid_t pid;
    int size, version;
    uint64_t host;
    char bus[32];
};

struct board {
    uint64_t secret;
    struct member members[MEMBERS_MAX];
    struct ring rings[MEMBERS_MAX][MEMBERS_MAX]; /* [to][from] */
};

/* Never freed, so that a stale handle is found and named. */
struct ncclComm {
    struct ncclComm *next; /* of all that were made */
    atomic_bool alive;
    bool blocking;
    int rank, size;
    CUdevice device;
    CUcontext context;
    ncclUniqueId id;
    struct board *board;
    int watches[MEMBERS_MAX]; /* pidfds; -1: none */
    _Atomic int result;       /* ncclResult_t, as ncclCommGetAsyncError() has it */
    atomic_bool aborted;
    pthread_t thread; /* that makes it, makes its first call or finalizes it */
    bool has_thread;
    bool was_used; /* its first call is made */
    bool finalized;
    atomic_bool registers;              /* a thread registers memory, or ends that */
    struct registration *registrations; /* nccl_memory.c */

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    uint64_t issued,
        done; /* operations that are on streams, in the order of calls and launches of graphs */
    uint32_t graphs; /* operations that graphs hold */
    bool runs;       /* one does */
};

/* The communicator may be used: OK, or what the call has to return. */
ncclResult_t nccl_ready(const char *call, struct ncclComm *comm);
/* Runs it in a thread of a non-blocking communicator, whose result it gives. Otherwise at once. */
ncclResult_t nccl_run(struct ncclComm *comm, ncclResult_t (*run)(struct ncclComm *comm));

/* ---- nccl_group.c, nccl_move.c: calls ------------------------------------------------------- */

enum kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, SEND, RECV };

struct task {
    enum kind kind;
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;       /* or the other member of a message */
    CUresult fault; /* of a kernel of it, which loses the device */
};

/* The tasks of one communicator in one group: collectives one after the other, then all messages at once. */
struct launch {
    struct ncclComm *comm;
    uint64_t number; /* of the communicator's operations; 0: it is not on a stream */
    size_t count;
    struct task tasks[];
};

/* A stream's operation; `arguments` is a struct launch. */
CUresult nccl_run_launch(const void *arguments);
/* Which sides a task has on this member, and how long they are. */
size_t nccl_in_bytes(const struct ncclComm *comm, const struct task *task);
size_t nccl_out_bytes(const struct ncclComm *comm, const struct task *task);

/* ---- nccl_memory.c -------------------------------------------------------------------------- */

/* A call that uses the communicator: ends the process where another thread registers memory with it. */
void nccl_check_registering(const char *call, const struct ncclComm *comm);
/* It ends in order: ends the process where it has registered memory. */
void nccl_check_registered(const char *call, const struct ncclComm *comm);
/* It is aborted: what it has is forgotten. */
void nccl_forget_memory(struct ncclComm *comm);
/* Counts a task that lies in registered memory. */
void nccl_note_memory(const struct ncclComm *comm, const struct task *task);

/* ---- nccl_reduce.c -------------------------------------------------------------------------- */

size_t nccl_type_bytes(ncclDataType_t type);
/* into = into op with, rounded to the type. */
void nccl_combine(ncclDataType_t type, ncclRedOp_t op, void *into, const void *with, size_t count);
/* into = into * factor, of floats; the factor is one element. */
void nccl_scale(ncclDataType_t type, void *into, const void *factor, size_t count);
/* into = into / members, of integers; false: of floats nothing. */
bool nccl_divides(ncclDataType_t type, void *into, int members, size_t count);
/* 1 / members as an element of the type; false: it is a type of integers. */
bool nccl_fraction(ncclDataType_t type, int members, void *ret_value);

#endif
