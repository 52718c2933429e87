/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin cuda over the stand-in of CUDA's driver, without a core: a test plays the host. The program under test
 * may use the same driver beside the plugin.
 */
#pragma once

#include <stdbool.h>

#include <tutti/plugin_device.h>
#include <tutti/tensor.h>

#include "standin/cuda_more.h"

struct bench {
    const tutti_device_ops *ops;
    tutti_driver *driver;
    tutti_accelerator *accelerator; /* device 0 */
    void *stream;
};

/* The driver's functions, as the test calls them: driver.cuInit(0). */
struct driver {
#define DRIVER_CALL(name, arguments) CUresult(*name) arguments;
    DRIVER_FUNCTIONS(DRIVER_CALL)
    MORE_FUNCTIONS(DRIVER_CALL)
#undef DRIVER_CALL
};

/* A variable of the stand-in, before it is opened. */
void bench_set(const char *name, const char *value);
/* The plugin's table; opens the driver with `bench_open_driver`, whose status it returns. */
const tutti_device_ops *bench_table(void);
tutti_status bench_open_driver(struct bench *ret_bench);
/* All of it; a failure ends the test. */
struct bench bench_open(void);
void bench_close(struct bench *bench);
/* The same library as the plugin's. */
struct driver bench_driver(void);

/* The words of the last failure, and whether they have all of these; NULL ends them. */
const char *bench_words(void);
void bench_expect_words(const char *first, ...) __attribute__((sentinel));

/* Asks the event until it is done or has failed. */
tutti_status bench_wait(const struct bench *bench, tutti_device_event *event);
/* The same for what lies on a stream. */
tutti_status bench_finish(const struct bench *bench, void *stream);
