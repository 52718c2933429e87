/* SPDX-License-Identifier: Apache-2.0 */
/* Host services that need no core: for programs that play the core to a plugin, `tutti check` and
 * the tests. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline int64_t plain_now_ns(void *self)
{
    struct timespec now;

    (void)self;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void plain_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

/* No option is set. */
static inline const char *plain_config(void *self, const char *key)
{
    (void)self;
    (void)key;
    return NULL;
}
