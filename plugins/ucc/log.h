/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of UCC and of the UCX under it go to tutti's log instead of stdout. */
#pragma once

#include "library.h"

/* One that lines may go to: while it is in the list, and no older one is. */
struct log_listener {
    struct log_listener *next;
    struct caller caller;
};

/* Lines may come from any thread until log_leave() has returned. */
void log_join(struct log_listener *listener, const struct caller *caller);
void log_leave(struct log_listener *listener);

/* Takes the lines over from the libraries. Once they have read their configuration; under the engine's lock. */
void log_push(const struct ucc_library *ucc);
