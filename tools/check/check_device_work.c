/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a device's streams: copies, events, words and packing. Where the provider can let a stream wait for a
 * word, the stream is held by one, and every function that must not wait is called meanwhile.
 */
#include "check/check_device.h"

#include <string.h>

#include <tutti/tensor.h>

enum { BYTES = 1 << 20, SHIFT = 7, STEPS = 200, THREADS = 4, HELD_MS = 300, SIDE = 33 };

static void fill(uint8_t *bytes, uint64_t count, unsigned seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(i * 131 + seed * 29 + i / 251);
}

static void expect_bytes(const char *what, const uint8_t *is, const uint8_t *should, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (is[i] != should[i])
            check_fails("%s: byte %llu of %llu is 0x%02x instead of 0x%02x", what,
                        (unsigned long long)i, (unsigned long long)count, is[i], should[i]);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Host to device, within the device, and back, each from and to an address that is a multiple of nothing. */
static void try_copies(const struct bench *bench, uint64_t bytes)
{
    uint8_t *one = bench_allocate(bench, TUTTI_MEMORY_DEVICE, bytes + SHIFT);
    uint8_t *other = bench_allocate(bench, TUTTI_MEMORY_DEVICE, bytes + SHIFT);
    uint8_t *pinned = bench_allocate(bench, TUTTI_MEMORY_PINNED, bytes + SHIFT);
    g_autofree uint8_t *sent = g_malloc(bytes + 1);

    check_doing("copying %llu bytes", (unsigned long long)bytes);
    fill(sent, bytes, (unsigned)bytes);
    memcpy(pinned + SHIFT, sent, bytes);
    BENCH_NOW(copy, bench->accelerator, bench->stream, one + 3, pinned + SHIFT, bytes);
    BENCH_NOW(copy, bench->accelerator, bench->stream, other + 1, one + 3, bytes);
    bench_wait(bench, bench->stream);
    memset(pinned, 0, bytes + SHIFT);
    BENCH_NOW(copy, bench->accelerator, bench->stream, pinned, other + 1, bytes);
    bench_wait(bench, bench->stream);
    expect_bytes("a copy to the device and back", pinned, sent, bytes);
    bench_release(bench, TUTTI_MEMORY_DEVICE, one);
    bench_release(bench, TUTTI_MEMORY_DEVICE, other);
    bench_release(bench, TUTTI_MEMORY_PINNED, pinned);
}

void check_device_copies(const struct check_member *member)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 15, 64, 1000, 4097, BYTES, 3 * BYTES + 5};
    struct bench bench = bench_open(member->subject);

    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
        try_copies(&bench, sizes[i]);
    bench_close(&bench);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Each step copies what the step before it has written, on another stream. */
static void try_order(const struct bench *bench)
{
    uint8_t *memory = bench_allocate(bench, TUTTI_MEMORY_DEVICE, (STEPS + 1) * sizeof(uint64_t));
    uint64_t value = UINT64_C(0x1122334455667788), last = 0;
    void *streams[3] = {bench->stream, NULL, NULL};
    tutti_device_event *event;

    check_doing("ordering three streams by an event");
    bench_expect(bench->ops->stream_create(bench->accelerator, &streams[2]), "stream_create");
    bench_expect(bench->ops->event_create(bench->accelerator, &event), "event_create");
    bench_put(bench, memory, &value, sizeof value);
    for (int step = 0; step < STEPS; step++) {
        void *stream = streams[step % 3];
        uint8_t *at = memory + (size_t)step * sizeof value;

        BENCH_NOW(event_wait, event, bench->accelerator, stream);
        BENCH_NOW(copy, bench->accelerator, stream, at + sizeof value, at, sizeof value);
        BENCH_NOW(event_record, event, stream);
    }
    bench_wait_event(bench, event);
    bench_get(bench, memory + STEPS * sizeof value, &last, sizeof last);
    if (last != value)
        check_fails("%d copies on three streams, each behind an event of the one before: the last "
                    "has 0x%llx instead of 0x%llx",
                    STEPS, (unsigned long long)last, (unsigned long long)value);
    bench->ops->event_free(event);
    bench->ops->stream_free(bench->accelerator, streams[2]);
    bench_release(bench, TUTTI_MEMORY_DEVICE, memory);
}

static void expect_flags(const struct bench *bench, const char *what, void *stream)
{
    uint32_t flags = 99;

    BENCH_NOW(stream_check, bench->accelerator, stream, &flags);
    if (flags)
        check_fails("stream_check of %s says 0x%x; nothing captures it", what, flags);
}

void check_device_streams(const struct check_member *member)
{
    struct bench here = bench_open(member->subject), *bench = &here;
    tutti_device_event *event;

    expect_flags(bench, "a stream of stream_create", bench->stream);
    expect_flags(bench, "the legacy stream", NULL);
    bench_expect(bench->ops->event_create(bench->accelerator, &event), "event_create");
    if (bench->ops->event_query(event))
        check_fails("an event that was never recorded has not passed");
    bench->ops->event_free(event);
    bench->ops->event_free(NULL);
    try_order(bench);
    bench_close(bench);
}

