/* SPDX-License-Identifier: Apache-2.0 */
/* UCP contexts and workers, with the settings of TUTTI_UCX_..., without effects on the rest of the process. */
#pragma once

#include "../common/inherited.h"
#include "library.h"

/* One for all endpoints of the process with the same settings; nearly always there is one. */
struct ucx_context {
    const struct ucx_library *library;
    ucp_context_h ucp; /* features: UCP_FEATURE_TAG and UCP_FEATURE_WAKEUP */
    unsigned users;
    struct listening listening; /* of its workers */
    bool may_leave_posix;       /* it has the transport posix, and not since the user asks for it */
    struct ucx_context *next;
    char settings[]; /* that it was made with */
};

/*
 * Opens the library and makes the context, or takes the one that is there. `bind_address`: as in
 * tutti_endpoint_options; UCX's sockets listen on its interface only, if TUTTI_UCX_NET_DEVICES says
 * nothing else. Fails in words, also if an option is not valid or no transport is left. UCX's log lines
 * may go to caller->host until context_close().
 */
tutti_status context_open(const struct caller *caller, const char *bind_address,
                          struct ucx_context **ret_context);

/* With the caller of context_open(). The last one's call frees the context; its workers are destroyed by then. */
void context_close(const struct caller *caller, struct ucx_context *context);

/*
 * A worker for one thread at a time (UCS_THREAD_MODE_SERIALIZED). All signals are blocked in UCX's own
 * thread, and its descriptors are close-on-exec. Free it with library->ucp_worker_destroy. NOT_READY, without a
 * message: UCX cannot use /dev/shm, and the next context_open() gives a context that does without.
 */
tutti_status context_worker(const struct caller *caller, struct ucx_context *context,
                            ucp_worker_h *ret_worker);
