/* SPDX-License-Identifier: Apache-2.0
 *
 * Order: streams, events, the legacy stream, words that streams wait for, functions of the host.
 */
#include "driver_cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

void an_event_that_was_never_recorded_is_complete(void)
{
    CUevent never = driver_event();
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);

    OK(cu.cuEventQuery(never));
    OK(cu.cuEventSynchronize(never));
    OK(cu.cuStreamWaitEvent(stream, never, 0));
    CHECK(driver_is_reached(driver_work(stream)));
}

void an_event_is_complete_when_its_stream_is_there(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;

    driver_hold(stream);
    event = driver_mark(stream);
    CHECK(driver_is_held(event));
    EXPECT(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    driver_release();
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuEventQuery(event));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamQuery(stream));
}

void a_wait_takes_the_record_at_the_time_of_its_call(void)
{
    CUstream waits = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream records = driver_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = driver_mark(records), later;

    OK(cu.cuStreamSynchronize(records));
    OK(cu.cuStreamWaitEvent(waits, event, 0));
    driver_hold(records);
    OK(cu.cuEventRecord(event, records));
    CHECK(driver_is_reached(driver_work(waits)));
    OK(cu.cuStreamWaitEvent(waits, event, 0));
    OK(cu.cuEventDestroy_v2(event));
    later = driver_work(waits);
    CHECK(driver_is_held(later));
    driver_release();
    CHECK(driver_is_reached(later));
}

void a_destroyed_stream_completes_its_work(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = driver_memory(4);
    CUevent event;

    OK(cu.cuMemsetD32_v2(memory, 1, 1));
    driver_hold(stream);
    OK(cu.cuMemsetD32Async(memory, 7, 1, stream));
    event = driver_mark(stream);
    OK(cu.cuStreamDestroy_v2(stream));
    CHECK(driver_is_held(event));
    driver_release();
    CHECK(driver_is_reached(event));
    CHECK(driver_word(memory) == 7);
}

