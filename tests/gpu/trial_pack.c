/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/trials.h"
#include "tensor/layout.h"

enum { DIMENSIONS = 6, EXTENT = 5, ROUNDS = 400, ROOM = 1 << 17, UNTOUCHED = 0x5a };

static const tutti_dtype moved[] = {TUTTI_BITS8, TUTTI_BITS16, TUTTI_BITS32, TUTTI_BITS64,
                                    TUTTI_BITS128};

/* A tensor inside `room`, and what the core makes of it. */
struct strided {
    tutti_tensor tensor;
    struct tensor_size size;
    struct tensor_view view;
    int64_t shape[DIMENSIONS], strides[DIMENSIONS];
};

static unsigned char room[ROOM], packed[ROOM], got[ROOM];
static uint64_t seed = 7;

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(seed >> 33) % limit;
}

/* Dimensions in any order of their steps, with gaps, from either end. */
static bool make(struct strided *s)
{
    int order[DIMENSIONS];
    int64_t step = 1, first = 0;

    memset(s, 0, sizeof *s);
    s->tensor = (tutti_tensor){.device = {TUTTI_DEVICE_CPU, 0},
                               .ndim = (int32_t)below(DIMENSIONS + 1),
                               .dtype = moved[below(5)],
                               .shape = s->shape,
                               .strides = s->strides};
    for (int i = 0; i < s->tensor.ndim; i++) {
        const int at = (int)below((uint32_t)i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < s->tensor.ndim; i++) {
        const int64_t extent = below(8) ? 1 + (int64_t)below(EXTENT) : 16;

        step *= below(3) ? 1 : 1 + (int64_t)below(3);
        s->shape[order[i]] = extent;
        s->strides[order[i]] = below(4) ? step : -step;
        if (s->strides[order[i]] < 0)
            first += step * (extent - 1);
        step *= extent;
    }
    const size_t element = tutti_dtype_size(s->tensor.dtype);
    if ((uint64_t)step * element > ROOM / 2)
        return false;
    s->tensor.data = room + (below(2) ? 0 : below(32)) + (size_t)first * element;
    if (tensor_measure(&s->tensor, &s->size))
        return false;
    tensor_view(&s->tensor, &s->size, &s->view);
    return true;
}

static int report(const struct strided *s, const char *what, size_t at)
{
    fprintf(stderr, "%s: byte %zu differs; %d dimensions of elements of %u bytes:", what, at,
            s->view.dimensions, s->view.element_bytes);
    for (int i = 0; i < s->view.dimensions; i++)
        fprintf(stderr, " %lld*%lld", (long long)s->view.dimension[i].extent,
                (long long)s->view.dimension[i].stride);
    fputc('\n', stderr);
    return 1;
}

static int compare(const struct strided *s, const char *what, const unsigned char *want,
                   size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (want[i] != got[i])
            return report(s, what, i);
    return 0;
}

static void run(const struct runner *runner, const struct strided *s, unsigned char *device_room,
                unsigned char *device_packed, uint64_t begin, uint64_t count, bool unpack)
{
    int64_t extent[TENSOR_DIMENSIONS], stride[TENSOR_DIMENSIONS];
    struct kernel_view view = {.first = device_room + (s->view.first - (char *)room),
                               .element_bytes = s->view.element_bytes,
                               .dimensions = (uint32_t)s->view.dimensions,
                               .extent = extent,
                               .stride = stride};
    struct kernel_pack k;
    struct kernel_id id;

    for (int i = 0; i < s->view.dimensions; i++) {
        extent[i] = s->view.dimension[i].extent;
        stride[i] = s->view.dimension[i].stride;
    }
    kernel_find_pack(&view, device_packed, begin, count, unpack, &k, &id);
    runner->run(&id, &k, count * view.element_bytes);
}

static int trial(const struct runner *runner, const struct strided *s, unsigned char *device_room,
                 unsigned char *device_packed)
{
    const uint64_t element = s->view.element_bytes, all = s->size.count;
    const uint64_t begin = below(2) ? 0 : below((uint32_t)all),
                   count = below(2) ? all - begin : 1 + below((uint32_t)(all - begin));
    const size_t shift = below(2) ? 0 : below(16);
    int differences = 0;

    for (size_t i = 0; i < ROOM; i++)
        room[i] = (unsigned char)below(256);
    runner->put(device_room, room, ROOM);
    memset(packed, UNTOUCHED, ROOM);
    runner->put(device_packed, packed, ROOM);
    run(runner, s, device_room, device_packed + shift, begin, count, false);
    tensor_pack(&s->view, packed + shift);
    memmove(packed + shift, packed + shift + begin * element, count * element);
    memset(packed + shift + count * element, UNTOUCHED, ROOM - shift - count * element);
    runner->get(got, device_packed, ROOM);
    differences += compare(s, "pack", packed, ROOM);

    /* Back: what is in the piece changes, all else stays. */
    for (size_t i = 0; i < count * element; i++)
        packed[shift + i] ^= 0xff;
    runner->put(device_packed, packed, ROOM);
    run(runner, s, device_room, device_packed + shift, begin, count, true);
    memmove(packed + begin * element, packed + shift, count * element);
    tensor_pack(&s->view, got);
    memcpy(got + begin * element, packed + begin * element, count * element);
    tensor_unpack(&s->view, got);
    runner->get(got, device_room, ROOM);
    return differences + compare(s, "unpack", room, ROOM);
}

int trial_pack(const struct runner *runner)
{
    unsigned char *device_room = runner->allocate(ROOM), *device_packed = runner->allocate(ROOM);
    int differences = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct strided s;

        if (make(&s))
            differences += trial(runner, &s, device_room, device_packed);
    }
    return differences;
}

int trial_pack_far(const struct runner *runner)
{
    enum { COLUMNS = 3, COUNT = 1000 };
    unsigned char *device_room = runner->allocate(ROOM), *device_packed = runner->allocate(ROOM);
    /* Rows of one place, so many that their number does not fit in 32 bits. */
    const int64_t extent[] = {INT64_C(1) << 33, COLUMNS},
                  stride[] = {0, 2 * (int64_t)sizeof(uint32_t)};
    const struct kernel_view view = {device_room, sizeof(uint32_t), 2, extent, stride};
    const uint64_t begin = (UINT64_C(1) << 34) + 5;
    uint32_t numbers[2 * COLUMNS], results[COUNT];
    struct kernel_pack k;
    struct kernel_id id;

    for (uint32_t i = 0; i < 2 * COLUMNS; i++)
        numbers[i] = 1000 + i;
    runner->put(device_room, numbers, sizeof numbers);
    kernel_find_pack(&view, device_packed, begin, COUNT, false, &k, &id);
    runner->run(&id, &k, sizeof results);
    runner->get(results, device_packed, sizeof results);
    for (uint64_t i = 0; i < COUNT; i++)
        if (results[i] != numbers[2 * ((begin + i) % COLUMNS)]) {
            fprintf(stderr, "pack: element %llu of %llu differs\n", (unsigned long long)(begin + i),
                    (unsigned long long)extent[0] * COLUMNS);
            return 1;
        }
    return 0;
}
