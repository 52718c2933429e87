/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous stand-ins of a call's tensors that are not C-contiguous: the only allocation that a
 * tensor costs. A call keeps them in a list of its own, and ends the list before it tells that it is
 * complete. They do not refer to the caller's descriptors, only to the memory behind them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tensor/layout.h"

/* The use of a tensor by the operation on this member. */
enum tensor_use { TENSOR_READ = 1, TENSOR_WRITTEN = 2, TENSOR_BOTH = 3 };

struct packed;

/*
 * A new entry in `*list` for a tensor that is not contiguous, filled if it is read. `what` names the
 * tensor in errors: "the tensor". One that is written must not have two elements in one place.
 */
tutti_status packed_add(const tutti_tensor *tensor, const struct tensor_size *size,
                        const char *what, enum tensor_use use, struct packed **list,
                        void **ret_data);
void packed_end_all(struct packed **list, bool unpack);

/* The elements' place for the operation, NULL for an empty tensor: the tensor's own memory when it is
 * contiguous, else a stand-in. */
static inline tutti_status packed_use(const tutti_tensor *tensor, const struct tensor_size *size,
                                      const char *what, enum tensor_use use, struct packed **list,
                                      void **ret_data)
{
    if (!size->contiguous)
        return packed_add(tensor, size, what, use, list, ret_data);
    *ret_data = size->bytes ? (char *)tensor->data + tensor->byte_offset : NULL;
    return TUTTI_OK;
}

/* Ends the list: what was written is unpacked, unless the operation failed. */
static inline void packed_end(struct packed **list, bool unpack)
{
    if (*list)
        packed_end_all(list, unpack);
}
