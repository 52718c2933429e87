/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_group_split(): everybody learns all colors and keys by a collective of the parent, and then
 * those of a color make their group as tutti_group_new() does. All know every list, so the lists are
 * the same.
 */
#include <stdlib.h>

#include <tutti/reduce.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "collective/batch.h"
#include "group/group.h"

struct split_bid {
    int32_t key, rank;
};

static int by_key(const void *a, const void *b)
{
    const struct split_bid *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Two numbers of each member in `pairs`, of which this one has written its own. Members that call
 * something else meanwhile are told the name of the split. */
static tutti_status tell_all(struct tutti_group *parent, int32_t *pairs)
{
    const uint64_t count = 2 * (uint64_t)parent->size;
    struct collective all = {.function = "tutti_group_split",
                             .fields = {.count = count,
                                        .dtype = TUTTI_I32,
                                        .op = TUTTI_SUM,
                                        .root = -1,
                                        .operation = OPERATION_ALL_REDUCE,
                                        .flags = CALL_SPLIT},
                             .in.base = pairs,
                             .out.base = pairs,
                             .bytes = count * sizeof *pairs,
                             .timeout_ms = parent->timeout_ms};

    return collective_run(parent, &all, TUTTI_OK, NULL);
}

static int32_t pick(const int32_t *pairs, int size, int32_t color, struct split_bid *places,
                    int32_t *ret_ranks)
{
    int32_t count = 0;

    for (int r = 0; r < size; r++)
        if (pairs[2 * r] == color)
            places[count++] = (struct split_bid){pairs[2 * r + 1], r};
    qsort(places, (size_t)count, sizeof *places, by_key);
    for (int32_t i = 0; i < count; i++)
        ret_ranks[i] = places[i].rank;
    return count;
}

tutti_status tutti_group_split(tutti_group *parent, int32_t color, int32_t key,
                               const tutti_group_options *options, tutti_group **ret_group)
{
    tutti_status status = group_check(parent);

    if (status)
        return status;
    if (batch_of(parent))
        return error_set(TUTTI_ERR_BUSY,
                         "a batch of this thread is open on the group: end it first");
    if (!ret_group)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_group is NULL");
    size_t size = (size_t)parent->size;
    AUTOFREE int32_t *pairs = calloc(size, 2 * sizeof *pairs);
    AUTOFREE int32_t *ranks = calloc(size, sizeof *ranks);
    AUTOFREE struct split_bid *places = calloc(size, sizeof *places);
    if (!pairs || !ranks || !places)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", parent->size);
    pairs[2 * parent->rank] = color;
    pairs[2 * parent->rank + 1] = key;
    status = tell_all(parent, pairs);
    if (status)
        return status;
    if (color >= 0)
        return tutti_group_new(parent, ranks, pick(pairs, parent->size, color, places, ranks),
                               options, ret_group);
    *ret_group = NULL;
    return TUTTI_OK;
}
