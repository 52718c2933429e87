/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI for accelerators, since minor 8: memory, copies and arithmetic on devices whose work is
 * ordered by streams. CUDA is one such provider. A plugin for another make offers the same table with
 * other device types, and the core asks the table only.
 *
 * The plugin's name is the word for the kind of device: libtutti-cuda.so serves the device "cuda:1" and the
 * rules `cuda:…` of a backend choice. The core opens the plugin at the first such name or tensor.
 *
 * Three kinds of objects are the provider's own: a driver (the library of the make, once for a process), an
 * accelerator (one device with what this process has on it) and an event. Streams are the caller's, or made by
 * stream_create.
 *
 * Rules for all functions of the table:
 *
 * - Any thread may call any of them, several threads at the same time. Only calls that name the same event
 *   come one after the other. Close, detach and the like come last.
 * - The calling thread's current device or context is the same before and after each call.
 * - Only functions whose comment says BLOCKS may wait for the device, for other work in the driver, or for
 *   longer than some microseconds. The core calls these while no lock of a group is held, but for allocate and
 *   stream_create: a message may need them that goes another way than was planned. All others put
 *   work on a stream, or look at something. A stream that has no room for more work is the one exception:
 *   a driver may then wait until there is room. So the core does not put work without a bound on a stream.
 * - BLOCKS functions, but for these two, may wait for everything that is on the device's streams, wait_word
 *   included. The thread that opens the word does not call them before.
 * - A failure has a message (tutti_host.error) that names the device and the driver's own words. Statuses:
 *   TUTTI_ERR_NO_MEMORY; TUTTI_ERR_UNSUPPORTED: not with this device, dtype or operation;
 *   TUTTI_ERR_INVALID_ARGUMENT: a stream, address or number that is not valid; TUTTI_ERR_SYSTEM: the driver
 *   or the device failed. Work that is already on a stream fails late: then each later call that names the
 *   accelerator may return its failure, and event_query does.
 * - While a stream of the process is captured into a graph, calls that do not name this stream work, and
 *   do not spoil the capture. On a stream with TUTTI_STREAM_RECORDS the core only calls event_record, event_wait and
 *   reduce, on any thread, and does not query an event that was recorded there.
 * - The functions are not called in a forked child.
 */
#ifndef TUTTI_PLUGIN_DEVICE_H
#define TUTTI_PLUGIN_DEVICE_H

#include <tutti/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_driver tutti_driver;             /* the provider's own: the make's library */
typedef struct tutti_accelerator tutti_accelerator;   /* the provider's own: one device, attached */
typedef struct tutti_device_event tutti_device_event; /* the provider's own: a point on a stream */

/** The driver, for people and for comparisons. The words are valid until close. */
typedef struct tutti_driver_info {
    uint32_t struct_size;  /* set by the core */
    uint32_t device_count; /* 0 is possible: the driver is there, and no device */
    const char *name;      /* "CUDA 12.4" */
    const char *path;      /* of the library's file; "" if it is not known */
} tutti_driver_info;

/* tutti_accelerator_info.flags */
enum {
    TUTTI_ACCELERATOR_INTEGRATED = 1 << 0, /* device and host share the memory chips */
    TUTTI_ACCELERATOR_HAS_MANAGED = 1 << 1 /* TUTTI_MEMORY_MANAGED can be allocated */
};

/** One device. */
typedef struct tutti_accelerator_info {
    uint32_t struct_size; /* set by the core */
    uint32_t flags;       /* TUTTI_ACCELERATOR_… */
    uint64_t bytes;       /* of its memory, in all */
    uint8_t uuid[16]; /* the same in every process that sees the device, another for each device */
    char uuid_text[64]; /* as the make's tools print it: "GPU-5b8e…" */
    char name[128];     /* "NVIDIA H100 80GB HBM3" */
    char bus[32];       /* "0000:3b:00.0"; "" if it has none */
    uint32_t major;     /* the generation: compute capability 9.0 */
    uint32_t minor;     /* of the generation */
} tutti_accelerator_info;

/* tutti_memory_place.kind, and what allocate makes */
enum {
    TUTTI_MEMORY_UNKNOWN = 0, /* not the driver's: pageable memory, or nothing */
    TUTTI_MEMORY_DEVICE = 1,  /* the device's own */
    TUTTI_MEMORY_PINNED = 2,  /* host memory that all devices of the driver reach */
    TUTTI_MEMORY_MANAGED = 3  /* moves between host and devices; both may touch it */
};

/** Where an address is. */
typedef struct tutti_memory_place {
    uint32_t struct_size; /* set by the core */
    uint32_t kind;        /* TUTTI_MEMORY_… */
    int32_t device;       /* its number; -1: of no device */
    uint32_t reserved;
    uint64_t bytes; /* since minor 9: from the address on, of the same allocation; 0: not known */
} tutti_memory_place;