void the_legacy_stream_waits_for_blocking_streams(void)
{
    CUstream blocking = driver_stream(CU_STREAM_DEFAULT);
    CUstream other = driver_stream(CU_STREAM_DEFAULT);
    CUstream free_one = driver_stream(CU_STREAM_NON_BLOCKING);
    CUevent legacy, behind, beside;

    driver_hold(blocking);
    legacy = driver_work(NULL);
    behind = driver_work(other);
    beside = driver_work(free_one);
    CHECK(driver_is_reached(beside));
    CHECK(driver_is_held(legacy));
    CHECK(driver_is_held(behind));
    EXPECT(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    EXPECT(cu.cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    driver_release();
    CHECK(driver_is_reached(legacy));
    CHECK(driver_is_reached(behind));
}

void blocking_streams_wait_for_the_legacy_stream(void)
{
    CUstream blocking = driver_stream(CU_STREAM_DEFAULT);
    CUstream free_one = driver_stream(CU_STREAM_NON_BLOCKING);
    CUevent behind, thread, beside;

    driver_hold(NULL);
    behind = driver_work(blocking);
    thread = driver_work(CU_STREAM_PER_THREAD);
    beside = driver_work(free_one);
    CHECK(driver_is_reached(beside));
    CHECK(driver_is_held(behind));
    CHECK(driver_is_held(thread));
    driver_release();
    CHECK(driver_is_reached(behind));
    CHECK(driver_is_reached(thread));
}

void the_legacy_stream_does_not_wait_for_non_blocking_ones(void)
{
    CUstream free_one = driver_stream(CU_STREAM_NON_BLOCKING);

    driver_hold(free_one);
    CHECK(driver_is_reached(driver_work(NULL)));
    OK(cu.cuStreamSynchronize(NULL));
    driver_release();
    OK(cu.cuCtxSynchronize());
}

static void *mark_own_stream(void *ret_event)
{
    CUcontext context;

    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    *(CUevent *)ret_event = driver_work(CU_STREAM_PER_THREAD);
    OK(cu.cuCtxPopCurrent_v2(&context));
    return NULL;
}

void each_thread_has_a_stream_of_its_own(void)
{
    CUevent mine, other = NULL;
    pthread_t thread;

    driver_hold(CU_STREAM_PER_THREAD);
    mine = driver_work(CU_STREAM_PER_THREAD);
    CHECK(pthread_create(&thread, NULL, mark_own_stream, &other) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(driver_is_reached(other));
    CHECK(driver_is_held(mine));
    driver_release();
    CHECK(driver_is_reached(mine));
}

void streams_wait_for_words_as_their_flags_say(void)
{
    static const struct {
        unsigned flags;
        uint32_t value, before, after;
    } rows[] = {
        {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5},
        {CU_STREAM_WAIT_VALUE_GEQ, 5, 3, 9},
        {CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffff0, 2}, /* cyclic */
        {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 0xffffffe0, 3},
        {WAIT_VALUE_EQ, 5, 6, 5},
        {WAIT_VALUE_AND, 6, 9, 2},
        {WAIT_VALUE_NOR, 0xfffffff0, 0xf, 0x7},
    };
    uint32_t *word = driver_pinned(sizeof *word);
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUevent event;

        __atomic_store_n(word, rows[i].before, __ATOMIC_SEQ_CST);
        OK(cu.cuStreamWaitValue32_v2(stream, at(word), rows[i].value, rows[i].flags));
        event = driver_mark(stream);
        CHECK(driver_is_held(event));
        __atomic_store_n(word, rows[i].after, __ATOMIC_SEQ_CST);
        CHECK(driver_is_reached(event));
    }
}

void words_are_in_device_pinned_and_registered_memory(void)
{
    static uint64_t registered __attribute__((aligned(4096)));
    static int pageable;
    uint64_t *word = driver_pinned(sizeof *word);
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr places[] = {driver_memory(8), at(word), at(&registered)}, managed;

    OK(cu.cuMemHostRegister_v2(&registered, sizeof registered, 0));
    OK(cu.cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
    for (int i = 0; i < 3; i++) {
        OK(cu.cuStreamWriteValue64_v2(stream, places[i], UINT64_C(1) << 40, 0));
        OK(cu.cuStreamWaitValue64_v2(stream, places[i], UINT64_C(1) << 40, WAIT_VALUE_EQ));
        OK(cu.cuStreamWriteValue32_v2(stream, places[i], 9, 0));
        OK(cu.cuStreamWaitValue32_v2(stream, places[i], 9, WAIT_VALUE_EQ));
        CHECK(driver_is_reached(driver_mark(stream)));
    }
    CHECK(*word == (UINT64_C(1) << 40) + 9);
    EXPECT(cu.cuStreamWaitValue32_v2(stream, managed, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuStreamWaitValue32_v2(stream, at(&pageable), 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuStreamWaitValue32_v2(stream, at(word) + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuStreamWriteValue32_v2(stream, at(&pageable), 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemHostUnregister(&registered));
}

struct asks {
    CUevent event;
    CUstream stream;
    CUresult of_event, of_stream, allocate;
    int ran;
};

static void ask_the_driver(void *argument)
{
    struct asks *asks = argument;
    CUdeviceptr memory;

    asks->of_event = cu.cuEventQuery(asks->event);
    asks->of_stream = cu.cuStreamQuery(asks->stream);
    asks->allocate = cu.cuMemAlloc_v2(&memory, 64);
    asks->ran++;
}

void host_functions_run_in_order_and_may_only_ask(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = driver_stream(CU_STREAM_NON_BLOCKING);
    struct asks asks = {.event = driver_mark(other), .stream = other};

    OK(cu.cuStreamSynchronize(other));
    driver_hold(stream);
    OK(cu.cuLaunchHostFunc(stream, ask_the_driver, &asks));
    usleep(20000);
    CHECK(__atomic_load_n(&asks.ran, __ATOMIC_SEQ_CST) == 0);
    driver_release();
    OK(cu.cuStreamSynchronize(stream));
    CHECK(asks.ran == 1);
    CHECK(asks.of_event == CUDA_SUCCESS);
    CHECK(asks.of_stream == CUDA_SUCCESS);
    CHECK(asks.allocate == CUDA_ERROR_NOT_PERMITTED);
    EXPECT(cu.cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

struct overlap {
    int inside, most;
};

static void look_for_overlap(void *argument)
{
    struct overlap *overlap = argument;
    int inside = __atomic_add_fetch(&overlap->inside, 1, __ATOMIC_SEQ_CST);

    if (inside > overlap->most)
        overlap->most = inside;
    usleep(20000);
    __atomic_sub_fetch(&overlap->inside, 1, __ATOMIC_SEQ_CST);
}

void host_functions_of_all_streams_run_one_by_one(void)
{
    struct overlap overlap = {0, 0};

    for (int i = 0; i < 4; i++)
        OK(cu.cuLaunchHostFunc(driver_stream(CU_STREAM_NON_BLOCKING), look_for_overlap, &overlap));
    OK(cu.cuCtxSynchronize());
    CHECK(overlap.most == 1);
}

struct flood {
    CUstream stream;
    CUcontext context;
    CUdeviceptr memory;
    int put;
};

static void *flood(void *argument)
{
    struct flood *all = argument;

    OK(cu.cuCtxPushCurrent_v2(all->context));
    for (int i = 0; i < 3000; i++) {
        OK(cu.cuMemsetD32Async(all->memory, 1, 1, all->stream));
        __atomic_add_fetch(&all->put, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* A caller that must not wait has to keep count. */
void a_waiting_stream_takes_a_bounded_number_of_commands(void)
{
    struct flood all = {driver_stream(CU_STREAM_NON_BLOCKING), NULL, driver_memory(4), 0};
    pthread_t thread;
    int before = -1, now = 0;

    OK(cu.cuCtxGetCurrent(&all.context));
    driver_hold(all.stream);
    CHECK(pthread_create(&thread, NULL, flood, &all) == 0);
    while (now != before || now < 256) {
        before = now;
        usleep(300000);
        now = __atomic_load_n(&all.put, __ATOMIC_SEQ_CST);
    }
    CHECK(now < 3000);
    driver_release();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cu.cuStreamSynchronize(all.stream));
}

/* CUDA does not see what a word orders, and streams share its hardware queues. */
void streams_that_wait_for_words_take_all_queues(void)
{
    CUstream other;
    CUevent event;
    int tries = 0;

    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
    driver_begin();
    other = driver_stream(CU_STREAM_NON_BLOCKING);
    driver_hold(driver_stream(CU_STREAM_NON_BLOCKING));
    CHECK(driver_is_reached(driver_work(other)));
    driver_hold(driver_stream(CU_STREAM_NON_BLOCKING));
    do {
        event = driver_work(other); /* runs as long as the second stream has not come to its wait */
    } while (!driver_is_held(event) && ++tries < 100);
    CHECK(tries < 100);
    driver_release();
    CHECK(driver_is_reached(event));
}

void elapsed_time_needs_two_records_with_times(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUevent never = driver_event(), start = driver_mark(stream), end, none;
    float ms = -1;

    OK(cu.cuEventCreate(&none, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventRecord(none, stream));
    OK(cu.cuStreamSynchronize(stream));
    EXPECT(cu.cuEventElapsedTime(&ms, start, never), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cu.cuEventElapsedTime(&ms, start, none), CUDA_ERROR_INVALID_HANDLE);
    driver_hold(stream);
    end = driver_mark(stream);
    EXPECT(cu.cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
    usleep(20000);
    driver_release();
    CHECK(driver_is_reached(end));
    OK(cu.cuEventElapsedTime(&ms, start, end));
    CHECK(ms > 15 && ms < 20000);
}

void streams_say_their_flags_priority_and_context(void)
{
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING), wrong;
    CUcontext mine, its;
    unsigned flags = 9;
    int least = 9, greatest = 9, priority = 9;

    OK(cu.cuCtxGetCurrent(&mine));
    OK(cu.cuStreamGetFlags(stream, &flags));
    CHECK(flags == CU_STREAM_NON_BLOCKING);
    OK(cu.cuStreamGetCtx(stream, &its));
    CHECK(its == mine);
    OK(cu.cuStreamGetCtx(NULL, &its));
    CHECK(its == mine);
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 90));
    OK(cu.cuStreamGetPriority(stream, &priority));
    CHECK(priority == greatest);
    EXPECT(cu.cuStreamCreate(&wrong, 8), CUDA_ERROR_INVALID_VALUE);
}
