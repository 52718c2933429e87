/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins in the device's own memory, for engines that take tensors where they lie: of a tensor that is not
 * contiguous, and of blocks that do not lie one behind the other. All copies are on the stream of the call, before and
 * behind the operation, so nobody waits for them. Scratch memory of a call is such a stand-in without copies.
 *
 * The memory is kept for later calls, whose streams wait for the event behind its last use. Only the thread that takes
 * memory frees what there is too much of, since freeing blocks. It does so only while no stream waits for a word of ours,
 * which this thread may be the one to open.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "device/device_inside.h"

enum { ROOM_ALIGNMENT = 1 << 16 };

/* Idle memory is kept up to this. */
static const uint64_t ROOM_IDLE_BYTES = UINT64_C(256) << 20;

/* Memory on the device with the event behind its last use. */
struct room {
    struct room *next;
    void *memory;
    uint64_t bytes;
    tutti_device_event *event;
    void *stream; /* of that use */
};

struct packing {
    struct packed packed; /* first */
    struct device *device;
    struct room *room;
    void *stream;
    bool writes;             /* the operation does */
    bool is_used;            /* the stream may do what the event of the room is not behind */
    uint64_t elements;       /* of the view */
    tutti_device_view *view; /* NULL: blocks; each is behind this struct */
    uint32_t blocks;
    struct device_block block[];
};

/* ---- memory ---- */

/* Work on the stream may use it at once, as far as other streams are concerned: it is never held up by one of them. */
static bool suits(const struct device *device, const struct room *room, const void *stream)
{
    return room->stream == stream || !device_ops(device)->event_query(room->event);
}

/* The smallest that is large enough, and not much too large. Under the device's lock, as below. */
static struct room *take_idle(struct device *device, uint64_t bytes, const void *stream)
{
    struct room **best = NULL;

    for (struct room **at = &device->rooms; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->bytes / 2 <= bytes &&
            (!best || (*at)->bytes < (*best)->bytes) && suits(device, *at, stream))
            best = at;
    if (!best)
        return NULL;
    struct room *room = *best;
    *best = room->next;
    device->room_bytes -= room->bytes;
    return room;
}

/* One that no stream uses any more, while there is more than may be idle. */
static struct room *take_surplus(struct device *device, uint64_t most)
{
    LOCK_SCOPE(&device->lock);
    for (struct room **at = &device->rooms;
         *at && device->room_bytes > most && !device->words_taken; at = &(*at)->next) {
        struct room *room = *at;

        if (device_ops(device)->event_query(room->event))
            continue;
        *at = room->next;
        device->room_bytes -= room->bytes;
        return room;
    }
    return NULL;
}

static void free_room(struct device *device, struct room *room)
{
    device_ops(device)->event_free(room->event);
    if (room->memory)
        device_ops(device)->release(device->accelerator, TUTTI_MEMORY_DEVICE, room->memory);
    free(room);
}

static void trim_to(struct device *device, uint64_t most)
{
    struct room *room;

    while ((room = take_surplus(device, most)))
        free_room(device, room);
}

static tutti_status make_room(struct device *device, uint64_t bytes, struct room **ret_room)
{
    const tutti_device_ops *ops = device_ops(device);
    struct room *room = calloc(1, sizeof *room);

    if (!room)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a tensor of %s", device->name);
    room->bytes = bytes;
    tutti_status status = ops->event_create(device->accelerator, &room->event);
    if (!status)
        status = ops->allocate(device->accelerator, TUTTI_MEMORY_DEVICE, bytes, &room->memory);
    if (status == TUTTI_ERR_NO_MEMORY) { /* what is idle may be in the way */
        trim_to(device, 0);
        status = ops->allocate(device->accelerator, TUTTI_MEMORY_DEVICE, bytes, &room->memory);
    }
    if (status) {
        free_room(device, room);
        return status;
    }
    *ret_room = room;
    return TUTTI_OK;
}

/* What comes on the stream may use it. */
static tutti_status take_room(struct device *device, uint64_t bytes, void *stream,
                              struct room **ret_room)
{
    const uint64_t whole = (bytes / ROOM_ALIGNMENT + 1) * ROOM_ALIGNMENT;
    tutti_status status = TUTTI_OK;
    struct room *room;

    pthread_mutex_lock(&device->lock);
    room = take_idle(device, whole, stream);
    pthread_mutex_unlock(&device->lock);
    if (room) {
        *ret_room = room;
        return device_ops(device)->event_wait(room->event, device->accelerator, stream);
    }
    trim_to(device, ROOM_IDLE_BYTES);
    status = make_room(device, whole, &room);
    if (!status)
        *ret_room = room;
    return status;
}

static void give_room(struct device *device, struct room *room, void *stream)
{
    LOCK_SCOPE(&device->lock);
    room->stream = stream;
    room->next = device->rooms;
    device->rooms = room;
    device->room_bytes += room->bytes;
}

/* ---- copies ---- */

static tutti_status record(struct packing *p)
{
    p->is_used = false;
    return device_ops(p->device)->event_record(p->room->event, p->stream);
}

/* Puts all copies in one direction on the stream. */
static tutti_status copy_all(const struct packing *p, bool back)
{
    const tutti_device_ops *ops = device_ops(p->device);
    tutti_accelerator *accelerator = p->device->accelerator;
    char *memory = p->room->memory;
    tutti_status status = TUTTI_OK;

    if (p->view && p->elements)
        status = back ? ops->unpack(accelerator, p->stream, p->view, memory, 0, p->elements)
                      : ops->pack(accelerator, p->stream, memory, p->view, 0, p->elements);
    for (uint32_t i = 0; i < p->blocks && !status; i++) {
        const struct device_block *block = &p->block[i];

        status = ops->copy(accelerator, p->stream, back ? block->at : memory,
                           back ? memory : block->at, block->bytes);
        memory += block->bytes;
    }
    return status;
}