/* ---- a word ---------------------------------------------------------------------------------- */

/* Everything that must not wait, on a stream that is held. */
static void work_meanwhile(const struct bench *bench, uint8_t *device, uint8_t *pinned,
                           tutti_device_event *event)
{
    const tutti_device_view view = {.struct_size = sizeof view,
                                    .element_bytes = 4,
                                    .first = device,
                                    .dimensions = 1,
                                    .extent = {16},
                                    .stride = {8}};
    tutti_memory_place place = {.struct_size = sizeof place};
    tutti_device_reduction sum = {.struct_size = sizeof sum,
                                  .dtype = TUTTI_F32,
                                  .op = TUTTI_SUM,
                                  .dst = device + 512,
                                  .first = device + 512,
                                  .rest = device + 1024,
                                  .count = 8,
                                  .operands = 2};
    const float factor = 2;
    uint32_t flags;

    BENCH_NOW(copy, bench->accelerator, bench->stream, device, pinned, 4096);
    BENCH_NOW(pack, bench->accelerator, bench->stream, device + 2048, &view, 0, 16);
    BENCH_NOW(unpack, bench->accelerator, bench->stream, &view, device + 2048, 0, 16);
    BENCH_NOW(reduce, bench->accelerator, bench->stream, &sum);
    BENCH_NOW(scale, bench->accelerator, bench->stream, TUTTI_F32, device + 512, device + 512, 8,
              &factor, 0);
    BENCH_NOW(stream_check, bench->accelerator, bench->stream, &flags);
    BENCH_NOW(locate, bench->driver, device, &place);
    BENCH_NOW(event_record, event, bench->stream);
}

static void open_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* A word opens by a value that is larger, also where the count has gone around. */
static void try_word(const struct bench *bench, uint32_t from, uint32_t value, uint32_t opens)
{
    uint32_t *word = bench_allocate(bench, TUTTI_MEMORY_PINNED, 4096);
    uint8_t *device = bench_allocate(bench, TUTTI_MEMORY_DEVICE, 4096);
    uint8_t *pinned = bench_allocate(bench, TUTTI_MEMORY_PINNED, 4096);
    tutti_device_event *event;

    bench_expect(bench->ops->event_create(bench->accelerator, &event), "event_create");
    open_word(word, from);
    fill(pinned, 4096, value);
    check_enters("wait_word");
    const tutti_status status =
        bench->ops->wait_word(bench->accelerator, bench->stream, word, value);
    check_leaves();
    if (status == TUTTI_ERR_UNSUPPORTED)
        check_skips("device 0 cannot let a stream wait for a word");
    bench_expect(status, "wait_word");
    work_meanwhile(bench, device, pinned, event);
    for (int ms = 0; ms < HELD_MS; ms += 10) {
        if (bench->ops->event_query(event) != TUTTI_ERR_NOT_READY)
            check_fails("a stream goes on although the word that it waits for is %u, and not %u "
                        "or more",
                        from, value);
        g_usleep(10000);
    }
    open_word(word, opens);
    bench_wait_event(bench, event);
    bench->ops->event_free(event);
    bench_release(bench, TUTTI_MEMORY_PINNED, pinned);
    bench_release(bench, TUTTI_MEMORY_PINNED, word);
    bench_release(bench, TUTTI_MEMORY_DEVICE, device);
}

void check_device_word(const struct check_member *member)
{
    struct bench here = bench_open(member->subject), *bench = &here;

    if (!TUTTI_HAS(bench->ops, wait_word))
        check_skips("it has no wait_word");
    check_doing("letting a stream wait for a word");
    if (TUTTI_HAS(bench->ops, prepare)) {
        bench_expect(bench->ops->prepare(bench->accelerator, 0), "prepare");
        bench_expect(bench->ops->prepare(bench->accelerator, TUTTI_F32), "prepare");
    }
    try_word(bench, 0, 1, 1);
    try_word(bench, 5, 9, 10);
    try_word(bench, UINT32_MAX - 1, 1, 1);
    bench_close(bench);
}

/* ---- packing --------------------------------------------------------------------------------- */

struct shape {
    const char *words;
    uint32_t dimensions;
    int64_t extent[4], step[4]; /* in elements */
    int64_t first;              /* the element whose indices are all 0 */
};

static const struct shape shapes[] = {
    {"one element", 0, {0}, {0}, 3},
    {"every second element", 1, {SIDE}, {2}, 0},
    {"a reversed vector", 1, {SIDE}, {-1}, SIDE - 1},
    {"a transposed matrix", 2, {SIDE, SIDE + 4}, {1, SIDE}, 0},
    {"columns of a matrix", 2, {SIDE, 5}, {SIDE + 1, 1}, 7},
    {"a permuted cube", 3, {5, 7, 9}, {1, 45, 5}, 0},
    {"four dimensions, one reversed", 4, {3, 4, 5, 6}, {1, 120, -20, 3}, 100},
};

