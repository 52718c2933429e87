/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/packed.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/error.h"

enum { ALIGNMENT = 64 };

struct packed_copy {
    struct packed packed; /* first */
    struct tensor_view view;
    alignas(ALIGNMENT) char data[];
};

tutti_status packed_check_distinct(const struct tensor_view *view, const char *what,
                                   enum tensor_use use)
{
    if (!(use & TENSOR_WRITTEN) || tensor_view_is_distinct(view))
        return TUTTI_OK;
    return error_set(TUTTI_ERR_UNSUPPORTED,
                     "%s is written, but by its strides several of its elements may lie in one "
                     "place; make a contiguous copy of it first",
                     what);
}

tutti_status packed_add(const tutti_tensor *tensor, const struct tensor_size *size,
                        const char *what, enum tensor_use use, struct packed **list,
                        void **ret_data)
{
    struct tensor_view view;

    tensor_view(tensor, size, &view);
    tutti_status status = packed_check_distinct(&view, what, use);
    if (status)
        return status;
    const uint64_t whole =
        (sizeof(struct packed_copy) + size->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct packed_copy *copy = whole <= PTRDIFF_MAX ? aligned_alloc(ALIGNMENT, whole) : NULL;
    if (!copy)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "%s is not C-contiguous, and there is no memory for a copy of its %" PRIu64
                         " bytes",
                         what, size->bytes);
    copy->packed = (struct packed){.next = *list, .use = use};
    copy->view = view;
    if (use & TENSOR_READ)
        tensor_pack(&view, copy->data);
    *list = &copy->packed;
    *ret_data = copy->data;
    return TUTTI_OK;
}

void packed_end_all(struct packed **list, bool unpack)
{
    while (*list) {
        struct packed *packed = *list;
        struct packed_copy *copy = (struct packed_copy *)packed;

        *list = packed->next;
        if (atomic_load(&packed->held) && atomic_fetch_sub(&packed->held, 1) > 1)
            continue;
        if (packed->staging) {
            packed->staging->free(packed);
            continue;
        }
        if (unpack && packed->use & TENSOR_WRITTEN)
            tensor_unpack(&copy->view, copy->data);
        free(copy);
    }
}

bool packed_may_repeat(const struct packed *list)
{
    while (list && list->staging && list->staging->again)
        list = list->next;
    return !list;
}

void packed_keep(struct packed *list)
{
    for (; list; list = list->next)
        atomic_store(&list->held, 1);
}

bool packed_hold(struct packed *list)
{
    for (struct packed *packed = list; packed; packed = packed->next) {
        uint32_t by_plan = 1;

        if (atomic_compare_exchange_strong(&packed->held, &by_plan, 2))
            continue;
        for (; list != packed; list = list->next)
            atomic_fetch_sub(&list->held, 1);
        return false;
    }
    return true;
}

tutti_status packed_again(struct packed *list)
{
    tutti_status status = TUTTI_OK;

    for (; list && !status; list = list->next) {
        status = list->staging->again(list);
        list->is_filled = list->is_back = false;
    }
    return status;
}

bool packed_is_staged(const struct packed *list)
{
    while (list && !list->staging)
        list = list->next;
    return list;
}

bool packed_awaits(const struct packed *list)
{
    while (list && (!list->staging || list->is_filled))
        list = list->next;
    return list;
}

tutti_status packed_fill(struct packed *list)
{
    for (; list; list = list->next) {
        if (!list->staging || list->is_filled)
            continue;
        tutti_status status = list->staging->filled(list);
        if (status)
            return status;
        list->is_filled = true;
    }
    return TUTTI_OK;
}

tutti_status packed_put_back(struct packed *list)
{
    tutti_status status = TUTTI_OK;

    for (; list && !status; list = list->next)
        if (list->staging && !list->is_back && list->use & TENSOR_WRITTEN)
            status = list->staging->put_back(list);
    return status;
}

tutti_status packed_bring_back(struct packed *list)
{
    tutti_status status = TUTTI_OK;

    for (; list; list = list->next) {
        if (!list->staging || list->is_back || !(list->use & TENSOR_WRITTEN))
            continue;
        tutti_status one = list->staging->bring_back(list);
        list->is_back = !one;
        if (one && (!status || status == TUTTI_ERR_NOT_READY))
            status = one;
    }
    return status;
}

void packed_shorten(struct packed *list, uint64_t bytes)
{
    for (; list; list = list->next)
        if (list->staging && list->staging->shorten)
            list->staging->shorten(list, bytes);
}

void packed_give_up(struct packed *list)
{
    for (; list; list = list->next)
        if (list->staging && list->staging->give_up)
            list->staging->give_up(list);
}
