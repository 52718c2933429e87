/* SPDX-License-Identifier: Apache-2.0 */
/* A device provider on its bench: opened, with a device attached, a stream, and memory to work with. */
#pragma once

#include <tutti/plugin_device.h>

#include "check/check.h"

enum { BENCH_WAIT_MS = 10000 };

struct bench {
    const tutti_device_ops *ops;
    tutti_driver *driver;
    tutti_accelerator *accelerator;
    void *stream; /* of stream_create */
};

/* The provider's table; ends the process when there is none. */
const tutti_device_ops *bench_ops(const struct check_subject *subject);
/* The host that providers get, which keeps their last message. */
extern const tutti_host bench_host;
const char *bench_says(tutti_status status);
/* As bench_says(), of a failure that must have a message: clears the last one. */
void bench_forget(void);
void bench_expect_words(const char *what, tutti_status status, tutti_status wanted);

/* Skips the check without a driver or a device. */
struct bench bench_open(const struct check_subject *subject);
void bench_close(struct bench *bench);

/* Ends the check if `status` is a failure of `what`. */
void bench_expect(tutti_status status, const char *what);

void *bench_allocate(const struct bench *bench, uint32_t kind, uint64_t bytes);
void bench_release(const struct bench *bench, uint32_t kind, void *memory);

/* Waits until all work on `stream` is done. */
void bench_wait(const struct bench *bench, void *stream);
void bench_wait_event(const struct bench *bench, tutti_device_event *event);

/* Between host memory of any kind and the device's, by pinned memory of its own; waits. */
void bench_put(const struct bench *bench, void *device, const void *from, uint64_t bytes);
void bench_get(const struct bench *bench, const void *device, void *to, uint64_t bytes);

/* Calls a function that must not wait; the parent ends the check if it does. */
#define BENCH_NOW(function, ...)                                                                   \
    __extension__({                                                                                \
        check_enters(#function);                                                                   \
        const tutti_status bench_status = bench->ops->function(__VA_ARGS__);                       \
        check_leaves();                                                                            \
        bench_expect(bench_status, #function);                                                     \
    })
