/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin cuda says when something is missing or breaks: each fault of the stand-in, and its words. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/bench.h"

TestSuite(cuda_faults, .timeout = 60);

enum { BYTES = 4096 };

/* ---- no driver --- */

Test(cuda_faults, a_host_without_a_driver_is_told_what_to_do)
{
    struct bench bench;

    bench_set("TUTTI_CUDA", "/nonexistent/libcuda.so.1");
    cr_expect_eq(bench_open_driver(&bench), TUTTI_ERR_PLUGIN);
    bench_expect_words("no CUDA driver: /nonexistent/libcuda.so.1", "Install NVIDIA's driver",
                       "docker run --gpus all", NULL);
}

Test(cuda_faults, a_library_that_is_no_driver_is_named)
{
    struct bench bench;

    bench_set("TUTTI_CUDA", "libm.so.6");
    cr_expect_eq(bench_open_driver(&bench), TUTTI_ERR_PLUGIN);
    bench_expect_words("libm.so.6 has no function cu", "CUDA 11.7 or later", NULL);
}

Test(cuda_faults, a_driver_without_devices_opens_and_has_none)
{
    struct bench bench;
    tutti_driver_info info = {.struct_size = sizeof info};

    bench_set("STANDIN_CUDA_DEVICES", "0");
    bench_set("CUDA_VISIBLE_DEVICES", "7");
    cr_assert_eq(bench_open_driver(&bench), TUTTI_OK, "%s", bench_words());
    cr_assert_eq(bench.ops->describe(bench.driver, &info), TUTTI_OK);
    cr_expect_eq(info.device_count, 0U);
    cr_expect_eq(bench.ops->attach(bench.driver, 0, &bench.accelerator),
                 TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("no CUDA device 0", "this process has none",
                       "CUDA_VISIBLE_DEVICES is set to 7", NULL);
    bench.ops->close(bench.driver);
}

Test(cuda_faults, a_device_number_that_is_too_large_names_those_there_are)
{
    struct bench bench;
    tutti_accelerator *none;

    bench_set("STANDIN_CUDA_DEVICES", "4");
    cr_assert_eq(bench_open_driver(&bench), TUTTI_OK);
    cr_expect_eq(bench.ops->attach(bench.driver, 4, &none), TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("no CUDA device 4", "the devices 0 to 3", NULL);
    bench.ops->close(bench.driver);
}

/* ---- memory --- */

static void expect_no_memory(uint32_t kind, const char *words)
{
    struct bench bench;
    void *memory = &bench;

    bench_set("STANDIN_CUDA_OOM_AT", "1");
    bench = bench_open();
    cr_expect_eq(bench.ops->allocate(bench.accelerator, kind, 12345, &memory), TUTTI_ERR_NO_MEMORY);
    bench_expect_words("device 0 (", "allocating 12345 bytes of", words, "CUDA_ERROR_OUT_OF_MEMORY",
                       "nvidia-smi", NULL);
    cr_expect_eq(memory, &bench, "an output was written by a failure");
    bench_close(&bench);
}

Test(cuda_faults, device_memory_that_is_exhausted_is_told)
{
    expect_no_memory(TUTTI_MEMORY_DEVICE, "device memory");
}

Test(cuda_faults, pinned_memory_that_is_exhausted_is_told)
{
    expect_no_memory(TUTTI_MEMORY_PINNED, "pinned host memory");
}

/* ---- a device that is lost --- */

/* Each function says so, and none of those that free crashes or hangs. */
static void expect_lost(struct bench *bench, const char *name)
{
    tutti_device_event *event = NULL;
    void *memory;
    float factor[2] = {1, 1};

    cr_expect_eq(bench->ops->allocate(bench->accelerator, TUTTI_MEMORY_DEVICE, BYTES, &memory),
                 TUTTI_ERR_SYSTEM);
    bench_expect_words("device 0 (", name, "restart it", NULL);
    cr_expect_eq(bench->ops->event_create(bench->accelerator, &event), TUTTI_ERR_SYSTEM);
    bench_expect_words(name, NULL);
    cr_expect_eq(bench->ops->copy(bench->accelerator, bench->stream, &factor[0], &factor[1], 4),
                 TUTTI_ERR_SYSTEM);
    bench_expect_words("copying 4 bytes", name, NULL);
    cr_expect_eq(bench->ops->prepare(bench->accelerator, TUTTI_F64), TUTTI_ERR_SYSTEM);
    bench_expect_words(name, NULL);
}

Test(cuda_faults, work_on_a_lost_device_fails_in_words_everywhere)
{
    struct bench bench;
    void *device, *pinned;
    tutti_device_event *event;

    bench_set("STANDIN_CUDA_LOST_AT", "2");
    bench = bench_open();
    cr_assert_eq(bench.ops->event_create(bench.accelerator, &event), TUTTI_OK);
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_DEVICE, BYTES, &device),
                 TUTTI_OK);
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_PINNED, BYTES, &pinned),
                 TUTTI_OK);
    cr_expect_eq(bench.ops->copy(bench.accelerator, bench.stream, device, pinned, BYTES), TUTTI_OK);
    (void)bench.ops->copy(bench.accelerator, bench.stream, pinned, device, BYTES);
    (void)bench.ops->event_record(event, bench.stream);
    cr_expect_eq(bench_wait(&bench, event), TUTTI_ERR_SYSTEM);
    bench_expect_words("device 0 (", "work on a stream failed", "CUDA_ERROR_LAUNCH_FAILED",
                       "restart it", NULL);
    expect_lost(&bench, "CUDA_ERROR_LAUNCH_FAILED");
    bench.ops->event_free(event);
    bench.ops->release(bench.accelerator, TUTTI_MEMORY_DEVICE, device);
    bench.ops->release(bench.accelerator, TUTTI_MEMORY_PINNED, pinned);
    bench_close(&bench);
}

