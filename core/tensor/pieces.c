/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pieces.h"

#include <string.h>

enum {
    EARLY = 4096
}; /* a part of an operation begins less than that behind the part's share of the bytes */

/* Where a part begins; that after the last one: the end. */
static uint64_t part_begin(uint64_t bytes, uint32_t parts, uint32_t part)
{
    return part == parts ? bytes : bytes / parts * part / EARLY * EARLY;
}

/* Pieces lie between multiples of EARLY, so whole elements do, too. */
static uint64_t piece_begin(uint64_t begin, uint64_t end, uint32_t count, uint32_t index)
{
    return index == count ? end : begin + (end - begin) / count * index / EARLY * EARLY;
}

bool pieces_cut(struct pieces *pieces, uint64_t bytes, uint32_t parts)
{
    if (bytes < 2 * (uint64_t)PIECE_BYTES_MIN)
        return false;
    const uint64_t most_parts = bytes / PIECE_BYTES_MIN;
    if (parts > most_parts)
        parts = (uint32_t)most_parts;
    if (parts > PIECES_USUAL)
        parts = PIECES_USUAL;
    const uint32_t most = parts > PIECES_USUAL / 2 ? 2 : PIECES_USUAL / parts;
    const uint64_t fitting = bytes / parts / PIECE_BYTES_MIN;
    const uint32_t each = fitting < most ? (uint32_t)fitting : most;

    memset(pieces, 0, sizeof *pieces);
    pieces->bytes = bytes;
    for (uint32_t i = 0; i < each; i++)
        for (uint32_t part = 0; part < parts; part++) {
            const uint64_t begin = part_begin(bytes, parts, part);
            const uint64_t end = part_begin(bytes, parts, part + 1);

            pieces->piece[pieces->count++] =
                (struct piece){.begin = piece_begin(begin, end, each, i),
                               .end = piece_begin(begin, end, each, i + 1)};
        }
    return true;
}

static bool is_read_in_pieces(const struct packed *packed)
{
    return packed->pieces && packed->use & TENSOR_READ;
}

/* Waits for nothing: whether the first `count` pieces have come. */
static tutti_status have_come(struct packed *packed, uint32_t count)
{
    struct pieces *pieces = packed->pieces;

    while (pieces->here < count) {
        tutti_status status = packed->staging->piece_filled(packed, pieces->here);

        if (status)
            return status;
        pieces->here++;
    }
    packed->is_filled = pieces->here == pieces->count;
    return TUTTI_OK;
}

bool pieces_are_in(const struct packed *list)
{
    while (list && !list->pieces)
        list = list->next;
    return list;
}

tutti_status pieces_may_begin(struct packed *list)
{
    tutti_status status = TUTTI_OK;

    for (; list && !status; list = list->next) {
        if (!list->staging || list->is_filled)
            continue;
        if (is_read_in_pieces(list)) {
            status = list->pieces->here ? TUTTI_OK : have_come(list, 1);
        } else {
            status = list->staging->filled(list);
            list->is_filled = !status;
        }
    }
    return status;
}

/* The entry in whose pieces the address is; NULL: in none. `ret_at`: where in them. */
static struct packed *entry_at(struct packed *list, const void *first, uint64_t *ret_at)
{
    for (; list; list = list->next) {
        const struct pieces *pieces = list->pieces;

        if (!pieces)
            continue;
        *ret_at = (uint64_t)((uintptr_t)first - (uintptr_t)pieces->memory);
        if ((uintptr_t)first >= (uintptr_t)pieces->memory && *ret_at < pieces->bytes)
            return list;
    }
    return NULL;
}

static bool overlaps(const struct piece *piece, uint64_t at, uint64_t bytes)
{
    return piece->begin < at + bytes && at < piece->end;
}

tutti_status pieces_reach(struct packed *list, const void *first, uint64_t bytes)
{
    uint64_t at;
    struct packed *packed = entry_at(list, first, &at);

    if (!packed || packed->is_filled)
        return TUTTI_OK;
    uint32_t needed = packed->pieces->count;
    while (needed && !overlaps(&packed->pieces->piece[needed - 1], at, bytes))
        needed--;
    return have_come(packed, needed);
}

void pieces_note_write(struct packed *list, const void *first, uint64_t bytes, uint32_t until)
{
    uint64_t at;
    struct packed *packed = entry_at(list, first, &at);

    for (uint32_t i = 0; packed && i < packed->pieces->count; i++) {
        struct piece *piece = &packed->pieces->piece[i];

        if (overlaps(piece, at, bytes) && piece->until < until)
            piece->until = until;
    }
}

/* What lies before the call on its stream is done when a piece has come, so the tensor may be written. That is so
 * everywhere only when all tensors are read, as several may lie in the same memory. */
static bool may_go_back(const struct packed *packed, bool is_only, bool all_read, uint32_t index)
{
    return all_read || (is_only && index < packed->pieces->here);
}

tutti_status pieces_give(struct packed *list, uint32_t next)
{
    const bool is_only = list && !list->next, all_read = !packed_awaits(list);

    for (struct packed *packed = list; packed; packed = packed->next) {
        struct pieces *pieces = packed->use & TENSOR_WRITTEN ? packed->pieces : NULL;

        for (uint32_t i = 0; pieces && i < pieces->count; i++) {
            struct piece *piece = &pieces->piece[i];

            if (piece->is_back || piece->until > next || !may_go_back(packed, is_only, all_read, i))
                continue;
            tutti_status status = packed->staging->give_piece(packed, i);
            if (status)
                return status;
            piece->is_back = true;
            pieces->back++;
        }
    }
    return TUTTI_OK;
}

static uint64_t common(const struct piece *piece, uint64_t begin, uint64_t end)
{
    const uint64_t from = piece->begin > begin ? piece->begin : begin;
    const uint64_t to = piece->end < end ? piece->end : end;

    return to > from ? to - from : 0;
}

void pieces_arrived(struct packed *packed, uint64_t at, uint64_t bytes)
{
    struct pieces *pieces = packed->pieces;

    if (!packed->is_filled)
        packed->is_filled = !packed->staging->filled(packed);
    for (uint32_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->piece[i];

        piece->arrived += common(piece, at, at + bytes);
        if (piece->is_back || piece->arrived < piece->end - piece->begin || !packed->is_filled ||
            packed->staging->give_piece(packed, i))
            continue;
        piece->is_back = true;
        pieces->back++;
    }
}

void pieces_shorten(struct pieces *pieces, uint64_t bytes)
{
    for (uint32_t i = 0; i < pieces->count; i++) {
        struct piece *piece = &pieces->piece[i];

        if (piece->begin >= bytes)
            piece->is_back = true;
        else if (piece->end > bytes)
            piece->end = bytes;
    }
}

bool pieces_are_going(const struct packed *list)
{
    while (list && !(list->pieces && list->pieces->back))
        list = list->next;
    return list;
}

void pieces_stop(struct packed *list)
{
    for (; list; list = list->next) {
        const bool going = list->pieces && list->pieces->back;

        /* One that cannot be waited for has failed: nothing is on its way. */
        list->is_back = !going || list->staging->give_rest(list, false);
    }
}
