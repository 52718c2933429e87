/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views, and the copy between a view and row-major memory: one walk for both directions. The inner
 * two loops are a plane whose columns are the last dimension, so that the packed side is written or
 * read in order, and whose rows are the dimension with the shortest step. Where the columns are far
 * apart (a transposed matrix) the plane is cut into tiles that fit the first cache, so that a cache
 * line is fetched once and not once a row.
 */
#include "tensor/layout.h"

#include <string.h>

enum { TILE = 32 }; /* elements a side: 16 KiB a side of the copy for the largest element */

void tensor_view(const tutti_tensor *tensor, const struct tensor_size *size,
                 struct tensor_view *ret_view)
{
    const int64_t element = (int64_t)tutti_dtype_size(tensor->dtype);
    int64_t packed = element; /* the stride that a NULL means */
    int n = 0;

    ret_view->first = (char *)tensor->data + tensor->byte_offset;
    ret_view->bytes = size->bytes;
    ret_view->element_bytes = (uint32_t)element;
    /* From the last to the first, so that a neighbour to join is the one found before. */
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        struct tensor_dimension d = {tensor->shape[i], packed};

        if (d.extent == 1)
            continue;
        if (tensor->strides)
            d.stride = tensor->strides[i] * element;
        packed *= d.extent;
        struct tensor_dimension *inner = n ? &ret_view->dimension[TENSOR_DIMENSIONS - n] : NULL;
        int64_t run;
        if (inner && !__builtin_mul_overflow(inner->stride, inner->extent, &run) && run == d.stride)
            inner->extent *= d.extent;
        else
            ret_view->dimension[TENSOR_DIMENSIONS - ++n] = d;
    }
    ret_view->dimensions = n;
    memmove(ret_view->dimension, ret_view->dimension + TENSOR_DIMENSIONS - n,
            (size_t)n * sizeof *ret_view->dimension);
}

/* The length of a step, without its direction. */
static uint64_t step_of(const struct tensor_dimension *d)
{
    return d->stride < 0 ? 0 - (uint64_t)d->stride : (uint64_t)d->stride;
}

bool tensor_view_is_distinct(const struct tensor_view *view)
{
    const struct tensor_dimension *sorted[TENSOR_DIMENSIONS];
    uint64_t reach = view->element_bytes;

    for (int i = 0; i < view->dimensions; i++) {
        int at = i;

        for (; at > 0 && step_of(sorted[at - 1]) > step_of(&view->dimension[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = &view->dimension[i];
    }
    for (int i = 0; i < view->dimensions; i++) {
        if (step_of(sorted[i]) < reach)
            return false;
        reach += step_of(sorted[i]) * (uint64_t)(sorted[i]->extent - 1);
    }
    return true;
}

/* Two dimensions of both sides of the copy. */
struct plane {
    int64_t rows, columns;
    int64_t to_row, to_column, from_row, from_column; /* steps in bytes */
};

/* A branch of copy_small(): with a constant size, memcpy() is a move. */
#define COPY_ELEMENTS(CASE, SIZE)                                                                  \
    CASE:                                                                                          \
    for (int64_t r = 0; r < p->rows; r++)                                                          \
        for (int64_t c = 0; c < p->columns; c++)                                                   \
            memcpy(to + r * p->to_row + c * p->to_column,                                          \
                   from + r * p->from_row + c * p->from_column, SIZE);                             \
    break;

static void copy_small(char *to, const char *from, const struct plane *p, uint32_t element)
{
    switch (element) {
        COPY_ELEMENTS(case 1, 1)
        COPY_ELEMENTS(case 2, 2)
        COPY_ELEMENTS(case 4, 4)
        COPY_ELEMENTS(case 8, 8)
        COPY_ELEMENTS(case 16, 16)
        COPY_ELEMENTS(default, element)
    }
}

static void copy_tiles(char *to, const char *from, const struct plane *p, uint32_t element)
{
    for (int64_t r = 0; r < p->rows; r += TILE)
        for (int64_t c = 0; c < p->columns; c += TILE) {
            struct plane tile = *p;

            tile.rows = p->rows - r < TILE ? p->rows - r : TILE;
            tile.columns = p->columns - c < TILE ? p->columns - c : TILE;
            copy_small(to + r * p->to_row + c * p->to_column,
                       from + r * p->from_row + c * p->from_column, &tile, element);
        }
}

static void copy_plane(char *to, const char *from, const struct plane *p, uint32_t element)
{
    if (p->to_column != element || p->from_column != element) {
        copy_tiles(to, from, p, element);
        return;
    }
    for (int64_t r = 0; r < p->rows; r++)
        memcpy(to + r * p->to_row, from + r * p->from_row, (size_t)p->columns * element);
}

/* The dimension, the last one aside, with the shortest step; -1 where there is only one. */
static int row_of(const struct tensor_view *view)
{
    int row = view->dimensions - 2;

    for (int i = row - 1; i >= 0; i--)
        if (step_of(&view->dimension[i]) < step_of(&view->dimension[row]))
            row = i;
    return row;
}

/* `packed` is written or, when unpacking, read. */
static void copy(const struct tensor_view *view, char *packed, bool unpack)
{
    const int last = view->dimensions - 1, row = last < 1 ? -1 : row_of(view);
    const uint32_t element = view->element_bytes;
    int64_t index[TENSOR_DIMENSIONS] = {0}, steps[TENSOR_DIMENSIONS];
    char *at = view->first;
    struct plane p = {1, 1, 0, element, 0, element};
    int i;

    if (last >= 0)
        steps[last] = element;
    for (i = last - 1; i >= 0; i--)
        steps[i] = steps[i + 1] * view->dimension[i + 1].extent; /* NOLINT: both have all places */
    if (last >= 0) {
        p.columns = view->dimension[last].extent;
        *(unpack ? &p.to_column : &p.from_column) = view->dimension[last].stride;
    }
    if (row >= 0) {
        p.rows = view->dimension[row].extent;
        *(unpack ? &p.to_row : &p.from_row) = view->dimension[row].stride;
        *(unpack ? &p.from_row : &p.to_row) = steps[row];
    }
    do {
        copy_plane(unpack ? at : packed, unpack ? packed : at, &p, element);
        /* The next plane: an odometer over the dimensions that are not in it. */
        for (i = last - 1; i >= 0; i--) {
            const struct tensor_dimension *d = &view->dimension[i];

            if (i == row)
                continue;
            if (++index[i] < d->extent) {
                at += d->stride;
                packed += steps[i];
                break;
            }
            index[i] = 0;
            at -= d->stride * (d->extent - 1);
            packed -= steps[i] * (d->extent - 1);
        }
    } while (i >= 0);
}

void tensor_pack(const struct tensor_view *view, void *to)
{
    copy(view, to, false);
}

void tensor_unpack(const struct tensor_view *view, const void *from)
{
    copy(view, (char *)(uintptr_t)from, true); /* only read */
}
