/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of UCX that programs started by exec would inherit. UCX opens most of its own without O_CLOEXEC. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PORTS_MAX = 16 };

/* Ports on which UCX listens. */
struct listening {
    uint16_t ports[PORTS_MAX];
    size_t count;
};

struct descriptors {
    int *list;
    size_t count;
};

/* Notes which descriptors are open, before a call that makes UCX open some. */
void inherited_begin(struct descriptors *before);
/* After it: the new ones of the kinds that UCX opens become close-on-exec. Adds the ports of those that listen
 * to `listening`, which may be NULL. */
void inherited_end(struct descriptors *before, struct listening *listening);

/* UCX's thread accepts connections at any time. Those of these ports become close-on-exec. */
void inherited_accepted(const struct listening *listening);