/* Element `k` in row-major order, in elements of the memory. */
static uint64_t place_of(const struct shape *shape, uint64_t k)
{
    int64_t at = shape->first;

    for (uint32_t i = shape->dimensions; i-- > 0; k /= (uint64_t)shape->extent[i])
        at += (int64_t)(k % (uint64_t)shape->extent[i]) * shape->step[i];
    return (uint64_t)at;
}

static tutti_device_view view_of(const struct shape *shape, uint8_t *memory, uint32_t element)
{
    tutti_device_view view = {.struct_size = sizeof view,
                              .element_bytes = element,
                              .first = memory + shape->first * element,
                              .dimensions = shape->dimensions};

    for (uint32_t i = 0; i < shape->dimensions; i++) {
        view.extent[i] = shape->extent[i];
        view.stride[i] = shape->step[i] * element;
    }
    return view;
}

/* Both ways, in pieces of `piece` elements. `kind`: of the packed memory. */
static void try_shape(const struct bench *bench, const struct shape *shape, uint32_t element,
                      uint64_t piece, uint32_t kind)
{
    enum { ELEMENTS = SIDE * (SIDE + 5) };
    const uint64_t bytes = ELEMENTS * (uint64_t)element;
    uint8_t *memory = bench_allocate(bench, TUTTI_MEMORY_DEVICE, bytes);
    uint8_t *packed = bench_allocate(bench, kind, bytes);
    g_autofree uint8_t *before = g_malloc(bytes), *after = g_malloc(bytes);
    g_autofree uint8_t *should = g_malloc(bytes);
    const tutti_device_view view = view_of(shape, memory, element);
    uint64_t count = 1;

    for (uint32_t i = 0; i < shape->dimensions; i++)
        count *= (uint64_t)shape->extent[i];
    check_doing("packing %s of %u bytes", shape->words, element);
    fill(before, bytes, element);
    bench_put(bench, memory, before, bytes);
    for (uint64_t at = 0; at < count; at += piece)
        BENCH_NOW(pack, bench->accelerator, bench->stream, packed + at * element, &view, at,
                  MIN(piece, count - at));
    bench_get(bench, packed, after, count * element);
    for (uint64_t k = 0; k < count; k++)
        memcpy(should + k * element, before + place_of(shape, k) * element, element);
    expect_bytes(shape->words, after, should, count * element);

    fill(after, bytes, element + 1);
    bench_put(bench, packed, after, count * element);
    for (uint64_t at = 0; at < count; at += piece)
        BENCH_NOW(unpack, bench->accelerator, bench->stream, &view, packed + at * element, at,
                  MIN(piece, count - at));
    for (uint64_t k = 0; k < count; k++)
        memcpy(before + place_of(shape, k) * element, after + k * element, element);
    bench_get(bench, memory, after, bytes);
    expect_bytes(shape->words, after, before, bytes);
    bench_release(bench, TUTTI_MEMORY_DEVICE, memory);
    bench_release(bench, kind, packed);
}

void check_device_packing(const struct check_member *member)
{
    struct bench bench = bench_open(member->subject);
    tutti_device_view view = {.struct_size = sizeof view, .element_bytes = 3};

    for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
        for (uint32_t element = 1; element <= 16; element *= 2) {
            try_shape(&bench, &shapes[i], element, UINT64_MAX, TUTTI_MEMORY_DEVICE);
            try_shape(&bench, &shapes[i], element, 101, TUTTI_MEMORY_PINNED);
        }
    bench_forget();
    bench_expect_words("pack of elements of 3 bytes",
                       bench.ops->pack(bench.accelerator, bench.stream, NULL, &view, 0, 1),
                       TUTTI_ERR_INVALID_ARGUMENT);
    bench_close(&bench);
}

/* ---- threads --------------------------------------------------------------------------------- */

static gpointer work_in_thread(gpointer user)
{
    struct bench own = *(const struct bench *)user;

    bench_expect(own.ops->stream_create(own.accelerator, &own.stream), "stream_create");
    for (uint64_t bytes = 1; bytes < BYTES; bytes *= 3)
        try_copies(&own, bytes);
    for (size_t i = 0; i < G_N_ELEMENTS(shapes); i++)
        try_shape(&own, &shapes[i], 4, 57, TUTTI_MEMORY_DEVICE);
    own.ops->stream_free(own.accelerator, own.stream);
    return NULL;
}

void check_device_threads(const struct check_member *member)
{
    struct bench bench = bench_open(member->subject);
    GThread *threads[THREADS];

    check_doing("working in %d threads at once", THREADS);
    for (int i = 0; i < THREADS; i++)
        threads[i] = g_thread_new("check", work_in_thread, &bench);
    for (int i = 0; i < THREADS; i++)
        g_thread_join(threads[i]);
    bench_close(&bench);
}
