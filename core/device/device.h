/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that tensors lie on, by the plugins that drive them (tutti/plugin_device.h).
 *
 * A device is opened by the first call that names it, and stays open as long as the process: streams,
 * events and pinned memory are kept for the next call. Functions that say so may block in the driver, so
 * they are called without the progress lock; the others put work on a stream or look at something.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin_device.h>
#include <tutti/tensor.h>

#include "tensor/packed.h"

struct device;

/* ---- device.c ---- */

/* Which device a process was told to use. */
struct device_choice {
    int32_t type;   /* TUTTI_DEVICE_…; 0: none was named */
    int32_t number; /* -1: none */
};

/* The type whose memory a tensor of `type` (without TUTTI_DEVICE_READ_ONLY) lies in, as CUDA for its managed memory.
 * 0: host memory, pinned or not, or no device that tutti knows. */
int32_t device_type_of(int32_t type);
/* "cuda:1", "cuda". INVALID_ARGUMENT with `source`, where it was given, before the message. */
tutti_status device_parse(const char *source, const char *words, struct device_choice *ret_choice);
/* The choice of this process: `option`, tutti_init_options.device, else TUTTI_DEVICE, else none. */
tutti_status device_resolve(const char *option, struct device_choice *ret_choice);

/* Whether there are devices of that type, and one with the number, unless it is negative. May block. */
tutti_status device_look_for(int32_t type, int32_t number);

/* What tells a device from others, without opening it. */
struct device_facts {
    int32_t number;
    int32_t count;      /* of the devices of its type that this process sees */
    char uuid_text[64]; /* the same in every process that sees it, and no other device's */
};
/* The device that device_open() would open. May block. */
tutti_status device_describe(int32_t type, int32_t number, int local_rank,
                             struct device_facts *ret_facts);

/* The name of the driver, of those that are open, which knows the memory: it is a device's, or its pages are pinned.
 * NULL: none does. May block. */
const char *device_knowing(const void *address, uint64_t bytes);

/* Opens device `number` of that type; a negative one: that for the process with `local_rank`, which is the
 * local rank modulo the number of devices. May block. */
tutti_status device_open(int32_t type, int32_t number, int local_rank, struct device **ret_device);

int32_t device_type(const struct device *device);
int32_t device_number(const struct device *device);
/* "GPU-5b8e…": as its make's tools print it. */
const char *device_uuid(const struct device *device);
/* "cuda:1" */
const char *device_name(const struct device *device);

/* For engines that work on the device. */
const tutti_device_ops *device_ops(const struct device *device);
tutti_accelerator *device_accelerator(const struct device *device);
const uint8_t *device_uuid_bytes(const struct device *device);

/* Whether the tensor's memory is where it says, and on this device. */
tutti_status device_check_place(struct device *device, const tutti_tensor *tensor,
                                const struct tensor_size *size, const char *what);

/* Whether all of [at, at + bytes) is the device's own memory, neither managed nor another device's; bytes: not 0. */
tutti_status device_check_range(struct device *device, const void *at, uint64_t bytes);

/* Whether work may be put on the caller's stream: UNSUPPORTED while it is captured. */
tutti_status device_check_stream(struct device *device, void *stream);
/* The same for work that any thread may put there, and that may go into a graph: *ret_captured. UNSUPPORTED where the
 * handle means another stream to each thread, and where the work would only spoil a capture. */
tutti_status device_check_recording(struct device *device, void *stream, bool *ret_captured);

/* ---- mark.c ---- */

/* A point on a stream. None of these waits. */
struct device_mark;

/* Behind all that is on the stream now. */
tutti_status device_mark(struct device *device, void *stream, struct device_mark **ret_mark);
/* OK: the stream has passed it. NOT_READY, or what failed on the device. */
tutti_status device_mark_passed(const struct device_mark *mark);
/* Later work on another stream waits until this one has passed it. */
tutti_status device_mark_wait(const struct device_mark *mark, void *stream);
/* The same mark for one user more; of its users one at a time calls this and frees it. */
struct device_mark *device_mark_share(struct device_mark *mark);
/* Frees it with its last user; NULL is allowed. */
void device_mark_free(struct device_mark *mark);

/* ---- standin.c ---- */

/* A call's tensor that its operation uses by a stand-in in pinned memory. */
struct device_tensor {
    const tutti_tensor *tensor;
    const struct tensor_size *size;
    const char *what; /* "the tensor" */
    enum tensor_use use;
    void *stream; /* of the caller */
    uint32_t
        parts; /* in which operations work at once (pieces_cut()); 0: they take all of it as a whole */
    bool later; /* contiguous: it gets its memory by device_stand_in_now() */
};

/* Adds it to the list: what the operation reads is on its way, behind what lies on the stream. NOT_READY, without a
 * message: calls use as much pinned memory as they may (TUTTI_PINNED_MIB), and nothing was done. May block. */
