/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins in pinned memory for tensors that lie on a device.
 *
 * The thread that calls puts the copy to pinned memory on its stream, behind what the stream does with the tensor, and
 * an event behind it. The operation begins when the event has passed. Where the operation only writes the tensor,
 * there is the event alone: what lies on the stream may still use the tensor.
 *
 * A blocking call puts the copy back on its stream and returns; later work on that stream finds the result. For a
 * work the engine copies back by a stream of the device's own, which waits for nothing but copies, so that
 * no stream of the program can hold it up: a stream may wait for the very work.
 *
 * A long tensor is copied in pieces (tensor/pieces.h), with an event behind each on the way to the host. Pieces go back
 * while the operation runs, by the device's own stream, since any thread may move the operation; the call's stream then
 * waits for an event behind them.
 *
 * A receive is posted before its stream has come to the call, so what the tensor held is not brought to its stand-in:
 * of a shorter message only the bytes that came go back.
 *
 * A tensor that an engine may move where it lies has its stand-in *later*: only the event is there, and memory comes
 * once the message has to go by the host. The copy to it is by the device's own stream, since the stream has come to the
 * event by then.
 *
 * That of a plan keeps its pinned memory, and is filled again by each run.
 *
 * Invariant: when the stand-in ends, the event of its memory is behind all that any stream does with the memory.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device_inside.h"

struct stand_in {
    struct packed packed; /* first */
    struct device *device;
    struct pinned *pinned; /* where the elements are; of an event alone: memory that is not used */
    void *stream;
    unsigned char *first;    /* contiguous: the tensor's first byte */
    uint64_t bytes;          /* of the operation */
    uint64_t whole;          /* of the tensor */
    uint32_t parts;          /* as in struct device_tensor */
    bool is_later;           /* it has no memory for the elements yet */
    bool is_late;            /* it got that after its stream had come to the call */
    bool is_used;            /* work with the memory was put on a stream */
    bool is_coming;          /* the copy back was begun by bring_back() */
    tutti_device_view *view; /* NULL: contiguous; behind this struct */
};

static struct stand_in *stand_in_of(struct packed *packed)
{
    return (struct stand_in *)packed;
}

static tutti_status record(struct stand_in *s, void *stream)
{
    s->is_used = true;
    return device_ops(s->device)->event_record(s->pinned->event, stream);
}

/* The stream of the copy to pinned memory. */
static void *stream_in(const struct stand_in *s)
{
    return s->is_late ? s->device->out : s->stream;
}

/* Puts the copy of bytes [begin, end) to pinned memory on the stream. */
static tutti_status fetch(const struct stand_in *s, uint64_t begin, uint64_t end)
{
    const tutti_device_ops *ops = device_ops(s->device);
    unsigned char *to = (unsigned char *)s->pinned->memory + begin;
    void *stream = stream_in(s);

    if (!s->view)
        return ops->copy(s->device->accelerator, stream, to, s->first + begin, end - begin);
    return ops->pack(s->device->accelerator, stream, to, s->view, begin / s->view->element_bytes,
                     (end - begin) / s->view->element_bytes);
}

/* The element with that number in row-major order. */
static unsigned char *element_at(const tutti_device_view *view, uint64_t number)
{
    unsigned char *at = view->first;

    for (uint32_t i = view->dimensions; i-- > 0; number /= (uint64_t)view->extent[i])
        at += (int64_t)(number % (uint64_t)view->extent[i]) * view->stride[i];
    return at;
}

/* Puts the copy of [begin, end) from pinned memory on a stream. A message may have ended inside of an element. */
static tutti_status copy_back(const struct stand_in *s, void *stream, uint64_t begin, uint64_t end)
{
    const tutti_device_ops *ops = device_ops(s->device);
    const unsigned char *from = (const unsigned char *)s->pinned->memory + begin;
    const uint64_t element = s->view ? s->view->element_bytes : 1;
    const uint64_t first = begin / element, count = (end - begin) / element;
    const uint64_t rest = (end - begin) % element;

    if (!s->view)
        return ops->copy(s->device->accelerator, stream, s->first + begin, from, end - begin);
    tutti_status status =
        count ? ops->unpack(s->device->accelerator, stream, s->view, from, first, count) : TUTTI_OK;
    if (!status && rest)
        status = ops->copy(s->device->accelerator, stream, element_at(s->view, first + count),
                           from + count * element, rest);
    return status;
}

static tutti_status return_by(struct stand_in *s, void *stream)
{
    const tutti_status status = copy_back(s, stream, 0, s->bytes);

    return status ? status : record(s, stream);
}

/* ---- pieces ---- */

static tutti_status piece_filled(struct packed *packed, uint32_t index)
{
    const struct stand_in *s = stand_in_of(packed);

    return device_ops(s->device)->event_query(s->pinned->piece_events[index]);
}

