/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/packed.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/error.h"

enum { ALIGNMENT = 64 };

struct packed {
    struct packed *next;
    enum tensor_use use;
    struct tensor_view view;
    alignas(ALIGNMENT) char data[];
};

tutti_status packed_add(const tutti_tensor *tensor, const struct tensor_size *size,
                        const char *what, enum tensor_use use, struct packed **list,
                        void **ret_data)
{
    struct tensor_view view;

    tensor_view(tensor, size, &view);
    if (use & TENSOR_WRITTEN && !tensor_view_is_distinct(&view))
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "%s is written, but by its strides several of its elements may lie in one "
                         "place; make a contiguous copy of it first",
                         what);
    const uint64_t whole =
        (sizeof(struct packed) + size->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct packed *packed = whole <= PTRDIFF_MAX ? aligned_alloc(ALIGNMENT, whole) : NULL;
    if (!packed)
        return error_set(TUTTI_ERR_NO_MEMORY,
                         "%s is not C-contiguous, and there is no memory for a copy of its %" PRIu64
                         " bytes",
                         what, size->bytes);
    packed->use = use;
    packed->view = view;
    if (use & TENSOR_READ)
        tensor_pack(&view, packed->data);
    packed->next = *list;
    *list = packed;
    *ret_data = packed->data;
    return TUTTI_OK;
}

void packed_end_all(struct packed **list, bool unpack)
{
    while (*list) {
        struct packed *packed = *list;

        *list = packed->next;
        if (unpack && packed->use & TENSOR_WRITTEN)
            tensor_unpack(&packed->view, packed->data);
        free(packed);
    }
}