static tutti_status filled(struct packed *packed)
{
    (void)packed;
    return TUTTI_OK;
}

/* The operation is on the stream: also where it only reads the memory, nobody else may use that before. */
static tutti_status put_back(struct packed *packed)
{
    struct packing *p = (struct packing *)packed;
    const tutti_status status = p->writes ? copy_all(p, true) : TUTTI_OK;
    const tutti_status recorded = record(p);

    return status ? status : recorded;
}

/* A call that has failed may have left work on the stream. */
static void give_up(struct packed *packed)
{
    struct packing *p = (struct packing *)packed;

    if (p->is_used)
        (void)record(p);
}

static void packing_free(struct packed *packed)
{
    struct packing *p = (struct packing *)packed;

    give_up(packed);
    give_room(p->device, p->room, p->stream);
    free(packed);
}

static const struct packed_staging staging = {
    .filled = filled, .put_back = put_back, .free = packing_free, .give_up = give_up};

/* What uses scratch memory of a plan is on one stream. */
static tutti_status scratch_again(struct packed *packed)
{
    (void)packed;
    return TUTTI_OK;
}

static const struct packed_staging scratch = {.filled = filled,
                                              .put_back = put_back,
                                              .free = packing_free,
                                              .again = scratch_again,
                                              .give_up = give_up};

/* With memory for so many bytes, and room for what is copied behind the struct. */
static tutti_status make(struct device *device, void *stream, enum tensor_use use, uint64_t bytes,
                         size_t behind, struct packing **ret_packing)
{
    struct packing *p = calloc(1, sizeof *p + behind);

    if (!p)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a call with a tensor of %s",
                         device->name);
    p->packed =
        (struct packed){.staging = &staging, .use = use | TENSOR_WRITTEN, .is_filled = true};
    p->writes = use & TENSOR_WRITTEN;
    p->device = device;
    p->stream = stream;
    tutti_status status = take_room(device, bytes, stream, &p->room);
    if (status && p->room)
        give_room(device, p->room, stream);
    if (status) {
        free(p);
        return status;
    }
    *ret_packing = p;
    return TUTTI_OK;
}

static tutti_status begin(struct packing *p, struct packed **list, void **ret_data)
{
    const tutti_status status = p->packed.use & TENSOR_READ ? copy_all(p, false) : TUTTI_OK;

    p->is_used = true;
    if (status) {
        packing_free(&p->packed);
        return status;
    }
    p->packed.next = *list;
    *list = &p->packed;
    *ret_data = p->room->memory;
    return TUTTI_OK;
}

tutti_status device_pack(struct device *device, const struct device_tensor *tensor,
                         struct packed **list, void **ret_data)
{
    struct tensor_view view;
    struct packing *p;

    tensor_view(tensor->tensor, tensor->size, &view);
    tutti_status status = packed_check_distinct(&view, tensor->what, tensor->use);
    if (!status)
        status =
            make(device, tensor->stream, tensor->use, tensor->size->bytes, sizeof *p->view, &p);
    if (status)
        return error_prefix("%s", tensor->what);
    p->view = (tutti_device_view *)(void *)p->block;
    p->elements = tensor->size->count;
    device_view(&view, p->view);
    return begin(p, list, ret_data);
}

tutti_status device_row(struct device *device, void *stream, enum tensor_use use,
                        const struct device_block *blocks, uint32_t count, struct packed **list,
                        void **ret_data)
{
    struct packing *p;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += blocks[i].bytes;
    tutti_status status = make(device, stream, use, bytes, count * sizeof *blocks, &p);
    if (status)
        return status;
    p->blocks = count;
    for (uint32_t i = 0; i < count; i++)
        p->block[i] = blocks[i];
    return begin(p, list, ret_data);
}

tutti_status device_scratch(struct device *device, void *stream, uint64_t bytes,
                            struct packed **list)
{
    struct packing *p;
    const tutti_status status = make(device, stream, 0, bytes, 0, &p);

    if (status)
        return status;
    p->packed.staging = &scratch;
    p->packed.next = *list;
    *list = &p->packed;
    return TUTTI_OK;
}

void *device_scratch_memory(struct packed *list)
{
    while (list && list->staging != &scratch)
        list = list->next;
    if (!list)
        return NULL;
    struct packing *p = (struct packing *)list;
    p->is_used = true;
    return p->room->memory;
}

static struct device_span reach_of(const tutti_device_view *view)
{
    uintptr_t begin = (uintptr_t)view->first, end = begin + view->element_bytes;

    for (uint32_t i = 0; i < view->dimensions; i++) {
        const int64_t step = view->stride[i] * (view->extent[i] - 1);

        begin += (uintptr_t)(step < 0 ? step : 0);
        end += (uintptr_t)(step > 0 ? step : 0);
    }
    return (struct device_span){begin, end};
}

struct device_span device_pack_writes(const struct packed *packed)
{
    const struct packing *p = (const struct packing *)packed;
    struct device_span all = {0, 0};

    if (packed->staging != &staging || !p->writes)
        return all;
    if (p->view && p->elements)
        all = reach_of(p->view);
    for (uint32_t i = 0; i < p->blocks; i++)
        all = device_span_join(all, device_span_of(p->block[i].at, p->block[i].bytes));
    return all;
}
