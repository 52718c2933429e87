/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long staged stand-ins (tensor/packed.h) in pieces, so that the copy to the host, the operation and the copy back
 * overlap. Pieces are copied one by one; a step of the operation waits for those that it uses, and a piece that no
 * later step writes goes back at once.
 *
 * How a stand-in is cut is this member's own affair: no other member sees it, and the operation computes the same.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tensor/packed.h"

/*
 * Pieces of 1 MiB and more: on an H200 they are copied at 51 GB/s, those of 4 MiB at 54. Not more than 32 of them:
 * each takes the calling thread two calls of the driver, and a stream that waits has room for a thousand.
 */
enum { PIECE_BYTES_MIN = 1 << 20, PIECES_USUAL = 16, PIECES_MAX = 32 };

struct piece {
    uint64_t begin, end; /* bytes of the stand-in */
    uint32_t until;      /* of the operation's steps: from this one on none writes the piece */
    uint64_t arrived;    /* bytes of a message that were written to it */
    bool is_back;        /* the copy back was begun */
};

struct pieces {
    unsigned char *memory; /* of the stand-in */
    uint64_t bytes;
    uint32_t count;
    uint32_t here; /* as many have come to the host; in their order in `piece` */
    uint32_t back; /* as many are on their way back */
    struct piece piece[PIECES_MAX];
};

/*
 * Cuts `bytes` in the order in which operations use a vector of `parts` parts: the first piece of each part, then the
 * second ones. A part begins a little early, as operations align theirs. False: it is too short.
 */
bool pieces_cut(struct pieces *pieces, uint64_t bytes, uint32_t parts);

/* Whether the list has pieces. */
bool pieces_are_in(const struct packed *list);
/* Whether the operation may begin, of long tensors with their first piece: OK, NOT_READY, or what failed. */
tutti_status pieces_may_begin(struct packed *list);
/* Whether the operation may use `bytes` at `first`, which need not be in a stand-in. */
tutti_status pieces_reach(struct packed *list, const void *first, uint64_t bytes);
/* A step before `until` is the last one, so far, that writes `bytes` at `first`. */
void pieces_note_write(struct packed *list, const void *first, uint64_t bytes, uint32_t until);
/* The operation has done the steps before `next`: begins to copy back what no other writes. */
tutti_status pieces_give(struct packed *list, uint32_t next);
/* A message has written `bytes` from `at` on to the entry: begins to copy back what is whole. A copy that cannot begin is
 * left to packed_bring_back() or packed_put_back(), which say why. */
void pieces_arrived(struct packed *packed, uint64_t at, uint64_t bytes);
/* Leaves out what lies behind the first `bytes`. */
void pieces_shorten(struct pieces *pieces, uint64_t bytes);
/* Whether pieces are on their way back, or were. */
bool pieces_are_going(const struct packed *list);
/* The operation has failed: nothing more goes back, and packed_bring_back() waits for what is on its way. */
void pieces_stop(struct packed *list);
