/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point to point. Messages with the same (group, source, destination, tag) match in the order in which
 * they were sent and received. Nothing else is ordered: sends, receives and collectives do not wait for
 * each other. Deadlines count from the call.
 */
#ifndef TUTTI_P2P_H
#define TUTTI_P2P_H

#include <stdint.h>

#include <tutti/collective.h>
#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/tensor.h>
#include <tutti/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/** As a source: takes the earliest message of any rank. */
#define TUTTI_ANY_SOURCE (-1)

/**
 * Sends `tensor` to rank `destination` under `tag` (0 .. 2^62-1).
 * Returns when the tensor may be reused: small messages (up to 64 KiB, together 1 MiB that the receiver has
 * not taken; less in groups of more than 64) are buffered, larger ones wait for the receive. This also holds
 * for a send to the own rank: a large one needs a receive that was started before, or that another thread
 * posts. Otherwise it ends at its deadline. Over the backend shm messages of up to 256 KiB often need no
 * receive either, but do not rely on that: it depends on the room that is there, and on where the tensor
 * lies. Errors: INVALID_ARGUMENT, UNSUPPORTED, TIMEOUT, PEER_LOST, ABORTED, NO_MEMORY, FORKED, and those of a
 * failed group.
 * Semantics: torch.distributed.send; MPI_Send.
 */
TUTTI_API tutti_status tutti_send(tutti_group *group, const tutti_tensor *tensor,
                                  int32_t destination, uint64_t tag, const tutti_options *options);

/**
 * Receives into `tensor` from rank `source` or TUTTI_ANY_SOURCE, which takes the earliest message of
 * any rank, the own one included. The message must have exactly the tensor's size in bytes. Another
 * size is TUTTI_ERR_MISMATCH for this call alone; the error names both sizes, and the message is
 * dropped. `ret_source` may be NULL. A receive from any source returns TUTTI_ERR_PEER_LOST when every
 * other member has left; one started by tutti_irecv() then waits for messages of its own rank.
 * Semantics: torch.distributed.recv; MPI_Recv.
 */
TUTTI_API tutti_status tutti_recv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                                  uint64_t tag, const tutti_options *options, int32_t *ret_source);

/**
 * As tutti_recv(), for a message of at most the tensor's size; the rest of the tensor is not written.
 * `ret_bytes` (may be NULL) receives the size of the message. A longer message is
 * TUTTI_ERR_MISMATCH. Semantics: MPI_Recv with MPI_Get_count.
 */
TUTTI_API tutti_status tutti_recv_up_to(tutti_group *group, const tutti_tensor *tensor,
                                        int32_t source, uint64_t tag, const tutti_options *options,
                                        int32_t *ret_source, uint64_t *ret_bytes);

/** As tutti_send(), without waiting; the tensor must not change until the work is complete.
 * Semantics: torch.distributed.isend; MPI_Isend. */
TUTTI_API tutti_status tutti_isend(tutti_group *group, const tutti_tensor *tensor,
                                   int32_t destination, uint64_t tag, const tutti_options *options,
                                   tutti_work **ret_work);

/** As tutti_recv(), without waiting; tutti_work_source() returns the source afterwards.
 * Semantics: torch.distributed.irecv; MPI_Irecv. */
TUTTI_API tutti_status tutti_irecv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                                   uint64_t tag, const tutti_options *options,
                                   tutti_work **ret_work);

/** As tutti_recv_up_to(), without waiting; tutti_work_result() returns source and size afterwards. */
TUTTI_API tutti_status tutti_irecv_up_to(tutti_group *group, const tutti_tensor *tensor,
                                         int32_t source, uint64_t tag, const tutti_options *options,
                                         tutti_work **ret_work);

/**
 * Sends `send` and receives into `recv` at the same time, and returns when both are done. Two members,
 * or all members of a ring, exchange messages of any size this way without a deadlock. The two
 * tensors must not overlap. The peers may use any send and receive. `source` may be
 * TUTTI_ANY_SOURCE; `ret_source` may be NULL. If both fail, the receive's error is returned.
 * Semantics: MPI_Sendrecv, with receives of exact size.
 */
TUTTI_API tutti_status tutti_sendrecv(tutti_group *group, const tutti_tensor *send,
                                      int32_t destination, uint64_t send_tag,
                                      const tutti_tensor *recv, int32_t source, uint64_t recv_tag,
                                      const tutti_options *options, int32_t *ret_source);

enum { TUTTI_P2P_SEND = 1, TUTTI_P2P_RECV = 2, TUTTI_P2P_RECV_UP_TO = 3 };

/** One operation of tutti_batch_isend_irecv(). Members are only appended; zero them. */
typedef struct tutti_p2p_op {
    int32_t kind;               /* TUTTI_P2P_… */
    int32_t peer;               /* destination, or source; a receive takes TUTTI_ANY_SOURCE */
    uint64_t tag;               /* as in tutti_send() */
    const tutti_tensor *tensor; /* the descriptor is read during the call only */
} tutti_p2p_op;

/**
 * Starts `count` sends and receives in the order of the array, as if by tutti_isend() and
 * tutti_irecv(), with no call of another thread in between. They may be in any order: the call does
 * not wait.
 *
 * op_size    sizeof(tutti_p2p_op).
 * options    for each of them.
 * ret_works  [count], in the order of `ops`; the caller frees each.
 *
 * All are checked before any is started. An error means that none was started, and
 * tutti_last_error() names the index. A later failure is the status of its work. Semantics: torch.distributed.batch_isend_irecv.
 */
TUTTI_API tutti_status tutti_batch_isend_irecv(tutti_group *group, const tutti_p2p_op *ops,
                                               uint32_t op_size, uint32_t count,
                                               const tutti_options *options,
                                               tutti_work **ret_works);

#ifdef __cplusplus
}
#endif
#endif
