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

/* Takes the place of a MAC: others' differ, and that is all. */
static inline void plain_mac(uint8_t token, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    uint64_t state = UINT64_C(0xcbf29ce484222325) ^ token;

    for (uint64_t i = 0; i < bytes + 32; i++) {
        state ^= i < bytes ? ((const uint8_t *)data)[i] : token;
        state *= UINT64_C(0x100000001b3);
        if (i >= bytes)
            ret_mac[i - bytes] = (uint8_t)(state >> 56);
    }
}

/* No option is set. */
static inline const char *plain_config(void *self, const char *key)
{
    (void)self;
    (void)key;
    return NULL;
}
