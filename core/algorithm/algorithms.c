/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/algorithm.h"

const struct algorithm *const algorithm_table[ALGORITHMS] = {
#define ALGORITHM_ROW(name, ...) &name##_algorithm,
    ALGORITHM_LIST(ALGORITHM_ROW)
#undef ALGORITHM_ROW
};

static bool is_within(struct bounds bounds, uint64_t value)
{
    return value >= bounds.least && (!bounds.most || value <= bounds.most);
}

static bool fits(const struct algorithm *algorithm, int members, uint64_t bytes)
{
    return is_within(algorithm->members, (uint64_t)members) && is_within(algorithm->bytes, bytes) &&
           (!algorithm->fits || algorithm->fits(members, bytes));
}

const struct algorithm *algorithm_find(enum operation operation, enum algorithm_kind kind,
                                       int members, uint64_t bytes, uint32_t without)
{
    const struct algorithm *first = NULL;

    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *row = algorithm_table[i];

        if (row->operation != operation || row->kind != kind || row->flags & without)
            continue;
        if (fits(row, members, bytes))
            return row;
        first = first ? first : row;
    }
    return first;
}
