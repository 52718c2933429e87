/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of core/device. */
#pragma once

#include <pthread.h>

#include "device/device.h"
#include "tensor/pieces.h"

enum {
    PINNED_CLASSES = 48,  /* of sizes, each twice the one before */
    PINNED_SMALLEST = 12, /* 4 KiB */
    KERNELS_MAX = 64      /* modules of kernels: one for each dtype, and that of strides */
};

/* Idle pinned memory is kept up to this, for the next calls; more is freed. */
static const uint64_t PINNED_IDLE_BYTES = UINT64_C(256) << 20;

/* Pinned memory with the event behind its last use. */
struct pinned {
    struct pinned *next;
    void *memory;
    int size_class;
    tutti_device_event *event; /* behind what a stream still does with the memory */
    tutti_device_event *piece_events[PIECES_MAX]; /* NULL: not needed yet; from the first one on */
};

struct device {
    struct device *next;
    const struct maker *maker;
    int32_t number;
    uint32_t fork_generation;
    char name[48]; /* "cuda:1" */
    tutti_accelerator_info info;
    tutti_accelerator *accelerator;
    void *out; /* the stream of copies back that no caller puts on his own */
    _Atomic uint32_t loaded[KERNELS_MAX]; /* by prepared.c */

    pthread_mutex_t lock; /* what follows; nothing blocks while it is held */
    struct pinned *idle[PINNED_CLASSES];
    struct pinned *pending,
        **last_pending; /* given back while a stream may still use them; in that order */
    uint64_t idle_bytes, used_bytes,
        most_bytes;              /* idle ones; all others, and how much these may be */
    struct room *rooms;          /* memory of the device that no call uses, though a stream may */
    uint64_t room_bytes;         /* of these */
    struct idle_stream *streams; /* idle ones */
    struct device_mark *marks;   /* idle ones */
    int idle_marks;
    struct device_word *words; /* open ones */
    int words_taken;           /* that streams may wait on */
};

/* ---- standin.c ---- */

void device_view(const struct tensor_view *view, tutti_device_view *ret_view);

/* ---- pinned.c ---- */

/* How much the calls of this process may use at once for one device: TUTTI_PINNED_MIB. */
tutti_status pinned_most(uint64_t *ret_bytes);
/* NOT_READY, without a message: others use so much that they have to give some back first. May block. */
tutti_status pinned_take(struct device *device, uint64_t bytes, struct pinned **ret_pinned);
/* The same without freeing any, so it does not wait for what is on streams. */
tutti_status pinned_take_more(struct device *device, uint64_t bytes, struct pinned **ret_pinned);
/* Makes events for so many pieces. */
tutti_status pinned_piece_events(struct device *device, struct pinned *pinned, uint32_t count);
/* `used`: a stream may still use it, until its event has passed. */
void pinned_give(struct device *device, struct pinned *pinned, bool used);
/* Frees idle memory down to PINNED_IDLE_BYTES. May block. */
void pinned_trim(struct device *device);
