/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin cuda beside a program that uses the driver itself: its contexts, streams and captures, and several
 * devices. What the functions do is tried by `tutti check` (test_cuda_check.c).
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "cuda/bench.h"

TestSuite(cuda_plugin, .timeout = 60);

enum { BYTES = 4096 };

/* ---- the current context --- */

static struct driver driver;
static CUcontext own; /* of the test; NULL: none is current */

static void expect_own(const char *after)
{
    CUcontext current = (CUcontext)&driver;

    cr_assert_eq(driver.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    cr_assert_eq(current, own, "%s has changed the current context", after);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const tutti_status tried = (call);                                                         \
        cr_assert_eq(tried, TUTTI_OK, "%s: %s", #call, bench_words());                             \
        expect_own(#call);                                                                         \
    } while (0)
#define TRY_VOID(call)                                                                             \
    do {                                                                                           \
        call;                                                                                      \
        expect_own(#call);                                                                         \
    } while (0)

static void try_work(const struct bench *bench, void *device, void *pinned)
{
    const tutti_device_ops *ops = bench->ops;
    tutti_accelerator *a = bench->accelerator;
    const tutti_device_view view = {.struct_size = sizeof view,
                                    .element_bytes = 4,
                                    .first = device,
                                    .dimensions = 1,
                                    .extent = {8},
                                    .stride = {8}};
    const tutti_device_reduction sum = {.struct_size = sizeof sum,
                                        .dtype = TUTTI_F32,
                                        .op = TUTTI_SUM,
                                        .dst = device,
                                        .first = device,
                                        .rest = (char *)device + 512,
                                        .count = 16,
                                        .operands = 2};
    const float factor = 2;

    TRY(ops->prepare(a, 0));
    TRY(ops->prepare(a, TUTTI_F32));
    TRY(ops->copy(a, bench->stream, device, pinned, BYTES));
    TRY(ops->copy(a, NULL, device, pinned, BYTES));
    TRY(ops->pack(a, bench->stream, (char *)device + 1024, &view, 0, 8));
    TRY(ops->unpack(a, bench->stream, &view, (char *)device + 1024, 0, 8));
    TRY(ops->reduce(a, bench->stream, &sum));
    TRY(ops->scale(a, bench->stream, TUTTI_F32, device, device, 16, &factor, 0));
}

static void try_all(void)
{
    struct bench bench;
    tutti_accelerator_info info = {.struct_size = sizeof info};
    tutti_driver_info found = {.struct_size = sizeof found};
    tutti_memory_place place = {.struct_size = sizeof place};
    tutti_device_event *event;
    void *device, *pinned, *managed;
    uint32_t flags;

    TRY(bench_open_driver(&bench));
    TRY(bench.ops->describe(bench.driver, &found));
    TRY(bench.ops->device(bench.driver, 0, &info));
    TRY(bench.ops->attach(bench.driver, 0, &bench.accelerator));
    TRY(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_DEVICE, BYTES, &device));
    TRY(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_PINNED, BYTES, &pinned));
    TRY(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_MANAGED, BYTES, &managed));
    TRY(bench.ops->locate(bench.driver, device, &place));
    TRY(bench.ops->stream_create(bench.accelerator, &bench.stream));
    TRY(bench.ops->stream_check(bench.accelerator, bench.stream, &flags));
    TRY(bench.ops->event_create(bench.accelerator, &event));
    *(uint32_t *)pinned = 1;
    TRY(bench.ops->wait_word(bench.accelerator, bench.stream, pinned, 1));
    try_work(&bench, device, pinned);
    TRY(bench.ops->event_record(event, bench.stream));
    TRY(bench.ops->event_wait(event, bench.accelerator, NULL));
    TRY(bench_wait(&bench, event));
    TRY(bench_finish(&bench, NULL));
    TRY_VOID(bench.ops->event_free(event));
    TRY_VOID(bench.ops->stream_free(bench.accelerator, bench.stream));
    TRY_VOID(bench.ops->release(bench.accelerator, TUTTI_MEMORY_DEVICE, device));
    TRY_VOID(bench.ops->release(bench.accelerator, TUTTI_MEMORY_PINNED, pinned));
    TRY_VOID(bench.ops->release(bench.accelerator, TUTTI_MEMORY_MANAGED, managed));
    TRY_VOID(bench.ops->detach(bench.accelerator));
    TRY_VOID(bench.ops->close(bench.driver));
}

Test(cuda_plugin, no_function_changes_the_programs_current_context)
{
    bench_set("STANDIN_CUDA_DEVICES", "2");
    driver = bench_driver();
    cr_assert_eq(driver.cuCtxCreate_v2(&own, 0, 1), CUDA_SUCCESS);
    try_all();
}

Test(cuda_plugin, a_thread_without_a_context_has_none_afterwards)
{
    driver = bench_driver();
    own = NULL;
    try_all();
}

Test(cuda_plugin, failures_leave_the_current_context_alone)
{
    struct bench bench = bench_open();
    void *memory;
    uint32_t flags;

    driver = bench_driver();
    cr_assert_eq(driver.cuCtxCreate_v2(&own, 0, 0), CUDA_SUCCESS);
    cr_expect_eq(
        bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_DEVICE, UINT64_C(1) << 50, &memory),
        TUTTI_ERR_NO_MEMORY);
    expect_own("a failed allocation");
    CUstream stream;
    cr_assert_eq(driver.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    cr_expect_eq(bench.ops->stream_check(bench.accelerator, stream, &flags),
                 TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("context of the program's own", "device 0", "primary context", NULL);
    expect_own("a refused stream");
    bench_close(&bench);
    expect_own("the end");
}

Test(cuda_plugin, memory_of_a_context_of_the_programs_own_is_refused)
{
    struct bench bench = bench_open();
    tutti_memory_place place = {.struct_size = sizeof place};
    CUcontext popped;
    CUdeviceptr memory;

    driver = bench_driver();
    cr_assert_eq(driver.cuCtxCreate_v2(&own, 0, 0), CUDA_SUCCESS);
    cr_assert_eq(driver.cuMemAlloc_v2(&memory, BYTES), CUDA_SUCCESS);
    cr_expect_eq(bench.ops->locate(bench.driver, (void *)(uintptr_t)memory, &place),
                 TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("memory of a context of the program's own", "device 0", "primary context",
                       NULL);
    expect_own("refused memory");
    cr_assert_eq(driver.cuMemFree_v2(memory), CUDA_SUCCESS);
    cr_assert_eq(driver.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    bench_close(&bench);
}

Test(cuda_plugin, an_address_is_told_with_the_bytes_of_its_allocation_behind_it)
{
    struct bench bench = bench_open();
    tutti_memory_place place = {.struct_size = sizeof place};
    char here, *memory;
    static const uint32_t kinds[] = {TUTTI_MEMORY_DEVICE, TUTTI_MEMORY_PINNED,
                                     TUTTI_MEMORY_MANAGED};

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(bench.ops->allocate(bench.accelerator, kinds[i], BYTES, (void **)&memory),
                     TUTTI_OK);
        cr_assert_eq(bench.ops->locate(bench.driver, memory + 8, &place), TUTTI_OK);
        cr_expect_eq(place.kind, kinds[i]);
        cr_expect_eq(place.bytes, BYTES - 8);
        bench.ops->release(bench.accelerator, kinds[i], memory);
    }
    cr_assert_eq(bench.ops->locate(bench.driver, &here, &place), TUTTI_OK);
    cr_expect_eq(place.bytes, 0);
    bench_close(&bench);
}

/* ---- streams of the program --- */

Test(cuda_plugin, a_stream_of_another_device_is_refused_by_name)
{
    struct bench bench;
    CUcontext other, popped;
    CUstream stream;
    uint32_t flags;

    bench_set("STANDIN_CUDA_DEVICES", "3");
    bench = bench_open();
    driver = bench_driver();
    cr_assert_eq(driver.cuDevicePrimaryCtxRetain(&other, 2), CUDA_SUCCESS);
    cr_assert_eq(driver.cuCtxPushCurrent_v2(other), CUDA_SUCCESS);
    cr_assert_eq(driver.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    cr_assert_eq(driver.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    cr_expect_eq(bench.ops->stream_check(bench.accelerator, stream, &flags),
                 TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("the stream is one of device 2", "device 0 (", NULL);
    bench_close(&bench);
}

static uint32_t flags_of(const struct bench *bench, void *stream)
{
    uint32_t flags = 99;

    cr_assert_eq(bench->ops->stream_check(bench->accelerator, stream, &flags), TUTTI_OK, "%s",
                 bench_words());
    return flags;
}

Test(cuda_plugin, the_default_stream_of_a_thread_is_told)
{
    struct bench bench = bench_open();

    cr_expect_eq(flags_of(&bench, CU_STREAM_PER_THREAD), (uint32_t)TUTTI_STREAM_OF_THREAD);
    cr_expect_eq(flags_of(&bench, CU_STREAM_LEGACY), 0U);
    cr_expect_eq(flags_of(&bench, NULL), 0U);
    bench_close(&bench);
}

/* ---- captures --- */

/* In mode GLOBAL the driver refuses most of this, and ends the capture. */
static void work_beside_a_capture(const struct bench *bench)
{
    void *device, *pinned;

    cr_assert_eq(bench->ops->allocate(bench->accelerator, TUTTI_MEMORY_DEVICE, BYTES, &device),
                 TUTTI_OK, "%s", bench_words());
    cr_assert_eq(bench->ops->allocate(bench->accelerator, TUTTI_MEMORY_PINNED, BYTES, &pinned),
                 TUTTI_OK, "%s", bench_words());
    cr_expect_eq(bench->ops->prepare(bench->accelerator, TUTTI_I32), TUTTI_OK, "%s", bench_words());
    cr_expect_eq(bench->ops->copy(bench->accelerator, bench->stream, device, pinned, BYTES),
                 TUTTI_OK, "%s", bench_words());
    cr_expect_eq(bench_finish(bench, bench->stream), TUTTI_OK, "%s", bench_words());
    bench->ops->release(bench->accelerator, TUTTI_MEMORY_DEVICE, device);
    bench->ops->release(bench->accelerator, TUTTI_MEMORY_PINNED, pinned);
}

Test(cuda_plugin, a_capture_is_told_and_is_not_spoiled)
{
    struct bench bench = bench_open();
    CUcontext primary, popped;
    CUstream stream;
    CUgraph graph = NULL;

    driver = bench_driver();
    cr_assert_eq(driver.cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    cr_assert_eq(driver.cuCtxPushCurrent_v2(primary), CUDA_SUCCESS);
    cr_assert_eq(driver.cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    cr_assert_eq(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 CUDA_SUCCESS);
    cr_expect_eq(flags_of(&bench, stream),
                 (uint32_t)(TUTTI_STREAM_CAPTURING | TUTTI_STREAM_RECORDS));
    cr_expect_eq(flags_of(&bench, NULL), (uint32_t)TUTTI_STREAM_CAPTURING);
    cr_expect_eq(flags_of(&bench, bench.stream), 0U);
    work_beside_a_capture(&bench);
    CUresult end = driver.cuStreamEndCapture(stream, &graph);
    cr_expect_eq(end, CUDA_SUCCESS, "the plugin has spoiled the capture: %d", (int)end);
    cr_expect_eq(flags_of(&bench, stream), 0U);
    cr_assert_eq(driver.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    bench_close(&bench);
}

/* ---- several devices --- */

Test(cuda_plugin, devices_are_told_apart_and_ordered_by_events)
{
    struct bench bench;
    tutti_accelerator *other;
    tutti_accelerator_info info[2] = {{.struct_size = sizeof info[0]},
                                      {.struct_size = sizeof info[0]}};
    tutti_memory_place place = {.struct_size = sizeof place};
    tutti_device_event *event;
    void *memory;

    bench_set("STANDIN_CUDA_DEVICES", "2");
    bench = bench_open();
    cr_assert_eq(bench.ops->attach(bench.driver, 1, &other), TUTTI_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(bench.ops->device(bench.driver, i, &info[i]), TUTTI_OK);
    cr_expect_neq(memcmp(info[0].uuid, info[1].uuid, sizeof info[0].uuid), 0);
    cr_assert_eq(bench.ops->allocate(other, TUTTI_MEMORY_DEVICE, BYTES, &memory), TUTTI_OK);
    cr_assert_eq(bench.ops->locate(bench.driver, memory, &place), TUTTI_OK);
    cr_expect_eq(place.device, 1);
    cr_assert_eq(bench.ops->event_create(bench.accelerator, &event), TUTTI_OK);
    cr_assert_eq(bench.ops->event_record(event, bench.stream), TUTTI_OK);
    cr_expect_eq(bench.ops->event_wait(event, other, NULL), TUTTI_OK, "%s", bench_words());
    bench.ops->event_free(event);
    bench.ops->release(other, TUTTI_MEMORY_DEVICE, memory);
    bench.ops->detach(other);
    bench_close(&bench);
}

Test(cuda_plugin, a_device_attached_twice_stays_until_both_are_detached)
{
    struct bench one = bench_open(), two = bench_open();

    bench_close(&one);
    cr_expect_eq(bench_finish(&two, two.stream), TUTTI_OK, "%s", bench_words());
    bench_close(&two);
}

/* Of four queues two are left to work that does not wait. */
Test(cuda_plugin, more_waiting_streams_than_queues_are_refused)
{
    enum { STREAMS = 3 };
    void *streams[STREAMS], *memory;

    bench_set("CUDA_DEVICE_MAX_CONNECTIONS", "4");
    struct bench bench = bench_open();
    cr_assert_eq(bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_PINNED, BYTES, &memory),
                 TUTTI_OK);
    _Atomic uint32_t *word = memory;
    atomic_store(word, 0);
    for (int i = 0; i < STREAMS; i++)
        cr_assert_eq(bench.ops->stream_create(bench.accelerator, &streams[i]), TUTTI_OK);
    for (uint32_t value = 1; value < 4; value++) /* one stream counts once */
        for (int i = 0; i < 2; i++)
            cr_expect_eq(bench.ops->wait_word(bench.accelerator, streams[i], memory, value),
                         TUTTI_OK);
    cr_expect_eq(bench.ops->wait_word(bench.accelerator, streams[2], memory, 1),
                 TUTTI_ERR_UNSUPPORTED);
    bench_expect_words("2 streams of device 0", "CUDA_DEVICE_MAX_CONNECTIONS", NULL);
    atomic_store(word, 3);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(bench_finish(&bench, streams[i]), TUTTI_OK);
    cr_expect_eq(bench.ops->wait_word(bench.accelerator, streams[2], memory, 3), TUTTI_OK);
    cr_expect_eq(bench_finish(&bench, streams[2]), TUTTI_OK);
    for (int i = 0; i < STREAMS; i++)
        bench.ops->stream_free(bench.accelerator, streams[i]);
    bench.ops->release(bench.accelerator, TUTTI_MEMORY_PINNED, memory);
    bench_close(&bench);
}
