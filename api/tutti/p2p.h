/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point to point. Messages with the same (group, source, destination, tag) match in the order sent
 * and posted; nothing else is ordered, and neither sends, receives nor collectives wait for each
 * other. Deadlines count from the call.
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

#define TUTTI_ANY_SOURCE (-1)

/**
 * Sends `tensor` to rank `destination` (not the caller's own) under `tag` (0 .. 2^62-1).
 * Returns when the tensor may be reused: small messages are buffered, large ones wait for the
 * receive. Errors: INVALID_ARGUMENT, TIMEOUT, PEER_LOST, ABORTED, and those of a failed group.
 * Semantics: torch.distributed.send; MPI_Send.
 */
TUTTI_API tutti_status tutti_send(tutti_group *group, const tutti_tensor *tensor,
                                  int32_t destination, uint64_t tag, const tutti_options *options);

/**
 * Receives into `tensor` from rank `source` or TUTTI_ANY_SOURCE. The message must have exactly the
 * tensor's bytes: another size is TUTTI_ERR_MISMATCH for this call alone, naming both sizes, and
 * the message is dropped. `ret_source` may be NULL.
 * Semantics: torch.distributed.recv; MPI_Recv.
 */
TUTTI_API tutti_status tutti_recv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                                  uint64_t tag, const tutti_options *options, int32_t *ret_source);

/** As tutti_send(), without waiting; the tensor must not change until the work is complete. */
TUTTI_API tutti_status tutti_isend(tutti_group *group, const tutti_tensor *tensor,
                                   int32_t destination, uint64_t tag, const tutti_options *options,
                                   tutti_work **ret_work);

/** As tutti_recv(), without waiting; tutti_work_source() tells the source afterwards. */
TUTTI_API tutti_status tutti_irecv(tutti_group *group, const tutti_tensor *tensor, int32_t source,
                                   uint64_t tag, const tutti_options *options,
                                   tutti_work **ret_work);

#ifdef __cplusplus
}
#endif
#endif
