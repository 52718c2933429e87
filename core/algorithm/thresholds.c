/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm/thresholds.h"

const struct threshold_row threshold_rows[THRESHOLDS] = {
#define ROW(NAME, name, standard, least, most, meaning)                                            \
    [THRESHOLD_##NAME] = {#name, standard, least, most, meaning},
    THRESHOLD_LIST(ROW)
#undef ROW
};

const struct thresholds thresholds_standard = {.bytes = {
#define STANDARD(NAME, name, standard, ...) [THRESHOLD_##NAME] = (standard),
                                                   THRESHOLD_LIST(STANDARD)
#undef STANDARD
                                               }};
