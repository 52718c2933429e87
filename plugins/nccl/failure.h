/* SPDX-License-Identifier: Apache-2.0 */
/* A result of NCCL that is none of success, in words. */
#pragma once

#include "library.h"

/* That `what` has failed with `result`. PEER_LOST where a connection has ended: the control plane knows which member
 * was lost. */
tutti_status failure_tell(const struct caller *caller, const struct nccl_library *nccl,
                          const char *what, ncclResult_t result);
