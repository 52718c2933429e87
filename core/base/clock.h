/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds, and deadlines as points of it. */
#pragma once

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_MS INT64_C(1000000)
#define CLOCK_NS_PER_S INT64_C(1000000000)

static inline int64_t clock_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * CLOCK_NS_PER_S + t.tv_nsec;
}

/* The point `ms` from now; saturates, so a huge time-out means «never». */
static inline int64_t clock_deadline_ms(int64_t ms)
{
    int64_t now = clock_now_ns();

    return ms > (INT64_MAX - now) / CLOCK_NS_PER_MS ? INT64_MAX : now + ms * CLOCK_NS_PER_MS;
}

/* The time left until `deadline_ns` for poll(2): 0 when it has passed, rounded up, at most
 * `cap`. */
static inline int clock_left_ms(int64_t deadline_ns, int cap)
{
    int64_t left = deadline_ns - clock_now_ns();

    if (left <= 0)
        return 0;
    left = (left - 1) / CLOCK_NS_PER_MS + 1;
    return left > cap ? cap : (int)left;
}