/* Answers of stream_check. */
enum {
    /** Its work is recorded into a graph, or work on it would break the recording of another stream. */
    TUTTI_STREAM_CAPTURING = 1 << 0,
    /** The same value means another stream on another thread. Use it on the caller's thread only. */
    TUTTI_STREAM_OF_THREAD = 1 << 1,
    /** Since minor 9, with TUTTI_STREAM_CAPTURING: its own work goes into the graph, and the recording is valid. */
    TUTTI_STREAM_RECORDS = 1 << 2
};

/** The most dimensions of a view: with neighbours joined, no tensor has more that are longer than 1. */
enum { TUTTI_VIEW_DIMENSIONS = 62 };

/** The elements of a tensor with strides, in row-major order of their indices. */
typedef struct tutti_device_view {
    uint32_t struct_size;
    uint32_t element_bytes; /* 1, 2, 4, 8 or 16 */
    void *first;            /* the element whose indices are all 0 */
    uint32_t dimensions;    /* 0: one element */
    uint32_t reserved;
    int64_t extent[TUTTI_VIEW_DIMENSIONS]; /* each 1 or more */
    int64_t stride[TUTTI_VIEW_DIMENSIONS]; /* in bytes, of any sign */
} tutti_device_view;

/* tutti_device_reduction.flags */
enum {
    /** The core's tree over all operands, as reductions in fixed order have it; otherwise from left to right. */
    TUTTI_REDUCTION_FIXED_ORDER = 1 << 0
};

/**
 * dst = first op rest[0] op rest[1] …, element by element. Floats of 8 and 16 bits are rounded once, at the end.
 * An average is a sum, and a division where `members` is set.
 */
typedef struct tutti_device_reduction {
    uint32_t struct_size;
    uint32_t flags;    /* TUTTI_REDUCTION_… */
    uint32_t dtype;    /* tutti_dtype */
    int32_t op;        /* tutti_reduce_op, built in; PREMUL_SUM is a sum here */
    void *dst;         /* may be exactly one of the operands */
    const void *first; /* the first operand */
    const void *rest;  /* the second; the others follow it */
    uint64_t stride;   /* in bytes, from one operand of `rest` to the next */
    uint64_t count;    /* elements of each operand */
    uint32_t operands; /* 1 or more; 1: only what `members` says */
    uint32_t
        members; /* 0: the result is a part. Else it is the result for so many: AVG divides by it, integers
                           truncated toward zero, and a bool becomes 0 or 1 */
} tutti_device_reduction;

/*
 * What a device provider offers. `memory` of copies and arithmetic is the accelerator's own, pinned or managed,
 * and stays valid until the work on the stream is done. `stream` is a handle of the make; NULL is the make's
 * legacy default stream, with its order relative to other streams.
 */
