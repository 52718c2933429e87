/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that all members of a host see: registered memory. Collectives on tensors in it need no copies
 * through windows: members read each other's inputs and write each other's outputs in place.
 *
 * A call works in place if the tensors that others have to reach are in such memory on every member of the
 * group: input and output of all_reduce; the inputs of reduce, all_gather, reduce_scatter and all_to_all,
 * and the root's output of reduce; the root's tensor of broadcast and scatter; the inputs and the root's
 * output of gather. Different members may use different pieces of memory. If one tensor is elsewhere, the
 * call is made as usual; members need not agree on that. The calls and their results are the same.
 *
 * A message of more than 64 KiB to a member on the same host is copied once if the sender's tensor is in such
 * memory. If the receiver's is, too, both members copy at the same time; a message of more than 1 MiB needs
 * that.
 *
 * Memory of a GPU is registered with the engine that moves tensors there (the backend nccl), for collectives on it.
 * In one call either the tensors of all members lie in such memory, or none: NCCL does not define what a mix does.
 *
 * Semantics: MPI_Win_allocate_shared without its accesses, ncclMemAlloc and ncclCommRegister,
 * NVSHMEM's symmetric memory.
 */
#ifndef TUTTI_MEMORY_H
#define TUTTI_MEMORY_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Registered memory of one member. Opaque. */
typedef struct tutti_memory tutti_memory;

/**
 * Allocates memory that the other members on this host see, zeroed and aligned to a page.
 *
 * bytes      of this member; others may ask for more or less. Not 0.
 * ret_memory the handle, which tutti_memory_free() frees; tutti_group_destroy() frees what is left.
 *
 * Collective: every member of the group calls it, in the same order as its other collectives. Returns when
 * all have, with the same error on all if one of them has none to give. All bytes are taken from the system
 * at once and count as shared memory of this process. A group has at most 1024 pieces at a time;
 * a piece counts until all members have freed theirs.
 * Where no backend maps memory among members (tcp, MPI, a host of one), the memory is ordinary.
 *
 * After a call on such memory failed, members that have not heard of it may still write to it.
 *
 * fork(2): the child shares the memory with its parent; what it writes, the parent and its peers see.
 *
 * Errors: INVALID_ARGUMENT, NO_MEMORY, SYSTEM (no descriptors), and those of all collectives.
 */
TUTTI_API tutti_status tutti_memory_allocate(tutti_group *group, uint64_t bytes,
                                             tutti_memory **ret_memory);

/**
 * Allocates memory on a device and registers it, as tutti_memory_allocate() does on the host.
 *
 * device     {TUTTI_DEVICE_CUDA, number}: the GPU that the group uses on this rank. The engine for devices allocates
 *            the memory (NCCL 2.19: ncclMemAlloc and ncclCommRegister). Without such an engine, or where its library
 *            lacks the functions, the device's driver does, the memory is ordinary, and TUTTI_DEBUG=INFO says so.
 *            {TUTTI_DEVICE_CPU, 0}: tutti_memory_allocate(); the number is ignored.
 * bytes      of this member; others may ask for more or less. Not 0. The contents are undefined.
 * ret_memory the handle, as in tutti_memory_allocate().
 *
 * Collective, as tutti_memory_allocate(). All members give memory of one kind, on the host or on their devices;
 * otherwise all get MISMATCH. It may be called while a stream is captured, and is no part of the graph.
 *
 * Errors: INVALID_ARGUMENT (no such device, or not the group's), NO_MEMORY, MISMATCH, PLUGIN (what the engine said),
 * and those of all collectives.
 */
TUTTI_API tutti_status tutti_memory_allocate_on(tutti_group *group, tutti_device device,
                                                uint64_t bytes, tutti_memory **ret_memory);

/**
 * Makes memory that the program has into memory that the other members on this host see, at the same
 * address and with the same contents.
 *
 * address    any; [address, address + bytes) is private memory of the program, of mmap(2) or of malloc(3)
 *            if that took it by mmap (glibc: always from 32 MiB on), or memory that is registered
 *            already, for this group or another one. It is refused in the heap, on the calling thread's stack
 *            and in files. Stacks of other threads, and what malloc(3) gave other threads from their arenas,
 *            cannot be told from mappings: do not pass them.
 *            Or memory of the GPU that the group uses on this rank, where an engine moves tensors of it: it stays
 *            as it is, and is registered (ncclCommRegister). It must not overlap other memory of a GPU that is
 *            registered with the group.
 * bytes      as in tutti_memory_allocate().
 *
 * In host memory the whole pages around the range are replaced by shared ones. Until it returns no other thread may write to
 * them: what it writes may be lost. Afterwards the pages are no longer copied by fork(2): a child shares them
 * with its parent. Pages that madvise(2) or mlock(2) treated specially lose that.
 *
 * Free it before the memory itself: the pages become private again then, with their contents.
 *
 * Collective, and errors: as tutti_memory_allocate(), and of a GPU's memory as tutti_memory_allocate_on(); UNSUPPORTED
 * (the engine's library cannot register).
 */
TUTTI_API tutti_status tutti_memory_register(tutti_group *group, void *address, uint64_t bytes,
                                             tutti_memory **ret_memory);

/** Where the memory is. NULL for NULL. */
TUTTI_API void *tutti_memory_address(const tutti_memory *memory);

/** Its size as it was asked for, in bytes. 0 for NULL. */
TUTTI_API uint64_t tutti_memory_bytes(const tutti_memory *memory);

/** How many other members see it; of a GPU's memory that the engine knows, all other members. That holds also where
 * settings keep the engine from using it (NCCL_LOCAL_REGISTER=0). 0: it is ordinary memory, or NULL. */
TUTTI_API int32_t tutti_memory_peers(const tutti_memory *memory);

/**
 * Frees the memory; the handle, and the address of allocated memory, are invalid then. Registered memory
 * stays, and is private again, so no member can write to it any more. As with registering it, no other thread may
 * write to its pages meanwhile; the same holds for tutti_group_destroy(). Not collective: members free
 * theirs in any order. The system gets the pages back when all members have freed theirs or the group has
 * ended. NULL is ignored.
 *
 * Memory of a GPU: no call of the group on its GPU may be queued or under way, so synchronize first; and no stream may
 * wait for a work (tutti_work_wait_stream()), of any group, as the driver frees no memory meanwhile. Once calls of the
 * group were captured into graphs, tutti_group_destroy() alone frees its memory. End registrations with other groups
 * before the memory's own. The function may block as cudaFree() does, and so may tutti_group_destroy(). It waits for
 * the group's time-out at most while the engine begins an operation, or while another thread makes or frees memory of
 * the group; and 3 s at most for an abort, where the group has failed and the memory is the program's.
 *
 * Errors: FORKED (in a child of the process).
 * Of host memory, BUSY: a collective that works in it is not complete, or a message that may be copied from it or into
 * it. Other calls with tensors in it are not counted, as with any memory.
 * Of a GPU's memory, BUSY: one of the conditions above does not hold, or the memory was allocated here and is
 * registered with another group, too. TIMEOUT: the engine was beginning an operation, or another thread had it, for so
 * long.
 */
TUTTI_API tutti_status tutti_memory_free(tutti_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
