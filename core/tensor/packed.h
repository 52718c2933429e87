/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous stand-ins of a call's tensors that cannot be used as they lie: they are not
 * C-contiguous, or not in host memory. A call keeps them in a list of its own, and ends the list before
 * it tells that it is complete. They do not refer to the caller's descriptors, only to the memory
 * behind them.
 *
 * Those of tensors in host memory are filled and copied back at once. Those of devices are *staged*: copies take
 * place on a stream, and somebody asks from time to time whether they are done. core/device makes
 * them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/layout.h"

/* The use of a tensor by the operation on this member. */
enum tensor_use { TENSOR_READ = 1, TENSOR_WRITTEN = 2, TENSOR_BOTH = 3 };

struct packed;
struct pieces;

/* The copies of a staged stand-in. None waits. */
struct packed_staging {
    /* OK: what lies before the call on its stream is done, and what the operation reads is there. NOT_READY: not
     * yet. */
    tutti_status (*filled)(struct packed *packed);
    /* Puts the copy back on the stream of the call; on the thread that called. */
    tutti_status (*put_back)(struct packed *packed);
    /* OK: the copy back is done. NOT_READY: it has been begun, by a stream of its own, or cannot begin yet. */
    tutti_status (*bring_back)(struct packed *packed);
    void (*free)(struct packed *packed);
    /* NULL, or: begins the copy for another run of a plan. */
    tutti_status (*again)(struct packed *packed);
    /* NULL, or: the call is over, and an engine that cannot withdraw its operation keeps the entry. The stream may be
     * gone when that ends, so what has to be put on it is put there now. */
    void (*give_up)(struct packed *packed);
    /* NULL, or: the operation has written only the first `bytes`, and no others go back. */
    void (*shorten)(struct packed *packed, uint64_t bytes);

    /* Of a stand-in in pieces (pieces.h): as filled() for one of them. */
    tutti_status (*piece_filled)(struct packed *packed, uint32_t index);
    /* Begins to copy a piece back, by the stream of bring_back(). */
    tutti_status (*give_piece)(struct packed *packed, uint32_t index);
    /* Begins what bring_back() then waits for: the pieces that are not on their way, if `all`, and an event behind
     * those that are. */
    tutti_status (*give_rest)(struct packed *packed, bool all);
};

/* One stand-in; the first member of what its maker adds. */
struct packed {
    struct packed *next;
    const struct packed_staging *staging; /* NULL: host memory */
    enum tensor_use use;
    _Atomic uint32_t held; /* by a plan and by its run; 0: it is of one call */
    bool is_filled;        /* staged: as filled() has said */
    bool is_back;          /* staged: as bring_back() has said */
    struct pieces *pieces; /* staged: a long one; NULL: copied as a whole */
};

/*
 * A new entry in `*list` for a tensor that is not contiguous, filled if it is read. `what` names the
 * tensor in errors: "the tensor". One that is written must not have two elements in one place.
 */
tutti_status packed_add(const tutti_tensor *tensor, const struct tensor_size *size,
                        const char *what, enum tensor_use use, struct packed **list,
                        void **ret_data);
void packed_end_all(struct packed **list, bool unpack);

/* UNSUPPORTED where two elements of a tensor that is written may lie in one place. */
tutti_status packed_check_distinct(const struct tensor_view *view, const char *what,
                                   enum tensor_use use);

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

/* Ends the list: what was written to host memory is unpacked, unless the operation failed. */
static inline void packed_end(struct packed **list, bool unpack)
{
    if (*list)
        packed_end_all(list, unpack);
}

/* ---- lists that a plan keeps ---- */

/* Whether all entries can be filled again. */
bool packed_may_repeat(const struct packed *list);
/* They stay when a call ends the list, until the plan does, too. */
void packed_keep(struct packed *list);
/* For a run of the plan, which ends the list. False: the last run has not ended it. */
bool packed_hold(struct packed *list);
/* Begins to fill a list that was held. */
tutti_status packed_again(struct packed *list);

/* ---- lists with staged entries ---- */

bool packed_is_staged(const struct packed *list);
/* Whether the operation has to wait, as far as is known. */
bool packed_awaits(const struct packed *list);
/* Whether the operation may use the stand-ins: OK, NOT_READY, or what failed. */
tutti_status packed_fill(struct packed *list);
/* As the functions of an entry, for all that are written. */
tutti_status packed_put_back(struct packed *list);
tutti_status packed_bring_back(struct packed *list);
/* The call is over, and its list is kept until the engine has let go of the tensors. */
void packed_give_up(struct packed *list);
/* A message of so many bytes has come to the tensor of a list; no others are copied back. */
void packed_shorten(struct packed *list, uint64_t bytes);
