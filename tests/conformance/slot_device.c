/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors on a GPU, by the library that TUTTI_CUDA names. Ranks fill in and compare elements in pinned memory. Before a
 * call the copy to the device is put on the stream that the call is told, and nothing waits for it; the elements come
 * back when the call is complete. For a work that is at once, for any other call it is when the stream is done.
 */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/random.h"
#include "conformance/slot.h"
#include "harness/gpu.h"
#include "harness/rank.h"

enum {
    WAITING = STREAMS - 1, /* the stream that waits for works, and orders no call */
    LINE = 64
};

/* Each rank has other delays. */
static void set_delays(void)
{
    const char *seed = getenv("STANDIN_CUDA_SEED");
    char words[32];

    snprintf(words, sizeof words, "%d", (seed ? atoi(seed) : 1) * MEMBERS_MAX + run.rank);
    setenv("STANDIN_CUDA_SEED", words, 1);
}

const char *devices_open(void)
{
    static char name[16];

    set_delays();
    require(gpu_count() > 0);
    gpu_use(run.rank % gpu_count());
    for (int i = 1; i < STREAMS; i++)
        run.streams[i] = gpu_stream();
    snprintf(name, sizeof name, "cuda:%d", gpu_device().id);
    return name;
}

void buffer_allocate(struct buffer *buffer)
{
    if (buffer->kind == MEMORY_HOST) {
        buffer->memory = aligned_alloc(LINE, buffer->room);
        require(buffer->memory != NULL);
        return;
    }
    buffer->memory = gpu_allocate_pinned(buffer->room);
    if (buffer->kind == MEMORY_DEVICE)
        buffer->on_device = gpu_allocate(buffer->room);
    else if (buffer->kind == MEMORY_MANAGED)
        buffer->on_device = gpu_allocate_managed(buffer->room);
}

void buffer_free(struct buffer *buffer)
{
    if (buffer->on_device)
        gpu_free(buffer->on_device);
    if (buffer->kind == MEMORY_HOST)
        free(buffer->memory);
    else
        gpu_free_pinned(buffer->memory);
}

void *buffer_address(const struct buffer *buffer, unsigned char *at)
{
    return buffer->on_device ? buffer->on_device + (at - buffer->memory) : at;
}

tutti_device buffer_device(const struct buffer *buffer)
{
    tutti_device device = {.type = TUTTI_DEVICE_CPU};

    if (buffer->kind == MEMORY_DEVICE)
        device = gpu_device();
    else if (buffer->kind == MEMORY_MANAGED)
        device.type = TUTTI_DEVICE_CUDA_MANAGED;
    else if (buffer->kind == MEMORY_PINNED)
        device.type = TUTTI_DEVICE_CUDA_HOST;
    return device;
}

bool slot_has_stream(const struct slot *slot)
{
    bool has = slot->in.kind != MEMORY_HOST;

    for (int i = 0; i < slot->outs; i++)
        has = has || slot->out[i].kind != MEMORY_HOST;
    return has;
}

static void upload(const struct slot *slot, struct buffer *buffer)
{
    if (buffer->on_device && !buffer->is_there)
        gpu_copy_on(slot->stream, buffer->on_device, buffer->memory, buffer->room);
    buffer->is_there = buffer->on_device;
}

void slot_upload(struct slot *slot)
{
    upload(slot, &slot->in);
    for (int i = 0; i < slot->outs; i++)
        upload(slot, &slot->out[i]);
}

void slot_wait_on_stream(const struct slot *slot, struct part *part)
{
    const bool is_on_device = slot->in.on_device || (slot->outs && slot->out[0].on_device);

    if (!is_on_device || random_below(&run.state, 4))
        return;
    slot_must(slot, tutti_work_wait_stream(part->work, run.streams[WAITING]), "wait_stream");
    gpu_synchronize(run.streams[WAITING]);
}

static void download(const struct buffer *buffer)
{
    if (buffer->on_device)
        gpu_read(buffer->memory, buffer->on_device, buffer->room);
}

void slot_download(struct slot *slot)
{
    const bool is_complete =
        slot->facts.way == WAY_ASYNC && !(slot->options.flags & TUTTI_WAITS_NEXT);

    if (!is_complete && slot_has_stream(slot))
        gpu_synchronize(slot->stream);
    download(&slot->in);
    for (int i = 0; i < slot->outs; i++)
        download(&slot->out[i]);
}

void slot_place_factor(const struct slot *slot, tutti_tensor *factor)
{
    const size_t bytes = (size_t)factor->shape[0] * slot->call.element;

    if (!slot->call.devices || random_below(&run.state, 2))
        return;
    void *on_device = gpu_allocate(bytes);

    gpu_write(on_device, factor->data, bytes);
    factor->data = on_device;
    factor->device = gpu_device();
}

void slot_free_factor(const tutti_tensor *factor)
{
    if (factor->device.type == TUTTI_DEVICE_CUDA)
        gpu_free(factor->data);
}