Test(cuda_faults, a_copy_that_fails_late_is_told_by_its_event)
{
    struct bench bench;
    void *device, *pinned;

    bench_set("STANDIN_CUDA_LATE_COPY", "1");
    bench = bench_open();
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_DEVICE, BYTES, &device),
                 TUTTI_OK);
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_PINNED, BYTES, &pinned),
                 TUTTI_OK);
    cr_expect_eq(bench.ops->copy(bench.accelerator, bench.stream, device, pinned, BYTES), TUTTI_OK);
    cr_expect_eq(bench_finish(&bench, bench.stream), TUTTI_ERR_SYSTEM);
    bench_expect_words("CUDA_ERROR_ECC_UNCORRECTABLE", "restart it", NULL);
    bench_close(&bench);
}

/* A word that nobody opens holds its stream until then. */
Test(cuda_faults, a_stream_that_waits_ends_when_its_device_is_lost)
{
    char path[] = "/tmp/tutti-lost-XXXXXX";
    struct bench bench;
    void *word;
    tutti_device_event *event;
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    unlink(path);
    close(file);
    bench_set("STANDIN_CUDA_LOST_FILE", path);
    bench = bench_open();
    cr_assert_eq(bench.ops->event_create(bench.accelerator, &event), TUTTI_OK);
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_PINNED, BYTES, &word),
                 TUTTI_OK);
    *(uint32_t *)word = 0;
    cr_assert_eq(bench.ops->wait_word(bench.accelerator, bench.stream, word, 1), TUTTI_OK);
    cr_assert_eq(bench.ops->event_record(event, bench.stream), TUTTI_OK);
    cr_expect_eq(bench.ops->event_query(event), TUTTI_ERR_NOT_READY);
    FILE *lost = fopen(path, "w");
    cr_assert_not_null(lost);
    fclose(lost);
    cr_expect_eq(bench_wait(&bench, event), TUTTI_ERR_SYSTEM);
    unlink(path);
    bench.ops->event_free(event);
    bench_close(&bench);
}