static tutti_status give_piece(struct packed *packed, uint32_t index)
{
    struct stand_in *s = stand_in_of(packed);
    const struct piece *piece = &packed->pieces->piece[index];

    return copy_back(s, s->device->out, piece->begin, piece->end);
}

/* The event of the memory passes after the copies to the host, which are on another stream, too. */
static tutti_status give_rest(struct packed *packed, bool all)
{
    struct stand_in *s = stand_in_of(packed);
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; all && i < packed->pieces->count && !status; i++)
        if (!packed->pieces->piece[i].is_back)
            status = give_piece(packed, i);
    if (!status)
        status = device_ops(s->device)->event_wait(s->pinned->event, s->device->accelerator,
                                                   s->device->out);
    if (!status)
        status = record(s, s->device->out);
    s->is_coming = !status;
    return status;
}

static tutti_status fetch_pieces(struct stand_in *s)
{
    const struct pieces *pieces = s->packed.pieces;
    tutti_status status = pinned_piece_events(s->device, s->pinned, pieces->count);

    for (uint32_t i = 0; i < pieces->count && !status; i++) {
        status = fetch(s, pieces->piece[i].begin, pieces->piece[i].end);
        if (!status)
            status = device_ops(s->device)->event_record(s->pinned->piece_events[i], stream_in(s));
    }
    return status;
}

/* ---- what a call asks of its stand-ins ---- */

static tutti_status filled(struct packed *packed)
{
    return device_ops(stand_in_of(packed)->device)->event_query(stand_in_of(packed)->pinned->event);
}

static tutti_status put_back(struct packed *packed)
{
    struct stand_in *s = stand_in_of(packed);

    if (!s->bytes)
        return TUTTI_OK;
    if (!packed->pieces || !packed->pieces->back)
        return return_by(s, s->stream);
    const tutti_status status = s->is_coming ? TUTTI_OK : give_rest(packed, true);
    return status ? status
                  : device_ops(s->device)->event_wait(s->pinned->event, s->device->accelerator,
                                                      s->stream);
}

static tutti_status bring_back(struct packed *packed)
{
    struct stand_in *s = stand_in_of(packed);

    if (!s->bytes)
        return TUTTI_OK;
    if (!s->is_coming) {
        tutti_status status = packed->is_filled ? TUTTI_OK : filled(packed);

        if (!status && packed->pieces && packed->pieces->back)
            status = give_rest(packed, true);
        else if (!status)
            status = return_by(s, s->device->out);
        s->is_coming = !status;
        return status ? status : TUTTI_ERR_NOT_READY;
    }
    return device_ops(s->device)->event_query(s->pinned->event);
}

static void stand_in_free(struct packed *packed)
{
    struct stand_in *s = stand_in_of(packed);

    pinned_give(s->device, s->pinned, s->is_used);
    free(packed->pieces);
    free(s);
}

static void shorten(struct packed *packed, uint64_t bytes)
{
    struct stand_in *s = stand_in_of(packed);

    if (bytes >= s->bytes)
        return;
    s->bytes = bytes;
    if (packed->pieces)
        pieces_shorten(packed->pieces, bytes);
}

void device_view(const struct tensor_view *view, tutti_device_view *ret_view)
{
    *ret_view = (tutti_device_view){.struct_size = sizeof *ret_view,
                                    .element_bytes = view->element_bytes,
                                    .first = view->first,
                                    .dimensions = (uint32_t)view->dimensions};
    for (int i = 0; i < view->dimensions; i++) {
        ret_view->extent[i] = view->dimension[i].extent;
        ret_view->stride[i] = view->dimension[i].stride;
    }
}

/* Cuts a long one. Without memory for that it stays whole. */
static void cut(struct stand_in *s)
{
    struct pieces *pieces = s->packed.pieces;

    if (!pieces && !s->is_later && s->parts && s->bytes >= 2 * (uint64_t)PIECE_BYTES_MIN)
        pieces = malloc(sizeof *pieces);
    if (pieces && pieces_cut(pieces, s->bytes, s->parts)) {
        pieces->memory = s->pinned->memory;
        s->packed.pieces = pieces;
    } else {
        free(pieces);
        s->packed.pieces = NULL;
    }
}

/* Begins the copy that the operation reads. */
static tutti_status begin(struct stand_in *s)
{
    tutti_status status = TUTTI_OK;

    if (s->packed.use & TENSOR_READ && s->bytes && !s->is_later) {
        s->is_used = true;
        status = s->packed.pieces ? fetch_pieces(s) : fetch(s, 0, s->bytes);
    }
    return status ? status : record(s, stream_in(s));
}

/* The copy back of the last run is done, or on the same stream; the operation waits for the new event, and a run with
 * messages is complete only when it is done. */
static tutti_status again(struct packed *packed)
{
    struct stand_in *s = stand_in_of(packed);
    const tutti_status status = device_check_stream(s->device, s->stream);

    if (status)
        return status;
    s->bytes = s->whole;
    s->is_coming = s->is_late = false;
    cut(s);
    return begin(s);
}

