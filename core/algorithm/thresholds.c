/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/thresholds.h"

const struct threshold_row threshold_rows[THRESHOLDS] = {
#define ROW(NAME, name, standard, crowded, least, most, meaning)                                   \
    [THRESHOLD_##NAME] = {#name, standard, crowded, least, most, meaning},
    THRESHOLD_LIST(ROW)
#undef ROW
};

const struct thresholds thresholds_standard = {.bytes = {
#define STANDARD(NAME, name, standard, ...) [THRESHOLD_##NAME] = (standard),
                                                   THRESHOLD_LIST(STANDARD)
#undef STANDARD
                                               }};

/* Two members without a root swap their windows (schedule/windows.h), which is faster from there on. */
enum threshold thresholds_inline(const struct thresholds *thresholds, int operation, int members)
{
    return members == 2 && !operation_has_root(operation) &&
                   thresholds->bytes[THRESHOLD_INLINE_EXCHANGE_MAX] <
                       thresholds->bytes[THRESHOLD_INLINE_MAX]
               ? THRESHOLD_INLINE_EXCHANGE_MAX
               : THRESHOLD_INLINE_MAX;
}

void thresholds_fit(struct thresholds *thresholds, bool crowded)
{
    thresholds->crowded = crowded;
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++) {
        const struct threshold_row *row = &threshold_rows[i];

        if (!thresholds->tuned[i])
            thresholds->bytes[i] = crowded && row->crowded ? row->crowded : row->standard;
    }
}
