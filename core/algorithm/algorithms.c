/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/algorithm.h"

const struct algorithm *const algorithm_table[ALGORITHMS] = {
#define ALGORITHM_ROW(name, ...) &name##_algorithm,
    ALGORITHM_LIST(ALGORITHM_ROW)
#undef ALGORITHM_ROW
};

static bool has_members(const struct algorithm *algorithm, bool crowded, uint64_t members)
{
    const struct bounds bounds = algorithm->members;
    const uint64_t least =
        crowded && algorithm->least_crowded ? algorithm->least_crowded : bounds.least;

    return members >= least && (!bounds.most || members <= bounds.most);
}

static bool has_bytes(const struct algorithm *algorithm, const struct thresholds *thresholds,
                      int members, uint64_t bytes)
{
    if (algorithm->fits)
        return algorithm->fits(thresholds, members, bytes);
    return (!algorithm->least || bytes >= thresholds->bytes[algorithm->least]) &&
           (!algorithm->most || bytes <= thresholds->bytes[algorithm->most]);
}

const struct algorithm *algorithm_find(const struct thresholds *thresholds,
                                       enum operation operation, enum algorithm_kind kind,
                                       int members, uint64_t bytes, uint32_t without)
{
    const struct algorithm *fixed = thresholds->fixed[operation], *first = NULL;

    if (fixed && fixed->kind == kind && !(fixed->flags & without))
        return fixed;
    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *row = algorithm_table[i];

        if (row->operation != operation || row->kind != kind || row->flags & without)
            continue;
        if (has_members(row, thresholds->crowded, (uint64_t)members) &&
            has_bytes(row, thresholds, members, bytes))
            return row;
        first = first ? first : row;
    }
    return first;
}