static const struct packed_staging staging = {.filled = filled,
                                              .put_back = put_back,
                                              .bring_back = bring_back,
                                              .free = stand_in_free,
                                              .again = again,
                                              .shorten = shorten,
                                              .piece_filled = piece_filled,
                                              .give_piece = give_piece,
                                              .give_rest = give_rest};

/* A stand-in with pinned memory for `bytes`, in no list. */
static tutti_status make(struct device *device, const struct device_tensor *tensor,
                         const struct tensor_view *view, uint64_t bytes,
                         struct stand_in **ret_stand_in)
{
    struct stand_in *s = calloc(1, sizeof *s + (view ? sizeof *s->view : 0));

    if (!s)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a call with a tensor of %s",
                         device->name);
    tutti_status status = pinned_take(device, tensor->later ? 0 : bytes, &s->pinned);
    if (status) {
        free(s);
        return status == TUTTI_ERR_NOT_READY ? status : error_prefix("%s", tensor->what);
    }
    s->packed.staging = &staging;
    s->packed.use = tensor->use;
    s->device = device;
    s->stream = tensor->stream;
    s->bytes = s->whole = bytes;
    s->is_later = tensor->later;
    s->parts = tensor->parts;
    s->first = (unsigned char *)tensor->tensor->data + tensor->tensor->byte_offset;
    if (view) {
        s->view = (tutti_device_view *)(s + 1);
        device_view(view, s->view);
    }
    *ret_stand_in = s;
    return TUTTI_OK;
}

/* Begins with it, and adds it to the list. */
static tutti_status add(struct stand_in *s, struct packed **list)
{
    const tutti_status status = begin(s);

    if (status) {
        s->packed.staging->free(&s->packed);
        return status;
    }
    s->packed.next = *list;
    *list = &s->packed;
    return TUTTI_OK;
}

tutti_status device_stand_in(struct device *device, const struct device_tensor *tensor,
                             struct packed **list, void **ret_data)
{
    struct tensor_view view;
    struct stand_in *s = NULL;
    const bool strided = !tensor->size->contiguous;

    tutti_status status = TUTTI_OK;

    if (strided) {
        tensor_view(tensor->tensor, tensor->size, &view);
        status = packed_check_distinct(&view, tensor->what, tensor->use);
    }
    if (!status)
        status = make(device, tensor, strided ? &view : NULL, tensor->size->bytes, &s);
    if (!s) /* then `status` says why */
        return status;
    void *data = s->pinned->memory;
    cut(s);
    status = add(s, list);
    if (!status)
        *ret_data = tensor->later         ? device_tensor_memory(&s->packed)
                    : tensor->size->bytes ? data
                                          : NULL;
    return status;
}

/* ---- those that come later ---- */

void *device_tensor_memory(struct packed *packed)
{
    return stand_in_of(packed)->first;
}

void *device_stand_in_memory(struct packed *packed)
{
    const struct stand_in *s = stand_in_of(packed);

    return s->is_later ? NULL : s->pinned->memory;
}

/* The event stays, since the stream may not have come to it. */
static void give_memory(struct stand_in *s, struct pinned *pinned)
{
    tutti_device_event *event = s->pinned->event;

    s->pinned->event = pinned->event;
    pinned->event = event;
    pinned_give(s->device, s->pinned, false);
    s->pinned = pinned;
    s->is_later = false;
}

tutti_status device_stand_in_now(struct packed *packed, void **ret_data)
{
    struct stand_in *s = stand_in_of(packed);
    struct pinned *pinned = NULL;
    tutti_status status = s->is_later ? pinned_take_more(s->device, s->bytes, &pinned) : TUTTI_OK;

    if (status)
        return status;
    if (pinned) {
        give_memory(s, pinned);
        cut(s);
        s->is_late = packed->use & TENSOR_READ;
        if (s->is_late) {
            packed->is_filled = false;
            status = begin(s);
        }
    }
    if (!status)
        *ret_data = s->pinned->memory;
    return status;
}

tutti_status device_await_stream(struct device *device, const struct device_tensor *tensor,
                                 struct packed **list)
{
    struct stand_in *s = NULL;
    const tutti_status status = make(device, tensor, NULL, 0, &s);

    return s ? add(s, list) : status;
}

tutti_status device_read(struct device *device, const struct device_tensor *tensor, void *to)
{
    struct packed *list = NULL;
    void *data = NULL;
    tutti_status status = device_stand_in(device, tensor, &list, &data);

    if (status)
        return status;
    while ((status = packed_fill(list)) == TUTTI_ERR_NOT_READY)
        sched_yield();
    if (!status && data) /* NULL: no bytes */
        memcpy(to, data, tensor->size->bytes);
    packed_end(&list, false);
    return status;
}
