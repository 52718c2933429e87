/* SPDX-License-Identifier: Apache-2.0 */
/* A result of NCCL that is none of success, in words. */
#pragma once

#include <stddef.h>

#include "library.h"

/* The last error of NCCL in this process, on one line; "": it tells none. It may be of an earlier call. */
void failure_words(const struct nccl_library *nccl, char *ret_words, size_t capacity);
/* That `what` has failed with `result`. PEER_LOST where a connection has ended: the control plane knows which member
 * was lost. */
tutti_status failure_tell(const struct caller *caller, const struct nccl_library *nccl,
                          const char *what, ncclResult_t result);