typedef struct tutti_device_ops {
    uint32_t struct_size;
    int32_t device_type;   /* DLPack's number for its memory: 2 for CUDA */
    int32_t host_type;     /* DLPack's number for its pinned host memory; 0: none */
    int32_t managed_type;  /* DLPack's number for its managed memory; 0: none */
    uint64_t capabilities; /* 0; for later minors */

    /* required: the driver */
    /** Loads the make's library, BLOCKS. Without one, or if it cannot be used, fails with a message that says
     * what is missing and how to get it. `host` has log, now_ns, allocate, release, config and error, and is
     * valid until close. A driver without devices opens. */
    tutti_status (*open)(const tutti_host *host, void *host_self, tutti_driver **ret_driver);
    /** Frees it when all accelerators are detached. The library may stay loaded. BLOCKS. */
    void (*close)(tutti_driver *driver);
    /** What was found. */
    tutti_status (*describe)(tutti_driver *driver, tutti_driver_info *ret_info);
    /** The device with this number, 0 to device_count - 1, as the process sees them. Attaches nothing. */
    tutti_status (*device)(tutti_driver *driver, int32_t number, tutti_accelerator_info *ret_info);
    /** Where the byte at `address` is. Any address is allowed, also of memory that was freed. One tensor may lie
     * in several allocations side by side: ask for its first byte, and for its last one unless `bytes` goes so
     * far. TUTTI_ERR_INVALID_ARGUMENT: memory of the make that no attached device reaches, such as another
     * context's. */
    tutti_status (*locate)(tutti_driver *driver, const void *address,
                           tutti_memory_place *ret_place);

    /* required: one device */
    /** Begins to use a device. It has the process's own context, which programs of the make share, so their
     * memory and streams can be named. May take a second. BLOCKS. */
    tutti_status (*attach)(tutti_driver *driver, int32_t number,
                           tutti_accelerator **ret_accelerator);
    /** Ends it. The events of the accelerator and what was allocated have been freed before. BLOCKS. */
    void (*detach)(tutti_accelerator *accelerator);

    /* required: memory */
    /** Allocates `bytes`, at least 1, of a kind, aligned to 256. The contents are undefined. Pinned memory
     * may be used with all accelerators of the driver. BLOCKS. */
    tutti_status (*allocate)(tutti_accelerator *accelerator, uint32_t kind, uint64_t bytes,
                             void **ret_memory);
    /** Frees memory of allocate, once no work on a stream uses it. NULL is allowed. BLOCKS. */
    void (*release)(tutti_accelerator *accelerator, uint32_t kind, void *memory);

    /* required: streams */
    /** A stream that has no order with the legacy one. Its work comes before that of other streams, where the
     * device can choose. BLOCKS. */
    tutti_status (*stream_create)(tutti_accelerator *accelerator, void **ret_stream);
    /** Frees a stream of stream_create. Work that is on it is still done. BLOCKS. */
    void (*stream_free)(tutti_accelerator *accelerator, void *stream);
    /** Whether work may be put on a stream of the caller, as TUTTI_STREAM_…; a stream of another device or a
     * handle that the driver knows to be none is TUTTI_ERR_INVALID_ARGUMENT. */
    tutti_status (*stream_check)(tutti_accelerator *accelerator, void *stream, uint32_t *ret_flags);

    /* required: events; they may be recorded again, and know the last record only */
    /** An event that was never recorded counts as passed. */
    tutti_status (*event_create)(tutti_accelerator *accelerator, tutti_device_event **ret_event);
    /** Frees it; waits that are on streams stay. NULL is allowed. */
    void (*event_free)(tutti_device_event *event);
    /** Puts the event behind everything that is on the stream. */
    tutti_status (*event_record)(tutti_device_event *event, void *stream);
    /** TUTTI_OK: the work before it is done. TUTTI_ERR_NOT_READY, without a message: not yet. Otherwise what failed
     * on the device. */
    tutti_status (*event_query)(tutti_device_event *event);
    /** Later work on `stream`, which may be of another accelerator of the driver, waits for the last record. */
    tutti_status (*event_wait)(tutti_device_event *event, tutti_accelerator *accelerator,
                               void *stream);

    /* required: copies */
    /** dst[0 .. bytes) = src[0 .. bytes). Each side is the accelerator's or pinned memory. The sides do not
     * overlap. 0 bytes are allowed. */
    tutti_status (*copy)(tutti_accelerator *accelerator, void *stream, void *dst, const void *src,
                         uint64_t bytes);
    /** Copies elements begin .. begin + count - 1 of the view to `packed`, where they lie side by side. The view
     * is read before the call returns. */
    tutti_status (*pack)(tutti_accelerator *accelerator, void *stream, void *packed,
                         const tutti_device_view *view, uint64_t begin, uint64_t count);
    /** The other way. No two elements of the view share a byte. */
    tutti_status (*unpack)(tutti_accelerator *accelerator, void *stream,
                           const tutti_device_view *view, const void *packed, uint64_t begin,
                           uint64_t count);

    /* required: arithmetic, with the bits of the core's own on host memory. dst may be exactly one of the inputs,
     * otherwise nothing overlaps. Pointers need no alignment. */
    /** Puts a reduction on the stream. TUTTI_ERR_UNSUPPORTED for an unknown combination. */
    tutti_status (*reduce)(tutti_accelerator *accelerator, void *stream,
                           const tutti_device_reduction *what);
    /** dst[i] = a[i] * factor, rounded to the dtype, integers wrap. `factor` is one element: in host memory that
     * is read before the call returns if `on_device` is 0; otherwise the accelerator's or pinned, read in the
     * order of the stream. */
    tutti_status (*scale)(tutti_accelerator *accelerator, void *stream, uint32_t dtype, void *dst,
                          const void *a, uint64_t count, const void *factor, int32_t on_device);

    /* optional */
    /** Makes that later calls of reduce and scale with `dtype`, or with 0 those of pack and unpack, never wait. Without
     * it the first call of each may, while a kernel is loaded. BLOCKS. */
    tutti_status (*prepare)(tutti_accelerator *accelerator, uint32_t dtype);
    /** Later work on the stream waits until *word, of pinned memory and a multiple of 4, is at least `value`:
     * until (int32_t)(*word - value) >= 0. The host writes the word by a release store.
     * TUTTI_ERR_UNSUPPORTED: this device cannot, or cannot let one more stream wait without holding up others. */
    tutti_status (*wait_word)(tutti_accelerator *accelerator, void *stream, uint32_t *word,
                              uint32_t value);

    /* since minor 9; optional, both or none: for libraries that use the calling thread's current device */
    /** The accelerator is current on this thread until leave. May be nested. *ret_before is what leave needs. */
    tutti_status (*enter)(tutti_accelerator *accelerator, int32_t *ret_before);
    /** What was current before enter is so again; on the same thread. */
    void (*leave)(tutti_accelerator *accelerator, int32_t before);
} tutti_device_ops;

#ifdef __cplusplus
}
#endif
#endif