tutti_status device_stand_in(struct device *device, const struct device_tensor *tensor,
                             struct packed **list, void **ret_data);
/* The tensor's first byte, and that of its stand-in; NULL: it has no memory yet. `packed` is the one entry of a list of
 * device_stand_in(). */
void *device_tensor_memory(struct packed *packed);
void *device_stand_in_memory(struct packed *packed);
/* Gives it memory, and begins the copy of what is read, whose stream has come to the call. NOT_READY as for
 * device_stand_in(). Pinning memory takes a while. */
tutti_status device_stand_in_now(struct packed *packed, void **ret_data);
/* The same for pinned host memory, which needs no copy: the operation waits for what lies on the stream. */
tutti_status device_await_stream(struct device *device, const struct device_tensor *tensor,
                                 struct packed **list);
/* Copies the elements of a tensor to host memory, and waits for that. May block. */
tutti_status device_read(struct device *device, const struct device_tensor *tensor, void *to);

/* Whether pinned memory that calls have given back comes when streams have passed it, though nothing else ends. */
bool device_returns_pinned(struct device *device);

/* ---- products.c ---- */

/* dst[i] = src[i] * factors[i], or * factors[0] if there is one for all. */
struct device_products {
    void *stream;
    tutti_dtype dtype;
    void *dst;       /* may be exactly src */
    const void *src; /* contiguous, on the device */
    uint64_t count;
    const void *factors; /* in host memory, and read before the function returns */
    bool one_factor;
};

/* Puts them on the stream. NOT_READY, without a message, as device_stand_in(). May block. */
tutti_status device_multiply(struct device *device, const struct device_products *what);

/* ---- prepared.c ---- */

/* Has the driver load its kernels for the dtype; 0: for tensors with strides. To be called before they are used.
 * NOT_READY, without a message: a stream may wait for a word of ours, and the driver would load none before it goes
 * on. May block otherwise. */
tutti_status device_prepare(struct device *device, tutti_dtype dtype);

/* ---- packing.c ---- */

/* Bytes on the device. */
struct device_block {
    void *at;
    uint64_t bytes;
};

/* Adds a stand-in in the device's own memory to the list, for a tensor that is not contiguous. Its copies are on the
 * stream of the call: that of what is read before the function returns, the other one by packed_put_back(). May block. */
tutti_status device_pack(struct device *device, const struct device_tensor *tensor,
                         struct packed **list, void **ret_data);
/* The same for blocks, which lie one behind the other there. */
tutti_status device_row(struct device *device, void *stream, enum tensor_use use,
                        const struct device_block *blocks, uint32_t count, struct packed **list,
                        void **ret_data);

/* Adds memory of the device to the list that the work of one call on the stream may use. A plan may keep it. May block. */
tutti_status device_scratch(struct device *device, void *stream, uint64_t bytes,
                            struct packed **list);
/* That of the list, for work that is put on the stream now. NULL: it has none. */
void *device_scratch_memory(struct packed *list);

/* Addresses; begin == end: none. */
struct device_span {
    uintptr_t begin, end;
};

static inline struct device_span device_span_of(const void *at, uint64_t bytes)
{
    return (struct device_span){(uintptr_t)at, (uintptr_t)at + bytes};
}

/* From the lowest address to the highest. */
static inline struct device_span device_span_join(struct device_span a, struct device_span b)
{
    if (a.begin == a.end || b.begin == b.end)
        return a.begin == a.end ? b : a;
    return (struct device_span){a.begin < b.begin ? a.begin : b.begin,
                                a.end > b.end ? a.end : b.end};
}

/* What the copies back of such a stand-in write, behind the operation. */
struct device_span device_pack_writes(const struct packed *packed);

/* ---- stream.c ---- */

/* A stream of the library's own, which none of the program's has an order with. They are kept for the next one. */
tutti_status device_stream_take(struct device *device, void **ret_stream);
/* Makes one, if none is idle, so that the next device_stream_take() need not. May block. */
tutti_status device_stream_prepare(struct device *device);
void device_stream_give(struct device *device, void *stream);

/* ---- words.c ---- */

/* A word in pinned memory that streams wait on. It opens when the host says so, and serves for the next wait then. */
struct device_word {
    struct device_word *next;
    struct device *device;
    _Atomic uint32_t *at;
    uint32_t value; /* that opens it */
};

/* One that is not open. NO_MEMORY; UNSUPPORTED: streams of this device cannot wait on words. May block. */
tutti_status device_word_take(struct device *device, struct device_word **ret_word);
/* Later work on the stream waits until it opens. */
tutti_status device_word_wait(const struct device_word *word, void *stream);
/* Opens it, and gives it back. */
void device_word_open(struct device_word *word);
/* Whether streams may wait for words: the driver frees no memory and loads no kernels before they open, and blocks its
 * caller meanwhile. */
bool device_streams_wait(struct device *device);
